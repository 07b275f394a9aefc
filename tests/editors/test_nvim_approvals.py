"""Approvals in a real Neovim: never a stolen key, never by accident, always the whole and literal command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.editors.nvim_driver import LINES, Editor, opened

pytestmark = pytest.mark.timeout(45)


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    yield from opened(tmp_path)


def waiting(editor: Editor, *commands: str, **config: object) -> None:
    """Bring a session to where these commands wait."""
    calls = [bash(f"c{at}", each) for at, each in enumerate(commands)]
    editor.replay(chat_body("I look.", calls), chat_body("Done."), **config)
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")


def remembers(editor: Editor, words: str) -> bool:
    """Whether the review says that this rule would be remembered."""
    return f"remembers: every `{words}`" in editor.review()


def unharmed(editor: Editor) -> bool:
    """Whether everything still waits and nothing ran."""
    time.sleep(0.15)
    return editor.state() == "awaiting_approval" and list(editor.project.iterdir()) == []


@pytest.mark.parametrize("keys", ["<CR>", "<Esc>", "<Space>", "q", ":q<CR>", "<C-w>c", "<C-w>w", ":only<CR>", "yy"])
def test_nothing_that_makes_a_prompt_go_away_decides(editor: Editor, keys: str) -> None:
    """UX-01: and the review can be opened again."""
    waiting(editor, "touch made")
    editor.open_review()
    editor.keys(keys)
    assert unharmed(editor)
    assert "touch made" in editor.open_review()
    editor.keys("<Esc>")
    editor.until(lambda: editor.review() == "")
    editor.open_review()
    editor.keys("a")
    editor.until_state("idle")
    assert (editor.project / "made").exists()


@pytest.mark.parametrize("how", ["key", "window", "tab"])
def test_losing_the_focus_decides_nothing(editor: Editor, how: str) -> None:
    """UX-01."""
    waiting(editor, "touch made")
    editor.open_review()
    if how == "key":
        editor.lua('vim.api.nvim_exec_autocmds("FocusLost", {})')
    elif how == "window":
        editor.nvim.command("wincmd p")
    else:
        editor.nvim.command("tabnew")
    assert unharmed(editor)


def test_typing_goes_on_and_never_answers(editor: Editor) -> None:
    """UX-06: an approval arrives while the person types in another buffer."""
    editor.replay(chat_body("", [bash("c1", "sleep 0.2; touch made")]), chat_body("Done."), auto_review=True)
    editor.lua(
        'vim.api.nvim_create_autocmd("User", { pattern = "HandrailWaiting", callback = function(event) '
        "vim.g.waited = event.data end })"
    )
    editor.nvim.command("new notes.txt")
    window = editor.nvim.current.window
    editor.lua(
        'require("handrail"); require("handrail.session").new(vim.fn.getcwd(), nil, function(session)'
        ' require("handrail.session").step(session, "Go.", vim.NIL) end)'
    )
    editor.keys("i")
    typed = ""
    while not editor.nvim.vars.get("waited"):
        editor.keys("a")
        typed += "a"
        time.sleep(0.01)
    editor.keys("aersmw y<CR>more")
    editor.until(lambda: editor.lines()[-1] == "more")
    assert editor.lines()[0].startswith(typed)
    assert editor.lines()[0].endswith("aersmw y")
    assert editor.nvim.api.get_mode() == {"mode": "i", "blocking": False}
    assert editor.nvim.current.window == window
    assert editor.review() == ""
    assert unharmed(editor)
    assert "a command waits for you" in editor.messages()
    assert editor.nvim.vars["waited"]["count"] == 1


def test_the_review_opens_by_itself_only_where_asked_for(editor: Editor) -> None:
    waiting(editor, "touch made", auto_review=True)
    assert "touch made" in editor.until(editor.review)
    assert unharmed(editor)


def test_each_of_a_batch_is_shown_in_its_turn(editor: Editor) -> None:
    """UX-04: position and command of each, and results beside their commands."""
    waiting(editor, "echo one", "echo two", "echo three")
    assert "1 of 3" in editor.open_review()
    assert "$ echo one" in editor.review()
    editor.keys("a")
    editor.until(lambda: "2 of 3" in editor.review())
    assert "$ echo two" in editor.review()
    editor.handrail("reject not two")
    editor.until(lambda: "3 of 3" in editor.review())
    editor.keys("a")
    editor.until_state("idle")
    text = editor.text()
    places = [text.index(each) for each in ("$ echo one", "│ one", "$ echo two", "not two", "$ echo three", "│ three")]
    assert places == sorted(places)
    assert "│ two" not in text


def test_keys_that_were_typed_ahead_do_not_approve_the_next_one(editor: Editor) -> None:
    """A command that was only just shown cannot be approved yet."""
    waiting(editor, "touch a", "touch b", settle_ms=700)
    editor.open_review()
    time.sleep(0.75)
    editor.keys("aaaa")
    editor.until(lambda: "2 of 2" in editor.review())
    editor.keys("aa")
    time.sleep(0.15)
    assert editor.state() == "awaiting_approval"
    assert editor.snapshot()["pending"] == [editor.snapshot()["step"]["calls"][1]["callId"]]


def test_hostile_text_is_shown_as_code_points(editor: Editor) -> None:
    """AP-28: in the review, in the transcript, in what the model says and in output."""
    hostile = "echo a\u202etxt.exe\u202c \u200b \x1b[2K\U000e0100"
    editor.replay(chat_body("Look \u202ehere\u200b.", [bash("c1", hostile)]), chat_body("Done."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    shown = editor.open_review()
    assert "echo a<U+202E>txt.exe<U+202C> <U+200B> <U+001B>[2K<U+E0100>" in shown.replace("\n↪ ", "")
    assert shown.count("! ") >= 1
    editor.keys("a")
    editor.until_state("idle")
    text = editor.text()
    assert "Look <U+202E>here<U+200B>." in text
    assert "│ a<U+202E>txt.exe<U+202C> <U+200B>" in text
    for character in "\u202e\u202c\u200b\x1b\U000e0100":
        assert character not in text + shown


@pytest.mark.parametrize("command", ["ls" + "\n" * 301 + "touch made", "echo " + "x" * 5000 + "; touch made"])
def test_the_end_of_a_long_command_must_be_seen(editor: Editor, command: str) -> None:
    """AP-29: the size is told, all of it can be reached, and approving needs its end."""
    waiting(editor, command)
    shown = editor.open_review()
    size = "302 lines" if command.startswith("ls") else f"1 line, {len(command):,} characters"
    assert f"! long: {size}" in shown
    assert "scroll to the end (G) to approve" in shown
    editor.keys("a")
    assert unharmed(editor)
    editor.keys("G")
    editor.until(lambda: "scroll to the end" not in editor.review())
    assert "touch made" in editor.nvim.current.line
    editor.keys("a")
    editor.until_state("idle")
    assert (editor.project / "made").exists()


def test_the_choices_stay_in_reach_of_400_lines(editor: Editor) -> None:
    """UX-05: the window is bounded and the choices are in its border."""
    waiting(editor, "\n".join(f"echo {at}" for at in range(400)))
    editor.open_review()
    window = editor.nvim.current.window
    assert window.height < LINES - 4
    assert window.row + window.height + 2 <= LINES
    assert "a approve" in editor.review()
    editor.keys("G")
    editor.until(lambda: editor.nvim.current.line == "> echo 399")
    editor.keys("s")
    assert editor.until_state("idle")["stopReason"] == "rejected_and_stopped"


@pytest.mark.parametrize("words", ["reject", "reject no", "stop", "cancel"])
def test_the_review_goes_away_however_it_is_decided(editor: Editor, words: str) -> None:
    """UX-02: also when it was cancelled from elsewhere."""
    waiting(editor, "touch made")
    editor.open_review()
    editor.handrail(words)
    if words == "reject":
        editor.until(lambda: editor.nvim.current.buffer.name.endswith("/reason"))
        editor.keys("<Esc>:w<CR>")
    editor.until(lambda: editor.review() == "")
    editor.until_state("idle")
    assert len(editor.nvim.windows) == 2
    assert list(editor.project.iterdir()) == []


def test_what_is_decided_elsewhere_is_withdrawn_but_not_under_the_fingers(editor: Editor) -> None:
    """UX-02, UX-06: while the person types a reason the buffer stays; it can no longer be sent."""
    waiting(editor, "touch made")
    editor.open_review()
    editor.keys("r")
    editor.until(lambda: editor.nvim.current.buffer.name.endswith("/reason"))
    editor.keys("half a")
    editor.handrail("cancel")
    editor.until_state("idle")
    editor.until(lambda: "withdrawn" in editor.nvim.current.window.options["winbar"])
    assert editor.nvim.api.get_mode()["mode"] == "i"
    editor.keys(" word")
    editor.until(lambda: editor.lines() == ["half a word"])
    editor.keys("<Esc>")
    editor.until(lambda: not editor.nvim.current.buffer.name.endswith("/reason"))
    assert "nothing was decided here" in editor.messages()


def test_remembering_is_shown_before_it_is_said(editor: Editor) -> None:
    """AP-11: the exact text, then each rule, then nothing again."""
    editor.replay(
        chat_body("", [bash("c1", "git status")]), chat_body("", [bash("c2", "git status")]), chat_body("Done.")
    )
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    rules = editor.snapshot()["step"]["calls"][0]["proposedRules"]
    editor.keys("m")
    assert "approving also remembers: exactly this command" in editor.until(editor.review)
    for rule in rules:
        editor.keys("m")
        editor.until(partial(remembers, editor, rule["words"]))
    editor.keys("m")
    editor.until(lambda: "remembers" not in editor.review())
    editor.keys("ma")
    editor.until_state("idle")
    assert editor.text().count("✓ exit") + editor.text().count("✗ exit") == 2


def test_a_picker_that_takes_the_first_choice_decides_nothing(editor: Editor) -> None:
    """Whatever replaces vim.ui.select and vim.ui.input is never asked about an approval."""
    editor.lua(
        "vim.ui.select = function(items, _, done) vim.g.picked = true; done(items[1], 1) end;"
        "vim.ui.input = function(_, done) vim.g.picked = true; done('yes') end"
    )
    waiting(editor, "touch made")
    editor.open_review()
    editor.keys("<Esc>")
    editor.handrail("mode")
    editor.handrail("sessions")
    editor.until(lambda: editor.nvim.current.buffer.options["filetype"] == "handrail-sessions")
    assert "picked" not in list(editor.lua("return vim.tbl_keys(vim.g)") or [])
    assert unharmed(editor)


def test_an_unknown_state_is_never_an_approval(editor: Editor) -> None:
    waiting(editor, "touch made")
    editor.lua(
        """
        local sessions = require("handrail.session")
        local snapshot = vim.deepcopy(sessions.current().snapshot)
        snapshot.state, snapshot.revision = "pondering", snapshot.revision + 1
        sessions.receive(snapshot)
        """
    )
    editor.handrail("review")
    assert editor.review() == ""
    assert "pondering" in editor.lua('return require("handrail.window").bar()')


def test_an_older_snapshot_changes_nothing(editor: Editor) -> None:
    waiting(editor, "touch made")
    editor.lua(
        """
        local sessions = require("handrail.session")
        local snapshot = vim.deepcopy(sessions.current().snapshot)
        snapshot.state, snapshot.revision, snapshot.pending = "idle", snapshot.revision - 1, {}
        sessions.receive(snapshot)
        """
    )
    assert "touch made" in editor.open_review()


def test_a_refused_decision_is_told_and_the_review_stays_true(editor: Editor) -> None:
    """A text that a rule denies is not run; the call still waits."""
    rules = [{"match": ["curl"], "decision": "deny", "why": "no network"}]
    calls = [bash("c1", "touch made")]
    tape = editor.tape(chat_body("", calls), chat_body("Done."))
    editor.configure({"settings": {"replay": tape, "model": "m", "rules": rules}})
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    editor.open_review()
    editor.keys("e")
    editor.until(lambda: editor.nvim.current.buffer.name.endswith("/command"))
    editor.keys("cccurl x<Esc>:w<CR>")
    editor.until(lambda: "no network" in editor.messages() or "denie" in editor.messages())
    assert unharmed(editor)
    assert "touch made" in editor.open_review()
