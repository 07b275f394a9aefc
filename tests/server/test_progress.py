"""Work shows as `$/progress` for clients that can show it, with a cancel button that is `session/cancel`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server import progress
from server.app import create
from tests.server.conftest import ANNOUNCED, Desk, decision, pending
from tests.server.raw_client import RawClient, frame, loopback

CREATE = "window/workDoneProgress/create"


async def connect(client: RawClient, *, can_show: bool = True) -> None:
    capabilities = {"experimental": {"handrail": ANNOUNCED}, "window": {"workDoneProgress": can_show}}
    await client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
    await client.notify("initialized")


def answer_creations(client: RawClient, error: dict[str, Any] | None = None) -> None:
    """Answer the server's requests to make room, as they are read."""
    read = client.read

    async def reading() -> dict[str, Any] | None:
        message = await read()
        if message is not None and message.get("method") == CREATE:
            answer = {"error": error} if error else {"result": None}
            await client.send(frame({"jsonrpc": "2.0", "id": message["id"], **answer}))
        return message

    client.read = reading  # type: ignore[method-assign]


@pytest.fixture
async def desk(environment: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(progress, "_TICK_SECONDS", 0.05)
    async with loopback(create("test")) as client:
        answer_creations(client)
        await connect(client)
        yield Desk(client, environment)


def seen(client: RawClient) -> dict[str, list[dict[str, Any]]]:
    """Return what came for each token, in order."""
    values: dict[str, list[dict[str, Any]]] = {}
    for message in client.received:
        if message.get("method") == "$/progress":
            values.setdefault(message["params"]["token"], []).append(message["params"]["value"])
    return values


async def until_ended(desk: Desk, snapshot: dict[str, Any], count: int) -> list[list[dict[str, Any]]]:
    """Return the stretches with an end once there are `count` of them."""
    async with asyncio.timeout(5):
        while True:
            await desk.get(snapshot)
            ended = [values for values in seen(desk.client).values() if values[-1]["kind"] == "end"]
            if len(ended) >= count:
                return ended
            await asyncio.sleep(0.02)


def test_ux_08_a_report_comes_at_least_every_five_seconds() -> None:
    assert progress._TICK_SECONDS < 5


async def test_ux_08_a_silent_command_shows_what_runs_and_for_how_long(desk: Desk) -> None:
    shown = await desk.waiting("sleep 1.2")
    await desk.decide(shown)
    stretches = await until_ended(desk, shown, 1)
    running = [each for values in stretches for each in values if "`sleep 1.2`" in each.get("message", "")]
    assert len(running) >= 5
    assert any("step 1, 1 s:" in each["message"] for each in running)
    for values in stretches:
        assert values[0]["kind"] == "begin"
        assert {each["kind"] for each in values[1:-1]} <= {"report"}
        assert values[0]["title"] == "Handrail: Go."
        assert values[0]["cancellable"] is True
    assert stretches[-1][-1]["message"] == "end turn"


async def test_it_does_not_linger_while_a_person_decides(desk: Desk) -> None:
    shown = await desk.step(await desk.new(*slow_bodies()), "Go.")
    (call,) = pending(shown)
    params = {"sessionId": shown["sessionId"], "decisions": [decision(call)]}
    waiting = await desk.rest(await desk.client.ask("handrail/session/decide", params))
    assert waiting["state"] == "awaiting_approval"
    stretches = await until_ended(desk, shown, 1)
    assert stretches[-1][-1]["message"] == "waits for your decision"
    count = len(desk.client.received)
    await asyncio.sleep(0.2)
    await desk.get(shown)
    assert not [m for m in desk.client.received[count:] if m["method"] == "$/progress"]


def slow_bodies() -> list[dict[str, Any]]:
    from tests.core.replies import bash, chat_body

    return [chat_body("x", [bash("a", "sleep 0.3")]), chat_body("y", [bash("b", "true")]), chat_body("Done.")]


async def test_its_cancel_button_cancels_the_turn(desk: Desk) -> None:
    shown = await desk.waiting("sleep 30")
    params = {"sessionId": shown["sessionId"], "decisions": [decision(call) for call in pending(shown)]}
    begun = await desk.client.ask("handrail/session/decide", params)
    async with asyncio.timeout(5):
        while not (tokens := [t for t, values in seen(desk.client).items() if values[-1]["kind"] != "end"]):
            await desk.get(shown)
            await asyncio.sleep(0.02)
    await desk.client.notify("window/workDoneProgress/cancel", {"token": tokens[0]})
    ended = await desk.rest(begun)
    assert ended["stopReason"] == "cancelled"
    assert (await until_ended(desk, shown, 1))[-1][-1]["message"] == "cancelled"


@pytest.mark.parametrize("way", ["cannot show", "refuses"])
async def test_a_client_that_cannot_or_will_not_is_left_in_peace(environment: Path, way: str) -> None:
    async with loopback(create("test")) as client:
        answer_creations(client, {"code": -32601, "message": "no"})
        await connect(client, can_show=way == "refuses")
        desk = Desk(client, environment)
        ended = await desk.decide(await desk.waiting("sleep 0.1"))
        assert ended["stopReason"] == "end_turn"
        asked = [m for m in client.received if m.get("method") == CREATE]
        assert bool(asked) == (way == "refuses")
        assert seen(client) == {}


async def test_a_cancel_of_an_unknown_progress_harms_nothing(desk: Desk) -> None:
    await desk.client.notify("window/workDoneProgress/cancel", {"token": "nope"})
    assert (await desk.decide(await desk.waiting("true")))["stopReason"] == "end_turn"
