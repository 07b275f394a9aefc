"""Policy lives in the server: whichever editor asks, the same approval is shown (AP-30)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lsprotocol.converters import get_converter
from pytest_lsp import client_capabilities

from server.app import create
from tests.server.conftest import ANNOUNCED, Desk, pending
from tests.server.raw_client import loopback

EDITORS = ("visual-studio-code", "neovim", "emacs", "helix")
COMMANDS = ("git status; rm -rf src", "echo a\u202eb > ~/x", "ls")
SETTINGS = {"mode": "rules", "rules": [{"match": ["ls"], "decision": "ask", "why": "always ask here"}]}


def capabilities_of(editor: str) -> dict[str, Any]:
    known = {} if editor == "helix" else get_converter().unstructure(client_capabilities(editor))
    assert isinstance(known, dict)
    return {**known, "experimental": {"handrail": ANNOUNCED}}


async def approvals_in(editor: str, folder: Path) -> list[dict[str, Any]]:
    async with loopback(create("test")) as client:
        params = {"processId": None, "rootUri": None, "capabilities": capabilities_of(editor)}
        await client.ask("initialize", params)
        await client.notify("initialized")
        return pending(await Desk(client, folder).waiting(*COMMANDS, **SETTINGS))


async def test_ap_30_every_editor_is_shown_the_same(environment: Path) -> None:
    shown = {editor: await approvals_in(editor, environment) for editor in EDITORS}
    assert len(shown["neovim"]) == len(COMMANDS)
    assert len({json.dumps(calls, sort_keys=True) for calls in shown.values()}) == 1


def test_every_method_of_the_protocol_is_served() -> None:
    from server.handlers import HANDLERS
    from server.protocol import METHODS

    assert set(HANDLERS) == {name for name, method in METHODS.items() if method.direction == "client_to_server"}
