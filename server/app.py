"""The Handrail server: its sessions, what it says of itself, and what it tells its client.

Invariants: the core is imported after `initialize` is answered and off the event loop, so that an editor starts at
once; updates are sent for every change and may be superseded; the server never asks the client for a decision, so
nobody answers for the person.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from server import protocol as wire
from server.documents import Documents
from server.lifecycle import WireServer
from server.progress import Progresses
from server.tracing import ClientLog
from server.wire import WireError, problems_in

if TYPE_CHECKING:
    from agent_core.session import Session
    from server.logs import StderrHandler
    from server.registry import Registry

_CORE = ("server.handlers", "server.convert", "server.registry")


class HandrailServer(WireServer):
    """Serves one client; see `server/PROTOCOL.md` for what it answers."""

    def __init__(self, version: str, log: StderrHandler | None = None) -> None:
        super().__init__("handrail", version)
        self._log = log
        self.defaults: wire.Settings | None = None
        self.progresses = Progresses(self)
        self.documents = Documents(self)
        self.documents.on_save = self._tell_who_waits
        self._client_log: ClientLog | None = None
        self._registry: Registry | None = None
        self._importing: asyncio.Task[None] | None = None

    def import_core(self) -> asyncio.Task[None]:
        """Begin to import the core, once, in a thread: it is large, and the loop must go on answering."""
        if self._importing is None:
            self._importing = asyncio.create_task(asyncio.to_thread(_import_core), name="import")
        return self._importing

    async def registry(self) -> Registry:
        """Return the sessions of this server."""
        await asyncio.shield(self.import_core())
        if self._registry is None:
            from server.convert import settings_of
            from server.registry import Registry

            can_ask = self.client is not None and self.client.approvals
            self._registry = Registry(os.environ, can_ask=can_ask, defaults=settings_of(self.defaults))
            self._registry.opener.unsaved = self.documents.unsaved
            mask = self._registry.opener.masker.mask
            for log in (self._log, self._client_log):
                if log is not None:
                    log.mask = mask
        return self._registry

    def watch(self, session: Session) -> None:
        """Tell the client of every change of a session; harmless when repeated."""
        from server import convert

        def update(each: Session) -> None:
            self.tell("handrail/session/didUpdate", convert.snapshot(each))
            self.progresses.update(each)

        session.on_update = update
        session.on_piece = lambda each, piece: self.tell("handrail/session/didStream", convert.piece(each, piece))

    def log_to_client(self, trace: types.TraceValue) -> None:
        """Send the log to the client, as much as this trace level asks for."""
        if self._client_log is None:
            self._client_log = ClientLog(self.window_log_message, self.window_show_message)
            if self._registry is not None:
                self._client_log.mask = self._registry.opener.masker.mask
        self._client_log.set_trace(trace)

    def _tell_who_waits(self) -> None:
        """Show the approvals again: what they say of unsaved files has changed."""
        for session in self._registry.all() if self._registry is not None else ():
            if session.state == "awaiting_approval":
                session.on_update(session)

    async def on_stop(self) -> None:
        """Close all sessions; what is in flight is recorded as interrupted."""
        self.progresses.close()
        if self._client_log is not None:
            self._client_log.close()
        if self._registry is not None:
            await self._registry.close()


def _import_core() -> None:
    for name in _CORE:
        importlib.import_module(name)


def create(version: str, log: StderrHandler | None = None) -> HandrailServer:
    """Return a server with every handler in place; `log` is told what to mask as soon as it is known."""
    server = HandrailServer(version, log)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.defaults = _defaults(params.initialization_options)
        server.protocol.trace = params.trace or types.TraceValue.Off  # pygls takes it from $/setTrace only

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        server.import_core()
        server.log_to_client(server.protocol.trace)

    @server.feature(types.SET_TRACE)
    def set_trace(params: types.SetTraceParams) -> None:
        server.log_to_client(params.value)

    for name, method in wire.METHODS.items():
        if method.direction == "client_to_server":
            server.method(name)(_handler(server, name))
    return server


def _handler(server: HandrailServer, name: str) -> Callable[[Any], Awaitable[Any]]:
    async def handle(params: Any) -> Any:
        registry = await server.registry()
        from server.handlers import HANDLERS, answering

        result = await answering(HANDLERS[name])(registry, params)
        for session in registry.all():
            server.watch(session)
        return result

    return handle


def _defaults(options: Any) -> wire.Settings | None:
    """Read `initializationOptions`; raises `WireError` for settings that are unknown or wrong."""
    if options is None:
        return None
    from pydantic import ValidationError

    try:
        return wire.Settings.model_validate(_plain(options))
    except ValidationError as error:
        problems = problems_in(error)
        told = "; ".join(f"{each.field}: {each.problem}" if each.field else each.problem for each in problems)
        raise WireError(
            wire.ErrorCode.SETTINGS_REFUSED,
            f"The initializationOptions are refused: {told}.",
            wire.ErrorData(problems=problems),
        ) from None


def _plain(value: Any) -> Any:
    """Return options as plain data, whatever the LSP library made of them."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
