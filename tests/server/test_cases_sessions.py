"""Cases of stored sessions over the wire: two servers, restarts, what is listed and what is refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from tests.core.replies import bash, chat_body
from tests.server.conftest import ANNOUNCED, Desk, decision, pending
from tests.server.raw_client import RawClient, loopback

DONE = chat_body("Done.")


@pytest.fixture
async def other(environment: Path) -> AsyncIterator[Desk]:
    """A second server with a client of its own, on the same state and workspace."""
    async with loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        yield Desk(client, environment)


async def listed(client: RawClient, cwd: str | None = None) -> list[dict[str, Any]]:
    found = await client.ask("handrail/session/list", {} if cwd is None else {"cwd": cwd})
    return list(found["sessions"])


async def test_the_list_is_by_folder_newest_first_with_title_state_cost_and_what_waits(desk: Desk) -> None:
    first = await desk.step(await desk.new(DONE), "First task")
    second = await desk.step(await desk.new(chat_body("x", [bash("c", "true")]), DONE), "Second task\nin detail")
    home = desk.workspace
    desk.workspace = desk.folder / "elsewhere"
    desk.workspace.mkdir()
    third = await desk.new(DONE)
    everything = await listed(desk.client)
    assert [each["sessionId"] for each in everything] == [s["sessionId"] for s in (third, second, first)]
    here = await listed(desk.client, home.as_uri())
    assert [each["title"] for each in here] == ["Second task", "First task"]
    assert [each["state"] for each in here] == ["awaiting_approval", "idle"]
    assert [each.get("pending", 0) for each in here] == [1, 0]
    assert [each.get("stopReason") for each in here] == [None, "end_turn"]
    assert all(each["cwd"] == home.as_uri() and each["steps"] == 1 for each in here)
    assert all("holder" not in each for each in everything), "what is open here is held by no other"
    await desk.step(first, "Again")
    assert (await listed(desk.client))[0]["sessionId"] == first["sessionId"]


async def test_ss_04_a_session_of_another_server_is_listed_with_its_holder_and_refused(desk: Desk, other: Desk) -> None:
    shown = await desk.waiting("echo once >> log")
    params = {"sessionId": shown["sessionId"]}
    (seen,) = await listed(other.client)
    assert "process" in seen["holder"]
    for method in ("load", "delete"):
        error = await other.client.fail(f"handrail/session/{method}", params)
        assert error["code"] == 1005
        assert error["data"]["holder"] == seen["holder"]
        assert "Close it there first" in error["message"]
    assert (await other.client.fail("handrail/session/get", params))["code"] == 1002
    await desk.client.ask("handrail/session/close", params)
    assert "holder" not in (await listed(other.client))[0]
    taken = await other.client.ask("handrail/session/load", params)
    ended = await other.decide(taken)
    assert ended["stopReason"] == "end_turn"
    assert (desk.workspace / "log").read_text() == "once\n"


async def test_ss_07_an_answer_to_an_approval_of_before_the_restart_is_for_that_very_call(desk: Desk) -> None:
    shown = await desk.waiting("echo once >> log")
    (call,) = pending(shown)
    params = {"sessionId": shown["sessionId"]}
    await desk.client.ask("handrail/session/close", params)
    decided = {"callId": call["callId"], "decision": "approve", "digest": call["digest"]}
    early = await desk.client.fail("handrail/session/decide", {**params, "decisions": [decided]})
    assert early["code"] == 1002
    await desk.client.ask("handrail/session/load", params)
    for wrong in ({"digest": "0" * 64}, {"callId": "9.9"}):
        error = await desk.client.fail("handrail/session/decide", {**params, "decisions": [{**decided, **wrong}]})
        assert error["code"] == 1003
        assert error["data"]["callId"] == wrong.get("callId", call["callId"])
        assert error["data"].get("status") == (None if "callId" in wrong else "awaiting_approval")
    assert not (desk.workspace / "log").exists()
    begun = await desk.client.ask("handrail/session/decide", {**params, "decisions": [decided]})
    await desk.rest(begun)
    late = await desk.client.fail("handrail/session/decide", {**params, "decisions": [decided]})
    assert (late["code"], late["data"]["status"]) == (1003, "completed")
    assert (desk.workspace / "log").read_text() == "once\n"


async def test_ss_06_loading_and_closing_a_session_changes_nothing_of_its_record(desk: Desk) -> None:
    broken = await desk.step(await desk.new(), "Go.")  # its tape ends at once: an error is stored
    assert broken["error"]["kind"] == "tape"
    params = {"sessionId": broken["sessionId"]}
    await desk.client.ask("handrail/session/close", params)

    def stored() -> list[tuple[Any, ...]]:
        with sqlite3.connect(desk.folder / "state" / "journal.db") as db:
            return db.execute("SELECT number, kind, body FROM events ORDER BY session, number").fetchall()

    before = stored()
    assert before
    for _ in range(2):
        loaded = await desk.client.ask("handrail/session/load", params)
        assert loaded["error"] == broken["error"]
        await desk.client.ask("handrail/session/close", params)
    assert stored() == before


async def test_ss_02_a_damaged_end_is_told_and_what_came_before_can_be_read(desk: Desk) -> None:
    ended = await desk.decide(await desk.waiting("true"))
    params = {"sessionId": ended["sessionId"]}
    await desk.client.ask("handrail/session/close", params)
    with sqlite3.connect(desk.folder / "state" / "journal.db") as db:
        (last,) = db.execute("SELECT max(number) FROM events").fetchone()
        db.execute("UPDATE events SET body = substr(body, 1, 9) WHERE number = ?", (last,))
    loaded = await desk.client.ask("handrail/session/load", params)
    assert (loaded["state"], loaded["stopReason"]) == ("idle", "interrupted"), "what was in flight is not shown so"
    assert (loaded["error"]["kind"], str(last) in loaded["error"]["message"]) == ("read_only", True)
    page = await desk.client.ask("handrail/session/transcript", params)
    assert page["steps"][0]["calls"][0]["status"] == "completed"
    assert "Go." in (await desk.client.ask("handrail/session/export", params))["text"]
    refused = await desk.client.fail("handrail/session/step", {**params, "prompt": "On."})
    assert "can only be read" in refused["message"]


async def test_a_full_disk_is_told_and_when_there_is_room_the_session_is_loaded_again_and_goes_on(desk: Desk) -> None:
    """What could not be written did not happen: the approval is pending again."""
    shown = await desk.waiting("echo once >> log")
    params = {"sessionId": shown["sessionId"]}
    with sqlite3.connect(desk.folder / "state" / "journal.db") as journal:
        journal.execute("CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    decided = {**params, "decisions": [decision(pending(shown)[0])]}
    refused = await desk.client.fail("handrail/session/decide", decided)
    assert "disk is full" in refused["message"]
    assert "load the session again" in refused["message"]
    told = await desk.client.ask("handrail/session/wait", {**params, "after": shown["revision"]})
    assert (told["state"], told["revision"], told["error"]["kind"]) == (
        "awaiting_approval",
        shown["revision"],
        "read_only",
    )
    assert "can only be read" in (await desk.client.fail("handrail/session/decide", decided))["message"]
    journal.execute("DROP TRIGGER full")
    journal.close()
    loaded = await desk.client.ask("handrail/session/load", params)
    assert (loaded["state"], loaded.get("error")) == ("awaiting_approval", None)
    assert (await desk.decide(loaded))["stopReason"] == "end_turn"
    assert (desk.workspace / "log").read_text() == "once\n"


async def test_a_session_that_can_no_longer_be_loaded_can_be_deleted(desk: Desk) -> None:
    session = await desk.new(DONE)
    params = {"sessionId": session["sessionId"]}
    await desk.client.ask("handrail/session/close", params)
    for tape in desk.folder.glob("tape-*"):
        tape.unlink()
    assert "error" in await desk.client.answer(await desk.client.request("handrail/session/load", params))
    gone = await desk.client.ask("handrail/session/delete", params)
    assert gone["state"] == "closed"
    assert gone["revision"] > session["revision"]
    assert await listed(desk.client) == []
    assert (await desk.client.fail("handrail/session/delete", params))["code"] == 1002


async def test_ap_15_rules_remembered_decisions_and_modes_belong_to_one_session(desk: Desk) -> None:
    rules = [{"match": ["ls"], "decision": "allow"}]
    a = await desk.new(chat_body("x", [bash("a", "ls")]), DONE, mode="rules", rules=rules)
    b = await desk.new(chat_body("x", [bash("b", "ls")]), DONE)
    assert (await desk.step(a, "Go."))["stopReason"] == "end_turn"
    asked = await desk.step(b, "Go.")
    assert (asked["state"], asked["mode"]) == ("awaiting_approval", "ask")
    assert (await desk.decide(asked, remember="exact"))["stopReason"] == "end_turn"
    again = await desk.step(await desk.new(chat_body("x", [bash("c", "ls")]), DONE), "Go.")
    assert again["state"] == "awaiting_approval", "what B remembers is B's"


async def test_a_client_that_attaches_late_sees_all(desk: Desk) -> None:
    """The history comes by pages, and each page is complete."""
    bodies = [chat_body(f"Step {n}.", [bash(f"c{n}", f"echo {n}")]) for n in range(5)]
    rules = [{"match": ["echo"], "decision": "allow"}]
    session = await desk.new(*bodies, DONE, mode="rules", rules=rules)
    ended = await desk.step(session, "Go.")
    params = {"sessionId": ended["sessionId"]}
    pages = [
        await desk.client.ask("handrail/session/transcript", {**params, "fromStep": first, "limit": 2})
        for first in (1, 3, 5, 7)
    ]
    assert [[step["index"] for step in page["steps"]] for page in pages] == [[1, 2], [3, 4], [5, 6], []]
    assert {page["total"] for page in pages} == {6}
    outputs = [
        call["result"]["outputTail"] for page in pages for step in page["steps"] for call in step.get("calls", [])
    ]
    assert outputs == [f"{n}\n" for n in range(5)]


async def test_a_snapshot_is_no_larger_in_a_long_session(desk: Desk) -> None:
    bodies = [chat_body(f"Step {n:03}. " + "words " * 500, [bash(f"c{n:03}", "seq 1 2000")]) for n in range(60)]
    rules = [{"match": ["seq"], "decision": "allow"}]
    session = await desk.new(*bodies, mode="rules", rules=rules, limits={"maxRepeats": 0})
    early = await desk.step(session, "Go.", 2)
    late = await desk.step(early, None, 50)
    assert (early["steps"], late["steps"]) == (2, 52)
    assert len(json.dumps(late)) < 1.1 * len(json.dumps(early))
