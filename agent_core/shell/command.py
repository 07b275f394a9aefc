"""One command that runs: read it, end it, and say in one value what it did.

Invariants: the result comes when the shell ends, not when its pipe closes (R9), and it always comes: the deadline, a
limit and a cancel hold whatever the children do. Whichever of them is first decides how the command ended; all later
ones change nothing. Nothing that a command does raises here.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
import termios
import time
from dataclasses import dataclass
from typing import Literal, Protocol

from agent_core.shell.capture import Capture, Captured
from agent_core.shell.launch import Started
from agent_core.shell.processes import CommandProcesses
from agent_core.types import CommandResult, Ending, Reason

_READ_BYTES = 65_536  # one read takes at most this much, so that a flood leaves room for everything else in the loop
_LATE_OUTPUT_SECONDS = 0.2
_PACE_SECONDS = 0.05
_SAMPLE_SECONDS = 0.1
_MOST_LEFTOVERS_NAMED = 20

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
        self, started: Started, processes: CommandProcesses, capture: Capture, *, timeout: float, limits: CommandLimits
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._processes = processes
        self._capture = capture
        self._limits = limits
        self._grace = limits.grace
        self._started_at = time.time()
        self._clock = time.monotonic()
        self._decided: asyncio.Future[Reason | None] = self._loop.create_future()
        self._result: asyncio.Future[CommandResult] = self._loop.create_future()
        self._exit: int | None = None
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._detached = False
        self._output = started.output
        self._loop.add_reader(self._output, self._read)
        started.on_exit(self._on_exit)
        self._deadline = self._loop.call_later(timeout, self._decide, Reason.TIMEOUT)
        self._task = self._loop.create_task(self._run())
        if limits.memory_bytes is not None or limits.processes is not None:
            self._loop.call_later(_SAMPLE_SECONDS, self._sample)

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
        if self._decided.done() or self._detached:
            return
        self._detached = True
        self._deadline.cancel()
        self._result.set_result(self._report(Reason.DETACHED, self._capture.so_far()))

    async def wait(self) -> CommandResult:
        """Return the result, which comes at the command's end or when it is detached; to stop waiting is harmless."""
        return await asyncio.shield(self._result)

    async def ended(self) -> CommandResult:
        """Return the result at the command's end, also if it was detached."""
        return await asyncio.shield(self._task)

    async def end_leftovers(self, grace: float) -> None:
        """End what outlived the shell, and stop reading its output."""
        if self._processes.alive() or not self._closed.is_set():
            await self._processes.end(grace, self._exited.is_set)
        self._close()

    def has_leftovers(self) -> bool:
        """Whether something outlived the shell and still lives."""
        if not self._processes.alive():
            self._close()
            return False
        return True

    async def _run(self) -> CommandResult:
        reason = await self._decided
        self._deadline.cancel()
        if reason is not None:
            await self._processes.end(self._grace, self._exited.is_set)
        await self._read_rest()
        leftovers = tuple(self._capture.mask(name) for name in self._processes.names()[:_MOST_LEFTOVERS_NAMED])
        result = self._report(reason, self._capture.finish(), leftovers)
        if not self._result.done():
            self._result.set_result(result)
        if not leftovers:
            self._close()
        return result

    def _report(self, reason: Reason | None, captured: Captured, leftovers: tuple[str, ...] = ()) -> CommandResult:
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
            leftovers=leftovers,
            spool=captured.spool,
        )

    def _decide(self, reason: Reason | None) -> None:
        if not self._decided.done():
            self._decided.set_result(reason)

    def _on_exit(self, code: int) -> None:
        self._exit = code
        self._exited.set()
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

    def _read(self) -> None:
        """Take one piece of output; once the result is out, what the leftovers write is read at a gentle pace."""
        data = self._read_some()
        if data is None:
            return
        if not data:
            self._close()
            return
        if self._result.done():
            # Not read at all, it would block the leftover; read at full speed, a flood would burn the server's time.
            self._loop.remove_reader(self._output)
            self._loop.call_later(_PACE_SECONDS, self._read_on)
        elif self._capture.total_bytes + len(data) > self._limits.output_bytes:
            self._decide(Reason.OUTPUT_LIMIT)
        self._capture.feed(data)

    def _read_on(self) -> None:
        if not self._closed.is_set():
            self._loop.add_reader(self._output, self._read)

    def _read_some(self) -> bytes | None:
        """Return the next bytes of output, none at its end, None if there are none yet."""
        try:
            return os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return None

    async def _read_rest(self) -> None:
        """Read all that the shell wrote before it ended, and wait a moment for those that still write.

        What the pipe holds now is counted first, because with a flooding leftover it would never be empty.
        """
        if not self._closed.is_set():
            end = self._capture.total_bytes + _bytes_waiting(self._output)
            while not self._closed.is_set() and self._capture.total_bytes < end:
                self._read()
                await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), _LATE_OUTPUT_SECONDS)

    def _close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._loop.remove_reader(self._output)
            os.close(self._output)


def _bytes_waiting(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # a real-time signal has no name of its own
