"""Nothing outlives a session, a limit ends a command under its own name, and a detached command can be ended later."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_core.shell import CommandLimits
from agent_core.shell.guard import GUARD
from agent_core.shell.processes import CommandProcesses
from agent_core.types import Reason
from tests.core.shell_support import Stopwatch, Workbench, living

ESCAPES = {
    "another session": "setsid sleep {n} > /dev/null 2>&1 &",
    "a double fork": "(setsid sh -c 'sleep {n} > /dev/null 2>&1 &') &",
    "no hangup": "nohup sleep {n} > /dev/null 2>&1 &",
    "no environment": "env -i sleep {n} > /dev/null 2>&1 &",
    "no environment and another session": "env -i setsid sleep {n} &",
    "deaf": "setsid sh -c 'trap \"\" TERM HUP; sleep {n}; sleep {n}' > /dev/null 2>&1 &",
}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    made = Workbench(tmp_path)
    yield made
    await made.shell.close()


async def eventually_gone(*words: str, seconds: float = 5.0) -> bool:
    for _ in range(round(seconds / 0.02)):
        if not living(*words):
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.parametrize("escape", ESCAPES)
async def test_an_escape_is_reported_and_ends_with_the_session(bench: Workbench, escape: str) -> None:
    result = await bench.run(ESCAPES[escape].format(n=30301) + " sleep 0.1")
    assert (result.ending, result.exit_code) == ("exited", 0)
    assert living("sleep", "30301")
    assert any("30301" in name for name in result.leftovers)
    clock = Stopwatch()
    await bench.shell.close()
    assert clock.seconds < 1.5
    assert not living("sleep", "30301")


# These are found only while their parents live; once the shell has ended, only a sandbox would have held them.
ESCAPES_OF_A_RUNNING_SHELL = {
    **ESCAPES,
    "nothing to be known by": "env -i setsid sleep {n} > /dev/null 2>&1 &",
    "deaf, and nothing to be known by": "env -i setsid sh -c 'trap \"\" TERM; exec sleep {n}' > /dev/null 2>&1 &",
}


@pytest.mark.parametrize("escape", ESCAPES_OF_A_RUNNING_SHELL)
async def test_an_escape_ends_with_the_cancelled_command(bench: Workbench, escape: str) -> None:
    command = await bench.start(ESCAPES_OF_A_RUNNING_SHELL[escape].format(n=30302) + " sleep 30303")
    await asyncio.sleep(0.2)
    assert living("sleep", "30302")
    command.cancel()
    result = await command.wait()
    assert (result.ending, result.leftovers) == ("cancelled", ())
    assert not living("sleep", "30302")
    assert not living("sleep", "30303")


async def test_orphans_that_ended_are_reaped(bench: Workbench) -> None:
    before = zombies()  # the keepers of servers that earlier tests started are nobody's to reap here
    await bench.run("setsid sleep 0.2 > /dev/null 2>&1 & (sleep 0.1; exit 3) & (sh -c 'sleep 0.1 &') & sleep 0.05")
    await asyncio.sleep(0.3)
    await bench.run("true")
    assert zombies() <= before


def zombies() -> set[str]:
    """Return the children of this process that have ended and were not waited for, each with its id."""
    listing = ["ps", "-o", "stat=,pid=,args=", "--ppid", str(os.getpid())]
    children = subprocess.run(listing, capture_output=True, text=True, check=False)
    return {line for line in children.stdout.splitlines() if line.startswith("Z")}


async def test_a_flooding_leftover_costs_the_server_little(bench: Workbench) -> None:
    result = await bench.run("yes & echo done")
    assert result.exit_code == 0
    assert result.duration_ms < 2000
    before = time.process_time()
    await asyncio.sleep(0.5)
    assert time.process_time() - before < 0.25


async def test_too_much_output_is_a_limit_of_its_own(bench: Workbench) -> None:
    result = await bench.run("yes", limits=CommandLimits(output_bytes=1_000_000))
    assert (result.ending, result.reason, result.exit_code) == ("limit", Reason.OUTPUT_LIMIT, None)
    assert result.total_bytes < 100_000_000


async def test_too_much_memory_is_a_limit_of_its_own(bench: Workbench) -> None:
    hungry = f"{sys.executable} -c 'import time; x = bytearray(200 << 20); time.sleep(30304)'"
    result = await bench.run(hungry, limits=CommandLimits(memory_bytes=100 << 20))
    assert (result.ending, result.reason) == ("limit", Reason.MEMORY_LIMIT)


async def test_too_many_processes_are_a_limit_of_their_own(bench: Workbench) -> None:
    result = await bench.run("for i in $(seq 30); do sleep 30305 & done; wait", limits=CommandLimits(processes=10))
    assert (result.ending, result.reason) == ("limit", Reason.PROCESS_LIMIT)
    assert not living("sleep", "30305")


async def test_what_stays_below_its_limits_ends_as_usual(bench: Workbench) -> None:
    limits = CommandLimits(memory_bytes=1 << 30, processes=50, output_bytes=100)
    assert (await bench.run("sleep 0.3; echo ok", limits=limits)).ending == "exited"


async def test_a_detached_command_runs_on_and_can_be_ended_later(bench: Workbench) -> None:
    pieces: list[bytes] = []
    command = await bench.start("echo up; sleep 0.6; echo later; sleep 30306", timeout=0.5, on_output=pieces.append)
    await asyncio.sleep(0.2)
    command.detach()
    command.detach()
    result = await command.wait()
    assert (result.ending, result.reason, result.output) == ("detached", Reason.DETACHED, "up\n")
    clock = Stopwatch()
    while b"later" not in b"".join(pieces):
        assert clock.seconds < 5
        await asyncio.sleep(0.02)
    assert command.running
    command.cancel()
    ended = await command.ended()
    assert (ended.ending, ended.output) == ("cancelled", "up\nlater\n")
    assert not command.running
    assert await command.wait() == result
    assert not living("sleep", "30306")


async def test_a_detached_command_that_ends_by_itself_tells_its_code(bench: Workbench) -> None:
    command = await bench.start("sleep 0.2; exit 5")
    command.detach()
    assert (await command.wait()).ending == "detached"
    assert (await command.ended()).exit_code == 5


async def test_a_detached_command_has_no_limits_of_time_and_output(bench: Workbench) -> None:
    limits = CommandLimits(output_bytes=1000)
    command = await bench.start("sleep 0.1; seq 1000; sleep 0.4; exit 6", timeout=0.3, limits=limits)
    command.detach()
    assert (await command.ended()).exit_code == 6


async def test_a_detached_command_ends_with_the_session(bench: Workbench) -> None:
    command = await bench.start("sleep 30307")
    command.detach()
    await bench.shell.close()
    assert not living("sleep", "30307")


async def test_closing_ends_what_runs_within_its_bound(bench: Workbench) -> None:
    patient = CommandLimits(grace=60)
    command = await bench.start("trap '' TERM; echo deaf; while :; do sleep 30308; done", limits=patient)
    await asyncio.sleep(0.2)
    clock = Stopwatch()
    await bench.shell.close()
    assert clock.seconds < 1.5
    assert (await command.wait()).ending == "cancelled"
    assert not living("sleep", "30308")


async def test_a_stopped_process_is_ended_too(bench: Workbench) -> None:
    clock = Stopwatch()
    result = await bench.run("sleep 30309 & kill -STOP $!; kill -STOP $$", timeout=0.3)
    assert result.ending == "timed_out"
    assert clock.seconds < 3
    assert not living("sleep", "30309")


SERVER = """
import asyncio, os, sys
from pathlib import Path
sys.path[:0] = [{root!r}]
from tests.core.shell_support import Workbench
async def main():
    bench = Workbench(Path({folder!r}))
    await bench.start("trap '' TERM HUP; (sleep 30310 &); setsid sleep 30311 & env -i sleep 30312 & sleep 30313")
    await bench.run("sleep 30314 > /dev/null 2>&1 & sleep 0.1")
    print("up", flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


@pytest.mark.parametrize("kill_tree", [False, True])
async def test_ls_08_ls_12_a_server_killed_by_sigkill_leaves_nothing(tmp_path: Path, *, kill_tree: bool) -> None:
    code = SERVER.format(root=os.getcwd(), folder=str(tmp_path))
    server = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", code, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert await server.stdout.readline() == b"up\n"
    numbers = [str(number) for number in range(30310, 30315)]
    assert all(living("sleep", number) for number in numbers)
    tree = descendants(server.pid) if kill_tree else [server.pid]
    for pid in tree:
        os.kill(pid, signal.SIGKILL)
    clock = Stopwatch()
    for number in numbers:
        assert await eventually_gone("sleep", number)
    assert clock.seconds < 5
    await server.wait()


def descendants(pid: int) -> list[int]:
    """Return a process and all below it, as an editor that kills a process tree finds them."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [(int(child), int(parent)) for child, parent in map(str.split, listed.splitlines())]
    found = [pid]
    for each in found:
        found += [child for child, parent in pairs if parent == each]
    return found


async def test_a_supervisor_that_was_killed_is_replaced(bench: Workbench) -> None:
    await bench.run("true")
    first = supervisors()
    assert len(first) == 1
    os.kill(first[0], signal.SIGKILL)
    clock = Stopwatch()
    while not set(supervisors()) - set(first):
        assert clock.seconds < 5
        # The kernel takes its time to close the killed one's pipe, so the first command may still be too early.
        await bench.run("true")
    assert (await bench.run("setsid sleep 30315 > /dev/null 2>&1 & sleep 0.1")).leftovers


def supervisors() -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if GUARD.token.encode() in words:
            found.append(int(pid))
    return found


async def test_a_hostile_workspace_does_not_reach_the_supervisor(bench: Workbench, tmp_path: Path) -> None:
    """The supervisor is a Python of ours: nothing of the folder it could be started from may run in it."""
    for name in ("os.py", "signal.py", "sitecustomize.py", "usercustomize.py", "typing.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'caught')!r}, 'w').close()")
    code = (
        f"import sys; sys.path[:0] = [{os.getcwd()!r}]\n"
        "from agent_core.shell.launch import start_supervisor\n"
        "from agent_core.shell import find_bash\n"
        "import time; start_supervisor(find_bash(), 'no-such-mark'); time.sleep(0.3)"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-I", "-c", code], cwd=tmp_path, env=environment, check=True
    )
    assert not (tmp_path / "caught").exists()


async def test_a_group_whose_number_was_given_away_is_not_signalled(bench: Workbench) -> None:
    await bench.run("true")
    [stranger] = supervisors()
    long_gone = CommandProcesses("no.such.mark.", os.getpgid(stranger))
    await long_gone.end(0, lambda: True)
    assert supervisors() == [stranger]
