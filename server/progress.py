"""Shows each stretch of a session's work as `$/progress`, with elapsed seconds, the step, and a cancel button.

Invariants: only for clients that can show it; a stretch begins when work does and ends when the session rests, so
nothing lingers while a person decides; a report comes at least every two seconds; the cancel button is
`session/cancel` and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

if TYPE_CHECKING:
    from agent_core.session import Session

_TICK_SECONDS = 2.0
_PATIENCE = 30.0  # seconds that a client may take to make room for a progress
_COMMAND_CHARACTERS = 60

log = logging.getLogger(__name__)


class Progresses:
    """The progress of every session of one client."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._shown: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def update(self, session: Session) -> None:
        """Begin, go on or end, by what the session does now; for every change of it."""
        if session.id in self._shown:
            self._shown[session.id][1].set()
        elif not session.resting and self._can_show():
            changed = asyncio.Event()
            task = asyncio.create_task(self._show(session, changed), name=f"progress {session.id}")
            self._shown[session.id] = task, changed

    def close(self) -> None:
        """End all."""
        for task, _ in list(self._shown.values()):
            task.cancel()

    def _can_show(self) -> bool:
        window = self._server.client_capabilities.window
        return window is not None and bool(window.work_done_progress)

    async def _show(self, session: Session, changed: asyncio.Event) -> None:
        token = f"handrail-{next(self._numbers)}"
        try:
            if await self._create(token):
                await self._report(session, changed, token)
            else:
                await _rest(session, changed)
        finally:
            self._shown.pop(session.id, None)
            self._server.work_done_progress.tokens.pop(token, None)

    async def _create(self, token: str) -> bool:
        """Ask the client to make room; a client that does not is left in peace for this stretch."""
        try:
            await asyncio.wait_for(self._server.work_done_progress.create_async(token), _PATIENCE)
        except (JsonRpcException, TimeoutError) as error:
            log.info("the client does not show progress: %s", error)
            return False
        return True

    async def _report(self, session: Session, changed: asyncio.Event, token: str) -> None:
        """Report from now until the session rests."""
        if session.resting:
            return
        progress, started = self._server.work_done_progress, time.monotonic()
        title = f"Handrail: {session.summary.title}".removesuffix(": ")
        begin = types.WorkDoneProgressBegin(title=title, cancellable=True, message=_message(session, started))
        progress.begin(token, begin)
        button = progress.tokens[token]
        loop = asyncio.get_running_loop()
        button.add_done_callback(lambda _: loop.call_soon_threadsafe(changed.set))
        pressed = False
        while not session.resting:
            if button.cancelled() and not pressed:
                pressed = True
                await _cancel(session)
            report = types.WorkDoneProgressReport(cancellable=not pressed, message=_message(session, started))
            progress.report(token, report)
            changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), _TICK_SECONDS)
        progress.end(token, types.WorkDoneProgressEnd(message=_how_it_rests(session)))


async def _cancel(session: Session) -> None:
    from agent_core.errors import HandrailError

    try:
        await session.cancel()
    except HandrailError as error:
        log.error("session %s could not be cancelled: %s", session.id, error)


async def _rest(session: Session, changed: asyncio.Event) -> None:
    while not session.resting:
        changed.clear()
        await changed.wait()


def _message(session: Session, started: float) -> str:
    steps = len(session.machine.record.steps)
    return f"step {steps}, {time.monotonic() - started:.0f} s: {_doing(session)}"


def _doing(session: Session) -> str:
    from agent_core.display import display_text
    from agent_core.types import CallStatus

    running = session.machine.record.with_status(CallStatus.RUNNING)
    if running:
        line = display_text(running[0].to_run.command.strip().split("\n", 1)[0])
        return f"runs `{line[:_COMMAND_CHARACTERS]}{'…' if len(line) > _COMMAND_CHARACTERS else ''}`"
    if session.live.retry is not None:
        return f"tries again soon ({session.live.retry[2]})"
    return {"querying": "asks the model", "cancelling": "is being cancelled"}.get(session.state.value, "works")


def _how_it_rests(session: Session) -> str:
    if session.state == "awaiting_approval":
        return "waits for your decision"
    stop = session.machine.record.stop
    return stop.value.replace("_", " ") if stop else "over"
