"""What is on the way: the ends of texts that still grow, and their pieces for those who watch.

Invariants: nothing here is journalled or decides anything; memory is bounded however much flows through; pieces are
coalesced to at most 20 a second; offsets count UTF-8 bytes, so a gap shows that pieces were left out.
"""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from dataclasses import dataclass, field

TAIL_BYTES = 16 * 1024
INTERVAL = 0.05


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a growing text; `offset` is the number of bytes before it."""

    step: int
    attempt: int
    call: str | None
    channel: str
    offset: int
    text: str


class Tail:
    """The end of a growing text of one step and attempt, and the part that was not yet passed on."""

    def __init__(self, step: int, attempt: int) -> None:
        self.step = step
        self.attempt = attempt
        self._kept = bytearray()
        self._total = 0
        self._passed = 0

    def add(self, data: bytes) -> None:
        """Append; the oldest bytes beyond the bound are let go."""
        self._kept += data[-2 * TAIL_BYTES :]
        self._total += len(data)
        if len(self._kept) > 2 * TAIL_BYTES:
            del self._kept[: len(self._kept) - TAIL_BYTES]

    def read(self) -> tuple[int, str]:
        """Return the offset of the tail and the tail, at most `TAIL_BYTES` long, whole characters only."""
        return self._from(max(self._total - TAIL_BYTES, self._total - len(self._kept)))

    def take(self) -> tuple[int, str]:
        """Return what was not passed on yet, as far as it is still kept and its last character is whole."""
        offset, text = self._from(max(self._passed, self._total - len(self._kept), self._total - TAIL_BYTES))
        self._passed = offset + len(text.encode())
        return offset, text

    def _from(self, offset: int) -> tuple[int, str]:
        data = bytes(self._kept[len(self._kept) - (self._total - offset) :]) if offset < self._total else b""
        skip = 0
        while skip < min(3, len(data)) and data[skip] & 0xC0 == 0x80:
            skip += 1
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data[skip:])
        return offset + skip, text


@dataclass(slots=True)
class Live:
    """The growing texts of one session's current step, and of commands of earlier steps that were left running."""

    on_piece: Callable[[Piece], None]
    step: int = 0
    attempt: int = 1
    retry: tuple[int, float, str] | None = None  # attempt, when (loop time), why
    _lasting: set[str] = field(default_factory=set)  # calls
    _tails: dict[tuple[str, str | None], Tail] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    def begin(self, step: int) -> None:
        """Forget what was on the way; a new step begins."""
        self.step, self.attempt, self.retry = step, 1, None
        self._drop_passing()

    def again(self, attempt: int) -> None:
        """Forget the text of an attempt that failed (DL-07)."""
        self.attempt, self.retry = attempt, None
        self._drop_passing()

    def keep(self, call: str) -> None:
        """Let the output of a call outlive its step."""
        self._lasting.add(call)

    def let_go(self, call: str) -> None:
        """Pass on the end of a call's output that outlived its step, and forget it."""
        self.flush()
        self._lasting.discard(call)
        self._tails.pop(("output", call), None)

    def _drop_passing(self) -> None:
        self._tails = {(channel, call): tail for (channel, call), tail in self._tails.items() if call in self._lasting}

    def drop(self) -> None:
        """Let go of all texts."""
        self._tails.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def add(self, channel: str, call: str | None, data: bytes) -> None:
        """Take a piece of text in; it is passed on soon, together with its neighbours."""
        tail = self._tails.get((channel, call))
        if tail is None:
            tail = self._tails[channel, call] = Tail(self.step, self.attempt)
        tail.add(data)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self.flush)

    def tail(self, channel: str, call: str | None = None) -> tuple[int, str]:
        """Return offset and text of the end of one text."""
        tail = self._tails.get((channel, call))
        return tail.read() if tail else (0, "")

    def flush(self) -> None:
        """Pass on now what waits, such as the end of a text that is over."""
        if self._timer:
            self._timer.cancel()
        self._timer = None
        for (channel, call), tail in self._tails.items():
            offset, text = tail.take()
            if text:
                self.on_piece(Piece(tail.step, tail.attempt, call, channel, offset, text))
