"""What belongs to the editor: unsaved and changed buffers, quickfix, configuration, completion, health, help, demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.core.replies import bash, chat_body
from tests.editors.nvim_driver import PLUGIN, Editor, opened

CLI = [sys.executable, "-P", "-m", "editors.terminal.cli", "serve"]

pytestmark = pytest.mark.timeout(45)


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    yield from opened(tmp_path)


def waiting(editor: Editor, *commands: str, **config: Any) -> None:
    calls = [bash(f"c{at}", each) for at, each in enumerate(commands)]
    editor.replay(chat_body("I look.", calls), chat_body("Done."), **config)
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")


def say_unsaved(editor: Editor, path: Path) -> None:
    """Let a snapshot say that the command touches this file, which has unsaved changes."""
    editor.lua(
        """
        local sessions = require("handrail.session")
        local snapshot = vim.deepcopy(sessions.current().snapshot)
        snapshot.step.calls[1].unsavedFiles = { vim.uri_from_fname(...) }
        sessions.receive(snapshot)
        """,
        str(path),
    )


def test_write_all_and_approve_is_one_key(editor: Editor) -> None:
    file = editor.project / "bill.py"
    file.write_text("old\n")
    editor.nvim.command(f"edit {file}")
    editor.nvim.current.line = "new"
    waiting(editor, "cat bill.py")
    say_unsaved(editor, file)
    assert "! unsaved in this editor: bill.py" in editor.open_review()
    assert "w write all" in editor.review()
    editor.keys("w")
    editor.until_state("idle")
    assert "│ new" in editor.text()


def test_what_cannot_be_written_is_told_and_nothing_runs(editor: Editor) -> None:
    folder = editor.project / "kept"
    folder.mkdir()
    file = folder / "bill.py"
    editor.nvim.command(f"edit {file}")
    editor.nvim.current.line = "new"
    folder.rmdir()
    waiting(editor, "touch made")
    say_unsaved(editor, file)
    editor.open_review()
    editor.keys("w")
    editor.until(lambda: "was not written" in editor.messages())
    assert editor.state() == "awaiting_approval"
    assert not (editor.project / "made").exists()


def test_changed_buffers_are_read_again_with_undo_kept(editor: Editor) -> None:
    """And the changed files are in the quickfix list; a buffer with changes of the person's own is left alone."""
    for name in ("clean.txt", "dirty.txt"):
        (editor.project / name).write_text("before\n")
    editor.nvim.command("edit dirty.txt")
    editor.nvim.current.line = "mine"
    editor.nvim.command("set hidden noautoread | edit clean.txt")
    clean = editor.nvim.current.buffer
    editor.nvim.command("normal! x")
    editor.nvim.command("write")
    waiting(editor, "sleep 0.01; echo after > clean.txt; echo after > dirty.txt; echo after > new.txt")
    editor.open_review()
    editor.keys("a")
    editor.until_state("idle")
    editor.until(lambda: list(clean[:]) == ["after"], "the reloaded buffer")
    (dirty,) = [each for each in editor.nvim.buffers if each.name.endswith("dirty.txt")]
    assert list(dirty[:]) == ["mine"]
    assert "has unsaved changes here" in editor.messages()
    listed = editor.lua(
        "return vim.tbl_map(function(item) return vim.fs.basename(vim.fn.bufname(item.bufnr)) end, vim.fn.getqflist())"
    )
    assert sorted(listed) == ["clean.txt", "dirty.txt", "new.txt"]
    editor.lua("vim.api.nvim_buf_call(..., function() vim.cmd('silent undo') end)", clean.number)
    assert list(clean[:]) == ["efore"]
    assert editor.nvim.api.get_mode()["blocking"] is False


def test_the_server_is_told_what_is_open_in_the_folder(editor: Editor) -> None:
    (editor.project / "in.txt").write_text("a\n")
    (editor.folder / "out.txt").write_text("a\n")
    editor.nvim.command("edit in.txt")
    inside = editor.nvim.current.buffer.number
    editor.nvim.command(f"edit {editor.folder / 'out.txt'}")
    outside = editor.nvim.current.buffer.number
    waiting(editor, "true")
    attached = 'return #vim.lsp.get_clients({ bufnr = ..., name = "handrail" })'
    editor.until(lambda: editor.lua(attached, inside) == 1)
    assert editor.lua(attached, outside) == 0


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"windw": "split"}, "there is no `windw` in the configuration: did you mean `window`?"),
        ({"cmd": "handrail serve"}, "`cmd` must be a table, not a string"),
        ({"keys": {"aprove": "x"}}, "did you mean `approve`?"),
        ({"keys": {"approve": "<CR>"}}, "Enter, Escape and Space never decide anything"),
        ({"bell": "yes"}, "`bell` must be a boolean"),
    ],
)
def test_a_wrong_configuration_is_told_with_the_way_out(editor: Editor, config: dict[str, Any], told: str) -> None:
    editor.lua('require("handrail.config").set(...)', config)
    assert told in editor.lua('return require("handrail.config").check()')
    assert editor.lua('return require("handrail.config").get().window') == "botright vsplit"


def test_the_configuration_may_be_a_function_or_setup(editor: Editor) -> None:
    editor.lua('vim.g.handrail = function() return { window = "tabnew" } end')
    assert editor.lua('return require("handrail.config").get().window') == "tabnew"
    editor.lua('require("handrail").setup({ window = "split", keys = { approve = "y" } })')
    assert editor.lua('return require("handrail.config").get().keys') == {
        **editor.lua('return require("handrail.config").defaults.keys'),
        "approve": "y",
    }


def test_completion_and_unknown_subcommands(editor: Editor) -> None:
    complete = editor.nvim.funcs.getcompletion
    assert {
        "start",
        "step",
        "run",
        "approve",
        "edit",
        "reject",
        "stop",
        "cancel",
        "sessions",
        "resume",
        "mode",
        "log",
    } <= set(complete("Handrail ", "cmdline"))
    assert complete("Handrail re", "cmdline") == ["reject", "resume", "review"]
    assert complete("Handrail mode p", "cmdline") == ["plan"]
    editor.handrail("aprove")
    assert "did you mean approve?" in editor.messages()


def test_the_mode_is_changed_and_shown(editor: Editor) -> None:
    waiting(editor, "touch made")
    editor.handrail("mode plan")
    editor.until(lambda: editor.snapshot()["mode"] == "plan")
    assert "mode plan" in editor.lua('return require("handrail.window").bar()')
    editor.handrail("mode")
    assert "others are ask, rules, plan, trusted" in editor.messages()


def test_a_range_goes_along_as_context(editor: Editor) -> None:
    (editor.project / "a.txt").write_text("one\ntwo\nthree\n")
    editor.nvim.command("edit a.txt")
    editor.replay(chat_body("Done."))
    editor.lua(
        """
        local client = require("handrail.client")
        local request = client.request
        client.request = function(method, params, answer)
          if method == "handrail/session/step" then _G.context = params.context end
          return request(method, params, answer)
        end
        """
    )
    editor.nvim.command("2,3Handrail run What is this?")
    (item,) = editor.until(lambda: editor.lua("return _G.context"))
    assert (item["kind"], item["firstLine"], item["lastLine"], item["text"]) == ("selection", 2, 3, "two\nthree")


def test_nothing_is_mapped_and_nothing_runs_before_it_is_used(editor: Editor) -> None:
    """The plugin is lazy and quiet; <Plug> mappings are there."""
    assert editor.lua('return package.loaded["handrail"] == nil')
    mapped = editor.lua(
        "return vim.tbl_map(function(m) return m.lhs end, vim.tbl_filter(function(m)"
        ' return (m.rhs or ""):find("Handrail") ~= nil end, vim.api.nvim_get_keymap("n")))'
    )
    assert "<Plug>(handrail-review)" in mapped
    assert all(each.startswith("<Plug>(handrail-") for each in mapped)


def test_health_tells_what_is_there(editor: Editor) -> None:
    waiting(editor, "true")
    editor.nvim.command("checkhealth handrail")
    report = "\n".join(editor.lines())
    for told in (
        "✅ OK Neovim 0.11",
        "✅ OK server: ",
        "OK bash: ",
        "model: replayed",
        "handrail: ",
        "log: ",
        "1 waiting",
    ):
        assert told in report, report
    assert "ERROR" not in report


def test_health_tells_the_way_out(editor: Editor) -> None:
    editor.configure({"cmd": ["handrail-that-is-not-there"]})
    editor.nvim.command("checkhealth handrail")
    report = "\n".join(editor.lines())
    assert "❌ ERROR server: `handrail-that-is-not-there` is not found" in report
    assert "pip install handrail" in report


def test_help_is_there(editor: Editor, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "doc"
    copy.mkdir(parents=True)
    (copy / "handrail.txt").write_text((PLUGIN / "doc" / "handrail.txt").read_text())
    editor.nvim.command(f"helptags {copy} | set rtp+={copy.parent}")
    for tag in ("handrail", ":Handrail", "handrail-config", "handrail-keys", "handrail-statusline", "HandrailWaiting"):
        editor.nvim.command(f"help {tag}")
        assert tag in editor.nvim.current.line
    text = (copy / "handrail.txt").read_text()
    for name in editor.lua('return vim.tbl_keys(require("handrail.commands").subcommands)'):
        assert f":Handrail {name}" in text, name
    for name in editor.lua('return vim.tbl_keys(require("handrail.config").defaults)'):
        assert f"`{name}`" in text or f"{name} " in text, name


def test_the_demo_from_prompt_to_repaired_test_by_keys(editor: Editor) -> None:
    """A fresh Neovim with an empty configuration, keys only."""
    editor.nvim.vars["handrail"] = {"cmd": CLI}
    editor.keys(":Handrail demo<CR>")
    editor.until(lambda: editor.nvim.current.buffer.name.endswith("/prompt"), "the demo's prompt")
    editor.keys(":w<CR>")
    for _ in range(5):
        editor.until_state("awaiting_approval")
        pending = editor.snapshot()["pending"]
        if not editor.review():
            editor.until(lambda: editor.nvim.current.buffer.options["filetype"] == "handrail", "the session's window")
            editor.keys("a")
            editor.until(editor.review)
        while editor.snapshot()["pending"] == pending:
            editor.keys("a")
            editor.nvim.funcs.wait(50, "v:false")
        editor.until(lambda: editor.state() in ("awaiting_approval", "idle"))
        if editor.state() == "idle":
            break
    assert editor.until_state("idle")["stopReason"] == "end_turn"
    text = editor.text()
    assert "FAILED (failures=1)" in text
    assert text.rindex("│ OK") > text.index("FAILED (failures=1)")
    assert "All three tests pass." in text
