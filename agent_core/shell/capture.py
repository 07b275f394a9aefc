"""Takes the bytes of one command's output to every place that wants them, masked once (R10).

Invariants: nothing but masked bytes leaves here: to the spool, to the listener as they come (colours kept), and as
plain text, bounded, to the model. Memory does not grow with the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent_core.redaction import Masker
from agent_core.shell.output import HeadAndTail, Kept, PlainText
from agent_core.shell.spool import Spool


@dataclass(frozen=True, slots=True)
class Captured:
    """The output so far: text for the model with a notice in place of what is omitted, and how much there was."""

    text: str
    total_bytes: int
    omitted_bytes: int
    omitted_lines: int
    spool: str


class Capture:
    """The output of one command, from the pipe to its readers."""

    def __init__(
        self,
        masker: Masker,
        *,
        encoding: str,
        limit: int,
        spool: Spool | None,
        listener: Callable[[bytes], None] | None,
    ) -> None:
        self._masker = masker
        self._stream = masker.stream()
        self._plain = PlainText(encoding)
        self._kept = HeadAndTail(limit)
        self._spool = spool
        self._listener = listener
        self.total_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes as the command wrote them."""
        self.total_bytes += len(data)
        self._emit(self._stream.feed(data))

    def so_far(self) -> Captured:
        """Return the output up to now."""
        kept = self._kept.kept(self._plain.rest())
        path = self._spool.path if self._spool else ""
        text = kept.head + self._notice(kept, path) + kept.tail if kept.omitted_bytes else kept.head
        return Captured(text, self.total_bytes, kept.omitted_bytes, kept.omitted_lines, path)

    def finish(self) -> Captured:
        """Take the end of what the result reports; what comes after it goes to the spool alone."""
        self._emit(self._stream.finish())
        self._plain.finish()
        captured = self.so_far()
        self._stream = self._masker.stream()
        self._listener = None
        return captured

    def mask(self, text: str) -> str:
        """Return other text about the command as it may be told."""
        return self._masker.mask(text)

    def close(self) -> None:
        """Take the end of all output."""
        if self._spool is not None:
            self._spool.write(self._stream.finish())
            self._spool.close()

    def _emit(self, masked: bytes) -> None:
        if not masked:
            return
        if self._spool is not None:
            self._spool.write(masked)
        self._kept.feed(self._plain.feed(masked))
        if self._listener is not None:
            self._listener(masked)

    def _notice(self, kept: Kept, path: str) -> str:
        if not path:
            place = ""
        elif self._spool is not None and self._spool.complete:
            place = f"; the whole output is in {path}"
        else:
            place = f"; the beginning of the output is in {path}, up to the file's cap"
        return f"\n[... {kept.omitted_lines} lines, {kept.omitted_bytes} bytes omitted{place} ...]\n"
