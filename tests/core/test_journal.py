"""The journal: what is written is there, who holds a session is known, and a full disk stops work instead of lying."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core import events as ev
from agent_core.errors import JournalError, SessionHeld, UnknownSession
from agent_core.journal import Journal, SessionSummary
from agent_core.types import Limits, UserMessage

SUMMARY = SessionSummary("a", "/w", "title", 1.0, 1.0, "idle", None, 0, 0.0)
WRITER = """
import asyncio, sys
from pathlib import Path
from tests.core.test_journal import SUMMARY, write
asyncio.run(write(Path(sys.argv[1]), sys.argv[2], 150))
"""


async def write(folder: Path, session_id: str, count: int) -> None:
    journal = Journal(folder)
    hold = journal.hold(session_id)
    session = replace(SUMMARY, id=session_id)
    await journal.add(session)
    for number in range(1, count + 1):
        await journal.append(session, number, ev.Queued(1.0, UserMessage("x" * 500), "x"), durable=number % 10 == 0)
    hold.release()
    await journal.close()


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "state")
    yield journal
    await journal.close()


async def test_events_come_back_equal_and_in_order(journal: Journal) -> None:
    await journal.add(SUMMARY)
    events: list[ev.Event] = [
        ev.Configured(1.0, Limits(max_cost=2.5), '{"model": "m"}'),
        ev.StepRequested(2.0, UserMessage("naïve ✓"), None, "system", "naïve ✓", ("AGENTS.md",)),
        ev.CancelRequested(3.0),
    ]
    for number, event in enumerate(events, 1):
        await journal.append(replace(SUMMARY, steps=number), number, event, durable=number == 2)
    assert await journal.events("a") == (events, "")
    assert (await journal.summary("a")).steps == 3


async def test_only_the_person_can_read_it(journal: Journal) -> None:
    await journal.add(SUMMARY)
    await journal.append(SUMMARY, 1, ev.CancelRequested(1.0), durable=True)
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    files = [path for path in journal.folder.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"journal.db", "journal.db-wal"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


async def test_two_processes_write_one_file(tmp_path: Path) -> None:
    """SS-04: neither waits for ever, loses an event or damages the file."""
    root = str(Path(__file__).parents[2])
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", WRITER, str(tmp_path), name, cwd=root, env={"PYTHONPATH": root}
        )
        for name in ("one", "two")
    ]
    assert [await each.wait() for each in writers] == [0, 0]
    journal = Journal(tmp_path)
    for name in ("one", "two"):
        events, why = await journal.events(name)
        assert (len(events), why) == (150, "")
    await journal.close()
    with sqlite3.connect(tmp_path / "journal.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


async def test_a_held_session_names_its_holder_and_is_free_after_the_release(journal: Journal) -> None:
    hold = journal.hold("a")
    with pytest.raises(SessionHeld, match=r"process \d+ on"):
        journal.hold("a")
    await journal.add(replace(SUMMARY, holder=hold.holder))
    assert (await journal.summary("a")).holder == hold.holder
    hold.release()
    hold.release()
    assert (await journal.summary("a")).holder == "", "a holder that is gone is not named"
    journal.hold("a").release()


async def test_a_deleted_session_is_gone_with_its_files(journal: Journal) -> None:
    await journal.add(SUMMARY)
    await journal.append(SUMMARY, 1, ev.CancelRequested(1.0), durable=False)
    spool = journal.spool_folder("a")
    spool.mkdir(parents=True)
    (spool / "x.out").write_text("output")
    await journal.delete("a")
    assert not spool.exists()
    assert await journal.summaries() == []
    with pytest.raises(UnknownSession, match="no session 'a'"):
        await journal.summary("a")


async def test_a_held_session_is_not_deleted(journal: Journal) -> None:
    await journal.add(SUMMARY)
    hold = journal.hold("a")
    with pytest.raises(SessionHeld):
        await journal.delete("a")
    assert len(await journal.summaries()) == 1
    hold.release()


async def test_sessions_are_listed_by_folder_newest_first(journal: Journal) -> None:
    for name, cwd, at in (("a", "/w", 1.0), ("b", "/w", 3.0), ("c", "/other", 2.0)):
        await journal.add(replace(SUMMARY, id=name, cwd=cwd, updated_at=at))
    assert [each.id for each in await journal.summaries()] == ["b", "c", "a"]
    assert [each.id for each in await journal.summaries("/w")] == ["b", "a"]


async def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    journal = Journal(tmp_path / "state")
    with pytest.raises(JournalError, match="cannot be used"):
        await journal.add(SUMMARY)
    await journal.close()


async def test_a_journal_of_a_newer_version_is_refused_in_a_sentence(journal: Journal) -> None:
    await journal.add(SUMMARY)
    await journal.close()
    with sqlite3.connect(journal.folder / "journal.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    later = Journal(journal.folder)
    with pytest.raises(JournalError, match="newer version of Handrail"):
        await later.summaries()
    await later.close()


async def test_the_holder_that_is_listed_is_the_one_that_holds_it_now(journal: Journal) -> None:
    """A session loaded after its server died has no new event yet; its row still names the dead one."""
    await journal.add(replace(SUMMARY, holder="process 1 on elsewhere"))
    hold = journal.hold("a")
    assert (await journal.summary("a")).holder == hold.holder
    assert [each.holder for each in await journal.summaries()] == [hold.holder]
    hold.release()


async def test_a_session_cannot_be_held_on_a_full_disk_and_is_free_afterwards(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("os.pwrite", full)
        with pytest.raises(JournalError, match=f"state folder {journal.folder} .*No space left.* Free space"):
            journal.hold("a")
    journal.hold("a").release()
