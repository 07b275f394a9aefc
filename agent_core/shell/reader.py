"""Reads the pipe of one command's output without ever blocking the loop.

Invariants: one read at a time and of bounded size, so that a flood leaves room for everything else; what was in the
pipe when the shell ended is always read. Pieces are gathered for a moment before they are passed on, because programs
often write a line at a time and each piece has its price.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

_READ_BYTES = 65_536  # as much as a pipe holds
_GATHER_SECONDS = 0.01
_PACE_SECONDS = 0.05
_LATE_SECONDS = 0.2


class Reader:
    """The reading end of a pipe; it gives what it reads to `take`, and calls `too_much` beyond `limit` bytes."""

    def __init__(self, pipe: int, *, take: Callable[[bytes], None], limit: int, too_much: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._take = take
        self._limit: int | None = limit
        self._too_much = too_much
        self._total_bytes = 0
        self._gathered = bytearray()
        self._passing_on: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._at_end: Callable[[], None] | None = None
        self._loop.add_reader(pipe, self._read)

    def go_gently(self) -> None:
        """Read from now on without a limit but slowly.

        A leftover that is not read would block, and one that floods would burn the server's time.
        """
        self._limit = None

    async def read_rest(self) -> None:
        """Read all that was written until now, and wait a moment for those that still write."""
        if not self._ended.is_set():
            self._read()  # most often this is the end already
        if not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LATE_SECONDS)
        self.pass_on()

    def pass_on(self) -> None:
        """Give what is gathered to its taker now."""
        if self._passing_on is not None:
            self._passing_on.cancel()
            self._passing_on = None
        if self._gathered:
            data = bytes(self._gathered)
            self._gathered.clear()
            self._take(data)

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call back when everything is read or the pipe is closed; at once if that has happened."""
        if self._ended.is_set():
            callback()
        else:
            self._at_end = callback

    def close(self) -> None:
        """Close the pipe, if it is open; whoever still writes to it gets SIGPIPE."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        self.pass_on()
        if self._at_end is not None:
            self._at_end()

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._total_bytes += len(data)
        if self._limit is None:
            self._loop.remove_reader(self._pipe)
            self._loop.call_later(_PACE_SECONDS, self._read_on)
        elif self._total_bytes > self._limit:
            self._too_much()
        self._gathered += data
        if len(self._gathered) >= _READ_BYTES:
            self.pass_on()
        elif self._passing_on is None:
            self._passing_on = self._loop.call_later(_GATHER_SECONDS, self.pass_on)

    def _read_on(self) -> None:
        if not self._ended.is_set():
            self._loop.add_reader(self._pipe, self._read)
