"""The server through pytest-lsp, posing as the editors that it is made for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

from server.protocol import PROTOCOL_VERSION
from tests.core.replies import bash, chat_body

EDITORS = ("visual-studio-code", "neovim", "emacs")


def make_client() -> LanguageClient:
    client = make_test_lsp_client()
    client.updates = []  # type: ignore[attr-defined]

    @client.feature("handrail/session/didUpdate")
    def updated(params: Any) -> None:
        client.updates.append(params)  # type: ignore[attr-defined]

    @client.feature("handrail/session/didStream")
    def streamed(params: Any) -> None:
        """Pieces are droppable, so nothing is asserted of them here."""

    return client


@pytest_lsp.fixture(
    params=EDITORS,
    config=ClientServerConfig(
        server_command=[sys.executable, "-P", "-m", "server"],
        client_factory=make_client,
        server_env={**os.environ, "HANDRAIL_OFFLINE": "1"},
    ),
)
async def editor(request: pytest.FixtureRequest, lsp_client: LanguageClient) -> AsyncIterator[None]:
    capabilities = client_capabilities(request.param)
    capabilities.experimental = {"handrail": {"protocolVersion": PROTOCOL_VERSION, "approvals": True}}
    result = await lsp_client.initialize_session(types.InitializeParams(capabilities=capabilities, root_uri=None))
    assert result.capabilities.experimental is not None
    yield
    await lsp_client.shutdown_session()


async def test_a_whole_turn(editor: LanguageClient, tmp_path: Path) -> None:
    bodies = [chat_body("I look.", [bash("c1", "echo hi > made")]), chat_body("Done.")]
    tape = {"model": "m", "recorded_at": "2026-01-01", "dialect": "chat", "frames": bodies}
    (tmp_path / "tape.json").write_text(json.dumps(tape))
    (tmp_path / "ws").mkdir()
    settings = {"replay": str(tmp_path / "tape.json")}
    ask: Callable[..., Awaitable[Any]] = editor.protocol.send_request_async
    opened = await ask("handrail/session/new", {"cwd": (tmp_path / "ws").as_uri(), "settings": settings})
    session = opened.sessionId
    begun = await ask("handrail/session/step", {"sessionId": session, "prompt": "Go.", "maxSteps": None})
    shown = await ask("handrail/session/wait", {"sessionId": session, "after": begun.revision})
    (call,) = shown.step.calls
    decided = {"callId": call.callId, "decision": "approve", "digest": call.digest}
    begun = await ask("handrail/session/decide", {"sessionId": session, "decisions": [decided]})
    ended = await ask("handrail/session/wait", {"sessionId": session, "after": begun.revision})
    assert (ended.state, ended.stopReason) == ("idle", "end_turn")
    assert (tmp_path / "ws" / "made").read_text() == "hi\n"
    assert editor.updates  # type: ignore[attr-defined]
    await ask("handrail/session/delete", {"sessionId": session})
