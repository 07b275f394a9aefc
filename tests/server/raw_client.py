"""A small raw JSON-RPC client for protocol abuse, exit codes and signals: it sends any bytes and hides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Self

from server.lifecycle import WireServer
from server.stream import connect_socket

ROOT = Path(__file__).parents[2]
TOY = (sys.executable, "-P", "-m", "tests.server.toy_server")
SECONDS = 60.0  # how long an answer may take before a test fails (imports on a busy machine); else nothing waits for it


def frame(message: object) -> bytes:
    """Frame a JSON value."""
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class RawClient:
    """Speaks over a pair of streams. `received` holds what was read so far and is no answer that was waited for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.received: list[dict[str, Any]] = []
        self.process: asyncio.subprocess.Process | None = None
        self._next_id = 0

    @classmethod
    async def start(cls, *command: str, env: Mapping[str, str] | None = None) -> Self:
        """Start a server as a child process."""
        process = await asyncio.create_subprocess_exec(
            *(command or TOY),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=64 << 20,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "", **(env or {})},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        client = cls(process.stdout, process.stdin)
        client.process = process
        return client

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        await self.send(frame({"jsonrpc": "2.0", "method": method, "params": {} if params is None else params}))

    async def request(self, method: str, params: object = None) -> int:
        """Send a request; return its id."""
        self._next_id += 1
        message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": {} if params is None else params}
        await self.send(frame(message))
        return self._next_id

    async def read(self) -> dict[str, Any] | None:
        """Read one message; None at the end. Anything that is no frame fails the test."""
        try:
            header = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), SECONDS)
        except asyncio.IncompleteReadError as error:
            header = error.partial
        if not header:
            return None
        name, _, length = header.partition(b":")
        assert name == b"Content-Length", f"not a frame: {header[:200]!r}"
        message = json.loads(await self.reader.readexactly(int(length)))
        assert isinstance(message, dict)
        return message

    async def answer(self, identity: object) -> dict[str, Any]:
        """Read until the answer with this id (None: an error answer without id)."""
        for earlier in self.received:
            if "method" not in earlier and earlier.get("id") == identity:
                self.received.remove(earlier)
                return earlier
        while (message := await self.read()) is not None:
            if "method" not in message and message.get("id") == identity:
                return message
            self.received.append(message)
        raise AssertionError(f"the server ended without an answer to {identity!r}")

    async def ask(self, method: str, params: object = None) -> Any:
        """Send a request and give its result."""
        message = await self.answer(await self.request(method, params))
        assert "error" not in message, message
        return message["result"]

    async def fail(self, method: str, params: object = None) -> dict[str, Any]:
        """Send a request and give its error."""
        message = await self.answer(await self.request(method, params))
        assert "error" in message, message
        error = message["error"]
        assert isinstance(error, dict)
        return error

    async def initialize(self, pid: int | None = None, **experimental: object) -> dict[str, Any]:
        """Initialize; keyword arguments go to `experimental`."""
        capabilities = {"experimental": experimental} if experimental else {}
        params = {"processId": pid, "rootUri": None, "capabilities": capabilities}
        result = await self.ask("initialize", params)
        await self.notify("initialized")
        assert isinstance(result, dict)
        return result

    async def rest(self) -> list[dict[str, Any]]:
        """Read until the end."""
        while (message := await self.read()) is not None:
            self.received.append(message)
        return self.received

    async def ended(self) -> tuple[int, str]:
        """Wait for the process; give its exit code and what it wrote to standard error."""
        assert self.process is not None
        assert self.process.stderr is not None
        errors = await asyncio.wait_for(self.process.stderr.read(), SECONDS)
        code = await asyncio.wait_for(self.process.wait(), SECONDS)
        return code, errors.decode()


@contextlib.asynccontextmanager
async def loopback(server: WireServer) -> AsyncIterator[RawClient]:
    """Connect a client to a server in this process; afterwards the server must end by itself."""
    ours, theirs = socket.socketpair()
    serving = asyncio.create_task(server.serve(await connect_socket(theirs)))
    reader, writer = await asyncio.open_connection(sock=ours)
    client = RawClient(reader, writer)
    try:
        yield client
    finally:
        writer.close()
        await asyncio.wait_for(serving, SECONDS)
