"""The cost of one step, ours and the peer's: a replayed model, the command `true`, the record written.

Invariants: both sides do the same work in the same process; ours has its real journal, policy, shell and templates,
the peer's script is no longer than its run.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from agent_core.journal import Journal, SessionSummary
from agent_core.opening import Opener
from agent_core.settings import build

SETTINGS = {
    "mode": "rules",
    "rules": [{"match": ["true"], "decision": "allow"}],
    "limits": {"max_repeats": 0, "max_steps": 0},
}
EARLY, LATE = 10, 1000


def _call(number: int) -> dict[str, Any]:
    arguments = json.dumps({"command": "true"})
    return {"id": f"call_{number}", "type": "function", "function": {"name": "bash", "arguments": arguments}}


def _frame(number: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": "On it.", "tool_calls": [_call(number)]}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


class _Relaxed(Journal):
    """A journal that never asks for the full sync, as the peer does not."""

    async def append(self, session: SessionSummary, number: int, event: Any, *, durable: bool) -> None:
        await super().append(session, number, event, durable=False)


async def _ours(folder: Path, journal: Journal, count: int) -> tuple[list[float], int]:
    """Return the seconds of each step, and the bytes that they left in memory if that is traced."""
    frames = [_frame(number) for number in range(count)]
    tape = folder / "tape.json"
    tape.write_text(
        json.dumps({"model": "m", "recorded_at": time.strftime("%Y-%m-%d"), "dialect": "chat", "frames": frames})
    )
    opener = Opener(journal, {"PATH": os.environ["PATH"]}, can_ask=True)
    now = time.time()
    summary = SessionSummary(secrets.token_hex(8), str(folder), "", now, now, "idle", None, 0, 0.0)
    session = await opener.open(summary, build({**SETTINGS, "replay": str(tape)}, "The bench"))
    before = tracemalloc.get_traced_memory()[0]
    times: list[float] = []
    for number in range(count):
        start = time.perf_counter()
        revision = session.machine.record.revision
        await session.step(None if number else "Go.", 1)
        await session.rested(revision)
        times.append(time.perf_counter() - start)
    memory = tracemalloc.get_traced_memory()[0] - before
    await session.close()
    await opener.close()
    await journal.close()
    return times, memory


def ours(count: int, *, full_sync: bool) -> list[float]:
    """Return the seconds of each of our steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journal = Journal(folder / "state") if full_sync else _Relaxed(folder / "state")
        return asyncio.run(_ours(folder, journal, count))[0]


def memory(count: int) -> int:
    """Return the bytes that a session of that many steps keeps in memory."""
    with tempfile.TemporaryDirectory() as name:
        tracemalloc.start()
        try:
            return asyncio.run(_ours(Path(name), _Relaxed(Path(name) / "state"), count))[1]
        finally:
            tracemalloc.stop()


def peer(count: int) -> list[float]:
    """Return the seconds of each of the peer's steps, its trajectory saved."""
    os.environ["MSWEA_SILENT_STARTUP"] = "1"
    os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = tempfile.gettempdir()
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

    outputs = [
        make_toolcall_output("On it.", [_call(n)], [{"command": "true", "tool_call_id": f"call_{n}"}])
        for n in range(count)
    ]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "trajectory.json"
        model = DeterministicToolcallModel(outputs=outputs, cost_per_call=0.0)
        agent = DefaultAgent(
            model,
            LocalEnvironment(cwd=name),
            system_template="You are an agent.",
            instance_template="{{task}}",
            cost_limit=0.0,
            output_path=path,
        )
        agent.add_messages({"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Go."})
        times = []
        for _ in range(count):
            start = time.perf_counter()
            agent.step()
            agent.save(path)
            times.append(time.perf_counter() - start)
        return times


def at(times: list[float], step: int) -> float:
    """Return the median of the eleven steps around one."""
    return statistics.median(times[max(0, step - 6) : step + 5])
