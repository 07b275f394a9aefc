"""A crash at any moment: the session loads, is well formed, nothing ran twice, a pending approval is pending again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agent_core.machine import State
from agent_core.session import Session
from agent_core.types import AssistantTurn, CallStatus, Observation
from tests.core.replies import chat_body
from tests.stories.conftest import Story, approve_all, decide, decision, go, waiting

EVENTS_IN_THE_TURN = 12


def crash(folder: Path, kill_after: int) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.stories.victim", str(folder), str(kill_after)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    expected = -signal.SIGKILL if kill_after else 0
    assert done.returncode == expected, done.stderr
    if not kill_after:
        assert int(done.stdout) == EVENTS_IN_THE_TURN


def check_answers(session: Session) -> None:
    expected: list[str] = []
    for message in session.machine.record.history:
        if isinstance(message, Observation):
            assert message.call_key == expected.pop(0)
        else:
            assert not expected
            expected = list(message.call_keys) if isinstance(message, AssistantTurn) else []
    if session.state is State.IDLE:
        assert not expected


async def only_session(story: Story) -> Session:
    (summary,) = await story.journal.summaries()
    return await story.resume(summary.id)


def test_the_whole_turn_has_as_many_events_as_are_killed_at(tmp_path: Path) -> None:
    crash(tmp_path, 0)


@pytest.mark.parametrize("kill_after", range(1, EVENTS_IN_THE_TURN + 1))
async def test_after_each_event(tmp_path: Path, kill_after: int) -> None:
    """SS-01, SS-05, SS-06: what was written is there, open calls are answered once, and loading adds nothing more."""
    crash(tmp_path, kill_after)
    story = Story(tmp_path)
    try:
        session = await only_session(story)
        assert session.state in (State.IDLE, State.AWAITING_APPROVAL)
        check_answers(session)
        ran = (story.workspace / "log").read_text().split() if (story.workspace / "log").exists() else []
        assert story.script.requests == [], "a crash must not make the model be asked again by itself"
        events = session.machine.record.revision
        await session.close()
        again = await only_session(story)
        assert again.machine.record.revision == events, "loading again adds nothing"
        before = [call.key for call in waiting(again)]
        story.script.replies.append(chat_body("Done."))
        if before:
            first, *others = waiting(again)
            await decide(again, *(decision(call) for call in [first, *others]))
        else:
            await go(again, "Go on.")
        await approve_all(again)
        check_answers(again)
        now = (story.workspace / "log").read_text().split() if (story.workspace / "log").exists() else []
        assert now[: len(ran)] == ran
        assert len(set(now)) == len(now), "a command ran twice"
    finally:
        await story.close()


async def test_a_command_that_ran_at_the_crash_is_interrupted_and_the_record_says_who_approved_it(
    tmp_path: Path,
) -> None:
    """SS-10: what was approved is on disk before the command starts, and the rest of the batch is not started."""
    crash(tmp_path, 5)  # after the decision that completes the batch
    story = Story(tmp_path)
    try:
        session = await only_session(story)
        statuses = [call.status for call in session.machine.record.calls]
        assert statuses == [CallStatus.INTERRUPTED, CallStatus.CANCELLED, CallStatus.REJECTED]
        running = session.machine.record.calls[0]
        assert (running.decided_by, running.to_run.command) == ("person", "echo one >> log")
        assert running.to_run.cwd == str(story.workspace)
        assert running.decided_at > 0
    finally:
        await story.close()


async def test_a_torn_write_loses_at_most_the_last_event(tmp_path: Path) -> None:
    """SS-02: a half-written end of the file."""
    crash(tmp_path, 6)
    wal = tmp_path / "state" / "journal.db-wal"
    assert wal.exists()
    os.truncate(wal, wal.stat().st_size - 100)
    story = Story(tmp_path)
    try:
        session = await only_session(story)
        assert not session.read_only
        check_answers(session)
        assert session.state in (State.IDLE, State.AWAITING_APPROVAL)
    finally:
        await story.close()


@pytest.mark.parametrize("damage", ["UPDATE events SET kind = 'Foretold'", "UPDATE events SET body = '{'"])
async def test_a_session_that_cannot_be_read_opens_read_only_and_says_why(tmp_path: Path, damage: str) -> None:
    crash(tmp_path, 3)
    with sqlite3.connect(tmp_path / "state" / "journal.db") as db:
        db.execute(f"{damage} WHERE number = 3")
    db.close()
    story = Story(tmp_path)
    try:
        session = await only_session(story)
        assert session.read_only
        assert len(session.machine.record.steps) == 1
        with pytest.raises(Exception, match="can only be read"):
            await session.step("More.", 1)
    finally:
        await story.close()
