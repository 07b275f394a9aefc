"""A server that is killed leaves nothing, whoever kills it, however, and whatever a command did not to be known."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from server.app import create
from tests.server.conftest import ANNOUNCED, Desk, environment
from tests.server.raw_client import RawClient, loopback
from tests.server.test_process import SERVER, alive_in, no_process_left

__all__ = ["environment"]

# No mark, no session, no group, no descriptor and no parent: only its ancestors can tell where it came from.
UNKNOWN = "env -i setsid bash -c 'exec -a innocent sleep 300' > /dev/null 2>&1 &"
DEAF = "env -i setsid bash -c 'trap \"\" TERM; while :; do sleep 300; done' > /dev/null 2>&1 &"
ESCAPE = f"{UNKNOWN}\n{DEAF}\nsleep 0.2\n"
# Where there is no keeper, this would be the test run.
KILL_KEEPER = f"keeper=$(ps -o ppid= -p $PPID); [ $keeper -eq {os.getpid()} ] || kill -9 $keeper"


@pytest.fixture
async def desk(environment: Path) -> AsyncIterator[Desk]:
    client = await RawClient.start("setsid", *SERVER)  # a process group of its own, which one of the tests kills
    await client.initialize(handrail=ANNOUNCED)
    yield Desk(client, environment)
    assert client.process is not None
    if client.process.returncode is None:
        client.process.kill()
    await client.process.wait()
    end_all_in(environment / "workspace")


def end_all_in(folder: Path) -> None:
    """End what a test that failed has found."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if link.resolve() == folder:
                os.kill(int(link.parent.name), signal.SIGKILL)


async def approve(desk: Desk, command: str) -> None:
    """Approve a command that the server need not live to answer for."""
    shown = await desk.waiting(command)
    call = shown["step"]["calls"][0]
    decided = {"callId": call["callId"], "decision": "approve", "digest": call["digest"]}
    await desk.client.request("handrail/session/decide", {"sessionId": shown["sessionId"], "decisions": [decided]})


@pytest.mark.parametrize("kill", ["kill -9 $PPID", KILL_KEEPER], ids=["server", "keeper"])
async def test_a_command_that_kills_what_started_it_leaves_nothing(desk: Desk, kill: str) -> None:
    await approve(desk, f"{ESCAPE}echo $$ > ran; {kill}; sleep 301")
    assert (await desk.client.ended())[0] == -9
    assert (desk.workspace / "ran").exists()
    await no_process_left(desk.workspace)


def one(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def group(pid: int) -> None:
    os.killpg(pid, signal.SIGKILL)


def tree(pid: int) -> None:
    """Kill as editors do that ask for the children of each process first."""
    for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split():
        tree(int(child))
    with contextlib.suppress(ProcessLookupError):
        one(pid)


@pytest.mark.parametrize("kill", [one, group, tree])
async def test_an_editor_that_kills_what_it_started_leaves_nothing(desk: Desk, kill: Callable[[int], None]) -> None:
    """LS-08, LS-12; the command starts processes without an end, so that some are always missed."""
    await approve(desk, f"{ESCAPE}while :; do env -i setsid sleep 302 > /dev/null 2>&1 & sleep 0.01; done")
    async with asyncio.timeout(20):
        while len(alive_in(desk.workspace)) < 10:
            await asyncio.sleep(0.05)
    assert desk.client.process is not None
    kill(desk.client.process.pid)
    assert (await desk.client.ended())[0] == -9
    await no_process_left(desk.workspace)


async def test_what_is_not_known_ends_with_a_server_that_ends_in_order(desk: Desk) -> None:
    await approve(desk, f"{ESCAPE}echo $$ > ran")
    async with asyncio.timeout(20):
        while not (desk.workspace / "ran").exists():
            await asyncio.sleep(0.02)
    await desk.client.ask("shutdown")
    await desk.client.notify("exit")
    assert (await desk.client.ended())[0] == 0
    assert alive_in(desk.workspace) == []


async def check(desk: Desk) -> str:
    """Return what `handrail doctor` says of the keeper."""
    health = await desk.client.ask("handrail/server/health")
    (found,) = (each for each in health["checks"] if each["name"] == "keeper")
    assert found["ok"]
    return str(found["detail"])


async def test_doctor_promises_what_the_keeper_holds(desk: Desk) -> None:
    assert "whatever a command leaves behind ends with the server" in await check(desk)


async def test_doctor_promises_less_where_no_keeper_is(environment: Path) -> None:
    async with loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        assert "only what bears its mark" in await check(Desk(client, environment))
