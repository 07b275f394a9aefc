"""`window/logMessage` follows the trace level, masked."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import RawClient, loopback

SECRET = "correct-horse-battery-staple-77"


def say() -> None:
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger("server.test").log(level, "level %d with %s", level, SECRET)


async def logged(client: RawClient) -> list[dict[str, Any]]:
    """Return what was logged to the client so far."""
    await client.ask("handrail/session/list")
    messages = [m["params"] for m in client.received if m.get("method") == "window/logMessage"]
    client.received.clear()
    return [each for each in messages if "level" in each["message"]]


async def test_the_trace_level_says_how_much(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", SECRET)
    async with loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        await client.ask("handrail/session/list")
        say()
        assert [each["type"] for each in await logged(client)] == [2, 1]
        await client.notify("$/setTrace", {"value": "messages"})
        await client.ask("handrail/session/list")
        say()
        found = await logged(client)
        assert [each["type"] for each in found] == [3, 2, 1]
        await client.notify("$/setTrace", {"value": "verbose"})
        await client.ask("handrail/session/list")
        say()
        found += await logged(client)
        assert [each["type"] for each in found[3:]] == [4, 3, 2, 1]
        assert not any(SECRET in each["message"] for each in found)
        await client.notify("$/setTrace", {"value": "off"})
        await client.ask("handrail/session/list")
        say()
        assert [each["type"] for each in await logged(client)] == [2, 1]
    say()
    assert not logging.getLogger("server").handlers
    assert logging.getLogger("server").level == logging.NOTSET


async def test_initialize_may_set_it_and_a_turn_at_verbose_is_bounded(environment: Path) -> None:
    async with loopback(create("test")) as client:
        capabilities = {"experimental": {"handrail": ANNOUNCED}}
        params = {"processId": None, "rootUri": None, "capabilities": capabilities, "trace": "verbose"}
        await client.ask("initialize", params)
        await client.notify("initialized")
        desk = Desk(client, environment)
        await desk.decide(await desk.waiting("true"))
        client.received.clear()
        say()
        assert len(await logged(client)) == 4
