"""Whole turns in a real Neovim with the real server: prompts, steps, decisions, output, cancelling, two sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.editors.nvim_driver import Editor, opened

pytestmark = pytest.mark.timeout(45)


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    yield from opened(tmp_path)


def test_a_turn_from_prompt_to_end_by_keys(editor: Editor) -> None:
    editor.replay(chat_body("I **look**.", [bash("c1", "echo hi > made; echo out")]), chat_body("Done."))
    editor.keys(":Handrail start<CR>")
    editor.until(lambda: "/prompt" in editor.nvim.current.buffer.name, "the prompt's buffer")
    editor.keys("Repair it.<Esc>:w<CR>")
    editor.until_state("awaiting_approval")
    assert not (editor.project / "made").exists()
    editor.until(lambda: editor.nvim.current.buffer.options["filetype"] == "handrail", "the session's window")
    editor.keys("a")
    shown = editor.until(editor.review)
    assert "echo hi > made; echo out" in shown
    editor.keys("a")
    editor.until_state("idle")
    assert (editor.project / "made").read_text() == "hi\n"
    text = editor.text()
    assert text.index("▸ Repair it.") < text.index("I **look**.") < text.index("$ echo hi") < text.index("│ out")
    assert "✓ exit 0" in text
    assert text.index("Step 2") < text.index("Done.") < text.index("✓ the model ended its turn")
    assert editor.review() == ""


def test_one_step_then_on_without_a_prompt(editor: Editor) -> None:
    editor.replay(chat_body("One.", [bash("c1", "true")]), chat_body("Two."))
    editor.handrail("step Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.handrail("approve")
    assert editor.until_state("idle")["stopReason"] == "step_done"
    editor.handrail("step")
    editor.until_text("Two.")


def test_an_edited_command_is_what_runs(editor: Editor) -> None:
    """AP-18."""
    editor.replay(chat_body("", [bash("c1", "echo wrong > made")]), chat_body("Done."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.keys("e")
    editor.until(lambda: editor.nvim.current.buffer.name.endswith("/command"), "the command's buffer")
    assert editor.lines() == ["echo wrong > made"]
    editor.keys("ccecho right > made<Esc>")
    assert editor.state() == "awaiting_approval"
    editor.keys(":w<CR>")
    editor.until_state("idle")
    assert (editor.project / "made").read_text() == "right\n"
    assert "edited by you; the model wrote: echo wrong > made" in editor.text()
    assert editor.review() == ""
    assert not [each for each in editor.nvim.buffers if each.name.endswith("/command")]


def test_a_rejection_with_its_reason(editor: Editor) -> None:
    """AP-24, UX-02: the reason reaches the record, and the review is gone."""
    editor.replay(chat_body("", [bash("c1", "touch made")]), chat_body("Then not."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.keys("r")
    editor.until(lambda: editor.nvim.current.buffer.name.endswith("/reason"), "the reason's buffer")
    editor.keys("use make instead<Esc>:w<CR>")
    editor.until_state("idle")
    assert "✗ not run: a person rejected it: use make instead" in editor.text()
    assert not (editor.project / "made").exists()
    assert editor.review() == ""


def test_stop_ends_the_turn_with_all_that_waits(editor: Editor) -> None:
    """AP-25."""
    editor.replay(chat_body("", [bash("c1", "touch a"), bash("c2", "touch b")]), chat_body("No."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.keys("s")
    assert editor.until_state("idle")["stopReason"] == "rejected_and_stopped"
    assert list(editor.project.iterdir()) == []
    editor.until(lambda: editor.review() == "")


def test_output_comes_live_and_the_turn_is_cancelled(editor: Editor) -> None:
    """UX-08: a running command tells its seconds; cancelling ends it."""
    editor.replay(chat_body("", [bash("c1", "echo begun; sleep 60")]), chat_body("No."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.keys("a")
    editor.until_text("│ begun")
    editor.until_text("● running 1 s")
    editor.handrail("cancel")
    assert editor.until_state("idle")["stopReason"] == "cancelled"
    editor.until_text("✗ cancelled")


def test_a_prompt_during_a_turn_is_queued_and_can_be_taken_back(editor: Editor) -> None:
    editor.replay(chat_body("", [bash("c1", "true")]), chat_body("Heard."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.handrail("run And be quick.")
    editor.until(lambda: [each["prompt"] for each in editor.snapshot()["queued"]] == ["And be quick."])
    assert "1 queued" in editor.lua('return require("handrail.window").bar()')
    editor.handrail("withdraw")
    editor.until(lambda: editor.snapshot()["queued"] == [])


def test_two_sessions_do_not_mix(editor: Editor) -> None:
    editor.replay(chat_body("First.", [bash("c1", "touch a")]), chat_body("No."))
    editor.handrail("run One.")
    first = editor.until_state("awaiting_approval")["sessionId"]
    editor.replay(chat_body("Second.", [bash("c1", "touch b")]), chat_body("Done."))
    editor.handrail("start Two.")
    editor.until(lambda: editor.state() == "awaiting_approval" and editor.snapshot()["sessionId"] != first)
    assert "touch b" in editor.open_review()
    assert "1 more waiting" in editor.review()
    assert editor.lua('return require("handrail").statusline()') == "handrail: 2 waiting"
    editor.keys("a")
    editor.until_state("idle")
    assert sorted(path.name for path in editor.project.iterdir()) == ["b"]
    assert "touch a" in editor.open_review()


def test_a_long_output_is_bounded_and_counted(editor: Editor) -> None:
    editor.replay(chat_body("", [bash("c1", "seq 3000"), bash("c2", "echo after")]), chat_body("Done."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.keys("a")
    editor.until(lambda: "2 of 2" in editor.review())
    editor.keys("a")
    editor.until_state("idle")
    rows = [line for line in editor.session_lines() if line.startswith("│")]
    assert rows[0] == "│ 1"
    assert "│ 3000" in rows
    assert rows[-1] == "│ after"
    assert len(rows) < 210
    shown = sum(line[2:].isdigit() for line in rows)
    told = next(line for line in rows if "not shown" in line)
    assert f"{3000 - shown:,} lines" in told


def test_the_window_follows_only_at_the_end(editor: Editor, tmp_path: Path) -> None:
    editor.replay(chat_body("\n".join(f"row {i}" for i in range(80)), [bash("c1", "seq 20")]), chat_body("Done."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    window = editor.nvim.current.window
    assert window.cursor[0] == len(editor.lines())
    editor.open_review()
    editor.keys("a")
    editor.until_state("idle")
    assert window.cursor[0] == len(window.buffer)
    editor.nvim.command("normal! gg")
    editor.replay(chat_body("Again."))
    editor.handrail("shell echo mine")
    editor.until(lambda: editor.state() == "idle")
    assert window.cursor[0] == 1
