"""What snapshots and pieces look like: escaping, single parts, and the append-only drawing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editors.terminal.scroll import Flow, Scroll
from editors.terminal.text import escape, folder, money, output_line, seconds
from editors.terminal.view import (
    Line,
    activity,
    closing_lines,
    command_lines,
    detail_lines,
    header_lines,
    result_lines,
)
from server.protocol import (
    Analysis,
    CommandResult,
    Retry,
    Said,
    SessionError,
    StreamParams,
    Usage,
)
from tests.editors.terminal_stub import call, snapshot, step


def shown(lines: list[Line]) -> str:
    return "\n".join(line.gutter + line.text for line in lines)


def test_what_moves_the_cursor_or_hides_is_shown_as_code_points() -> None:
    """AP-28."""
    text = "echo a\u202etxt.exe\u202c \u200b \x1b[2K\U000e0100\r"
    assert escape(text) == "echo a<U+202E>txt.exe<U+202C> <U+200B> <U+001B>[2K<U+E0100><U+000D>"
    assert escape("héllo wörld\n\tok") == "héllo wörld\n\tok"


@settings(max_examples=100)
@given(st.text())
def test_nothing_that_a_terminal_acts_on_survives(text: str) -> None:
    for line in (escape(text), output_line(text)):
        assert all(character.isprintable() or character in "\n\t\u00a0\u202f" for character in line)


def test_output_keeps_the_last_state_of_an_overwritten_line_without_colours() -> None:
    assert output_line("10%\r50%\r\x1b[32m100%\x1b[0m\r") == "100%"
    assert output_line("\x1b]0;title\x07ok") == "ok"


def test_an_unknown_cost_is_never_a_number() -> None:
    assert money(None, known=False) == "cost unknown"
    assert money(0.0, known=False) == "cost unknown"
    assert money(0.5, known=False) == "cost unknown (at least $0.5000)"
    assert money(0.0, known=True) == "cost $0.0000"


def test_durations_and_folders_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert [seconds(value) for value in (0.012, 2.34, 61.2)] == ["12 ms", "2.3 s", "61 s"]
    assert folder("file:///home/me/a%20b") == "~/a b"
    assert folder("file:///home/meg") == "/home/meg"


def test_a_command_of_several_lines_is_shown_as_a_shell_shows_it() -> None:
    assert shown(command_lines("cat <<'E'\n\n$ rm\nE")) == "  $ cat <<'E'\n  > \n  > $ rm\n  > E"


def test_a_person_sees_all_that_matters_before_deciding() -> None:
    """AP-29, AP-31, UX-04."""
    asked = call(
        2,
        "touch x\n" * 30,
        count=3,
        long=True,
        warnings=["outside the workspace: \x1b[1m~"],
        added_environment=["CI"],
        unsaved_files=["a.py"],
        analysis=Analysis(understood=True, writes=["x"]),
    )
    text = shown(detail_lines(asked))
    for part in (
        "2 of 3",
        "/w",
        "at most 30 s",
        "with CI",
        "writes x",
        "asked: nothing allows it",
        "31 lines, 240 characters",
        "! outside the workspace: <U+001B>[1m~",
        "! unsaved in an editor: a.py",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("status", "more", "expected"),
    [
        ("completed", {}, "✓ exit 0 · 12 ms"),
        ("completed", {"result": CommandResult(exit_code=2, duration_ms=2500)}, "✗ exit 2 · 2.5 s"),
        ("rejected", {"reason": "rejected_by_person", "decision_reason": "use make"}, "person rejected it: use make"),
        ("rejected", {"reason": "denied_by_rule"}, "✗ not run: a rule denies it: nothing allows it"),
        ("rejected", {"reason": "batch_refused"}, "✗ not run: another call of the same reply was malformed"),
        ("rejected", {"reason": "a_new_reason"}, "✗ not run: a_new_reason"),
        ("timed_out", {"reason": "timeout", "started_at_ms": 1}, "✗ timed out · its time was over"),
        (
            "failed",
            {"reason": "signal", "started_at_ms": 1, "result": CommandResult(signal="SIGKILL", duration_ms=10)},
            "✗ failed · SIGKILL · a signal ended it · 10 ms",
        ),
        ("failed", {"reason": "unusable", "result": CommandResult(error="the folder /w is gone")}, "/w is gone"),
        ("cancelled", {"reason": "not_started"}, "✗ not run: an earlier call of the batch"),
        ("interrupted", {"reason": "interrupted", "started_at_ms": 1}, "✗ interrupted · a crash or shutdown"),
        (
            "interrupted",
            {"reason": "interrupted", "started_at_ms": 1, "result": CommandResult(output_tail="begun")},
            "✗ interrupted · a crash or shutdown came in between; whether it had an effect is not known",
        ),
        ("interrupted", {"reason": "interrupted"}, "✗ interrupted · a crash or shutdown came in between"),
    ],
)
def test_every_way_a_call_ends_is_one_line_with_the_reason(status: str, more: dict[str, Any], expected: str) -> None:
    """UX-07."""
    lines = result_lines(call(status=status, **more))
    assert len(lines) == 1
    assert expected in shown(lines)
    assert "· 0 ms" not in shown(lines)


def test_leftovers_are_told() -> None:
    ended = call(status="completed", result=CommandResult(exit_code=0, leftovers=["sleep (123)"]))
    assert "still running, ends with the session: sleep (123)" in shown(result_lines(ended))


def test_the_end_says_why_and_what_it_used() -> None:
    usage = Usage(input_tokens=1234, output_tokens=5)
    lines = shown(closing_lines(snapshot(9, "idle", step(index=2), stop_reason="end_turn", usage=usage)))
    assert "✓ the model ended its turn" in lines
    assert "2 steps · 1,234 tokens in, 5 out · cost unknown" in lines
    error = SessionError(kind="offline", message="no network\nplug it in")
    lines = shown(closing_lines(snapshot(9, "idle", stop_reason="model_error", error=error)))
    assert "■ the model could not be asked\n" in lines
    assert "│ plug it in" in lines
    assert "brand_new_reason" in shown(closing_lines(snapshot(9, "idle", stop_reason="brand_new_reason")))


def test_no_cost_is_told_of_a_session_in_which_no_query_succeeded() -> None:
    """R13: what nobody counted is not 0."""
    usage = Usage(cost=0.0, cost_known=True)
    failed = snapshot(9, "idle", step(), stop_reason="model_error", usage=usage)
    assert shown(closing_lines(failed)).endswith("  1 step · 0 tokens in, 0 out · cost unknown")
    free = snapshot(9, "idle", step(), stop_reason="end_turn", usage=Usage(input_tokens=3, cost=0.0, cost_known=True))
    assert shown(closing_lines(free)).endswith("cost $0.0000")


@pytest.mark.parametrize("command", ["# rm -rf src", "# one\n\n   # two\n"])
def test_of_a_comment_it_is_said_that_nothing_would_run(command: str) -> None:
    assert "! only a comment is left: nothing would run" in shown(detail_lines(call(command=command)))


@pytest.mark.parametrize("command", ["ls # all", "echo \\\n# x", "", "cat <<E\n# x\nE"])
def test_other_commands_are_no_comments(command: str) -> None:
    assert "only a comment" not in shown(detail_lines(call(command=command)))


def test_files_that_a_command_writes_again_and_again_are_named_once() -> None:
    """UX-05: the facts stay short enough for the command to stay on the screen."""
    files = [name for number in range(30) for name in ("log", f"file{number}")]
    text = shown(detail_lines(call(analysis=Analysis(understood=True, writes=files))))
    assert text.count("log") == 1
    assert "writes log, file0, file1, file2, file3, file4, file5, file6 and 23 more" in text


def test_mode_trusted_is_shown_as_a_warning() -> None:
    assert "commands run without being asked" in shown(header_lines(snapshot(1, "idle", mode="trusted")))
    assert len(header_lines(snapshot(1, "idle"))) == 1


def test_what_goes_on_is_named_also_when_it_is_unknown() -> None:
    retry = Retry(attempt=2, in_seconds=3, reason="rate limit")
    assert activity(snapshot(1, "querying", retry=retry)) == "attempt 2 in 3.0 s: rate limit"
    assert activity(snapshot(1, "dreaming")) == "state dreaming"
    assert activity(snapshot(1, "awaiting_approval")) == ""


def piece(text: str, offset: int, channel: str = "output", **more: object) -> StreamParams:
    members = {"session_id": "one", "step_id": "s1", "attempt": 1, "call_id": "c1" if channel == "output" else None}
    return StreamParams.model_validate({**members, "channel": channel, "offset": offset, "text": text, **more})


@settings(max_examples=60)
@given(st.text(alphabet="aé€\n", max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8))
def test_a_flow_gives_each_byte_once_whatever_overlaps(text: str, cuts: list[tuple[int, int]]) -> None:
    flow, lines = Flow(), []
    for start, length in cuts:
        offset = len(text[:start].encode())
        if offset <= flow.taken:  # no gap
            lines += flow.take(offset, text[start : start + length])
    lines += flow.take(0, text) + flow.finish()
    assert "\n".join(lines) == text.removesuffix("\n")


def test_a_gap_is_counted_not_hidden() -> None:
    scroll = Scroll()
    scroll.take(snapshot(1, "executing", step(call(status="running"))))
    assert scroll.stream(piece("later\n", 100)) == []
    result = CommandResult(exit_code=0, output_tail="later\n", output_offset=100)
    ended = scroll.take(snapshot(2, "idle", step(call(status="completed", result=result))))
    assert shown(ended).startswith("  │ … 100 bytes not shown\n  │ later")


def test_text_that_streams_is_shown_once() -> None:
    scroll = Scroll()
    scroll.take(snapshot(1, "querying", step()))
    first = scroll.stream(piece("Let me look.\nThen", 0, "text"))
    assert scroll.tail is not None
    assert scroll.tail.text == "Then"
    rest = scroll.take(snapshot(2, "executing", step(call(status="running"), text="Let me look.\nThen act.")))
    assert shown(first) == "\n● Let me look."
    assert shown(rest).startswith("│ Then act.\n\n  $ ls")


def test_another_attempt_discards_the_first() -> None:
    scroll = Scroll()
    scroll.take(snapshot(1, "querying", step()))
    scroll.stream(piece("wrong\n", 0, "text"))
    assert "attempt 2" in shown(scroll.stream(piece("right\n", 0, "text", attempt=2)))
    assert scroll.stream(piece("late\n", 6, "text", attempt=1)) == []
    assert scroll.take(snapshot(2, "idle", step(text="right\n", attempt=2))) == []


def test_output_streams_and_its_end_is_not_repeated() -> None:
    scroll = Scroll()
    scroll.take(snapshot(1, "executing", step(call(status="running"))))
    assert shown(scroll.stream(piece("one\ntw", 0))) == "  │ one"
    assert scroll.tail == Line("  │ ", "tw", "output")
    result = CommandResult(exit_code=0, output_tail="one\ntwo")
    ended = scroll.take(snapshot(2, "idle", step(call(status="completed", result=result))))
    assert shown(ended) == "  │ two\n  ✓ exit 0 · 0 ms"
    assert scroll.stream(piece("three\n", 7)) == []


def test_long_output_is_bounded_and_what_is_left_out_is_counted() -> None:
    scroll = Scroll()
    result = CommandResult(exit_code=0, output_tail="".join(f"row {number}\n" for number in range(100)))
    lines = shown(scroll.take(snapshot(1, "idle", step(call(status="completed", result=result)))))
    assert "row 29\n  │ … 60 lines not shown\n  │ row 90" in lines
    assert "row 99" in lines


def test_an_older_snapshot_changes_nothing() -> None:
    scroll = Scroll()
    assert scroll.take(snapshot(5, "awaiting_approval", step(call())))
    assert scroll.take(snapshot(4, "executing", step(call(status="levitating"), text="older"))) == []
    assert scroll.revision == 5


def test_of_a_batch_each_call_is_shown_when_its_turn_comes_and_named_again_at_its_result() -> None:
    """UX-04."""
    scroll = Scroll()
    three = [call(number, f"echo {number}", count=3) for number in (1, 2, 3)]
    first = shown(scroll.take(snapshot(1, "awaiting_approval", step(*three, text="go"))))
    assert "$ echo 1" in first
    assert "1 of 3" in first
    assert "echo 2" not in first
    approved = call(1, "echo 1", "approved", count=3)
    second = shown(scroll.take(snapshot(2, "awaiting_approval", step(approved, *three[1:]))))
    assert second.startswith("\n  $ echo 2")
    rejected = call(2, "echo 2", "rejected", count=3, reason="rejected_by_person")
    third = shown(scroll.take(snapshot(3, "awaiting_approval", step(approved, rejected, three[2]))))
    assert "not run: a person rejected it" in third
    assert "$ echo 3" in third
    last = [call(1, "echo 1", "completed", count=3), rejected, call(3, "echo 3", "completed", count=3)]
    end = shown(scroll.take(snapshot(4, "idle", step(*last))))
    assert end == (
        "\n  $ echo 1  (1 of 3)\n  │ out\n  ✓ exit 0 · 12 ms\n\n  $ echo 3  (3 of 3)\n  │ out\n  ✓ exit 0 · 12 ms"
    )


def test_a_long_command_of_a_batch_is_named_again_in_one_row() -> None:
    """UX-04: nothing that `v` would show is promised when nobody is asked."""
    scroll = Scroll()
    long = "echo a" + " " * 3_000 + "; touch b"
    scroll.take(snapshot(1, "awaiting_approval", step(call(1, long, count=2), call(2, "pwd", count=2))))
    waiting = call(2, "pwd", count=2)
    scroll.take(snapshot(2, "awaiting_approval", step(call(1, long, "approved", count=2), waiting)))
    ended = [call(1, long, "completed", count=2), call(2, "pwd", "completed", count=2)]
    lines = scroll.take(snapshot(3, "idle", step(*ended)))
    assert lines[1].text.startswith("echo a")
    assert lines[1].text.endswith(" …  (1 of 2)")
    assert len(lines[1].text) < 80


def test_a_resumed_session_shows_what_was_approved_before() -> None:
    scroll = Scroll()
    approved = [call(1, status="approved", count=2), call(2, "pwd", count=2)]
    lines = shown(scroll.take(snapshot(2, "awaiting_approval", step(*approved))))
    assert lines.startswith("\n  $ ls\n    approved\n\n  $ pwd\n    2 of 2")


def test_streamed_output_of_a_batch_appears_under_its_own_command_and_in_order() -> None:
    """UX-04."""
    scroll = Scroll()
    scroll.take(snapshot(1, "awaiting_approval", step(call(1, count=2), call(2, "pwd", count=2))))
    approved = [call(1, status="approved", count=2), call(2, "pwd", count=2)]
    scroll.take(snapshot(2, "awaiting_approval", step(*approved)))
    scroll.take(snapshot(3, "executing", step(call(1, status="running", count=2), call(2, "pwd", "approved", count=2))))
    assert shown(scroll.stream(piece("out\n", 0))) == "\n  $ ls  (1 of 2)\n  │ out"
    not_run = call(2, "pwd", "cancelled", count=2, reason="not_started")
    assert scroll.take(snapshot(4, "cancelling", step(call(1, status="running", count=2), not_run))) == []
    ended = call(1, status="cancelled", count=2, reason="cancelled", started_at_ms=1)
    lines = shown(scroll.take(snapshot(5, "idle", step(ended, not_run))))
    assert lines.startswith("  ✗ cancelled\n")
    assert "not run: an earlier call" in lines


def test_an_edited_command_is_shown_unless_the_face_did() -> None:
    """AP-18."""
    for told in (False, True):
        scroll = Scroll()
        scroll.take(snapshot(1, "awaiting_approval", step(call(command="ls -l /nope"))))
        if told:
            scroll.already_shown("c1", "ls -l .")
        lines = shown(scroll.take(snapshot(2, "executing", step(call(command="ls -l .", status="running")))))
        assert ("edited by you:\n  $ ls -l ." in lines) is not told


def test_an_unknown_status_is_shown_as_a_word_and_nothing_more() -> None:
    scroll = Scroll()
    lines = shown(scroll.take(snapshot(1, "executing", step(call(status="levitating")))))
    assert "this call is 'levitating', a word unknown to this client" in lines
    assert "approved" not in lines


def test_what_the_model_was_told_is_shown_before_its_answer() -> None:
    said = [Said(origin="prompt", text="Fix it\x07"), Said(origin="correction", text="no tool")]
    lines = shown(Scroll().take(snapshot(1, "querying", step(said=said))))
    assert lines == "\n▸ Fix it<U+0007>\n  told the model: no tool"


def test_steps_that_were_passed_over_are_asked_for() -> None:
    scroll = Scroll()
    scroll.take(snapshot(1, "executing", step(call(status="running"))))
    assert scroll.missed_from(snapshot(2, "querying", step(index=2))) == 1
    scroll.take(snapshot(3, "querying", step(call(status="completed"))))
    assert scroll.missed_from(snapshot(4, "querying", step(index=2))) is None
    assert scroll.missed_from(snapshot(5, "querying", step(index=4))) == 2
    assert Scroll().missed_from(snapshot(1, "idle", step(index=40))) is None


def test_changed_files_are_named_as_the_person_names_them() -> None:
    changed = ["file:///w/src/a%20b.py", "file:///elsewhere/c"]
    result = CommandResult(exit_code=0, duration_ms=12, changed_files=changed)
    ended = call(status="completed", result=result)
    assert shown(result_lines(ended)) == "  ✓ exit 0 · 12 ms · changed src/a b.py, /elsewhere/c"
