"""The life of a server process: one connection, signals, the client's process, and an end that always comes.

Invariants: whatever ends the server, `on_stop` runs once, outside of any handler, for at most 1.5 s, and the process
ends within 2 s. Exit codes: 0 after `shutdown` and `exit`; 1 after `exit` alone, the end of input, or the end of the
client's process; 128 + n after signal n.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from pygls.exceptions import JsonRpcException, PyglsError
from pygls.lsp.server import LanguageServer

from server.protocol import METHODS, Announcement, ErrorCode, Wire
from server.stream import (
    Connection,
    FramingLost,
    Oversized,
    accept_one,
    connect_pipes,
    guard_descriptors,
    read_frame,
    skip,
)
from server.wire import Message, WireError, WireProtocol

STOP_SECONDS = 1.5
_GRACE_SECONDS = 0.1  # for messages read before the end of input, and for handlers to be cancelled
_FLUSH_SECONDS = 0.2
_START_SECONDS = 1.0
_READ_AHEAD_MESSAGES = 64
_READ_AHEAD_BYTES = 1 << 20
_PARENT_POLL_SECONDS = 1.0

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


class WireServer(LanguageServer):
    """A language server with our wire. Register handlers, then `leave(server.run_stdio())`; override `on_stop`.

    `client` is what the client announced in `initialize`, None if it does not know Handrail. `keeper` is the process
    that keeps this one, if there is one: the server ends with it.
    """

    protocol: WireProtocol

    def __init__(self, name: str, version: str, *, approvals: bool = True) -> None:
        logging.getLogger("pygls").setLevel(logging.WARNING)  # below that it logs whole params
        super().__init__(name, version, protocol_cls=WireProtocol)
        self.announcement = Announcement(approvals=approvals)
        self.client: Announcement | None = None
        self.keeper: int | None = None
        self._over: asyncio.Future[int] | None = None
        self._stopping: asyncio.Future[None] | None = None
        self._watched: list[Callable[[], object]] = []  # what ends the watch of the client's process

    async def on_stop(self) -> None:
        """End the work and save what is to be saved; cancelled after 1.5 s. For the application to override."""

    def method(self, name: str) -> Callable[[F], F]:
        """Register the handler of one of our methods: `(params) -> result`, async or not, bound or not.

        A handler refuses by raising `WireError`. For the methods of LSP itself use `feature`.

        Raises:
            KeyError: `METHODS` has no such method from client to server.

        """
        if METHODS[name].direction != "client_to_server":
            raise KeyError(name)

        def register(handler: F) -> F:
            self.protocol.fm.features[name] = handler  # `feature` cannot take bound methods
            return handler

        return register

    def tell(self, method: str, params: Wire) -> None:
        """Send one of our notifications; see `WireProtocol.notify` for what may be left out."""
        self.protocol.notify(method, params)

    def run_stdio(self) -> int:
        """Serve the client at standard input and output until the end; return the exit code."""
        incoming, outgoing = guard_descriptors()
        return _run(self._main(lambda: connect_pipes(incoming, outgoing)))

    def run_tcp(self, port: int = 0) -> int:
        """Serve one client on loopback, for debugging; return the exit code. The port is logged."""
        return _run(self._main(lambda: accept_one(port, lambda at: log.warning("listening on 127.0.0.1:%d", at))))

    async def serve(self, connection: Connection) -> int:
        """Serve a client that is connected until the end; return the exit code."""
        self._over = asyncio.get_running_loop().create_future()
        outbox = connection.outbox
        self.protocol.sink = outbox
        self.watch_parent(self.keeper)
        inbox = _Inbox()
        reading = asyncio.create_task(self._read(connection, inbox), name="read")
        working = asyncio.create_task(self._work(inbox, connection), name="work")
        try:
            await _first_of(self._over, reading, outbox.lost)
            if reading.done():  # what was read before the end of input still counts, above all `exit`
                await _first_of(self._over, working, outbox.lost, timeout=_GRACE_SECONDS)
            reading.cancel()
            working.cancel()
            await self.stop()
        finally:
            await self._settle(reading, working)
            await outbox.finish(_FLUSH_SECONDS)
        if self._over.done():
            return self._over.result()
        return 0 if self.protocol.shutdown_requested else 1

    def end(self, code: int) -> None:
        """Leave with this exit code; the first one counts."""
        if self._over is not None and not self._over.done():
            self._over.set_result(code)

    async def stop(self) -> None:
        """Run `on_stop` once, and return when it is over or its time is."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop_in_time())
        await asyncio.shield(self._stopping)

    def watch_parent(self, pid: int | None) -> None:
        """End when that process is gone. One that is not seen from here (another container) cannot be watched."""
        if pid is None or pid <= 0:
            return
        try:
            self._watch_by_descriptor(pid)
        except ProcessLookupError:
            log.warning("the client's process %d is not seen from here; only the end of input ends the server", pid)
        except (AttributeError, OSError):
            polling = asyncio.create_task(self._watch_by_polling(pid), name="parent")
            self._watched.append(polling.cancel)

    def report_server_error(self, error: Exception, source: type[PyglsError] | type[JsonRpcException]) -> None:
        """Log only: a message to the client from here is itself an error once the client is gone."""
        log.error("%s: %s", source.__name__, error)

    async def _main(self, connect: Callable[[], Awaitable[Connection]]) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled, number)
        try:
            connection = await connect()
        except (OSError, ValueError) as error:
            log.error("cannot talk to a client: %s; standard input and output must be pipes, as an editor makes", error)
            return 1
        return await self.serve(connection)

    def _signalled(self, number: int) -> None:
        log.warning("ended by %s", signal.Signals(number).name)
        if self._over is None:
            leave(128 + number)  # no client yet, so nothing to end
        self.end(128 + number)

    async def _read(self, connection: Connection, inbox: _Inbox) -> None:
        try:
            while (frame := await read_frame(connection.reader)) is not None:
                if isinstance(frame, Oversized):
                    told = f"a message of {frame.length} bytes; at most 64 MiB are taken"
                    self.protocol.refuse(None, WireError(ErrorCode.INVALID_REQUEST, told))
                    await skip(connection.reader, frame)
                elif (message := self.protocol.parse(frame)) is not None:
                    await inbox.put(message, len(frame))
        except FramingLost as lost:
            log.error("the connection is closed: %s", lost)
            told = f"the connection is closed: {lost}"
            self.protocol.refuse(None, WireError(ErrorCode.PARSE_ERROR, told))
        finally:
            inbox.close()

    async def _work(self, inbox: _Inbox, connection: Connection) -> None:
        while (message := await inbox.get()) is not None:
            await connection.outbox.room()
            self.protocol.handle(message)
            await asyncio.sleep(0)  # its handler starts before that of the next message

    async def _stop_in_time(self) -> None:
        work = asyncio.ensure_future(self.on_stop())
        done, late = await asyncio.wait({work}, timeout=STOP_SECONDS)
        if late:
            log.error("the work did not end within %.1f s and is left", STOP_SECONDS)
            work.cancel()
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("the work did not end well", exc_info=error)

    async def _settle(self, *tasks: asyncio.Task[None]) -> None:
        """Cancel what still runs, and let what it answers go out."""
        for unwatch in self._watched:
            unwatch()
        self._watched.clear()
        running = [*tasks, *self.protocol.running()]
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_GRACE_SECONDS)
        await asyncio.sleep(0)

    def _watch_by_descriptor(self, pid: int) -> None:
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(pid)
        loop.add_reader(descriptor, self._orphaned, pid)
        self._watched += [lambda: loop.remove_reader(descriptor), lambda: os.close(descriptor)]

    async def _watch_by_polling(self, pid: int) -> None:
        while _alive(pid):  # noqa: ASYNC110 - nothing tells of it here
            await asyncio.sleep(_PARENT_POLL_SECONDS)
        self._orphaned(pid)

    def _orphaned(self, pid: int) -> None:
        log.warning("the client's or the keeper's process %d is gone", pid)
        self.end(1)


class _Inbox:
    """Messages that are read and wait for their turn; bounded, so that a fast client waits as well."""

    def __init__(self) -> None:
        self._messages: deque[tuple[Message, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    async def put(self, message: Message, size: int) -> None:
        """Add a message; return when there is room for more."""
        self._messages.append((message, size))
        self._bytes += size
        self._changed.set()
        while len(self._messages) >= _READ_AHEAD_MESSAGES or self._bytes >= _READ_AHEAD_BYTES:
            self._taken.clear()
            await self._taken.wait()

    async def get(self) -> Message | None:
        """Take the next message; None when there will be no more."""
        while not self._messages:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        message, size = self._messages.popleft()
        self._bytes -= size
        self._taken.set()
        return message

    def close(self) -> None:
        """Tell that no more messages will come."""
        self._closed = True
        self._changed.set()


def leave(code: int) -> NoReturn:
    """Leave the process now. Threads that still block, and exit handlers, cannot hold it (the invariant of 2 s)."""
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _run(main: Coroutine[Any, Any, int]) -> int:
    """Run to the end. Unlike `asyncio.run`, what then still runs is cancelled without waiting for it for ever."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for them costs as much as all our models
    loop = asyncio.new_event_loop()
    loop.call_later(_START_SECONDS, _collect_garbage)
    try:
        code = loop.run_until_complete(main)
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_GRACE_SECONDS))
        return code
    finally:
        loop.close()


async def _first_of(*futures: asyncio.Future[Any], timeout: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


def _collect_garbage() -> None:
    """Collect from now on; entry points disable it before their imports, which make no garbage, to start faster."""
    gc.freeze()
    gc.enable()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
