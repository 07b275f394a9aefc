"""What a call of a model costs beyond litellm alone: whole calls, and the processor time of streamed ones.

Invariants: both sides send the same history to the same provider, which is another process; they take turns in blocks.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.dialects import Dialect, Query, dialect_for
from agent_core.provider import Provider
from agent_core.source import Source
from agent_core.types import Message, UserMessage
from tests.bench import answering
from tests.bench.bare_calls import OPTIONS
from tests.core.replies import call, reply, results, turn

BLOCKS, CALLS, DELTAS = 4, 15, 2_000
MODEL = OPTIONS["model"]


@dataclass
class Figures:
    """Median wall seconds of a call with 10 and 200 messages, and processor seconds per delta; ours and bare."""

    ours: dict[int, float] = field(default_factory=dict)
    bare: dict[int, float] = field(default_factory=dict)
    delta: float = 0.0
    bare_delta: float = 0.0


def history(count: int) -> list[Message]:
    """Return about `count` messages: a prompt, then calls and their results."""
    messages: list[Message] = [UserMessage("Repair the test.")]
    for number in range(count // 2):
        said = turn(reply(call(f"call_{number}", f"sed -n {number},{number + 40}p main.py"), model=MODEL))
        messages += [said, *results(said, "x = 1\n" * 60)]
    return messages


class _Bare:
    def __init__(self, address: str) -> None:
        command = [sys.executable, "-P", "-m", "tests.bench.bare_calls", address]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def block(self, body: dict[str, Any], calls: int, *, stream: bool = False) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"messages": body["messages"], "tools": body["tools"], "calls": calls, "stream": stream}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        return told

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


async def _ours(source: Source, dialect: Dialect, query: Query, calls: int, *, stream: bool = False) -> list[float]:
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        await source.ask(dialect, query, stream=stream, on_delta=lambda _: None)
        times.append(time.perf_counter() - start)
    return times


async def _measure(address: str) -> Figures:
    provider = Provider({**os.environ, "HANDRAIL_OFFLINE": "", "OPENAI_API_KEY": "x"})
    bare, figures = _Bare(address), Figures()
    try:
        for count in (10, 200):
            await _whole(provider, bare, address, count, figures)
        source, dialect = provider.source(api_base=address), dialect_for(MODEL)
        query = Query(MODEL, "You help.", history(10))
        worker = (await provider.worker().running()).pid
        await _ours(source, dialect, query, 1, stream=True)
        bare.block(dialect.encode(query), 1, stream=True)
        before = time.process_time() + _cpu_of(worker)
        await _ours(source, dialect, query, 3, stream=True)
        figures.delta = (time.process_time() + _cpu_of(worker) - before) / (3 * DELTAS)
        figures.bare_delta = bare.block(dialect.encode(query), 3, stream=True)["cpu"] / (3 * DELTAS)
    finally:
        bare.close()
        await provider.close()
    return figures


async def _whole(provider: Provider, bare: _Bare, address: str, count: int, figures: Figures) -> None:
    source, dialect = provider.source(api_base=address), dialect_for(MODEL)
    query = Query(MODEL, "You help.", history(count))
    body = dialect.encode(query)
    await _ours(source, dialect, query, 3)
    bare.block(body, 3)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(BLOCKS):
        ours += await _ours(source, dialect, query, CALLS)
        await asyncio.sleep(0.5)  # litellm's own bookkeeping, as on the other side
        theirs += bare.block(body, CALLS)["wall"]
    figures.ours[count], figures.bare[count] = statistics.median(ours), statistics.median(theirs)


def _cpu_of(pid: int) -> float:
    """Return the processor seconds that a process has used."""
    members = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(members[11]) + int(members[12])) / os.sysconf("SC_CLK_TCK")


def figures() -> Figures:
    """Measure everything."""
    with answering.provider(DELTAS) as address:
        return asyncio.run(_measure(address))
