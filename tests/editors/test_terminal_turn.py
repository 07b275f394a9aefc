"""Following a session against a scripted server: decisions, withdrawn questions, interrupts, missed steps."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from editors.terminal.client import RequestFailed, ServerGone
from editors.terminal.exits import Exit
from editors.terminal.headless import DENIED, HeadlessFace, OnAsk
from editors.terminal.running import exit_of
from editors.terminal.turn import Analyze, CancelTurn, Left, Turn, Undecided
from editors.terminal.view import Line, closing_lines, interrupted_lines
from server.protocol import Call, Decision, SessionError, Snapshot, Transcript
from tests.editors.terminal_stub import Refusal, Stub, call, snapshot, step


class Face:
    """Remembers what it is shown; `answer` is what it says, and it waits for ever if that is None."""

    analyze: Analyze | None = None

    def __init__(self, answer: Callable[[Call], Decision | None] | None = None) -> None:
        self.lines: list[Line] = []
        self.asked: list[str] = []
        self.closed = 0
        self._answer = answer

    def show(self, lines: Sequence[Line]) -> None:
        self.lines += lines

    def doing(self, activity: str, tail: Line | None) -> None:
        pass

    def rest(self) -> None:
        pass

    async def pulse(self) -> None:
        pass

    async def ask(self, call: Call) -> Decision | None:
        self.asked.append(call.call_id)
        try:
            if self._answer is None:
                await asyncio.Event().wait()
            return self._answer(call) if self._answer else None
        except asyncio.CancelledError:
            self.closed += 1
            raise

    @property
    def text(self) -> str:
        return "\n".join(line.gutter + line.text for line in self.lines)


def approve(asked: Call) -> Decision:
    return Decision(call_id=asked.call_id, decision="approve", digest=asked.digest)


WAITING = snapshot(2, "awaiting_approval", step(call()))
DONE = snapshot(5, "idle", step(call(status="completed"), text="Done."), stop_reason="end_turn")


async def test_a_turn_is_followed_to_its_end_and_the_decision_names_the_digest() -> None:
    stub, face = Stub(), Face(approve)
    stub.on("session/step", snapshot(1, "querying"))
    waits = iter([WAITING, DONE])
    stub.on("session/wait", lambda params: next(waits).to_wire())
    stub.on("session/decide", snapshot(3, "executing", step(call(status="running"))))
    final = await Turn(stub.client, face, snapshot(0, "idle")).step("go")
    assert final.stop_reason == "end_turn"
    assert stub.methods() == ["step", "wait", "decide", "wait"]
    assert stub.params("session/decide")[0]["decisions"] == [{"callId": "c1", "decision": "approve", "digest": "d1"}]
    assert [params["after"] for params in stub.params("session/wait")] == [1, 3]
    assert face.text.count("$ ls") == 1


@pytest.mark.parametrize("state", ["dreaming", "awaiting_something", "closed", "idle"])
async def test_no_state_but_the_one_of_approvals_asks(state: str) -> None:
    """An unknown state is never an approval, even if it lists pending calls."""
    stub, face = Stub(), Face(approve)
    odd = snapshot(2, state, step(call()), pending=["c1"])
    following = asyncio.ensure_future(Turn(stub.client, face, odd).follow())
    await asyncio.sleep(0.01)
    assert face.asked == []
    assert "decide" not in stub.methods()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize(
    "later",
    [
        snapshot(3, "idle", step(call(status="cancelled", reason="cancelled")), stop_reason="cancelled"),
        snapshot(3, "awaiting_approval", step(call(digest="other"))),
        snapshot(3, "executing", step(call(status="running"))),
        snapshot(3, "awaiting_approval", step(call()), error=SessionError(kind="read_only", message="disk is full")),
    ],
)
async def test_the_question_closes_when_the_call_waits_no_longer(later: Snapshot) -> None:
    """UX-02, LS-15: cancelled elsewhere, changed, or decided by another client."""
    stub, face = Stub(), Face()
    following = asyncio.ensure_future(Turn(stub.client, face, WAITING).follow())
    while not face.asked:
        await asyncio.sleep(0)
    stub.update(later)
    await asyncio.sleep(0.01)
    assert face.closed == 1
    assert "nothing was decided here" in face.text
    assert "decide" not in stub.methods()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_the_question_closes_when_the_server_dies() -> None:
    """LS-10: and nothing was decided."""
    stub, face = Stub(), Face()
    following = asyncio.ensure_future(Turn(stub.client, face, WAITING).follow())
    while not face.asked:
        await asyncio.sleep(0)
    stub.client.connection.lose(ServerGone(-9, ["the end"]))
    with pytest.raises(ServerGone, match="SIGKILL"):
        await asyncio.wait_for(following, 1)
    assert face.closed == 1
    assert stub.requests == []


async def test_a_refused_decision_is_told_and_the_session_read_anew() -> None:
    """AP-19, AP-20."""
    stub, face = Stub(), Face(approve)

    def refuse(params: dict[str, Any]) -> Any:
        raise Refusal(1003, "Call c1 is already decided: completed.")

    stub.on("session/decide", refuse)
    stub.on("session/get", DONE)
    final = await Turn(stub.client, face, WAITING).follow()
    assert final.revision == 5
    assert "already decided" in face.text


async def test_other_refusals_are_not_swallowed() -> None:
    stub, face = Stub(), Face(approve)

    def refuse(params: dict[str, Any]) -> Any:
        raise Refusal(-32603, "a fault")

    stub.on("session/decide", refuse)
    with pytest.raises(RequestFailed, match="a fault"):
        await Turn(stub.client, face, WAITING).follow()


async def test_a_face_that_gives_no_decision_leaves_the_call_waiting() -> None:
    stub, face = Stub(), Face(lambda asked: None)
    with pytest.raises(Undecided):
        await Turn(stub.client, face, WAITING).follow()
    assert stub.methods() == []


async def test_an_interrupt_cancels_and_the_turn_is_followed_to_its_rest() -> None:
    stub, face = Stub(), Face()
    stub.on("session/step", snapshot(1, "querying"))
    stopped = snapshot(3, "idle", stop_reason="cancelled")
    stub.on("session/cancel", snapshot(2, "cancelling"))
    turn = Turn(stub.client, face, snapshot(0, "idle"))
    work = asyncio.ensure_future(turn.step("go"))
    await asyncio.sleep(0.01)
    stub.on("session/wait", stopped)
    turn.interrupt()
    await asyncio.sleep(0)
    waiting = next(number for number, (method, _) in enumerate(stub.requests, 1) if method.endswith("wait"))
    stub.send({"jsonrpc": "2.0", "id": waiting, "result": stopped.to_wire()})
    assert exit_of(await work) is Exit.CANCELLED
    assert "cancel" in stub.methods()


async def test_a_second_interrupt_leaves_at_once() -> None:
    stub, face = Stub(), Face()
    stub.on("session/step", snapshot(1, "querying"))
    turn = Turn(stub.client, face, snapshot(0, "idle"))
    work = asyncio.ensure_future(turn.step("go"))
    await asyncio.sleep(0.01)
    turn.interrupt()
    turn.interrupt()
    with pytest.raises(Left):
        await work


async def test_ctrl_c_at_the_question_cancels_the_turn_and_decides_nothing() -> None:
    def interrupt(asked: Call) -> Decision | None:
        raise CancelTurn

    stub, face = Stub(), Face(interrupt)
    stub.on("session/cancel", snapshot(5, "idle", step(call(status="cancelled")), stop_reason="cancelled"))
    final = await Turn(stub.client, face, WAITING).follow()
    assert final.stop_reason == "cancelled"
    assert "decide" not in stub.methods()


async def test_steps_that_updates_passed_over_are_read_from_the_transcript() -> None:
    stub, face = Stub(), Face(approve)
    passed = [
        step(call(status="completed"), index=1, text="one"),
        step(call(command="pwd", status="completed"), index=2, text="two"),
    ]
    page = Transcript(steps=passed, total=3).to_wire()
    stub.on("session/transcript", lambda params: page)
    stub.on("session/step", snapshot(1, "executing", step(call(status="running"), index=1, text="one")))
    last = snapshot(9, "idle", step(index=3, text="three"), stop_reason="end_turn")
    stub.on("session/wait", last)
    await Turn(stub.client, face, snapshot(0, "idle")).step("go")
    assert [line.text for line in face.lines if line.style == "model"] == ["one", "two", "three"]
    assert face.text.count("$ ls") == 1
    assert face.text.count("$ pwd") == 1
    assert stub.params("session/transcript") == [{"sessionId": "one", "fromStep": 1, "limit": 2}]


async def test_updates_of_other_sessions_and_older_ones_change_nothing() -> None:
    stub, face = Stub(), Face(approve)
    turn = Turn(stub.client, face, WAITING)
    stub.update(snapshot(9, "idle", step(text="other"), session_id="two"))
    stub.update(snapshot(1, "idle", step(text="older")))
    assert turn.latest == WAITING
    assert face.lines == []


async def headless(on_ask: OnAsk) -> tuple[Stub, str, BaseException | None]:
    stub, out = Stub(), io.StringIO()
    stub.on("session/decide", DONE)
    fault: BaseException | None = None
    try:
        await Turn(stub.client, HeadlessFace(out, on_ask), WAITING).follow()
    except Undecided as undecided:
        fault = undecided
    return stub, out.getvalue(), fault


async def test_without_a_person_the_caller_says_what_happens() -> None:
    """AP-21: no hang, nothing runs unless the caller said so, and why is told."""
    stub, text, _ = await headless("deny")
    decision = stub.params("session/decide")[0]["decisions"][0]
    assert (decision["decision"], decision["reason"]) == ("reject", DENIED)
    stub, text, _ = await headless("approve")
    assert stub.params("session/decide")[0]["decisions"][0]["decision"] == "approve"
    assert "approved by --on-ask approve" in text
    stub, text, fault = await headless("fail")
    assert isinstance(fault, Undecided)
    assert stub.methods() == []
    assert "it keeps waiting" in text


async def test_a_log_shows_that_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """UX-08."""
    monkeypatch.setattr("editors.terminal.headless._HEARTBEAT", 0.01)
    out = io.StringIO()
    face = HeadlessFace(out, "fail")
    face.doing("running", None)
    pulse = asyncio.ensure_future(face.pulse())
    await asyncio.sleep(0.05)
    pulse.cancel()
    assert "… running, " in out.getvalue()


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("end_turn", 0),
        ("submitted", 0),
        ("model_error", 1),
        ("new_word", 1),
        ("max_steps", 4),
        ("interrupted", 5),
        ("cancelled", 130),
    ],
)
def test_every_stop_reason_has_an_exit_code(reason: str, code: int) -> None:
    assert exit_of(snapshot(1, "idle", stop_reason=reason)) == code
    assert exit_of(WAITING) is Exit.UNDECIDED
    assert exit_of(snapshot(2, "closed", step(call()), pending=["c1"])) is Exit.SERVER


FULL = {"kind": "read_only", "message": "The journal cannot be used: disk is full."}


@pytest.mark.parametrize("state", ["idle", "executing", "awaiting_approval"])
async def test_a_session_that_can_only_be_read_is_not_waited_for_and_asks_nothing(state: str) -> None:
    stub, face = Stub(), Face(approve)
    final = await asyncio.wait_for(
        Turn(stub.client, face, snapshot(2, state, step(call()), error=SessionError(**FULL))).follow(), 2
    )
    assert (stub.methods(), exit_of(final)) == ([], Exit.SERVER)
    assert any("disk is full" in line.text for line in closing_lines(final))
    assert closing_lines(final)[1].text == "the session cannot be written down, so it rests"


async def test_a_decision_that_could_not_be_written_ends_the_turn_with_the_reason() -> None:
    stub, face = Stub(), Face(approve)

    def refuse(params: dict[str, Any]) -> Any:
        raise Refusal(-32803, "disk is full")

    stub.on("session/decide", refuse)
    stub.on("session/get", snapshot(2, "awaiting_approval", step(call()), error=SessionError(**FULL)))
    final = await asyncio.wait_for(Turn(stub.client, face, WAITING).follow(), 2)
    assert exit_of(final) == Exit.SERVER


def test_a_session_that_is_taken_up_again_tells_what_was_cut_off() -> None:
    """SS-01: what had started may have had effects."""
    calls = [
        call(1, "make install", "interrupted", reason="interrupted", started_at_ms=1),
        call(2, "rm -rf build\necho", "cancelled", reason="not_started"),
        call(3, "make test", "cancelled", reason="cancelled", started_at_ms=1),
    ]
    told = [line.text for line in interrupted_lines(snapshot(3, "idle", step(*calls), stop_reason="interrupted"))]
    assert told == [
        "`make install` was running when the server ended; it may have had effects, and was not run again",
        "`rm -rf build …` was not started",
        "`make test` was cancelled while it ran; it may have had effects, and was not run again",
    ]
    (asked,) = interrupted_lines(snapshot(3, "idle", step(), stop_reason="interrupted"))
    assert "no command was running" in asked.text
    assert interrupted_lines(snapshot(3, "idle", step(call(status="completed")), stop_reason="end_turn")) == []
