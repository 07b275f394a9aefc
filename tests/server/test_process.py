"""The whole server as a process of its own: what dies with it, what survives it, and what it never runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import RawClient, frame

SERVER = (sys.executable, "-P", "-m", "server")
SLEEPER = "echo $$ > pid; setsid sleep 300 & sleep 301"


def alive_in(folder: Path) -> list[str]:
    """Return the command lines of all living processes whose working folder is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cwd").resolve() == folder and (entry / "stat").read_text().split(")")[1].split()[0] != "Z":
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


async def no_process_left(folder: Path, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while left := alive_in(folder):
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.05)


@pytest.fixture
async def desk(environment: Path) -> AsyncIterator[Desk]:
    client = await RawClient.start(*SERVER)
    await client.initialize(handrail=ANNOUNCED)
    yield Desk(client, environment)
    assert client.process is not None
    if client.process.returncode is None:
        client.process.kill()
    await client.process.wait()


async def start_sleeper(desk: Desk) -> str:
    """Approve a command that sleeps and leaves a child of its own; return the session's id once it runs."""
    shown = await desk.waiting(SLEEPER)
    call = shown["step"]["calls"][0]
    decided = {"callId": call["callId"], "decision": "approve", "digest": call["digest"]}
    await desk.client.ask("handrail/session/decide", {"sessionId": shown["sessionId"], "decisions": [decided]})
    async with asyncio.timeout(10):
        while not (desk.workspace / "pid").exists() or len(alive_in(desk.workspace)) < 3:
            await asyncio.sleep(0.02)
    return str(shown["sessionId"])


async def load_again(desk: Desk, session_id: str) -> dict[str, object]:
    client = await RawClient.start(*SERVER)
    await client.initialize(handrail=ANNOUNCED)
    loaded = await client.ask("handrail/session/load", {"sessionId": session_id})
    await client.ask("shutdown")
    await client.notify("exit")
    assert (await client.ended())[0] == 0
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("how", ["shutdown", "end of input", "SIGTERM", "SIGKILL"])
async def test_ls_07_ls_12_no_command_outlives_the_server_and_the_session_loads(desk: Desk, how: str) -> None:
    session_id = await start_sleeper(desk)
    process = desk.client.process
    assert process is not None
    started = time.monotonic()
    if how == "shutdown":
        await desk.client.ask("shutdown")
        assert alive_in(desk.workspace) == [], "shutdown is answered after the command is dead"
        await desk.client.notify("exit")
    elif how == "end of input":
        desk.client.writer.close()
    else:
        process.send_signal(signal.Signals[how])
    code, _ = await desk.client.ended()
    assert code == {"shutdown": 0, "end of input": 1, "SIGTERM": 128 + 15, "SIGKILL": -9}[how]
    assert time.monotonic() - started < 3
    await no_process_left(desk.workspace)
    loaded = await load_again(desk, session_id)
    assert (loaded["state"], loaded["stopReason"]) == ("idle", "interrupted")


async def test_ls_08_the_server_and_its_commands_end_when_the_client_is_killed(environment: Path) -> None:
    holder = await asyncio.create_subprocess_exec("sleep", "300")
    client = await RawClient.start(*SERVER)
    await client.initialize(holder.pid, handrail=ANNOUNCED)
    desk = Desk(client, environment)
    await start_sleeper(desk)
    holder.kill()
    await holder.wait()
    code, _ = await client.ended()
    assert code == 1
    await no_process_left(desk.workspace)


async def test_f21_a_workspace_that_poses_as_us_is_never_imported(environment: Path) -> None:
    workspace = environment / "workspace"
    workspace.mkdir()
    trap = "import pathlib; pathlib.Path(__file__).with_name('SPRUNG').touch()\n"
    for name in ("server/__init__.py", "agent_core/__init__.py", "litellm.py", "sitecustomize.py", "usercustomize.py"):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(trap)
    (workspace / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:1/\nLITELLM_MODE=DEV\n")
    process = await asyncio.create_subprocess_exec(
        *SERVER,
        cwd=workspace,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = RawClient(process.stdout, process.stdin)
    client.process = process
    await client.initialize(handrail=ANNOUNCED)
    desk = Desk(client, environment)
    await desk.decide(await desk.waiting("true"))
    await client.ask("shutdown")
    await client.notify("exit")
    assert (await client.ended())[0] == 0
    assert list(workspace.rglob("SPRUNG")) == []


async def test_pf_03_litellm_and_the_core_are_not_imported_when_initialize_is_answered(environment: Path) -> None:
    probe = (
        "import sys, server.app, server.lifecycle as life\n"
        "server_ = server.app.create('test')\n"
        "told = [name for name in ('litellm', 'agent_core.types', 'jinja2', 'tree_sitter', 'rich', 'sqlite3')"
        " if name in sys.modules]\n"
        "print(told)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", probe, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.decode().strip() == "[]"


async def test_ls_01_what_is_printed_never_reaches_the_protocol(environment: Path) -> None:
    script = (
        "import os, sys\n"
        "from server.app import create\n"
        "from server.lifecycle import leave\n"
        "import server.app\n"
        "server_ = create('test')\n"
        "initialize = server_.feature('workspace/didChangeConfiguration')\n"
        "@initialize\n"
        "def noisy(params):\n"
        "    print('a stray line'); os.system('echo from a child'); sys.stdout.flush()\n"
        "leave(server_.run_stdio())\n"
    )
    client = await RawClient.start(sys.executable, "-P", "-c", script)
    await client.initialize(handrail=ANNOUNCED)
    await client.notify("workspace/didChangeConfiguration", {"settings": None})
    await client.send(frame({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"}))
    await client.answer("bye")
    await client.notify("exit")
    code, errors = await client.ended()
    assert code == 0
    assert "a stray line" in errors
    assert "from a child" in errors


async def test_pf_06_one_session_waits_for_a_person_while_another_works(desk: Desk) -> None:
    await desk.waiting("touch a")
    other = await desk.decide(await desk.waiting("touch b"))
    assert other["stopReason"] == "end_turn"
    assert [each.name for each in desk.workspace.iterdir()] == ["b"]


async def test_pf_01_the_server_answers_while_a_command_runs(desk: Desk) -> None:
    shown = await desk.waiting("sleep 1")
    call = shown["step"]["calls"][0]
    decided = {"callId": call["callId"], "decision": "approve", "digest": call["digest"]}
    await desk.client.ask("handrail/session/decide", {"sessionId": shown["sessionId"], "decisions": [decided]})
    slowest = 0.0
    for _ in range(20):
        asked = time.monotonic()
        await desk.get(shown)
        slowest = max(slowest, time.monotonic() - asked)
        await asyncio.sleep(0.02)
    assert slowest < 1


async def test_provider_keys_reach_no_command(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-01."""
    secret = "sk-test-0123456789abcdefghij"
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GH_TOKEN"):
        monkeypatch.setenv(name, secret)
    client = await RawClient.start(*SERVER)
    await client.initialize(handrail=ANNOUNCED)
    desk = Desk(client, environment)
    ended = await desk.decide(await desk.waiting("env; tr '\\0' '\\n' < /proc/$PPID/environ"))
    page = await client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    output = page["steps"][0]["calls"][0]["result"]["outputTail"]
    assert "PATH=" in output
    assert "HOME=" in output
    assert secret not in output
    await client.ask("shutdown")
    await client.notify("exit")
    await client.ended()
    kept = b"".join(path.read_bytes() for path in (environment / "state").rglob("*") if path.is_file())
    assert secret.encode() not in kept


async def test_resuming_over_a_kill_in_the_middle_of_an_approval(desk: Desk) -> None:
    shown = await desk.waiting("echo once >> log")
    assert desk.client.process is not None
    os.kill(desk.client.process.pid, signal.SIGKILL)
    await desk.client.ended()
    client = await RawClient.start(*SERVER)
    await client.initialize(handrail=ANNOUNCED)
    again = Desk(client, desk.folder)
    loaded = await client.ask("handrail/session/load", {"sessionId": shown["sessionId"]})
    assert loaded["pending"] == shown["pending"]
    assert loaded["step"]["calls"][0]["digest"] == shown["step"]["calls"][0]["digest"]
    ended = await again.decide(loaded)
    assert ended["stopReason"] == "end_turn"
    assert (desk.workspace / "log").read_text() == "once\n"
    await client.ask("shutdown")
    await client.notify("exit")
    assert (await client.ended())[0] == 0


async def test_a_batch_of_calls_over_the_wire_is_answered_in_order(desk: Desk) -> None:
    calls = [bash("A", "echo a"), bash("B", "exit 3")]
    ended = await desk.decide(await desk.step(await desk.new(chat_body(None, calls), chat_body("Done.")), "Go."))
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    assert [call["result"].get("exitCode") for call in page["steps"][0]["calls"]] == [0, 3]
