"""Keeps one model worker at hand: started when first needed, started again when it died.

Invariants: at most one worker runs; one that was asked for and dies after it was ready is replaced by itself, so that
the imports are over when the next prompt comes; that one, and one that never became ready, only when it is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from agent_core.errors import ProviderFailure
from agent_core.types import FailureKind
from agent_core.worker_process import WorkerProcess


class KeptWorker:
    """The worker of one environment."""

    def __init__(self, environment: Mapping[str, str], mask: Callable[[str], str]) -> None:
        self._environment = environment
        self._mask = mask
        self._starting: asyncio.Task[WorkerProcess] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    def warm_up(self) -> None:
        """Start the worker if none runs, without waiting for it; to be called in a running event loop."""
        if self._starting is None and not self._closed:
            self._start(restart=True)

    async def running(self) -> WorkerProcess:
        """Return the worker when its imports are done; raise `ProviderFailure` if it cannot be started."""
        if self._closed:
            raise ProviderFailure(FailureKind.CANCELLED, "The model provider is closed. Open the session again.")
        self.warm_up()
        assert self._starting is not None  # noqa: S101 - `warm_up` has just set it
        try:
            worker = await asyncio.shield(self._starting)
        except OSError as error:
            raise ProviderFailure(
                FailureKind.WORKER_DIED,
                f"The process that talks to model providers cannot be started: {error}. Check the installation.",
            ) from error
        if worker.is_dead:  # and not noticed yet by the task that watches it
            self._starting = None
            return await self.running()
        await worker.ready()
        return worker

    async def close(self) -> None:
        """End the worker and every call."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        if self._starting is not None:
            with contextlib.suppress(OSError):
                await (await self._starting).close()

    def _start(self, *, restart: bool) -> None:
        self._starting = asyncio.create_task(WorkerProcess.start(self._environment, self._mask))
        self._watching = asyncio.create_task(self._watch(self._starting, restart))

    async def _watch(self, starting: asyncio.Task[WorkerProcess], restart: bool) -> None:
        was_ready = False
        with contextlib.suppress(OSError):  # it could not be started at all; whoever asked is told
            worker = await asyncio.shield(starting)
            await worker.died()
            was_ready = worker.was_ready
        if self._starting is not starting:
            return  # a call was quicker
        self._starting = None
        if restart and was_ready and not self._closed:
            self._start(restart=False)
