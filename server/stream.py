"""The byte stream between a client and the server: descriptors, framing, order and back-pressure; knows no JSON.

Invariants: after `guard_descriptors` nothing but frames can reach the client, whatever prints (R14). Nothing here
blocks the event loop, also not a client that does not read. Frames leave in the order they were put in; one that is
superseded or droppable may be left out while the client does not keep up, any other never is. A frame is at most
64 MiB; bytes that are not a frame end the stream, since what follows could be anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import sys
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import cast

MAX_BODY = 64 << 20
MAX_HEADER = 16 << 10
_READ_AHEAD = 4 << 20  # smaller makes a body of 10 MiB four times slower
_PIPE_BUFFER = 1 << 20
_UNSENT = 256 << 10  # bytes given to the system before frames wait here, where they can be superseded
_DROPPABLE = 1 << 20  # bytes of droppable frames that wait at most
_BACKLOG = 8 << 20  # bytes of waiting frames beyond which no new requests should be read
_F_SETPIPE_SZ = 1031
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*(.*?)[ \t]*")

log = logging.getLogger(__name__)


class FramingLost(Exception):
    """Bytes that are not a frame; the message says which. Nothing after them can be trusted."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A frame of more than `MAX_BODY`; its `length` bytes are to be skipped by `skip`."""

    length: int


def guard_descriptors() -> tuple[int, int]:
    """Take the descriptors of standard input and output for the protocol alone; return (input, output).

    From now on descriptor 0 is empty, descriptor 1 is standard error, and children inherit neither of the two returned.
    """
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return incoming, outgoing


async def read_frame(reader: asyncio.StreamReader) -> bytes | Oversized | None:
    """Read the next frame's body; None at the end of input, also in the middle of a frame.

    Raises:
        FramingLost: the bytes are not a header, or a header without a usable length.

    """
    try:
        length = await _read_header(reader)
        if length > MAX_BODY:
            return Oversized(length)
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            log.warning("the input ended in the middle of a message")
        return None
    except ConnectionError as error:
        log.warning("the input was lost: %s", error)
        return None
    except asyncio.LimitOverrunError:
        raise FramingLost("a header line without an end") from None


async def skip(reader: asyncio.StreamReader, oversized: Oversized) -> None:
    """Read and forget the body of an oversized frame."""
    left = oversized.length
    while left and (piece := await reader.read(min(left, 1 << 16))):
        left -= len(piece)


async def _read_header(reader: asyncio.StreamReader) -> int:
    length: int | None = None
    size = 0
    while True:
        line = await reader.readuntil(b"\n")
        size += len(line)
        if size > MAX_HEADER:
            raise FramingLost("a header of more than 16 KiB")
        line = line.rstrip(b"\r\n")
        if line:
            length = _length_in(line, length)
        elif length is not None:
            return length
        elif size > len(line) + 2:
            raise FramingLost("a header without Content-Length")


def _length_in(line: bytes, known: int | None) -> int | None:
    """Give the length that this header line or an earlier one told."""
    match = _HEADER.fullmatch(line)
    if match is None:
        raise FramingLost(f"a line that is no header: {line[:60]!r}")
    name, value = match.groups()
    if name.lower() != b"content-length":
        return known
    if not value.isdigit() or len(value) > 18 or known not in (None, int(value)):
        raise FramingLost(f"an unusable Content-Length: {line[:60]!r}")
    return int(value)


class Outbox(asyncio.BaseProtocol):
    """The frames on their way to the client. `lost` is done once the client is gone."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._paused = False
        self._waiting: dict[Hashable, bytes] = {}  # a superseding frame takes its key to the end
        self._waiting_bytes = 0
        self._droppable: deque[int] = deque()  # keys of waiting frames that may be dropped, oldest first
        self._droppable_bytes = 0
        self._next_key = 0
        self._room = asyncio.Event()
        self._room.set()
        self._quiet = asyncio.Event()  # nothing waits, and the system takes more
        self._quiet.set()

    def put(self, body: bytes, *, supersedes: Hashable | None = None, droppable: bool = False) -> None:
        """Send a body, now or when the client has read what came before.

        While it waits, a later body with an equal `supersedes` replaces it, and a `droppable` one may be left out.
        """
        if self.lost.done():
            return
        frame = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        if self._transport is not None and not self._paused:
            self._transport.write(frame)
            return
        if supersedes is not None:
            self._forget(("supersedes", supersedes))
            self._wait(("supersedes", supersedes), frame)
            return
        self._next_key += 1
        self._wait(self._next_key, frame)
        if droppable:
            self._droppable.append(self._next_key)
            self._droppable_bytes += len(frame)
            while self._droppable_bytes > _DROPPABLE:
                self._droppable_bytes -= self._forget(self._droppable.popleft())

    @property
    def backlog(self) -> int:
        """Bytes that wait here, beyond those already given to the system."""
        return self._waiting_bytes

    async def room(self) -> None:
        """Return when so little waits that it is fair to take new requests, or the client is gone."""
        await self._room.wait()

    async def finish(self, timeout: float) -> None:
        """Give the client at most `timeout` seconds to read what waits, then close."""
        if self._transport is None:
            return
        self._transport.set_write_buffer_limits(high=0)  # from here on, not paused means that all is written
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), timeout)
        if self._quiet.is_set():
            self._transport.close()
        else:
            log.warning("the client did not read the last %d bytes", self._waiting_bytes)
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to send."""
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=_UNSENT)
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what waits; the client is gone."""
        if not self.lost.done():
            self.lost.set_result(None)
        self._waiting.clear()
        self._droppable.clear()
        self._waiting_bytes = self._droppable_bytes = 0
        self._room.set()
        self._quiet.set()

    def pause_writing(self) -> None:
        """Let frames wait here."""
        self._paused = True
        self._quiet.clear()

    def resume_writing(self) -> None:
        """Send what waits."""
        self._paused = False
        self._pump()

    def _wait(self, key: Hashable, frame: bytes) -> None:
        self._waiting[key] = frame
        self._waiting_bytes += len(frame)
        self._quiet.clear()
        if self._waiting_bytes > _BACKLOG:
            self._room.clear()

    def _forget(self, key: Hashable) -> int:
        size = len(self._waiting.pop(key, b""))
        self._waiting_bytes -= size
        return size

    def _pump(self) -> None:
        while self._waiting and not self._paused and self._transport is not None:
            key = next(iter(self._waiting))
            frame = self._waiting[key]
            size = self._forget(key)
            if self._droppable and self._droppable[0] == key:
                self._droppable.popleft()
                self._droppable_bytes -= size
            self._transport.write(frame)
        if self._waiting_bytes <= _BACKLOG // 2:
            self._room.set()
        if not self._waiting and not self._paused:
            self._quiet.set()


class _Duplex(Outbox):
    """An outbox whose transport also brings what the client sends."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self._reader = reader

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reader.set_transport(transport)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def eof_received(self) -> bool:
        self._reader.feed_eof()
        return True  # answers may still go out

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.feed_eof()
        super().connection_lost(exc)


@dataclass(frozen=True, slots=True)
class Connection:
    """Both directions to one client."""

    reader: asyncio.StreamReader
    outbox: Outbox


async def connect_pipes(incoming: int, outgoing: int) -> Connection:
    """Use two descriptors (pipes, sockets or terminals), which belong to the connection from now on.

    Raises:
        OSError, ValueError: a descriptor is a plain file or otherwise cannot be waited for.

    """
    loop = asyncio.get_running_loop()
    for descriptor in (incoming, outgoing):
        _enlarge_pipe(descriptor)
    reader = asyncio.StreamReader(limit=_READ_AHEAD)
    outbox = Outbox()
    await loop.connect_write_pipe(lambda: outbox, os.fdopen(outgoing, "wb", 0))
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", 0))
    return Connection(reader, outbox)


async def connect_socket(sock: socket.socket) -> Connection:
    """Use a connected socket, which belongs to the connection from now on."""
    reader = asyncio.StreamReader(limit=_READ_AHEAD)
    outbox = _Duplex(reader)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: cast("asyncio.Protocol", outbox), sock)
    return Connection(reader, outbox)


async def accept_one(port: int, on_listening: Callable[[int], None]) -> Connection:
    """Listen on loopback (port 0: any free one; told to `on_listening`) for one client; later ones are refused."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.setblocking(False)
        on_listening(listener.getsockname()[1])
        sock, _ = await asyncio.get_running_loop().sock_accept(listener)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return await connect_socket(sock)


def _enlarge_pipe(descriptor: int) -> None:
    """Let a pipe hold more, which saves wake-ups for large messages; what is no pipe stays as it is."""
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BUFFER)
        except OSError:
            log.debug("descriptor %d keeps its buffer", descriptor)
