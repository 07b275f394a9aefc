"""One command, run by our shell, by `subprocess.run`, and by mini-swe-agent's local environment.

Invariants: each measurement of memory has a process of its own (`python -m tests.bench.running WHICH COMMAND RUNS`,
which prints its median seconds and the growth of its memory in bytes); all three run the same text by bash.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.quiet import quiet_peer

CASES = {
    "`true`": ("true", 30),
    "10,000 short lines": ("seq 1 10000", 10),
    "500 MB of output": ("yes 0123456789abcdef | head -c 500000000", 1),
}
PEERS = ("subprocess.run", "mini-swe-agent")


def measure(which: str, command: str, runs: int) -> tuple[float, int]:
    """Return the median seconds of a run, and the bytes by which the runner's memory grew at the most."""
    call = [sys.executable, "-P", "-m", "tests.bench.running", which, command, str(runs)]
    told = json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    return told["seconds"], told["bytes"]


async def _ours(command: str, runs: int) -> list[float]:
    from agent_core.redaction import Masker
    from agent_core.shell import CommandLimits, Shell, base_environment, find_bash
    from agent_core.types import Proposal

    with tempfile.TemporaryDirectory() as name:
        shell = Shell(bash=find_bash(), session_id="bench", masker=Masker({}), spool_dir=Path(name) / "spools")
        environment = base_environment(os.environ, inherit=(), added={})
        times = []
        for number in range(runs + 1):
            proposal = Proposal(f"1.{number}", command if number else "true", name, find_bash(), 120.0)
            start = time.perf_counter()
            started = await shell.start(proposal, environment=environment, limits=CommandLimits(), on_output=None)
            result = await started.wait()
            times.append(time.perf_counter() - start)
            assert result.exit_code == 0, result
        await shell.close()
    return times[1:]  # the first one starts what all others use


def _timed(run: Callable[[], object], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def _plain(command: str, runs: int) -> list[float]:
    def run() -> None:
        subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)

    return _timed(run, runs)


def _peer(command: str, runs: int) -> list[float]:
    quiet_peer()
    from minisweagent.environments.local import LocalEnvironment

    environment = LocalEnvironment(timeout=120)
    return _timed(lambda: environment.execute({"command": command}), runs)


def _main(which: str, command: str, runs: int) -> None:
    if which == "ours":
        import agent_core.shell  # noqa: F401 - before the memory is looked at

        before = _peak()
        times = asyncio.run(_ours(command, runs))
    else:
        before = _peak()
        times = (_plain if which == "subprocess.run" else _peer)(command, runs)
    print(json.dumps({"seconds": statistics.median(times), "bytes": _peak() - before}))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
