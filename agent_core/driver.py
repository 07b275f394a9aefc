"""Feeds one machine: each event into the journal before its effect begins, one task at a time doing effects.

Invariants: events are taken in one after the other; nobody is told or shown what is not written down yet; the work
belongs to the driver, never to the caller, so a caller that goes away loses nothing; once an event could not be written
nothing more is done, and what is shown is what is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine

from agent_core import events as ev
from agent_core.errors import JournalError
from agent_core.machine import State, StepMachine

Work = ev.QueryModel | ev.RunCommand | ev.Observe
"""The effects that give an event back."""

log = logging.getLogger(__name__)


class Driver:
    """One session's machine and the task that works for it.

    `append` writes an event (durably if told so), `perform` does an effect, `stop` ends what is in flight, `on_change`
    is called after every change, and `recover` gives the machine as the journal alone would have it, at rest.
    """

    def __init__(
        self,
        name: str,
        *,
        append: Callable[[ev.Event, bool], Awaitable[None]],
        perform: Callable[[Work], Awaitable[ev.Event]],
        stop: Callable[[], None],
        on_change: Callable[[], None],
        recover: Callable[[], Awaitable[StepMachine]],
    ) -> None:
        self.name = name
        self.machine = StepMachine()
        self.broken = ""  # why nothing more can be done
        self.closing = False
        self._append = append
        self._perform = perform
        self._stop = stop
        self._on_change = on_change
        self._recover = recover
        self._order = asyncio.Lock()
        self._writing = False
        self._changed = asyncio.Condition()
        self._work: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> State:
        """Where the session stands."""
        return State.CLOSED if self.closing else self.machine.state

    @property
    def resting(self) -> bool:
        """Whether nothing is in flight, or nothing more can be."""
        return self.state.resting or bool(self.broken)

    async def act(self, event: ev.Event) -> None:
        """Feed an event and start what follows, even if the caller is cancelled meanwhile."""
        task = asyncio.ensure_future(self._feed_and_start(event))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(task)

    async def feed(self, event: ev.Event) -> ev.Effect | None:
        """Take an event in, write it down and tell; return the effect, which is for the caller to begin."""
        async with self._order:
            if self.broken:
                raise JournalError(f"Session {self.name} can only be read: {self.broken}")
            effect = self.machine.feed(event)
            self._writing = True
            try:
                await self._append(event, isinstance(effect, ev.RunCommand))
            except JournalError as error:
                await self._break_off(str(error))
                raise
            finally:
                self._writing = False
                await self.tell()
        return effect

    async def settled(self) -> None:
        """Return when all that happened so far is written down."""
        async with self._order:
            pass

    async def rested(self, after: int) -> None:
        """Return when it rests beyond revision `after`, or nothing more can come; a pure read, harmless to cancel."""
        await self.until(lambda: self.resting and self.machine.record.revision > after)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when something holds and is written, or nothing more can come; a pure read, harmless to cancel."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._writing and (self.closing or bool(self.broken) or holds()))

    async def tell(self) -> None:
        """Let everybody know that something changed; while an event is being written, that comes after it."""
        if self._writing:
            return
        async with self._changed:
            self._changed.notify_all()
        self._on_change()

    def later(self, work: Coroutine[None, None, None]) -> None:
        """Do something soon, and keep it until it is done."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def end(self, seconds: float) -> None:
        """Stop what is in flight, and leave it after this time."""
        self._stop()
        if self._work:
            await asyncio.wait({self._work}, timeout=seconds)
            self._work.cancel()

    async def _feed_and_start(self, event: ev.Event) -> None:
        effect = await self.feed(event)
        if isinstance(effect, ev.StopWork):
            self._stop()
        elif isinstance(effect, Work):
            self._work = asyncio.create_task(self._drive(effect), name=f"session {self.name}")

    async def _drive(self, effect: ev.Effect | None) -> None:
        """Do effect after effect until the session rests."""
        try:
            while isinstance(effect, Work):
                event = await self._perform(effect)
                if self.closing:
                    return
                effect = await self.feed(event)
        except JournalError as error:
            log.error("Session %s stopped: %s", self.name, error)
        except Exception:
            log.exception("Session %s stopped by a fault of Handrail", self.name)
            async with self._order:
                await self._break_off("a fault of Handrail stopped it; its log says more. Load it again to go on.")
            await self.tell()

    async def _break_off(self, why: str) -> None:
        """Do nothing more from here on."""
        self.broken = why
        self._stop()
        self.machine = await self._recover()
