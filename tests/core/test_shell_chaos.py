"""Whatever is run, and whenever it is stopped: each call has one result, nothing lives on, nothing leaks.

`HANDRAIL_CHAOS` sets the number of scripts (default 40); the seed is printed with a failure and taken from
`HANDRAIL_CHAOS_SEED`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import resource
import sys
from pathlib import Path

from agent_core import sweep
from agent_core.shell import Command, CommandLimits
from agent_core.shell.guard import GUARD
from agent_core.types import CommandResult
from tests.core.shell_support import Workbench

SCRIPTS = int(os.environ.get("HANDRAIL_CHAOS", "40"))
SEED = int(os.environ.get("HANDRAIL_CHAOS_SEED", str(random.randrange(1 << 32))))  # noqa: S311
AT_ONCE = 4

PIECES = [
    "sleep 0.0{d}",
    "sleep 3060{d}",
    "sleep 3061{d} &",
    "(sleep 3062{d} &) ; echo forked",
    "setsid sleep 3063{d} > /dev/null 2>&1 &",
    "setsid sh -c 'trap \"\" TERM; sleep 3064{d}; sleep 1' &",
    "env -i sleep 3065{d} &",
    "nohup sh -c 'sleep 0.0{d}; sleep 3066{d}' > /dev/null 2>&1 &",
    "trap '' TERM INT HUP",
    "trap 'echo trapped; exit 7' TERM",
    "for i in 1 2 3 4 5; do (sleep 3067{d} &) ; done",
    "yes {d} | head -c {d}00000",
    "yes flood &",
    "head -c {d}0000 /dev/urandom",
    "exec >&- 2>&-",
    "exec 2>/dev/null < /dev/null",
    "printf 'no end of line'; printf '\\r\\033[3{d}mred'",
    "kill -{d} $$",
    "kill -STOP $$",
    "wait",
    "exit {d}",
    "exec sleep 0.{d}",
    "set -e; false",
    "ulimit -n 3; echo few",
    "cat",
]


def script(chance: random.Random) -> str:
    pieces = chance.choices(PIECES, k=chance.randint(1, 5))
    return "\n".join(piece.replace("{d}", str(chance.randint(1, 9))) for piece in pieces)


async def one(bench: Workbench, chance: random.Random) -> tuple[Command, CommandResult, str]:
    limits = CommandLimits(
        kept_bytes=chance.choice([0, 100, 10_000]),
        output_bytes=chance.choice([1_000, 100_000, 1 << 30]),
        processes=chance.choice([None, None, 5]),
        memory_bytes=chance.choice([None, None, 100 << 20]),
        grace=0.2,
    )
    text = script(chance)
    command = await bench.start(text, timeout=chance.uniform(0.05, 0.6), limits=limits, on_output=lambda _: None)
    meddling = chance.choice(["cancel", "detach", "nothing", "nothing"])
    if meddling != "nothing":
        await asyncio.sleep(chance.uniform(0, 0.3))
        getattr(command, meddling)()
    result = await asyncio.wait_for(command.wait(), 10)
    return command, result, text


def descriptors() -> set[str]:
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{descriptor}:{os.readlink(f'/proc/self/fd/{descriptor}')}")
        except OSError:
            continue  # the descriptor of the listing itself
    return found


async def test_chaos(tmp_path: Path) -> None:
    chance = random.Random(SEED)  # noqa: S311
    bench = Workbench(tmp_path)
    await bench.run("true")  # the supervisor's pipe stays open
    before, memory = descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = 0
    while seen < SCRIPTS:
        batch = await asyncio.gather(*(one(bench, chance) for _ in range(AT_ONCE)))
        for command, result, text in batch:
            told = f"seed {SEED}: {text!r} -> {result}"
            assert (result.ending == "exited") == (result.exit_code is not None), told
            assert (result.ending == "signalled") == (result.signal != ""), told
            assert (result.ending == "exited") == (result.reason is None), told
            assert await command.wait() == result, told
        seen += len(batch)
    await asyncio.wait_for(bench.shell.close(), 10)
    for command, result, text in batch:
        assert await command.ended() == result or result.ending == "detached", text
    left = [sweep.command_line(pid) for pid in sweep.marked(f"{GUARD.token}.".encode())]
    assert not left, f"seed {SEED}"
    gc.collect()
    await asyncio.sleep(0.1)
    # Sockets of earlier tests may be collected meanwhile; what counts is that nothing new is left.
    assert descriptors() <= before, f"seed {SEED}"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 40_000, f"seed {SEED}"
    print(f"{seen} scripts, seed {SEED}", file=sys.stderr)
