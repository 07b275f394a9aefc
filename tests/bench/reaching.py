"""From the start of a process to its first byte at the provider: our server with a session, and the peer's model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_PEER = """
from minisweagent.models.litellm_model import LitellmModel
options = {"model_kwargs": {"api_base": "ADDRESS"}, "cost_tracking": "ignore_errors"}
model = LitellmModel(model_name="openai/gpt-4o-mini", **options)
model.query([{"role": "user", "content": "Go."}])
"""


def seconds_to_first_byte(start: Callable[[str, Path], subprocess.Popen[bytes]]) -> float:
    """Start a process that calls the provider at an address, and return the seconds until its first byte arrives."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(90)
        begun = time.perf_counter()
        process = start(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", Path(folder))
        try:
            connection, _ = listener.accept()
            connection.settimeout(30)
            connection.recv(1)
            elapsed = time.perf_counter() - begun
            connection.close()
        finally:
            process.kill()
            process.wait()
        return elapsed


def peer(address: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the peer's model, which asks at once."""
    quiet = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(folder), "MSWEA_CONFIGURED": "true"}
    command = [sys.executable, "-P", "-c", _PEER.replace("ADDRESS", address)]
    environment = {**os.environ, **quiet, "OPENAI_API_KEY": "x"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ours(address: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start our server, open a session and ask, all in one go."""
    environment = {
        **os.environ,
        "HANDRAIL_OFFLINE": "",
        "OPENAI_API_KEY": "x",
        "HANDRAIL_STATE_DIR": str(folder / "state"),
    }
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "server"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    settings = {"model": "openai/gpt-4o-mini", "apiBase": address}
    _send(server, 1, "initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    _receive(server, 1)
    _send(server, None, "initialized", {})
    _send(server, 2, "handrail/session/new", {"cwd": folder.as_uri(), "settings": settings})
    session = _receive(server, 2)["result"]["sessionId"]
    _send(server, 3, "handrail/session/step", {"sessionId": session, "prompt": "Go."})
    return server


def _send(server: subprocess.Popen[bytes], identity: int | None, method: str, params: object) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if identity is None else {"id": identity})}
    body = json.dumps(message).encode()
    assert server.stdin is not None
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    server.stdin.flush()


def _receive(server: subprocess.Popen[bytes], identity: int) -> dict[str, dict[str, str]]:
    assert server.stdout is not None
    while True:
        length = int(server.stdout.readline().split(b":")[1])
        server.stdout.readline()
        message = json.loads(server.stdout.read(length))
        if message.get("id") == identity:
            assert isinstance(message, dict)
            return message
