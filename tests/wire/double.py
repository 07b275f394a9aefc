"""A provider's double: an HTTP server on loopback that answers from a script and remembers what it was asked.

Invariants: bodies are made by a JSON encoder; each request takes the next answer of the script, in order of arrival;
the log tells for every request whether the client closed the connection before the answer was over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: a JSON value, or text that is sent as it is."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay: float = 0.0  # seconds before the answer begins


@dataclass(frozen=True, slots=True)
class EventStream:
    """Server-sent events. `cut` ends the connection after them without the end of the body; `pause` is in seconds."""

    events: Sequence[Any]
    cut: bool = False
    pause: float = 0.0
    named: bool = False  # send each event's `type` as its event name


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the client goes away."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed without an answer."""


Scripted = Answer | EventStream | Hang | Drop


@dataclass(slots=True)
class Received:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any
    abandoned: asyncio.Event = field(default_factory=asyncio.Event)  # set when the client closed early


class ProviderDouble:
    """The server; use it with `async with`, and extend `script` at any time."""

    def __init__(self, script: Iterable[Scripted] = (), *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.script: list[Scripted] = list(script)
        self.requests: list[Received] = []
        self.arrived = asyncio.Event()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 26, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._connections:
            writer.close()

    @property
    def url(self) -> str:
        """The address without a path, as Anthropic's `apiBase` is written; OpenAI's has `/v1` after it."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Any]:
        """The bodies of all requests, in order of arrival."""
        return [request.body for request in self.requests]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await self._serve(reader, writer):
                pass
        self._connections.discard(writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        received = Received(head[0].split(" ")[1], headers, json.loads(content) if content else None)
        self.requests.append(received)
        self.arrived.set()
        answer = self.script.pop(0) if self.script else Answer({"error": {"message": "the script is over"}}, 599)
        match answer:
            case Answer():
                await asyncio.sleep(answer.delay)
                await _send_whole(writer, answer)
                return True
            case EventStream():
                return await _send_events(reader, writer, answer, received)
            case Hang():
                await reader.read(1)
                received.abandoned.set()
                return False
            case Drop():
                return False


async def _send_whole(writer: asyncio.StreamWriter, answer: Answer) -> None:
    content = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
    headers = {"content-type": answer.content_type, "content-length": str(len(content)), **answer.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} X\r\n{lines}\r\n".encode() + content)
    await writer.drain()


async def _send_events(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: EventStream,
    received: Received,
) -> bool:
    writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    gone = asyncio.ensure_future(reader.read(1)) if answer.pause else None
    for event in answer.events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if answer.named else ""
        block = f"{name}data: {data}\n\n".encode()
        writer.write(b"%x\r\n%b\r\n" % (len(block), block))
        await writer.drain()
        if gone is not None:
            await asyncio.wait({gone}, timeout=answer.pause)
            if gone.done():
                received.abandoned.set()
                return False
    if gone is not None:
        gone.cancel()
    if answer.cut:
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True
