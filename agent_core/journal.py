"""The journal: an append-only record of every session's events, and who holds which session.

Invariants: an event is on disk before its effect begins (a durable append survives a power cut, any append survives the
death of the process); one thread does all the writing, and its callers await it; a session is owned through a lock
file, which the system frees when its holder dies, and the rows only name the holder. Folder 0700, files 0600.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import json
import os
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from agent_core import events as ev
from agent_core.errors import JournalError, SessionHeld, UnknownSession

EVENTS_VERSION = 2
"""Goes up when an event gets a new class, so that an older version knows that it cannot read a session."""

SCHEMA_VERSION = 1
"""Goes up when the tables change; a journal of a newer version is refused."""

_SCHEMA = f"""
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, cwd TEXT NOT NULL, title TEXT NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL,
    state TEXT NOT NULL, stop TEXT, steps INTEGER NOT NULL, cost REAL, holder TEXT NOT NULL, model TEXT NOT NULL,
    pending INTEGER NOT NULL, version INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_by_folder ON sessions (cwd, updated_at);
CREATE TABLE IF NOT EXISTS events (
    session TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
"""
_COLUMNS = "id, cwd, title, created_at, updated_at, state, stop, steps, cost, holder, model, pending, version"
_EVENT_CLASSES = {each.__name__: each for each in get_args(ev.Event)}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """What a list of sessions shows of one. `holder` is "" or who has it open; `cost` is None if unknown."""

    id: str
    cwd: str
    title: str
    created_at: float
    updated_at: float
    state: str
    stop: str | None
    steps: int
    cost: float | None
    holder: str = ""
    model: str = ""
    pending: int = 0  # calls that wait for a decision
    version: int = EVENTS_VERSION


@functools.cache
def _codec(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_EVENT_CLASSES[kind])


class Journal:
    """All sessions of one state folder; raises `JournalError` where the disk or the file does not allow something."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="handrail-journal")
        self._connection: sqlite3.Connection | None = None
        self._durable = False

    async def add(self, session: SessionSummary) -> None:
        """Enter a new session."""
        row = (*(getattr(session, name) for name in _COLUMNS.split(", ")),)
        await self._call(lambda db: db.execute(f"INSERT INTO sessions ({_COLUMNS}) VALUES ({_marks(row)})", row))  # noqa: S608

    async def append(self, session: SessionSummary, number: int, event: ev.Event, *, durable: bool) -> None:
        """Write one event and the session's new summary; `durable` waits until it would survive a power cut."""
        kind = type(event).__name__
        body = _codec(kind).dump_json(event).decode()
        await self._call(functools.partial(self._append, session, number, kind, body, durable))

    async def events(self, session_id: str) -> tuple[list[ev.Event], str]:
        """Return a session's events, and why they end early: "" or a sentence (a newer version, or damage)."""
        rows = await self._call(
            lambda db: db.execute(
                "SELECT number, kind, body FROM events WHERE session = ? ORDER BY number",
                (session_id,),
            ).fetchall(),
        )
        return await asyncio.get_running_loop().run_in_executor(self._thread, _decode, rows)

    async def summaries(self, cwd: str | None = None) -> list[SessionSummary]:
        """Return all sessions, of one folder if `cwd` is given, newest first; holders that died are left out."""
        where, args = ("WHERE cwd = ?", (cwd,)) if cwd is not None else ("", ())
        query = f"SELECT {_COLUMNS} FROM sessions {where} ORDER BY updated_at DESC"  # noqa: S608
        rows = await self._call(lambda db: [self._summary(row) for row in db.execute(query, args)])
        return list(rows)

    async def summary(self, session_id: str) -> SessionSummary:
        """Return one session's summary; raises `UnknownSession`."""
        query = f"SELECT {_COLUMNS} FROM sessions WHERE id = ?"  # noqa: S608
        row = await self._call(lambda db: db.execute(query, (session_id,)).fetchone())
        if row is None:
            raise UnknownSession(f"There is no session {session_id!r}; list the sessions to see which there are.")
        return self._summary(row)

    async def delete(self, session_id: str) -> None:
        """Remove a session with everything that belongs to it; raises `SessionHeld` if it is open elsewhere."""
        hold = self.hold(session_id)
        try:
            await self._call(functools.partial(_delete, session_id))
            shutil.rmtree(self.spool_folder(session_id), ignore_errors=True)
        finally:
            hold.release(forget=True)

    def hold(self, session_id: str) -> SessionHold:
        """Become the session's holder; raises `SessionHeld` with the holder named if a live process has it."""
        try:
            self._make_folders()
            return SessionHold(self._lock_path(session_id), session_id)
        except OSError as error:
            raise self._unusable(error) from error

    def spool_folder(self, session_id: str) -> Path:
        """Return where the whole output of a session's commands is kept."""
        return self.folder / "spool" / session_id

    async def close(self) -> None:
        """Finish what was asked for and let go of the file."""
        if self._connection is not None:
            await self._call(lambda db: db.close())
            self._connection = None
        self._thread.shutdown(wait=False)

    # --- in the journal's thread -----------------------------------------------------------------------------------

    async def _call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            try:
                return work(self._open())
            except sqlite3.Error as error:
                raise JournalError(
                    f"The journal {self.folder / 'journal.db'} cannot be used: {error}. "
                    "Free space, or make the folder writable, then load the session again.",
                ) from error
            except OSError as error:
                raise self._unusable(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._make_folders()
            path = self.folder / "journal.db"
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its other files the same mode
            connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA_VERSION:
                connection.close()
                raise JournalError(
                    f"A newer version of Handrail wrote the journal {path}. Install that version, "
                    "or set HANDRAIL_STATE_DIR to another folder.",
                )
            connection.executescript(_SCHEMA)
            self._connection = connection
        return self._connection

    def _unusable(self, error: OSError) -> JournalError:
        return JournalError(
            f"The state folder {self.folder} cannot be used: {error.strerror or error}. "
            "Free space, or make the folder writable, or set HANDRAIL_STATE_DIR to another one.",
        )

    def _make_folders(self) -> None:
        for folder in (self.folder, self.folder / "locks"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _lock_path(self, session_id: str) -> Path:
        return self.folder / "locks" / f"{session_id}.lock"

    def _append(
        self, session: SessionSummary, number: int, kind: str, body: str, durable: bool, db: sqlite3.Connection
    ) -> None:
        if durable != self._durable:
            db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (session.id, number, kind, body))
            db.execute(
                "UPDATE sessions SET title = ?, updated_at = ?, state = ?, stop = ?, steps = ?, cost = ?, holder = ?,"
                " model = ?, pending = ? WHERE id = ?",
                (
                    session.title,
                    session.updated_at,
                    session.state,
                    session.stop,
                    session.steps,
                    session.cost,
                    session.holder,
                    session.model,
                    session.pending,
                    session.id,
                ),
            )
            db.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise

    def _summary(self, row: tuple[Any, ...]) -> SessionSummary:
        summary = SessionSummary(*row)
        path = self._lock_path(summary.id)
        # The row names who wrote the last event; who has it open now stands in the lock file.
        if not summary.holder or not _is_locked(path):
            return replace(summary, holder="")
        return replace(summary, holder=path.read_text(encoding="utf-8", errors="replace") or summary.holder)


class SessionHold:
    """The ownership of one session, for as long as this process lives and does not release it."""

    def __init__(self, path: Path, session_id: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        if not _lock(self._fd):
            holder = os.read(self._fd, 4096).decode(errors="replace") or "another process"
            os.close(self._fd)
            raise SessionHeld(
                f"Session {session_id} is open in {holder}. Close it there first, or go on there.",
                holder,
            )
        self.holder = f"process {os.getpid()} on {socket.gethostname()}"
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, self.holder.encode(), 0)
        except OSError:
            os.close(self._fd)
            raise

    def release(self, *, forget: bool = False) -> None:
        """Let go; `forget` also removes the lock file. Harmless when repeated."""
        if self._fd < 0:
            return
        if forget:
            self._path.unlink(missing_ok=True)
        else:
            os.ftruncate(self._fd, 0)
        os.close(self._fd)
        self._fd = -1


def _lock(fd: int) -> bool:
    """Take the lock; whoever only looks whether it is held has it for a moment, so try again."""
    for pause in (0.001, 0.002, 0.004, None):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if pause is not None:
                time.sleep(pause)
        else:
            return True
    return False


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _delete(session_id: str, db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM events WHERE session = ?", (session_id,))
    db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
    db.execute("COMMIT")


def _decode(rows: list[tuple[int, str, str]]) -> tuple[list[ev.Event], str]:
    events: list[ev.Event] = []
    for number, kind, body in rows:
        if number != len(events) + 1:
            return events, f"Event {len(events) + 1} of the journal is missing."
        if kind not in _EVENT_CLASSES:
            return events, f"A newer version of Handrail wrote this session (event {kind})."
        try:
            events.append(_codec(kind).validate_json(body))
        except (ValidationError, json.JSONDecodeError):
            return events, f"Event {number} of the journal ({kind}) is damaged."
    return events, ""


def _marks(row: tuple[Any, ...]) -> str:
    return ", ".join("?" * len(row))
