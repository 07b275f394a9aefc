"""What the parts of a snapshot look like in a terminal: pure functions from wire models to lines.

Invariants: no line holds a character that a terminal would act on; a word that this version does not know is shown as
it is and never looks like an approval; the same snapshot gives the same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from editors.terminal.text import count, escape, folder, inline, money, path_of, seconds
from server.protocol import Call, CallStatus, Reason, Said, Snapshot, StopReason, Verdict

Style = Literal["plain", "title", "quiet", "said", "model", "command", "output", "good", "bad", "warning"]

FINAL_STATUSES = frozenset({"completed", "failed", "rejected", "cancelled", "timed_out", "interrupted"})
WAITING_STATUSES = frozenset({"pending", "awaiting_approval"})
DONE_WELL = frozenset({"end_turn", "submitted"})
UNFINISHED = frozenset(
    {"step_done", "interrupted", "max_steps", "cost_limit", "time_limit", "model_error", "cancelled"},
)
_SAID_LINES = 12
_NAME_CHARACTERS = 60
_NAMED_FILES = 8
_PERHAPS_DONE = "it may have had effects, and was not run again"


class Line(NamedTuple):
    """One line: a gutter, then text in a style. A face that wraps repeats a gutter that holds a bar."""

    gutter: str
    text: str
    style: Style = "plain"
    gutter_style: Style = "quiet"


BLANK = Line("", "")
OTHERS_GUTTER = "│ "
"""Before the rows of other people's words, so that none looks like a command, a result or a question of ours."""


def meaning(words: Any, word: str) -> str:
    """Return what a word of one of the protocol's open vocabularies means; an unknown one comes back as it is."""
    meanings: dict[str, str] = get_args(words)[1].meanings
    return meanings.get(word, inline(word))


def header_lines(snapshot: Snapshot) -> list[Line]:
    """Say whose session this is and how commands are judged."""
    model = inline(snapshot.model) or "no model yet"
    lines = [Line("", f"Handrail · {model} · mode {inline(snapshot.mode)} · {folder(snapshot.cwd)}", "title")]
    if snapshot.mode == "trusted":
        lines.append(Line("! ", "mode trusted: commands run without being asked", "warning", "warning"))
    return lines


def said_lines(said: Said) -> list[Line]:
    """Show what the model was told in the person's place."""
    rows = escape(said.text.strip()).expandtabs().split("\n")
    if len(rows) > _SAID_LINES:
        rows = [*rows[:_SAID_LINES], f"… {count(len(rows) - _SAID_LINES, 'more line')}"]
    if said.origin in ("prompt", "queued"):
        return [BLANK, *(Line("▸ " if not at else OTHERS_GUTTER, row, "said", "said") for at, row in enumerate(rows))]
    rows[0] = {"person_ran": "you ran: "}.get(said.origin, "told the model: ") + rows[0]
    return [Line("  " if not at else OTHERS_GUTTER, row, "quiet") for at, row in enumerate(rows)]


def command_lines(display: str) -> list[Line]:
    """Show all of a command as a shell would: `$` where it begins, `>` where each further line begins."""
    rows = escape(display).expandtabs().split("\n")
    return [Line("  $ " if not at else "  > ", row, "command") for at, row in enumerate(rows)]


def size(call: Call) -> str:
    """Say how long a command is."""
    return f"{count(call.line_count, 'line')}, {count(call.character_count, 'character')}"


def position(call: Call) -> str:
    """Say which call of its reply this is; nothing if it is the only one."""
    return f"{call.position} of {call.count}" if call.count > 1 else ""


def detail_lines(call: Call) -> list[Line]:
    """Show what a person should know before deciding."""
    facts = [position(call), folder(call.cwd), f"at most {seconds(call.timeout)}"]
    if call.sandbox != "off":
        facts.append(f"sandbox {inline(call.sandbox)}")
    if call.added_environment:
        facts.append("with " + inline(", ".join(call.added_environment)))
    if call.analysis and call.analysis.writes:
        facts.append("writes " + _names(call.analysis.writes))
    lines = [Line("    ", " · ".join(filter(None, facts)), "quiet")]
    if call.verdict is not None:
        lines.append(Line("    ", f"{judged(call.verdict)}: {inline(call.verdict.why)}", "quiet"))
    if call.long or call.line_count > 1:
        lines.append(Line("    ", size(call), "warning" if call.long else "quiet"))
    return [*lines, *warning_lines(call.command, _warnings(call))]


def warning_lines(command: str, warnings: Sequence[str]) -> list[Line]:
    """Show what a person should be warned of before `command` runs."""
    rows = [row.strip() for row in command.split("\n") if row.strip()]
    if rows and all(row.startswith("#") for row in rows):
        warnings = ["only a comment is left: nothing would run", *warnings]
    return [Line("  ! ", inline(warning), "warning", "warning") for warning in warnings]


def _names(files: Sequence[str]) -> str:
    each = list(dict.fromkeys(files))
    more = f" and {len(each) - _NAMED_FILES:,} more" if len(each) > _NAMED_FILES else ""
    return inline(", ".join(each[:_NAMED_FILES])) + more


def judged(verdict: Verdict) -> str:
    """Say what the policy made of a command."""
    return {"ask": "asked", "deny": "denied", "allow": "allowed"}.get(verdict.decision, inline(verdict.decision))


def _warnings(call: Call) -> list[str]:
    unsaved = ["unsaved in an editor: " + ", ".join(call.unsaved_files)] if call.unsaved_files else []
    return [*call.warnings, *unsaved]


def permitted_line(call: Call) -> Line | None:
    """Say by which rule a command runs that was not asked for."""
    if call.verdict is None or call.verdict.decision != "allow":
        return None
    return Line("    ", f"runs by itself: {inline(call.verdict.why)}", "quiet")


def result_lines(call: Call) -> list[Line]:
    """Say what became of a call that is over."""
    lines = [_ending(call)]
    if call.result is None:
        return lines
    if call.result.leftovers:
        left = inline(", ".join(call.result.leftovers))
        lines.append(Line("  ! ", f"still running, ends with the session: {left}", "warning", "warning"))
    if call.result.omitted_bytes:
        lines.append(Line("    ", f"the model was not shown {count(call.result.omitted_bytes, 'byte')}", "quiet"))
    return lines


def _ending(call: Call) -> Line:
    why = meaning(Reason, call.reason) if call.reason else ""
    if call.decision_reason:
        why += f": {inline(call.decision_reason)}"
    elif call.reason == "denied_by_rule" and call.verdict is not None:
        why += f": {inline(call.verdict.why)}"
    if call.status == "interrupted":
        why = meaning(CallStatus, call.status)
    elif call.started_at_ms is None and (call.result is None or call.result.exit_code is None):
        if call.result and call.result.error and call.reason in (None, "unusable"):
            why = inline(call.result.error)
        return Line("  ✗ ", f"not run: {why or inline(call.status)}", "warning", "warning")
    return _ran(call, why)


def _ran(call: Call, why: str) -> Line:
    facts = [f"exit {call.result.exit_code}"] if call.result and call.result.exit_code is not None else []
    if call.result and call.result.signal:
        facts.append(inline(call.result.signal))
    if call.status != "completed":
        facts.insert(0, inline(call.status).replace("_", " "))
        facts.append("" if call.reason == "cancelled" else why)
    if call.result and call.status != "interrupted":  # nobody knows for how long that one ran
        facts.append(seconds(call.result.duration_ms / 1000))
    if call.result and call.result.changed_files:
        here = path_of(call.cwd).rstrip("/") + "/"
        changed = [path_of(uri).removeprefix(here) for uri in call.result.changed_files]
        facts.append("changed " + inline(", ".join(changed)))
    well = call.status == "completed" and call.result is not None and call.result.exit_code == 0
    style: Style = "good" if well else "bad"
    return Line("  ✓ " if well else "  ✗ ", " · ".join(filter(None, facts)), "quiet" if well else "bad", style)


def interrupted_lines(snapshot: Snapshot) -> list[Line]:
    """Say of a session that is taken up again what was cut off, and whether it may have had effects."""
    calls = snapshot.step.calls if snapshot.step else []
    lines = []
    for call in calls:
        name = short(call.display)
        if call.status == "interrupted":
            lines.append(f"`{name}` was running when the server ended; {_PERHAPS_DONE}")
        elif call.status == "cancelled":
            ran = call.started_at_ms is not None
            lines.append(f"`{name}` " + (f"was cancelled while it ran; {_PERHAPS_DONE}" if ran else "was not started"))
    if snapshot.stop_reason == "interrupted" and not lines:
        lines.append("the last turn was interrupted; no command was running")
    return [Line("! ", line, "warning", "warning") for line in lines]


def short(display: str) -> str:
    """Name a command in part of a row, by how it begins."""
    line, more, _ = escape(display).strip().partition("\n")
    return line[:_NAME_CHARACTERS] + (" …" if more or len(line) > _NAME_CHARACTERS else "")


def read_only(snapshot: Snapshot) -> bool:
    """Whether nothing more can come of the session here; its error says why."""
    return snapshot.error is not None and snapshot.error.kind == "read_only"


def closing_lines(snapshot: Snapshot) -> list[Line]:
    """Say why the turn came to rest and what it used."""
    reason = snapshot.stop_reason
    well = reason in DONE_WELL and not read_only(snapshot)
    why = meaning(StopReason, reason).partition(";")[0] if reason else f"the session is {inline(snapshot.state)}"
    if read_only(snapshot):
        why = "the session cannot be written down, so it rests"
    lines = [BLANK, Line("✓ " if well else "■ ", why, "plain", "good" if well else "warning")]
    if snapshot.error is not None:
        rows = escape(snapshot.error.message).split("\n")
        lines += [Line(OTHERS_GUTTER, row, "bad") for row in rows]
    return [*lines, Line("  ", usage_text(snapshot), "quiet")]


def usage_text(snapshot: Snapshot) -> str:
    """Say what the session used: steps, tokens, cost."""
    usage = snapshot.usage
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    counted = usage.cost_known and bool(usage.cost or usage.input_tokens or usage.output_tokens)
    return f"{count(snapshot.steps, 'step')} · {tokens} · {money(usage.cost, known=counted)}"


def activity(snapshot: Snapshot) -> str:
    """Say in a few words what the session does now; nothing when it rests."""
    if snapshot.retry is not None:
        retry = snapshot.retry
        return f"attempt {retry.attempt} in {seconds(retry.in_seconds)}: {inline(retry.reason)}"
    resting = {"idle": "", "awaiting_approval": "", "closed": ""}
    working = {"querying": "thinking", "executing": "running", "cancelling": "stopping"}
    return {**resting, **working}.get(snapshot.state, f"state {inline(snapshot.state)}")
