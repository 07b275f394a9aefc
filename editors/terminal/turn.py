"""Follows one session until it rests, draws it through a face, and takes its face's decisions to the server.

Invariants: a decision repeats the digest of the call that was shown, and is dropped if the call changed meanwhile; a
face that gives none leaves the call waiting (R2); drawing follows snapshots alone, and steps that were passed over are
read from the transcript, never guessed; the first interrupt cancels the turn, the second one leaves; a face
that fails ends the work with its fault, so that nothing goes on unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

from editors.terminal.client import Client, RequestFailed
from editors.terminal.scroll import Scroll
from editors.terminal.text import inline
from editors.terminal.view import Line, activity, read_only
from server.protocol import Call, CommandAnalysis, Decision, ErrorCode, Snapshot, StreamParams

_TRANSCRIPT_PAGE = 50
_ANSWERS_TO_A_DECISION = (ErrorCode.DECISION_REFUSED, ErrorCode.INVALID_PARAMS, ErrorCode.REQUEST_FAILED)


Analyze = Callable[[Call, str], Awaitable[CommandAnalysis]]
"""Judges a text that a person would have run instead of a call's."""


class Face(Protocol):
    """What shows a session to a person and asks them."""

    analyze: Analyze | None

    def show(self, lines: Sequence[Line]) -> None:
        """Append lines."""

    def doing(self, activity: str, tail: Line | None) -> None:
        """Show what goes on now ("" if nothing does), and the line that is not complete yet."""

    def rest(self) -> None:
        """Take away what only belongs to work in progress."""

    async def pulse(self) -> None:
        """Keep what is shown alive while work goes on; runs until it is cancelled."""

    async def ask(self, call: Call) -> Decision | None:
        """Return what the person says about `call`; None if nobody decides. Cancelled when it waits no longer."""


class Undecided(Exception):
    """Nobody decided about a call; it keeps waiting in the session."""


class CancelTurn(Exception):
    """Raised by a face: the person wants the turn cancelled."""


class Left(Exception):
    """The person left without waiting for the session to rest."""


class OutputLost(Exception):
    """Raised by a face: what it shows reaches nobody any more; the text says why."""

    def __init__(self, fault: OSError) -> None:
        super().__init__(f"The output cannot be written: {fault.strerror or fault}.")


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Tell a failure to write as `OutputLost`."""
    try:
        yield
    except OSError as fault:
        raise OutputLost(fault) from fault


class Turn:
    """One session on one face."""

    def __init__(self, client: Client, face: Face, snapshot: Snapshot) -> None:
        self.session_id = snapshot.session_id
        self.latest = snapshot
        self._client = client
        self._face = face
        self._scroll = Scroll()
        self._catching_up: asyncio.Task[None] | None = None
        self._asked: Call | None = None
        self._withdrawn = asyncio.Event()
        self._interrupts = 0
        self._leaving = False
        self._work: asyncio.Future[Snapshot] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        client.on_update = self._updated
        client.on_stream = self._streamed

    async def step(self, prompt: str | None) -> Snapshot:
        """Start a turn, or go on with an unfinished one, and follow it until it rests."""
        return await self._interruptible(self._step(prompt))

    async def follow(self) -> Snapshot:
        """Return the snapshot in which the session is at rest with nothing to decide; raise `Undecided` or `Left`."""
        return await self._interruptible(self._until_rest(self.latest))

    def interrupt(self) -> None:
        """Cancel the turn; if that was asked before, leave."""
        self._interrupts += 1
        if self._interrupts == 1:
            self._cancelling = self._in_background(self._cancel())
        else:
            self.leave()

    def leave(self) -> None:
        """Leave without waiting for anything: `step` and `follow` raise `Left`."""
        self._leaving = True
        if self._work is not None:
            self._work.cancel()

    async def _interruptible(self, work: Coroutine[Any, Any, Snapshot]) -> Snapshot:
        self._work = asyncio.ensure_future(work)
        try:
            return await self._work
        except asyncio.CancelledError:
            if self._leaving:
                raise Left from None
            raise

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._client.depend_on(task)
        return task

    async def _step(self, prompt: str | None) -> Snapshot:
        return await self._until_rest(await self._client.step(self.session_id, prompt, max_steps=None))

    async def _until_rest(self, snapshot: Snapshot) -> Snapshot:
        while True:
            await self._draw(snapshot)
            if read_only(snapshot):
                return snapshot
            if snapshot.state == "awaiting_approval" and snapshot.pending:
                snapshot = await self._decide(snapshot)
            elif snapshot.state in ("idle", "closed"):
                return snapshot
            else:
                snapshot = await self._client.wait(self.session_id, snapshot.revision)

    async def _cancel(self) -> None:
        self._face.show([Line("    ", "cancelling the turn; Ctrl-C once more leaves at once", "quiet")])
        # A turn that came to rest by itself meanwhile is as good as cancelled.
        with contextlib.suppress(RequestFailed):
            self._updated(await self._client.cancel(self.session_id))

    async def _decide(self, snapshot: Snapshot) -> Snapshot:
        call = pending_call(snapshot)
        if call is None:
            return await self._client.wait(self.session_id, snapshot.revision)
        try:
            decision = await self._ask(call)
        except CancelTurn:
            self.interrupt()
            return await self._client.cancel(self.session_id)
        if decision is None:
            return self.latest
        if decision.command is not None:
            self._scroll.already_shown(call.call_id, decision.command)
        try:
            return await self._client.decide(self.session_id, decision)
        except RequestFailed as refusal:
            if refusal.code not in _ANSWERS_TO_A_DECISION:
                raise
            latest = await self._client.get(self.session_id)
            if not read_only(latest):
                self._face.show([Line("  ! ", inline(refusal.message), "warning", "warning")])
            return latest

    async def _ask(self, call: Call) -> Decision | None:
        """Return the face's decision; None if the call stopped waiting before there was one."""
        self._asked = call
        self._withdrawn.clear()
        answer = asyncio.ensure_future(self._face.ask(call))
        withdrawn = asyncio.ensure_future(self._withdrawn.wait())
        lost = asyncio.ensure_future(self._client.connection.until_lost())
        try:
            await asyncio.wait({answer, withdrawn, lost}, return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                lost.result()
            if not answer.done():
                self._face.show([Line("    ", "this command waits no longer; nothing was decided here", "quiet")])
                return None
            decision = answer.result()
            if decision is None:
                raise Undecided
            return decision
        finally:
            self._asked = None
            await _end(answer, withdrawn, lost)

    def _updated(self, snapshot: Snapshot) -> None:
        if snapshot.session_id != self.session_id or snapshot.revision < self.latest.revision:
            return
        self.latest = snapshot
        if self._asked is not None and not _still_waits(self._asked, snapshot):
            self._withdrawn.set()
        if self._catching_up is None:
            self._draw_or_catch_up()

    def _draw_or_catch_up(self) -> None:
        start = self._scroll.missed_from(self.latest)
        if start is None:
            self._face.show(self._scroll.take(self.latest))
            self._face.doing(activity(self.latest), self._scroll.tail)
        else:
            self._catching_up = self._in_background(self._catch_up(start))

    async def _catch_up(self, start: int) -> None:
        try:
            until = self.latest.step.index if self.latest.step else start
            while start < until:
                page = await self._client.transcript(self.session_id, start, min(until - start, _TRANSCRIPT_PAGE))
                for step in page.steps:
                    self._face.show(self._scroll.take_step(step))
                start += max(1, len(page.steps))
            self._face.show(self._scroll.take(self.latest))
        finally:
            self._catching_up = None

    async def _draw(self, snapshot: Snapshot) -> None:
        self._updated(snapshot)
        while self._catching_up is not None:
            await self._catching_up

    def _streamed(self, piece: StreamParams) -> None:
        if piece.session_id == self.session_id and self._catching_up is None:
            self._face.show(self._scroll.stream(piece))
            self._face.doing(activity(self.latest), self._scroll.tail)


def pending_call(snapshot: Snapshot) -> Call | None:
    """Return the first call that waits for a decision."""
    calls = snapshot.step.calls if snapshot.step else []
    return next((call for call in calls if call.call_id in snapshot.pending[:1]), None)


def _still_waits(asked: Call, snapshot: Snapshot) -> bool:
    if snapshot.state != "awaiting_approval" or asked.call_id not in snapshot.pending or read_only(snapshot):
        return False
    calls = snapshot.step.calls if snapshot.step else []
    return any(call.call_id == asked.call_id and call.digest == asked.digest for call in calls)


async def _end(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
