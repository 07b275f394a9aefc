"""Turns the snapshots and stream pieces of one session into lines that are only ever appended.

Invariants: each piece of text, each command and each result is given out once, in the model's order, whatever mix of
snapshots and pieces told it; a snapshot older than the last one changes nothing; a command's output is bounded, and
what is left out is counted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from editors.terminal.text import count, escape, inline, output_line
from editors.terminal.view import (
    BLANK,
    FINAL_STATUSES,
    OTHERS_GUTTER,
    WAITING_STATUSES,
    Line,
    command_lines,
    detail_lines,
    permitted_line,
    position,
    result_lines,
    said_lines,
    short,
)
from server.protocol import Call, Snapshot, Step, StreamParams

_LONGEST_LINE = 4000
_FIRST_OUTPUT_LINES = 30
_LAST_OUTPUT_LINES = 10
_BLANK_OF_MODEL = Line(OTHERS_GUTTER, "", "model", "model")


class Flow:
    """A text that arrives in pieces with byte offsets, some of them twice, some never; it gives whole lines."""

    def __init__(self) -> None:
        self.partial = ""
        self.lost = 0
        self.taken = 0

    def take(self, offset: int, text: str) -> list[str]:
        """Return the lines that `text`, which begins `offset` bytes into the whole, completes."""
        data = text.encode("utf-8", "replace")
        end = offset + len(data)
        if end <= self.taken:
            return []
        self.lost += max(0, offset - self.taken)
        new = data[max(0, self.taken - offset) :].decode("utf-8", "replace")
        self.taken = end
        *lines, self.partial = (self.partial + new).split("\n")
        if len(self.partial) > _LONGEST_LINE:
            lines.append(self.partial)
            self.partial = ""
        return lines

    def finish(self) -> list[str]:
        """Return the last line if it has no end."""
        rest, self.partial = self.partial, ""
        return [rest] if rest else []


@dataclass(slots=True)
class _DrawnCall:
    """What was already given out about one call."""

    name: str
    command: str | None = None
    status: str = ""
    over: bool = False
    output: Flow = field(default_factory=Flow)
    shown: int = 0
    held: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_OUTPUT_LINES))
    held_count: int = 0


class Scroll:
    """The drawing of one session so far."""

    def __init__(self) -> None:
        self.revision = -1
        self._step_id = ""
        self._index = 0
        self._attempt = 1
        self._text = Flow()
        self._text_begun = False
        self._blank_rows = 0
        self._calls: dict[str, _DrawnCall] = {}
        self._last_call = ""
        self._reasoning = Flow()

    def missed_from(self, snapshot: Snapshot) -> int | None:
        """Return the index of the first step that must be read from the transcript before `snapshot` is drawn."""
        if snapshot.step is None or snapshot.step.index <= self._index:
            return None
        if any(not drawn.over for drawn in self._calls.values()):
            return self._index
        return self._index + 1 if self._index and snapshot.step.index > self._index + 1 else None

    def take(self, snapshot: Snapshot) -> list[Line]:
        """Return what a snapshot adds."""
        if snapshot.revision < self.revision:
            return []
        self.revision = snapshot.revision
        if snapshot.step is None:
            return []
        return self.take_step(
            snapshot.step,
            complete=snapshot.state != "querying",
            asked=snapshot.pending[0] if snapshot.pending and snapshot.state == "awaiting_approval" else None,
        )

    def take_step(self, step: Step, *, complete: bool = True, asked: str | None = None) -> list[Line]:
        """Return what a step adds; `complete` if the model's reply is, `asked` is the call that is decided now."""
        lines = self._enter(step)
        if complete or step.attempt == self._attempt:
            lines += self._text_lines(self._text.take(step.text_offset, step.text))
        if complete:
            lines += self._text_lines(self._text.finish())
        for call in step.calls:
            lines += self._call_lines(call, asked=call.call_id == asked)
            if call.status == "running":
                break  # what became of later calls is told after this one
        return lines

    def stream(self, piece: StreamParams) -> list[Line]:
        """Return what a piece of streamed text adds; pieces of other steps or older attempts add nothing."""
        if piece.step_id != self._step_id or piece.attempt < self._attempt:
            return []
        if piece.channel == "output":
            drawn = self._calls.get(piece.call_id or "")
            if drawn is None or drawn.over or drawn.command is None:
                return []
            rows = drawn.output.take(piece.offset, piece.text)
            return (self._reminder(piece.call_id or "", drawn) if rows else []) + self._output_lines(drawn, rows)
        lines = self._new_attempt(piece.attempt)
        if piece.channel == "text":
            return lines + self._text_lines(self._text.take(piece.offset, piece.text))
        if piece.channel == "reasoning":
            self._reasoning.take(piece.offset, piece.text)
        return lines

    def already_shown(self, call_id: str, command: str) -> None:
        """Note that the face itself showed the text that a call was edited to."""
        if call_id in self._calls:
            self._calls[call_id].command = command

    @property
    def tail(self) -> Line | None:
        """The line that is not complete yet: of a running command's output, of the model's text or its reasoning."""
        for drawn in reversed(self._calls.values()):
            if drawn.command is not None and not drawn.over:
                last = drawn.output.partial or (drawn.held[-1] if drawn.held else "")
                return Line("  │ ", output_line(last), "output") if last else None
        if self._text.partial:
            return Line(OTHERS_GUTTER if self._text_begun else "● ", inline(self._text.partial), "model", "model")
        return Line(OTHERS_GUTTER, inline(self._reasoning.partial), "quiet") if self._reasoning.partial else None

    def _enter(self, step: Step) -> list[Line]:
        if step.step_id == self._step_id:
            return self._new_attempt(step.attempt)
        self._step_id, self._index, self._attempt = step.step_id, step.index, step.attempt
        self._calls, self._last_call = {}, ""
        self._reset_text()
        return [line for said in step.said for line in said_lines(said)]

    def _new_attempt(self, attempt: int) -> list[Line]:
        if attempt <= self._attempt:
            return []
        self._attempt = attempt
        begun = self._text_begun
        self._reset_text()
        return (
            [Line("  ", f"asked again, attempt {attempt}; what it said above does not count", "quiet")] if begun else []
        )

    def _reset_text(self) -> None:
        self._text, self._reasoning = Flow(), Flow()
        self._text_begun, self._blank_rows = False, 0

    def _text_lines(self, rows: list[str]) -> list[Line]:
        lines: list[Line] = []
        for row in rows:
            if not row.strip():  # blank rows count only between others
                self._blank_rows += 1
                continue
            lines += [_BLANK_OF_MODEL] * self._blank_rows if self._text_begun else [BLANK]
            lines.append(Line(OTHERS_GUTTER if self._text_begun else "● ", escape(row).expandtabs(), "model", "model"))
            self._text_begun, self._blank_rows = True, 0
        return lines

    def _call_lines(self, call: Call, *, asked: bool) -> list[Line]:
        drawn = self._calls.setdefault(call.call_id, _DrawnCall(_name(call)))
        if drawn.over or (drawn.command is None and call.status in WAITING_STATUSES and not asked):
            return []
        lines = self._command(call, drawn, asked=asked)
        if call.status != drawn.status:
            lines += self._status(call)
            drawn.status = call.status
        rows = drawn.output.take(call.result.output_offset, call.result.output_tail) if call.result else []
        over = call.status in FINAL_STATUSES
        if over:
            rows += drawn.output.finish()
        if rows or over:
            lines += self._reminder(call.call_id, drawn)
        lines += self._output_lines(drawn, rows)
        if over:
            drawn.over = True
            lines += _held_lines(drawn) + result_lines(call)
        return lines

    def _command(self, call: Call, drawn: _DrawnCall, *, asked: bool) -> list[Line]:
        if drawn.command == call.command:
            return []
        edited = drawn.command is not None
        drawn.command, self._last_call = call.command, call.call_id
        if edited:
            return [Line("    ", "edited by you:", "quiet"), *command_lines(call.display)]
        lines = [BLANK, *command_lines(call.display)]
        if asked:
            return lines + detail_lines(call)
        if call.status == "approved":
            return [*lines, Line("    ", "approved", "quiet")]
        permitted = permitted_line(call)
        return lines if permitted is None else [*lines, permitted]

    def _status(self, call: Call) -> list[Line]:
        if call.status in FINAL_STATUSES | WAITING_STATUSES | {"approved", "running"}:
            return []
        return [Line("  ? ", f"this call is {inline(call.status)!r}, a word unknown to this client", "warning")]

    def _reminder(self, call_id: str, drawn: _DrawnCall) -> list[Line]:
        """Results appear beside their command: after other commands of the reply were drawn, it is named again."""
        if self._last_call == call_id:
            return []
        self._last_call = call_id
        return [BLANK, Line("  $ ", drawn.name, "command")]

    def _output_lines(self, drawn: _DrawnCall, rows: list[str]) -> list[Line]:
        room = 0 if drawn.output.lost else max(0, _FIRST_OUTPUT_LINES - drawn.shown)
        lines = [Line("  │ ", output_line(row), "output") for row in rows[:room]]
        drawn.shown += len(rows[:room])
        drawn.held.extend(rows[room:])
        drawn.held_count += len(rows[room:])
        return lines


def _name(call: Call) -> str:
    return f"{short(call.display)}  ({position(call)})"


def _held_lines(drawn: _DrawnCall) -> list[Line]:
    """Give the end of an output, after one line about what was left out before it."""
    lines = drawn.held_count - len(drawn.held)
    left_out = [count(drawn.output.lost, "byte")] if drawn.output.lost else []
    left_out += [count(lines, "line")] if lines else []
    notice = [Line("  │ ", f"… {' and '.join(left_out)} not shown", "quiet")] if left_out else []
    return notice + [Line("  │ ", output_line(row), "output") for row in drawn.held]
