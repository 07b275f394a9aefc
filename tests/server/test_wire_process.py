"""The wire in a process of its own: exit codes, signals, descriptors, and the client that goes away."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.raw_client import ROOT, TOY, RawClient, frame

STEP = "handrail/session/step"
WAIT = "handrail/session/wait"


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    started = await RawClient.start()
    yield started
    assert started.process is not None
    if started.process.returncode is None:
        started.process.kill()
        await started.process.wait()


async def test_shutdown_and_exit_give_code_0_and_every_request_its_answer(client: RawClient) -> None:
    """LS-09 a."""
    await client.initialize()
    waiting = await client.request(WAIT, {"sessionId": "s", "after": 1})
    await client.send(frame({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"}))
    assert (await client.answer("bye"))["result"] is None
    assert (await client.answer(waiting))["error"]["code"] == -32800
    await client.send(frame({"jsonrpc": "2.0", "method": "exit"}))
    assert (await client.ended())[0] == 0


async def test_exit_sent_right_behind_shutdown_still_lets_the_work_end(client: RawClient) -> None:
    await client.initialize()
    await client.send(
        frame({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"}) + frame({"jsonrpc": "2.0", "method": "exit"})
    )
    client.writer.close()
    assert (await client.answer("bye"))["result"] is None
    assert (await client.ended())[0] == 0


async def test_what_came_before_the_end_of_input_still_counts(client: RawClient) -> None:
    await client.initialize()
    step = {"jsonrpc": "2.0", "method": STEP, "params": {"sessionId": "s", "prompt": "block"}}
    messages = b"".join(frame({**step, "id": f"step {number}", "params": {"sessionId": "s"}}) for number in range(40))
    shutdown = frame({"jsonrpc": "2.0", "id": "bye", "method": "shutdown"})
    messages = frame({**step, "id": "block"}) + messages + shutdown + frame({"jsonrpc": "2.0", "method": "exit"})
    await client.send(messages)
    client.writer.close()
    assert len(await client.rest()) == 42
    assert (await client.ended())[0] == 0


@pytest.mark.parametrize("initialized", [True, False])
async def test_exit_alone_gives_code_1(client: RawClient, initialized: bool) -> None:
    """LS-09 b."""
    if initialized:
        await client.initialize()
    await client.notify("exit")
    assert (await client.ended())[0] == 1


async def test_the_end_of_input_ends_the_server_within_2_seconds(client: RawClient) -> None:
    """LS-09 c, with a handler that runs and work that does not end."""
    await client.initialize()
    await client.request(WAIT, {"sessionId": "s", "after": 1})
    started = time.monotonic()
    client.writer.close()
    code, errors = await client.ended()
    assert code == 1
    assert time.monotonic() - started < 2
    assert "Traceback" not in errors


async def test_work_that_does_not_end_is_left_after_its_time() -> None:
    client = await RawClient.start(env={"TOY_STOP": "60"})
    await client.initialize()
    started = time.monotonic()
    assert await client.ask("shutdown") is None
    assert 1.4 < time.monotonic() - started < 2
    await client.notify("exit")
    code, errors = await client.ended()
    assert code == 0
    assert "did not end within" in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_end_the_server_with_their_code(client: RawClient, number: signal.Signals) -> None:
    await client.initialize()
    await client.request(WAIT, {"sessionId": "s", "after": 1})
    assert client.process is not None
    client.process.send_signal(number)
    code, errors = await client.ended()
    assert code == 128 + number
    assert number.name in errors
    assert "Traceback" not in errors


async def test_nothing_but_messages_reaches_the_client(client: RawClient) -> None:
    """LS-01: what the server or its children print goes to standard error; a child gets no protocol bytes to eat."""
    await client.initialize()
    params = {"command": "ls", "cwd": "file:///w"}
    assert (await client.ask("handrail/command/analyze", params))["display"] == "ls"
    assert (await client.ask(STEP, {"sessionId": "s"}))["sessionId"] == "s"
    await client.notify("exit")
    assert await client.rest() == []
    _, errors = await client.ended()
    assert "a print\n" in errors
    assert "a child\n" in errors
    assert "cat:" not in errors, "its input is not empty"


async def test_the_server_ends_when_the_process_that_the_client_named_ends(client: RawClient) -> None:
    """LS-08: the streams stay open, as if another process had inherited them."""
    editor = await asyncio.create_subprocess_exec("sleep", "60")
    await client.initialize(editor.pid)
    await client.ask(STEP, {"sessionId": "s"})
    editor.kill()
    code, errors = await client.ended()
    assert code == 1
    assert f"process {editor.pid} is gone" in errors
    await editor.wait()


async def test_a_client_in_another_container_is_not_taken_for_a_dead_one(client: RawClient) -> None:
    await client.initialize(2**22 - 3)
    assert (await client.ask(STEP, {"sessionId": "s"}))["sessionId"] == "s"


async def test_a_client_that_leaves_during_the_start_leaves_no_server(client: RawClient) -> None:
    """LS-18."""
    await client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    client.writer.close()
    assert (await client.ended())[0] == 1


async def test_a_lost_frame_closes_the_connection_with_a_sentence(client: RawClient) -> None:
    await client.initialize()
    await client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await client.answer(None)
    assert answer["error"]["code"] == -32700
    code, errors = await client.ended()
    assert code == 1
    assert "no header" in errors
    assert "no header" in answer["error"]["message"]


async def test_a_message_that_is_too_large_is_refused_at_once_and_the_next_is_served(client: RawClient) -> None:
    await client.initialize()
    await client.send(b"Content-Length: %d\r\n\r\n" % ((64 << 20) + 1))
    assert (await client.answer(None))["error"]["code"] == -32600
    piece = b" " * (1 << 20)
    for _ in range(64):
        await client.send(piece)
    await client.send(b" ")
    assert (await client.ask(STEP, {"sessionId": "s"}))["sessionId"] == "s"


async def test_large_messages_go_both_ways(client: RawClient) -> None:
    await client.initialize()
    text = "ö" * (5 << 20)
    params = {"command": text, "cwd": "file:///w"}
    assert (await client.ask("handrail/command/analyze", params))["display"] == text


def test_a_client_that_reads_no_log_and_no_answers_is_served_and_left() -> None:
    """F1, F16: neither stream is read, and the server still ends in time."""
    environment = {**_environment(), "TOY_FLOOD": "200"}
    process = subprocess.Popen(
        TOY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdin is not None
    initialize: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
    data = frame({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize})
    for number in range(1, 20):
        data += frame({"jsonrpc": "2.0", "id": number, "method": "handrail/server/health"})
        data += frame({"jsonrpc": "2.0", "method": "handrail/workspace/didChangeTrust", "params": {}}) * 100
    process.stdin.write(data)
    process.stdin.flush()
    time.sleep(1)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    assert time.monotonic() - started < 2
    process.communicate()


async def test_plain_files_in_place_of_pipes_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(frame({}))
    with (tmp_path / "in").open("rb") as incoming, (tmp_path / "out").open("wb") as outgoing:
        process = await asyncio.create_subprocess_exec(
            *TOY, stdin=incoming, stdout=outgoing, stderr=asyncio.subprocess.PIPE, cwd=ROOT, env=_environment()
        )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"must be pipes" in errors
    assert b"Traceback" not in errors
    assert (tmp_path / "out").read_bytes() == b""


async def test_tcp_serves_one_client_on_loopback() -> None:
    process = await asyncio.create_subprocess_exec(
        *TOY, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, env={**_environment(), "TOY_PORT": "0"}
    )
    assert process.stderr is not None
    line = (await asyncio.wait_for(process.stderr.readuntil(b"\n"), 10)).decode()
    match = re.search(r"127\.0\.0\.1:(\d+)", line)
    assert match is not None
    client = RawClient(*await asyncio.open_connection("127.0.0.1", int(match[1])))
    await client.initialize()
    assert await client.ask("shutdown") is None
    await client.notify("exit")
    assert await client.rest() == []
    assert await asyncio.wait_for(process.wait(), 10) == 0
    client.writer.close()


async def test_a_signal_before_any_client_ends_the_server() -> None:
    process = await asyncio.create_subprocess_exec(
        *TOY, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL, env={**_environment(), "TOY_PORT": "0"}
    )
    assert process.stderr is not None
    await asyncio.wait_for(process.stderr.readuntil(b"listening"), 10)
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 10) == 128 + signal.SIGTERM


async def test_nothing_heavy_is_imported_before_initialize_is_answered() -> None:
    """PF-03."""
    program = (
        "import sys; import server.lifecycle, server.logs;"
        "heavy = {'litellm', 'openai', 'tree_sitter', 'jinja2', 'rich', 'prompt_toolkit', 'httpx', 'sqlite3'};"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", program, stdout=asyncio.subprocess.PIPE, env=_environment()
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert out.strip() == b""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
