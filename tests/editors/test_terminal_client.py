"""The client of the protocol: framing, answers, errors, and the death of the server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from editors.terminal.client import Client, ConnectionLost, RequestFailed, ServerGone
from editors.terminal.connection import Connection
from editors.terminal.process import SERVER_COMMAND
from server.protocol import Decision, Snapshot, StreamParams
from tests.editors.terminal_stub import Refusal, Stub, framed, snapshot


async def test_a_request_gets_the_model_of_its_answer() -> None:
    stub = Stub()
    stub.on("session/new", snapshot(3, "idle"))
    answer = await stub.client.new("file:///w")
    assert (answer.session_id, answer.revision, answer.state) == ("one", 3, "idle")
    assert stub.params("session/new") == [{"cwd": "file:///w"}]


async def test_members_that_mean_something_as_null_are_sent_and_others_left_out() -> None:
    stub = Stub()
    stub.on("session/step", snapshot(1, "querying"))
    await stub.client.step("one", max_steps=None)
    await stub.client.step("one", "do it")
    assert stub.params("session/step") == [
        {"sessionId": "one", "maxSteps": None},
        {"sessionId": "one", "prompt": "do it", "maxSteps": 1},
    ]


async def test_an_error_answer_carries_code_message_and_data() -> None:
    stub = Stub()

    def refuse(params: dict[str, Any]) -> Any:
        raise Refusal(1003, "c1 is already decided", {"status": "completed"})

    stub.on("session/decide", refuse)
    with pytest.raises(RequestFailed, match="already decided") as caught:
        await stub.client.decide("one", Decision(call_id="c1", decision="approve", digest="d"))
    assert (caught.value.code, caught.value.data) == (1003, {"status": "completed"})


async def test_notifications_reach_their_callbacks_in_order() -> None:
    stub = Stub()
    seen: list[Any] = []
    stub.client.on_update = lambda update: seen.append(update.revision)
    stub.client.on_stream = lambda piece: seen.append(piece.text)
    stub.client.on_message = seen.append
    stub.update(snapshot(1, "idle"))
    piece = StreamParams(session_id="one", step_id="s1", attempt=1, channel="text", offset=0, text="hi")
    stub.tell("handrail/session/didStream", piece.to_wire())
    stub.tell("window/showMessage", {"type": 3, "message": "hello"})
    stub.tell("$/progress", {"token": 1, "value": {}})
    assert seen == [1, "hi", "hello"]


async def test_messages_may_arrive_in_any_pieces() -> None:
    seen: list[Any] = []
    connection = Connection(lambda data: None, lambda method, params: seen.append(params))
    data = b"".join(framed({"jsonrpc": "2.0", "method": "m", "params": number}) for number in range(5))
    for at in range(len(data)):
        connection.feed(data[at : at + 1])
    connection.feed(data)
    assert seen == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello from a print\r\n\r\n",
        b"Content-Length: 2\r\n\r\n[}",
        b"Content-Length: 2\r\n\r\n[]",
        b"Content-Length: x\r\n\r\n",
        b"x" * 5000,
        b"Content-Length: 24\r\n\r\n" + b'{"jsonrpc":"2.0","id":7}',
    ],
)
async def test_bytes_that_are_no_message_lose_the_connection(garbage: bytes) -> None:
    connection = Connection(lambda data: None, lambda method, params: None)
    waiting = [asyncio.ensure_future(connection.request("m", {})) for _ in range(7)]
    await asyncio.sleep(0)
    connection.feed(garbage)
    for answer in waiting:
        with pytest.raises(ConnectionLost, match="no message of the protocol"):
            await answer


async def test_an_answer_of_another_shape_loses_the_connection_and_says_what_to_do() -> None:
    stub = Stub()
    stub.on("session/get", lambda params: {"sessionId": 5})
    with pytest.raises(ConnectionLost, match="install Handrail again"):
        await stub.client.get("one")
    with pytest.raises(ConnectionLost):
        await stub.client.get("one")


async def test_an_unknown_state_is_read_and_unknown_members_are_ignored() -> None:
    stub = Stub()
    stub.on("session/get", lambda params: {**snapshot(1, "dreaming").to_wire(), "novelty": {"a": 1}})
    assert (await stub.client.get("one")).state == "dreaming"


async def test_a_cancelled_request_is_withdrawn_and_its_late_answer_ignored() -> None:
    stub = Stub()
    waiting = asyncio.ensure_future(stub.client.wait("one", 0))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert stub.notifications == [("$/cancelRequest", {"id": 1})]
    stub.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    stub.on("session/get", snapshot(2, "idle"))
    assert (await stub.client.get("one")).revision == 2


async def test_a_request_of_the_server_is_answered_and_never_decides() -> None:
    stub = Stub()
    stub.send({"jsonrpc": "2.0", "id": "q", "method": "handrail/approve", "params": {}})
    assert stub.notifications[0][1]["error"]["code"] == -32601


SERVER = """
import json, sys
def send(message):
    body = json.dumps(message)
    sys.stdout.write(f"Content-Length: {len(body)}\\r\\n\\r\\n{body}")
    sys.stdout.flush()
print("about to work", file=sys.stderr, flush=True)
while line := sys.stdin.readline():
    length = int(line.partition(":")[2]); sys.stdin.readline()
    message = json.loads(sys.stdin.read(length))
    method = message["method"]
    if method == "exit":
        sys.exit(0)
    if method == "die":
        print("cannot go on", file=sys.stderr, flush=True)
        send({"jsonrpc": "2.0", "id": 1, "result": "before the end"})
        sys.exit(7)
    if method in ("initialize", "shutdown", "pid"):
        import os
        send({"jsonrpc": "2.0", "id": message["id"], "result": os.getpid()})
"""


async def start(tmp_path: Path, source: str = SERVER) -> Client:
    script = tmp_path / "toy.py"
    script.write_text(source)
    return await Client.start([sys.executable, str(script)])


async def test_a_server_that_dies_fails_every_request_with_code_and_log(tmp_path: Path) -> None:
    """LS-10, LS-17."""
    client = await start(tmp_path)
    first = asyncio.ensure_future(client.connection.request("answered", {}))
    waits = asyncio.ensure_future(client.wait("one", 0))
    await asyncio.sleep(0)
    client.connection.notify("die", {})
    began = time.monotonic()
    assert await first == "before the end"
    with pytest.raises(ServerGone, match="exit code 7") as caught:
        await waits
    assert time.monotonic() - began < 2
    assert caught.value.exit_code == 7
    assert caught.value.log_lines[-1] == "cannot go on"
    assert "cannot go on" in str(caught.value)
    with pytest.raises(ServerGone):
        await client.get("one")
    assert await client.close() == 7


async def test_a_killed_server_is_noticed_though_another_process_holds_its_pipes(tmp_path: Path) -> None:
    """LS-10, F19."""
    holder = "import subprocess; subprocess.Popen(['sleep', '20'], start_new_session=False)\n"
    client = await start(tmp_path, holder + SERVER)
    assert client.process is not None
    await client.connection.request("pid", {})
    waits = asyncio.ensure_future(client.wait("one", 0))
    await asyncio.sleep(0)
    os.kill(client.process.pid, 9)
    with pytest.raises(ServerGone, match="SIGKILL"):
        await asyncio.wait_for(waits, 2)
    os.killpg(client.process.pid, 9)
    assert await client.close() == -9


async def test_a_server_that_closes_its_answers_but_goes_on_is_lost_too(tmp_path: Path) -> None:
    """LS-10."""
    client = await start(tmp_path, "import os, sys, time\nos.close(1)\nsys.stdin.readline()\ntime.sleep(60)")
    with pytest.raises(ServerGone, match="while it was still running"):
        await asyncio.wait_for(client.get("one"), 3)
    assert await client.kill() == -15


async def test_close_ends_the_server_in_order(tmp_path: Path) -> None:
    client = await start(tmp_path)
    await client.initialize()
    assert await client.close() == 0


async def test_kill_ends_a_server_that_listens_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editors.terminal.process._PATIENCE", 0.1)
    deaf = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('x' * 5000, flush=True)\ntime.sleep(60)"
    client = await start(tmp_path, deaf)
    with pytest.raises(ConnectionLost):
        await client.initialize()  # it speaks, so it has come to ignore TERM
    assert await client.kill() == -9


async def test_a_server_that_cannot_be_started_is_an_oserror() -> None:
    with pytest.raises(OSError, match="nowhere"):
        await Client.start(["/nowhere/handrail"])


async def test_the_server_runs_with_a_safe_path_in_a_neutral_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F21: what lies in the folder the person works in is never imported."""
    assert (sys.executable, "-P", "-m", "server") == SERVER_COMMAND
    monkeypatch.chdir(tmp_path)
    told = tmp_path / "told"
    script = f"import os, sys; open({str(told)!r}, 'w').write(os.getcwd() + ' ' + str(os.getpgid(0) == os.getpid()))"
    client = await Client.start([sys.executable, "-P", "-c", script])
    await client.close()
    assert told.read_text() == "/ True"


async def test_a_large_message_arrives_whole() -> None:
    stub = Stub()
    body = {**snapshot(1, "idle").to_wire(), "title": "x" * 1_000_000}
    seen: list[Snapshot] = []
    stub.client.on_update = seen.append
    data = framed({"jsonrpc": "2.0", "method": "handrail/session/didUpdate", "params": body})
    for at in range(0, len(data), 65536):
        stub.client.connection.feed(data[at : at + 65536])
    assert len(seen[0].title) == 1_000_000


def test_lone_surrogates_travel_as_json() -> None:
    sent: list[bytes] = []
    Connection(sent.append, lambda method, params: None).notify("m", {"text": "\ud800"})
    assert json.loads(sent[0].partition(b"\r\n\r\n")[2])["params"] == {"text": "\ud800"}
