"""One command that runs: read it, end it, and say in one value what it did.

Invariants: the result comes when the shell ends, not when its pipe closes (R9), and it always comes: the deadline, a
limit and a cancel hold whatever the children do. Whichever of them is first decides how the command ended; all later
ones change nothing. Nothing that a command does raises here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_core.shell.capture import Capture, Captured
from agent_core.shell.launch import Started
from agent_core.shell.processes import CommandProcesses
from agent_core.shell.reader import Reader
from agent_core.types import CommandResult, Ending, Reason

_SAMPLE_SECONDS = 0.1

_ENDINGS: dict[Reason, Ending] = {
    Reason.TIMEOUT: "timed_out",
    Reason.CANCELLED: "cancelled",
    Reason.OUTPUT_LIMIT: "limit",
    Reason.MEMORY_LIMIT: "limit",
    Reason.PROCESS_LIMIT: "limit",
    Reason.DETACHED: "detached",
}


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What one command may use, in bytes and seconds; its time limit is part of the proposal.

    `kept_bytes` of the output are kept for the model; `spool_bytes` of it go to the spool file. After `output_bytes` of
    output, with more than `memory_bytes` resident in all its processes together, or with more than `processes` of them
    the command is ended. The last two are sampled ten times a second and need Linux; pages that processes share count
    for each.
    """

    kept_bytes: int = 32_768
    spool_bytes: int = 64 << 20
    output_bytes: int = 1 << 30
    memory_bytes: int | None = None
    processes: int | None = None
    grace: float = 1.0


class Command(Protocol):
    """A command that was asked for: one that runs, or one that could not be started."""

    @property
    def running(self) -> bool:
        """Whether the shell still runs."""

    def cancel(self, grace: float | None = None) -> None:
        """End the command, also a detached one; again, or after its end, this changes nothing."""

    def detach(self) -> None:
        """Leave it running without a time or output limit; `wait` returns what it did so far. Not once it has ended."""

    async def wait(self) -> CommandResult:
        """Return the result, which comes at the command's end or when it is detached; to stop waiting is harmless."""

    async def ended(self) -> CommandResult:
        """Return the result at the command's end, also if it was detached."""


class UnstartedCommand:
    """A command that could not be started: its result says why."""

    running = False

    def __init__(self, ending: Literal["unusable", "refused"], reason: Reason, error: str) -> None:
        self._result = CommandResult(ending, reason=reason, error=error, started_at=time.time())

    def cancel(self, grace: float | None = None) -> None:
        """Change nothing: it is over."""

    def detach(self) -> None:
        """Change nothing: it is over."""

    async def wait(self) -> CommandResult:
        """Return the result."""
        return self._result

    async def ended(self) -> CommandResult:
        """Return the result."""
        return self._result


class RunningCommand:
    """A command whose shell was started."""

    def __init__(
        self,
        started: Started,
        processes: CommandProcesses,
        capture: Capture,
        *,
        timeout: float,
        limits: CommandLimits,
        contained: bool = False,
    ) -> None:
        """`contained` means that nothing may outlive the shell: the sandbox ends it, and is waited for."""
        self._loop = asyncio.get_running_loop()
        self._processes = processes
        self._capture = capture
        self._limits = limits
        self._grace = limits.grace
        self._contained = contained
        self._started_at = time.time()
        self._clock = time.monotonic()
        self._exit: int | None = None
        self._leftovers: tuple[str, ...] = ()
        self._decided: asyncio.Future[Reason | None] = self._loop.create_future()
        self._result: asyncio.Future[CommandResult] = self._loop.create_future()
        self._reader = Reader(
            started.output,
            take=capture.feed,
            limit=limits.output_bytes,
            too_much=lambda: self._decide(Reason.OUTPUT_LIMIT),
        )
        started.on_exit(self._on_exit)
        self._deadline = self._loop.call_later(timeout, self._decide, Reason.TIMEOUT)
        if limits.memory_bytes is not None or limits.processes is not None:
            self._loop.call_later(_SAMPLE_SECONDS, self._sample)
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._settle)

    @property
    def running(self) -> bool:
        """Whether the shell still runs."""
        return not self._task.done()

    def cancel(self, grace: float | None = None) -> None:
        """End the command, also a detached one; again, or after its end, this changes nothing."""
        if not self._decided.done() and grace is not None:
            self._grace = grace
        self._decide(Reason.CANCELLED)

    def detach(self) -> None:
        """Leave it running without a time or output limit; `wait` returns what it did so far. Not once it has ended."""
        if self._decided.done() or self._result.done():
            return
        self._deadline.cancel()
        self._reader.pass_on()
        self._reader.go_gently()
        self._result.set_result(self._report(Reason.DETACHED, self._capture.so_far()))

    async def wait(self) -> CommandResult:
        """Return the result, which comes at the command's end or when it is detached; to stop waiting is harmless."""
        return await asyncio.shield(self._result)

    async def ended(self) -> CommandResult:
        """Return the result at the command's end, also if it was detached."""
        return await asyncio.shield(self._task)

    async def close(self, grace: float) -> None:
        """End the command, if it still runs, and what outlived its shell; stop reading its output."""
        self.cancel(grace)
        await self.ended()
        if self._leftovers:
            await self._processes.end(grace, lambda: True)
        self._reader.close()

    def has_leftovers(self) -> bool:
        """Whether something outlived the shell and still lives."""
        if self._leftovers and not self._processes.alive():
            self._leftovers = ()
            self._reader.close()
        return bool(self._leftovers)

    async def _run(self) -> CommandResult:
        reason = await self._decided
        self._deadline.cancel()
        if reason is not None or self._contained:
            await self._processes.end(self._grace if reason is not None else 0, lambda: self._exit is not None)
        await self._reader.read_rest()
        self._leftovers = tuple(map(self._capture.mask, self._processes.names()))
        result = self._report(reason, self._capture.finish())
        if self._leftovers:
            self._reader.go_gently()
        else:
            self._reader.close()
        self._reader.at_end(self._capture.close)
        return result

    def _settle(self, task: asyncio.Task[CommandResult]) -> None:
        """Give the waiters what came of the run, if a detach has not answered them before."""
        if self._result.done():
            return
        if task.cancelled():
            self._result.cancel()
        elif (error := task.exception()) is not None:
            self._result.set_exception(error)
        else:
            self._result.set_result(task.result())

    def _report(self, reason: Reason | None, captured: Captured) -> CommandResult:
        ending: Ending = _ENDINGS[reason] if reason is not None else "exited"
        name = ""
        if reason is None and self._exit is not None and self._exit < 0:
            ending, reason, name = "signalled", Reason.SIGNAL, _signal_name(-self._exit)
        return CommandResult(
            ending,
            captured.text,
            exit_code=self._exit if ending == "exited" else None,
            signal=name,
            reason=reason,
            started_at=self._started_at,
            duration_ms=round((time.monotonic() - self._clock) * 1000),
            total_bytes=captured.total_bytes,
            omitted_bytes=captured.omitted_bytes,
            omitted_lines=captured.omitted_lines,
            leftovers=self._leftovers,
            spool=captured.spool,
        )

    def _decide(self, reason: Reason | None) -> None:
        if not self._decided.done():
            self._decided.set_result(reason)

    def _on_exit(self, code: int) -> None:
        self._exit = code
        self._decide(None)

    def _sample(self) -> None:
        if self._decided.done():
            return
        found = self._processes.alive()
        memory = sum(process.resident_pages for process in found.values()) * os.sysconf("SC_PAGE_SIZE")
        if self._limits.processes is not None and len(found) > self._limits.processes:
            self._decide(Reason.PROCESS_LIMIT)
        elif self._limits.memory_bytes is not None and memory > self._limits.memory_bytes:
            self._decide(Reason.MEMORY_LIMIT)
        else:
            self._loop.call_later(_SAMPLE_SECONDS, self._sample)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # a real-time signal has no name of its own
