"""Live output over the wire: coalesced, bounded, dropped when the client is slow, and never the final result."""

from __future__ import annotations

import asyncio
import time

from tests.core.replies import bash, chat_body
from tests.server.conftest import Desk, decision, pending

DONE = chat_body("Done.")

PIECE_BYTES = 16 * 1024


async def test_pf_02_a_flood_is_a_few_bounded_pieces_and_a_whole_result(desk: Desk) -> None:
    shown = await desk.waiting("seq 1 300000; echo FAILED test_x; exit 1")
    started = time.monotonic()
    ended = await desk.decide(shown)
    seconds = time.monotonic() - started
    pieces = [m["params"] for m in desk.client.received if m.get("method") == "handrail/session/didStream"]
    assert len(pieces) <= 20 * seconds + 5
    assert max(len(each["text"].encode()) for each in pieces) <= PIECE_BYTES
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    result = page["steps"][0]["calls"][0]["result"]
    assert result["exitCode"] == 1
    assert result["outputTail"].endswith("FAILED test_x\n")
    assert result["omittedBytes"] > 1_000_000
    assert result["outputUri"].startswith("file:///")


async def test_a_flood_is_cancelled_within_a_second_and_the_server_answers_meanwhile(desk: Desk) -> None:
    shown = await desk.waiting("yes")
    params = {"sessionId": shown["sessionId"], "decisions": [decision(call) for call in pending(shown)]}
    begun = await desk.client.ask("handrail/session/decide", params)
    slowest = 0.0
    for _ in range(10):
        asked = time.monotonic()
        running = await desk.get(shown)
        slowest = max(slowest, time.monotonic() - asked)
        await asyncio.sleep(0.05)
    assert slowest < 1
    assert running["step"]["calls"][0]["status"] == "running"
    assert running["step"]["calls"][0]["result"]["outputOffset"] > 0
    asked = time.monotonic()
    await desk.client.ask("handrail/session/cancel", {"sessionId": shown["sessionId"]})
    ended = await desk.rest(begun)
    assert time.monotonic() - asked < 3
    assert ended["stopReason"] == "cancelled"
    assert ended["step"]["calls"][0]["status"] == "cancelled"


async def test_a_gap_in_the_offsets_tells_what_was_left_out(desk: Desk) -> None:
    await desk.decide(await desk.waiting("head -c 5000000 /dev/zero | tr '\\0' x"))
    pieces = [m["params"] for m in desk.client.received if m.get("method") == "handrail/session/didStream"]
    end = 0
    for each in pieces:
        assert each["offset"] >= end, "pieces never overlap"
        end = each["offset"] + len(each["text"].encode())
    assert end <= 5_000_000


async def test_detach_over_the_wire(desk: Desk) -> None:
    shown = await desk.waiting("echo up; sleep 60", "echo next")
    params = {"sessionId": shown["sessionId"], "decisions": [decision(call) for call in pending(shown)]}
    await desk.client.ask("handrail/session/decide", params)
    (first, _) = pending(shown)
    session = {"sessionId": shown["sessionId"], "callId": first["callId"]}
    async with asyncio.timeout(10):
        while "up" not in (await desk.get(shown))["step"]["calls"][0].get("result", {}).get("outputTail", ""):
            await asyncio.sleep(0.02)
    after = await desk.rest(await desk.client.ask("handrail/session/detach", session))
    assert after["stopReason"] == "end_turn"
    (left,) = after["detached"]
    assert (left["callId"], left["reason"]) == (first["callId"], "detached")
    await desk.client.ask("handrail/session/cancel", session)
    async with asyncio.timeout(5):
        while "detached" in (now := await desk.get(shown)) and now["detached"]:
            await asyncio.sleep(0.02)
    again = await desk.client.fail("handrail/session/detach", session)
    assert again["code"] == 1001


async def test_what_was_left_running_goes_on_being_told_and_so_is_its_end(desk: Desk) -> None:
    """Its text is one text, of its own step, however many steps come after; its end and exit code are in the record."""
    waits = "echo up; while [ ! -e go ]; do sleep 0.02; done; echo over; exit 7"
    bodies = [chat_body("I start it.", [bash("c1", waits)]), chat_body("Then this.", [bash("c2", "echo two")]), DONE]
    shown = await desk.step(await desk.new(*bodies), "Go.")
    params = {"sessionId": shown["sessionId"]}
    (first,) = pending(shown)
    await desk.client.ask("handrail/session/decide", {**params, "decisions": [decision(first)]})
    async with asyncio.timeout(10):
        while "up" not in (await desk.get(shown))["step"]["calls"][0].get("result", {}).get("outputTail", ""):
            await asyncio.sleep(0.02)
    detached = await desk.client.ask("handrail/session/detach", {**params, "callId": first["callId"]})
    assert [each["reason"] for each in detached["detached"]] == ["detached"], "the answer comes when it is so"
    ended = await desk.decide(await desk.rest(detached))
    assert ended["stopReason"] == "end_turn"
    (left,) = ended["detached"]
    assert left["result"]["outputTail"] == "up\n"
    (desk.workspace / "go").touch()
    async with asyncio.timeout(10):
        while (now := await desk.get(shown)).get("detached"):
            await asyncio.sleep(0.02)
    assert now["revision"] == ended["revision"] + 1
    for _ in range(2):  # the second time from the journal
        page = await desk.client.ask("handrail/session/transcript", {**params, "fromStep": 1, "limit": 1})
        (call,) = page["steps"][0]["calls"]
        assert (call["reason"], call["result"]["exitCode"], call["result"]["outputTail"]) == (
            "detached",
            7,
            "up\nover\n",
        )
        await desk.client.ask("handrail/session/close", params)
        await desk.client.ask("handrail/session/load", params)
    pieces = [
        each["params"]
        for each in desk.client.received
        if each.get("method") == "handrail/session/didStream" and each["params"].get("callId") == first["callId"]
    ]
    assert [(each["stepId"], each["offset"], each["text"]) for each in pieces] == [("1", 0, "up\n"), ("1", 3, "over\n")]
