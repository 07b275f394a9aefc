"""What a client feels of the server: small requests, many waiting sessions, many stored ones, and its own slowness.

Invariants: the server is the whole one; where a peer is named, both get the same requests in turn and answer values of
the same size.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from server.app import create
from tests.bench import steps
from tests.server.conftest import ANNOUNCED, Desk, decision, pending
from tests.server.raw_client import RawClient, loopback

SERVER = (sys.executable, "-P", "-m", "server")
SESSIONS, STEPS, WAITING = 1_000, 200, 100


@contextlib.contextmanager
def _state(folder: Path) -> Any:
    """Point the server to a state of its own."""
    ours = {
        "HANDRAIL_STATE_DIR": str(folder / "state"),
        "HANDRAIL_CONFIG": str(folder / "config.toml"),
        "HANDRAIL_OFFLINE": "1",
    }
    (folder / "config.toml").touch()
    before = dict(os.environ)
    os.environ.update(ours)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.asynccontextmanager
async def _server() -> AsyncIterator[tuple[RawClient, Desk]]:
    """Start the server as a process, with a client and a desk."""
    with tempfile.TemporaryDirectory() as name, _state(Path(name)):
        client = await RawClient.start(*SERVER)
        await client.initialize(handrail=ANNOUNCED)
        yield client, Desk(client, Path(name))
        await _end(client)


async def _end(client: RawClient) -> None:
    client.writer.close()
    assert client.process is not None
    await client.process.wait()


async def _seconds(client: RawClient, params: dict[str, Any], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        await client.ask("handrail/session/get", params)
        times.append(time.perf_counter() - start)
    return times


async def _round_trips() -> tuple[float, float]:
    async with _server() as (client, desk):
        session = await desk.new()
        params = {"sessionId": session["sessionId"]}
        peer = await RawClient.start(sys.executable, "-P", "-m", "tests.bench.raw_loop", json.dumps(session))
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(20):
            ours += await _seconds(client, params, 50)
            theirs += await _seconds(peer, params, 50)
        await _end(peer)
    return statistics.median(ours), statistics.median(theirs)


async def _waiting() -> float:
    async with _server() as (client, desk):
        shown = [await desk.waiting("cat a.py && ls -la | head") for _ in range(WAITING)]
        times: list[float] = []
        for _ in range(10):
            for each in shown:
                times += await _seconds(client, {"sessionId": each["sessionId"]}, 1)
    return statistics.quantiles(times, n=100)[98]


def _fill(folder: Path) -> None:
    """Store sessions: one that was really made, and copies of it."""
    asyncio.run(steps._ours(folder, steps._Relaxed(folder / "state"), STEPS))
    with contextlib.closing(sqlite3.connect(folder / "state" / "journal.db", isolation_level=None)) as db:
        (first,) = db.execute("SELECT id FROM sessions").fetchone()
        columns = ", ".join(row[1] for row in db.execute("PRAGMA table_info(sessions)") if row[1] != "id")
        copying = f"INSERT INTO sessions (id, {columns}) SELECT ?, {columns} FROM sessions WHERE id = ?"  # noqa: S608
        db.execute("BEGIN")
        for _ in range(SESSIONS - 1):
            copy = secrets.token_hex(8)
            db.execute(copying, (copy, first))
            db.execute("INSERT INTO events SELECT ?, number, kind, body FROM events WHERE session = ?", (copy, first))
        db.execute("COMMIT")


async def _stored() -> tuple[float, float]:
    async with loopback(create("bench")) as client:
        await client.initialize(handrail=ANNOUNCED)
        await client.ask("handrail/server/health")
        listing, loading = [], []
        for _ in range(7):
            start = time.perf_counter()
            sessions = (await client.ask("handrail/session/list"))["sessions"]
            listing.append(time.perf_counter() - start)
        for each in sessions[:7]:
            start = time.perf_counter()
            await client.ask("handrail/session/load", {"sessionId": each["sessionId"]})
            loading.append(time.perf_counter() - start)
    return statistics.median(listing), statistics.median(loading)


async def _slow_reader() -> tuple[int, float]:
    """Return the bytes by which this process grew, and the longest stall of its loop in seconds."""
    with tempfile.TemporaryDirectory() as name, _state(Path(name)):
        async with loopback(create("bench")) as client:
            await client.initialize(handrail=ANNOUNCED)
            desk = Desk(client, Path(name))
            shown = await desk.waiting("yes 0123456789abcdef | head -c 10000000")
            params = {"sessionId": shown["sessionId"], "decisions": [decision(call) for call in pending(shown)]}
            before = _resident()
            most, stall, done = before, 0.0, asyncio.Event()

            async def watch() -> None:
                nonlocal most, stall
                while not done.is_set():
                    start = time.perf_counter()
                    await asyncio.sleep(0.005)
                    stall = max(stall, time.perf_counter() - start - 0.005)
                    most = max(most, _resident())

            watching = asyncio.create_task(watch())
            await client.request("handrail/session/decide", params)
            got = b""
            while b'"stopReason":"end_turn"' not in got:
                await asyncio.sleep(0.05)
                got = got[-100:] + await client.reader.read(8 * 1024)
            done.set()
            await watching
    return most - before, stall


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def round_trips() -> tuple[float, float]:
    """Return the median seconds of a small request, ours and the raw loop's."""
    return asyncio.run(_round_trips())


def waiting() -> float:
    """Return the 99th percentile, in seconds, of a status request while 100 sessions wait for approval."""
    return asyncio.run(_waiting())


def stored() -> tuple[float, float]:
    """Return the median seconds to list 1,000 stored sessions, and to load one of 200 steps."""
    with tempfile.TemporaryDirectory() as name, _state(Path(name)):
        _fill(Path(name))
        return asyncio.run(_stored())


def slow_reader() -> tuple[int, float]:
    """Return bytes of growth and seconds of the longest stall for 10 MB of output to a client that reads slowly."""
    return asyncio.run(_slow_reader())
