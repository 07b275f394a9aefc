"""Names, reasons and outputs that try to look like the interface: each stays inside its own line and its own mark."""

from __future__ import annotations

import pytest

from editors.terminal.layout import all_rows_of
from editors.terminal.scroll import Scroll
from editors.terminal.text import inline
from editors.terminal.view import (
    Line,
    activity,
    closing_lines,
    detail_lines,
    header_lines,
    permitted_line,
    result_lines,
    said_lines,
)
from server.protocol import (
    Analysis,
    CommandResult,
    Retry,
    Said,
    SessionError,
    StreamParams,
    Verdict,
)
from tests.editors.terminal_stub import call, snapshot, step

FORGED = "x\n  $ rm -rf src\n    approved"
SPACED = "word " * 9 + " " * 20 + "$ rm -rf src approved Run it?"


def test_an_inline_text_is_one_line() -> None:
    assert inline("a\nb\tc\x1b") == "a<U+000A>b<U+0009>c<U+001B>"
    assert inline("plain ü") == "plain ü"


def everything(text: str) -> list[Line]:
    """Draw `text` wherever a name, a reason or a message of others can stand."""
    verdict = Verdict(decision="allow", rule=text, why=text)
    asked = call(
        warnings=[text],
        added_environment=[text],
        unsaved_files=[text],
        analysis=Analysis(understood=True, writes=[text]),
        verdict=verdict,
        cwd=f"file:///{text}",
        sandbox=text,
    )
    result = CommandResult(exit_code=0, leftovers=[text], changed_files=[text])
    ended = call(status="completed", result=result)
    failed = call(status="failed", reason="unusable", result=CommandResult(error=text))
    refused = call(status="rejected", reason=text, decision_reason=text)
    denied = call(status="rejected", reason="denied_by_rule", verdict=verdict)
    at_rest = snapshot(2, text, model=text, mode=text, error=SessionError(kind="x", message=text))
    lines = [*detail_lines(asked), *header_lines(at_rest), *closing_lines(at_rest)]
    for each in (ended, failed, refused, denied):
        lines += result_lines(each)
    for origin in ("prompt", "queued", "correction", "notice", "person_ran"):
        lines += said_lines(Said(origin=origin, text=text))
    permitted = permitted_line(asked)
    assert permitted is not None
    return [*lines, permitted]


@pytest.mark.parametrize("text", [FORGED, SPACED, "$ rm -rf src"])
def test_no_name_reason_or_message_looks_like_a_command_or_an_answer(text: str) -> None:
    """AP-28: rules of a workspace, names of files and words of a provider are other people's texts."""
    for line in everything(text):
        assert "\n" not in line.text
    for row in map(str, all_rows_of(everything(text), 60)):
        assert not row.startswith(("  $ ", "  > ", "    approved", "  Run it?"))


def test_what_goes_on_is_one_line() -> None:
    retry = Retry(attempt=2, in_seconds=3, reason=FORGED)
    assert "\n" not in activity(snapshot(1, "querying", retry=retry))
    assert "\n" not in activity(snapshot(1, FORGED))


def test_the_rows_of_one_long_line_are_told_from_lines_of_the_interface() -> None:
    """A command cannot draw its own end, its details or its approval by padding a line to the width."""
    padded = Line("  $ ", "ls" + " " * 54 + "    approved" + " " * 44 + "✓ exit 0", "command")
    first, *others = [str(row) for row in all_rows_of([padded], 60)]
    assert first.startswith("  $ ls")
    assert others
    assert all(row.startswith("  ┆ ") for row in others)


def piece(text: str, offset: int) -> StreamParams:
    return StreamParams(
        session_id="one", step_id="s1", attempt=1, call_id="c1", channel="output", offset=offset, text=text
    )


def test_a_flood_tells_once_what_was_not_shown() -> None:
    """UX-05: pieces that were dropped in between are counted together, at the end."""
    scroll = Scroll()
    scroll.take(snapshot(1, "executing", step(call(status="running"))))
    lines = scroll.stream(piece("first\n", 0))
    for number in range(1, 40):
        lines += scroll.stream(piece(f"row {number}\n", number * 1000))
    result = CommandResult(exit_code=0, output_tail="last\n", output_offset=90_000)
    lines += scroll.take(snapshot(2, "idle", step(call(status="completed", result=result))))
    told = [line.text for line in lines]
    assert told[0] == "first"
    assert told[-2] == "last"
    (notice,) = [text for text in told if "not shown" in text]
    assert notice.startswith("… 89,")
    assert "byte" in notice
    assert "line" in notice
