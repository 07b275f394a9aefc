"""What is kept of a command's output: plain text for the model, its head and its tail, within a limit of bytes.

Invariants: memory is bounded whatever is fed, and time is linear in it; a text is never cut inside a character; bytes
that are not text become U+FFFD; what is left out is counted. Colours and cursor movements are removed, and of a line
that was overwritten by carriage returns only its last state is kept.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from dataclasses import dataclass

# The control sequences of ECMA-48 and xterm: CSI, OSC, the other strings, and the two- and three-character escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[PX^_][^\x1b\n]*\x1b\\"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
_LINE_ENDS = re.compile(r"\r+\n")
_OVERWRITTEN = re.compile(r"^[^\n]*\r", re.MULTILINE)
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_CONTROLS = ("\x1b", "\x9b", "\x9d", "\r", "\x08")
_LONGEST_HELD_LINE = 16_384  # characters; a longer unfinished line is let go in pieces
_LONGEST_ESCAPE = 1_024


class PlainText:
    """Turns the bytes of a terminal's output into plain text, piece by piece.

    The unfinished line is held back, because a carriage return may still overwrite it, and because an escape sequence
    or a character may be cut at its end.
    """

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        """Take bytes and return the plain text of the lines that they complete."""
        text = self._held + self._decoder.decode(data)
        cut = text.rfind("\n") + 1
        if len(text) - cut > _LONGEST_HELD_LINE:
            cut = _before_cut_escape(text)
        self._held = text[cut:]
        return _clean(text[:cut])

    def rest(self) -> str:
        """Return the plain text of what is held back, without taking it."""
        return _clean(self._held.rstrip("\r"))

    def finish(self) -> None:
        """Take the end of the output: a character that is cut off becomes U+FFFD."""
        self._held += self._decoder.decode(b"", final=True)


def _clean(text: str) -> str:
    if not any(control in text for control in _CONTROLS):
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text)
    return _OVERSTRUCK.sub("", text) if "\x08" in text else text


def _before_cut_escape(text: str) -> int:
    """Return where to cut a long unfinished line so that no escape sequence or overwriting return is cut in two."""
    end = len(text) - 1 if text.endswith("\r") else len(text)
    escape = text.rfind("\x1b", max(0, end - _LONGEST_ESCAPE))
    return end if escape < 0 or _ESCAPES.match(text, escape) else escape


@dataclass(frozen=True, slots=True)
class Kept:
    """The head and the tail of a text, and how much of it lies between them."""

    head: str
    tail: str
    omitted_bytes: int
    omitted_lines: int


class HeadAndTail:
    """Keeps the beginning and the end of a text, together at most `limit` bytes of UTF-8."""

    def __init__(self, limit: int) -> None:
        # More of the end than of the beginning: that is where programs say what went wrong.
        self._head_limit = limit // 4
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._bytes = 0
        self._lines = 0

    def feed(self, text: str) -> None:
        """Take the next piece of the text."""
        data = text.encode("utf-8", "replace")
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_limit:
                self._tail_bytes -= len(self._tail.popleft())

    def kept(self, rest: str = "") -> Kept:
        """Return what is kept of the text so far, as if `rest` had been fed last."""
        more = rest.encode("utf-8", "replace")
        stored = bytes(self._head) + b"".join(self._tail) + more
        total = self._bytes + len(more)
        if total <= self._head_limit + self._tail_limit:
            return Kept(stored.decode("utf-8", "replace"), "", 0, 0)
        # The bytes are valid UTF-8, so what `ignore` drops is exactly the characters that the two cuts go through.
        head = stored[: self._head_limit].decode("utf-8", "ignore")
        tail = stored[len(stored) - self._tail_limit :].decode("utf-8", "ignore")
        shown_lines = head.count("\n") + tail.count("\n")
        omitted_bytes = total - len(head.encode()) - len(tail.encode())
        return Kept(head, tail, omitted_bytes, self._lines + rest.count("\n") - shown_lines)
