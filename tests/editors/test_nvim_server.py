"""The server's life under Neovim: lost, restarted, left behind by no way of quitting; and `vim.lsp.enable` alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.editors.nvim_driver import SERVER, Editor, opened, until_gone

pytestmark = pytest.mark.timeout(45)


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    yield from opened(tmp_path)


def waiting(editor: Editor, command: str) -> None:
    editor.replay(chat_body("I look.", [bash("c1", command)]), chat_body("Done."))
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")


def told_of_losses(editor: Editor, losses: int) -> bool:
    """Whether Neovim took notice of so many losses."""
    return len(editor.lua("return _G.delays")) >= losses or editor.told("five times in a minute") > 0


def running(editor: Editor) -> None:
    """Bring a session to where a command runs that would not end by itself."""
    waiting(editor, "echo begun; sleep 300")
    editor.open_review()
    editor.keys("a")
    editor.until_text("│ begun")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_lost_server_comes_back_with_what_waits(editor: Editor, how: signal.Signals) -> None:
    """LS-10, LS-13: the review closes, one quiet notice, and the same approval waits again."""
    waiting(editor, "touch made")
    editor.open_review()
    editor.lua(
        '_G.told = nil; require("handrail.client").request("handrail/session/wait", { sessionId = ..., after = '
        "1000000 }, function(problem) _G.told = problem and problem.message or 'at rest' end)",
        editor.snapshot()["sessionId"],
    )
    begun = time.monotonic()
    os.kill(editor.server_pid(), how)
    editor.until(lambda: editor.review() == "", "the review's end")
    told = editor.until(lambda: editor.lua("return _G.told"), "the end of the request")
    assert time.monotonic() - begun < 2
    # Also when killed: Neovim closes the input at once, and on a busy machine that may end the server before the keeper
    assert "server ended" in told or told == "at rest"
    editor.until(lambda: "started again" in editor.messages(), "the notice")
    assert editor.told("started again") == 1
    assert "quit with exit code" not in editor.messages()
    assert "touch made" in editor.open_review()
    editor.keys("a")
    editor.until_state("idle")
    assert (editor.project / "made").exists()


def test_a_command_that_ran_at_a_crash_is_told_as_interrupted(editor: Editor) -> None:
    """LS-10: it is never run again by itself."""
    running(editor)
    os.kill(editor.server_pid(), signal.SIGKILL)
    editor.until(lambda: "started again" in editor.messages())
    editor.until_state("idle")
    assert "interrupted" in editor.text()
    assert editor.text().count("$ echo begun") == 1


def test_a_decision_while_the_server_is_away_decides_nothing(editor: Editor) -> None:
    waiting(editor, "touch made")
    editor.open_review()
    os.kill(editor.server_pid(), signal.SIGKILL)
    editor.keys("a")
    editor.until(lambda: editor.review() == "")
    editor.until(lambda: "started again" in editor.messages())
    editor.until(lambda: editor.state() in ("awaiting_approval", "idle"))
    if editor.state() == "awaiting_approval":
        assert not (editor.project / "made").exists()


def test_five_losses_in_a_minute_are_told_once(editor: Editor, tmp_path: Path) -> None:
    """LS-13: then it is left, with the way to its log."""
    waiting(editor, "touch made")
    broken = tmp_path / "broken"
    broken.write_text(f"#!/bin/sh\nexec {' '.join(SERVER)}\n")
    broken.chmod(0o755)
    editor.lua(
        """
        local client, deferred = require("handrail.client"), vim.defer_fn
        _G.delays = {}
        vim.defer_fn = function(action, delay)
          table.insert(_G.delays, delay)
          return deferred(action, 0)
        end
        """
    )
    for at in range(5):
        pid = editor.until(
            lambda: editor.lua('return require("handrail.client").connected() ~= nil') and editor.server_pid(),
            "the server",
        )
        os.kill(pid, signal.SIGKILL)
        editor.until(partial(told_of_losses, editor, at + 1), "the restart, or the message")
    assert editor.lua("return _G.delays")[:4] == [200, 400, 800, 1600]
    assert editor.told("five times in a minute") == 1
    assert ":Handrail log" in editor.messages()
    assert editor.lua('return require("handrail.client").connected() == nil')
    editor.handrail("log")
    assert editor.nvim.current.buffer.name == editor.lua("return vim.lsp.log.get_filename()")


@pytest.mark.parametrize("how", ["quit", "sigterm", "sigkill"])
def test_no_process_is_left_however_neovim_ends(editor: Editor, how: str) -> None:
    """LS-12: the command is dead within 5 s, and the session can be loaded."""
    running(editor)
    session = editor.snapshot()["sessionId"]
    if how == "quit":
        editor.nvim.command("qa!", async_=True)
    elif how == "sigterm":
        os.kill(editor.pid, signal.SIGTERM)
    else:
        os.kill(editor.pid, signal.SIGKILL)
    until_gone(editor.folder)
    following = Editor(editor.folder)
    try:
        following.handrail(f"resume {session}")
        following.until_text("interrupted")
        assert following.state() == "idle"
    finally:
        following.close()


def test_stopping_in_order_is_no_loss(editor: Editor) -> None:
    """LS-10: what waited is taken away, and nothing is restarted."""
    waiting(editor, "touch made")
    editor.open_review()
    editor.handrail("quit")
    editor.until(lambda: editor.review() == "")
    time.sleep(0.4)
    assert editor.lua('return require("handrail.client").connected() == nil')
    assert "started again" not in editor.messages()
    editor.handrail("open")
    editor.handrail("mode rules")
    editor.until(lambda: editor.lua('return require("handrail.approvals").count()') == 1)


def test_a_server_that_is_not_there_is_told_with_the_way_out(editor: Editor) -> None:
    editor.configure({"cmd": ["handrail-that-is-not-there", "serve"]})
    editor.handrail("start Go.")
    assert "not found" in editor.messages()
    assert "checkhealth" in editor.messages()


def test_a_server_that_ends_at_once_is_told(editor: Editor) -> None:
    editor.configure({"cmd": ["false"]})
    editor.handrail("start Go.")
    editor.until(lambda: "before it was ready" in editor.messages() or "cannot be started" in editor.messages())
    assert editor.nvim.api.get_mode() == {"mode": "n", "blocking": False}


def test_enabling_the_lsp_alone_is_enough(editor: Editor) -> None:
    """`lsp/handrail.lua` starts the same server; approvals are announced; `:Handrail` uses it."""
    editor.replay(chat_body("", [bash("c1", "touch made")]), chat_body("Done."))
    editor.lua('vim.lsp.enable("handrail")')
    editor.nvim.command("edit some.txt")
    editor.until(lambda: editor.lua('return #vim.lsp.get_clients({ bufnr = 0, name = "handrail" })') == 1)
    editor.handrail("run Go.")
    editor.until_state("awaiting_approval")
    assert editor.lua('return #vim.lsp.get_clients({ name = "handrail" })') == 1
    announced = editor.lua('return vim.lsp.get_clients({ name = "handrail" })[1].capabilities.experimental.handrail')
    assert announced == {"protocolVersion": "1.0", "approvals": True}
    editor.open_review()
    editor.keys("a")
    editor.until_state("idle")


def test_sessions_are_listed_and_resumed_with_what_waits(editor: Editor) -> None:
    waiting(editor, "touch made")
    session = editor.snapshot()["sessionId"]
    editor.handrail("close")
    editor.until(lambda: editor.snapshot() == {})
    editor.handrail("sessions")
    editor.until(lambda: editor.nvim.current.buffer.options["filetype"] == "handrail-sessions")
    assert "Go." in editor.lines()[0]
    editor.keys("<CR>")
    editor.until_state("awaiting_approval")
    assert editor.snapshot()["sessionId"] == session
    assert editor.text().count("$ touch made") == 1
    editor.open_review()
    editor.keys("a")
    editor.until_state("idle")
    assert (editor.project / "made").exists()
    assert session in editor.lua('return require("handrail.listing").ids()')
