"""Output that nobody takes any more: the reader leaves, or the disk is full. Nothing goes on unseen, nothing hangs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.editors.terminal_pty import Terminal, environment, gone, tape

UNREAD = 141


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def start(tmp_path: Path, *arguments: str, stdout: int | IO[str] = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "editors.terminal.cli", *arguments],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_with(tmp_path: Path, project: Path, *commands: str) -> list[str]:
    replies = [("", [command]) for command in commands]
    the_tape = tape(tmp_path / "tape.json", *replies, ("done", []))
    line = ["run", "do it", "--cwd", str(project), "--replay", str(the_tape), "--model", "m"]
    return [*line, "--on-ask", "approve"]


def read_until(run: subprocess.Popen[str], wanted: str) -> None:
    assert run.stdout is not None
    while wanted not in (line := run.stdout.readline()):
        assert line, "it ended before"


def leave(run: subprocess.Popen[str], project: Path) -> str:
    """Stop reading, let the first command end, and return what is told at last."""
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    (project / "go").touch()
    return run.stderr.read()


@pytest.mark.parametrize(
    "waiting", ["until [ -e go ]; do sleep 0.02; done", "sleep 30400"], ids=["more to show", "only the heartbeat"]
)
def test_a_reader_that_goes_away_ends_the_run(tmp_path: Path, project: Path, waiting: str) -> None:
    run = start(tmp_path, *run_with(tmp_path, project, waiting, "touch unseen"))
    read_until(run, "approved by")
    told = leave(run, project)
    assert run.wait(10) == UNREAD
    assert re.fullmatch(
        r"handrail: The output cannot be written: Broken pipe\. The session was left\.\n"
        r"  go on: handrail run --resume [0-9a-f]{16} --on-ask approve\n",
        told,
    )
    assert not (project / "unseen").exists()
    assert gone(str(tmp_path / "XDG_STATE_HOME")) == []


def test_a_full_disk_ends_the_run_before_anything_ran(tmp_path: Path, project: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        run = start(tmp_path, *run_with(tmp_path, project, "touch unseen"), stdout=full)
        _, told = run.communicate(timeout=20)
    assert run.returncode == UNREAD
    assert "The output cannot be written: No space left on device. The session was left." in told
    assert "Traceback" not in told
    assert not (project / "unseen").exists()
    assert gone(str(tmp_path / "XDG_STATE_HOME")) == []


@pytest.mark.parametrize("owned", [True, False], ids=["with a signal", "in silence"])
@pytest.mark.parametrize("waiting", ["question", "silent command", "talking command"])
def test_a_terminal_that_goes_away_ends_the_run(tmp_path: Path, project: Path, waiting: str, owned: bool) -> None:
    command = {"silent command": "sleep 30500"}.get(waiting, "until [ -e go ]; do sleep 0.02; done; seq 99")
    *line, _, _ = run_with(tmp_path, project, command, "touch unseen")
    with open(tmp_path / "told", "w", encoding="utf-8") as told:
        terminal = Terminal(*line, environment=environment(tmp_path), owned=owned, stderr=told)
    try:
        terminal.question()
        if waiting != "question":
            terminal.enter("y")
            terminal.expect("running")
        terminal.hang_up()
        (project / "go").touch()
        assert terminal.process.wait(10) == UNREAD
    finally:
        terminal.close()
    assert re.fullmatch(
        r"handrail: The output cannot be written: Input/output error\. The session was left\.\n"
        r"  go on: handrail run --resume [0-9a-f]{16}\n",
        (tmp_path / "told").read_text(),
    )
    assert not (project / "unseen").exists()
    assert gone(str(tmp_path / "XDG_STATE_HOME")) == []


@pytest.mark.parametrize("command", ["run", "sessions", "settings"])
def test_an_output_that_was_closed_at_the_start_is_told(tmp_path: Path, project: Path, command: str) -> None:
    line = run_with(tmp_path, project, "touch unseen") if command == "run" else [command]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-P", "-m", "editors.terminal.cli", *line]
    ended = subprocess.run(shell, env=environment(tmp_path), stderr=subprocess.PIPE, text=True, timeout=20, check=False)
    assert ended.returncode == UNREAD
    assert ended.stderr.startswith("handrail: The output cannot be written: Bad file descriptor.")
    assert "Traceback" not in ended.stderr
    assert not (project / "unseen").exists()


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_what_is_not_needed_may_be_closed(tmp_path: Path, project: Path, closed: str) -> None:
    line = run_with(tmp_path, project, "touch seen")
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-P", "-m", "editors.terminal.cli", *line]
    ended = subprocess.run(shell, env=environment(tmp_path), capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (project / "seen").exists()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_of_few_signs_shows_the_others_by_their_numbers(tmp_path: Path, project: Path, encoding: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "editors.terminal.cli", *run_with(tmp_path, project, "echo é日")],
        env={**environment(tmp_path), "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "é".encode(encoding, "backslashreplace") + b"\\u65e5" in ended.stdout


def test_a_terminal_of_few_signs_is_refused(tmp_path: Path, project: Path) -> None:
    """What it could not show, nobody can approve."""
    *line, _, _ = run_with(tmp_path, project, "touch unseen")
    terminal = Terminal(*line, environment={**environment(tmp_path), "PYTHONIOENCODING": "latin-1"})
    try:
        terminal.expect("The encoding latin-1 of this terminal", "Set LANG=C.UTF-8")
        assert terminal.exit_code() == 2
    finally:
        terminal.close()


@pytest.mark.parametrize("arguments", [["settings"], ["sessions"], ["doctor"]])
def test_a_full_disk_is_told_by_other_commands(tmp_path: Path, arguments: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        _, told = start(tmp_path, *arguments, stdout=full).communicate(timeout=20)
    assert told == "handrail: The output cannot be written: No space left on device.\n"


def test_what_was_left_goes_on(tmp_path: Path, project: Path) -> None:
    run = start(tmp_path, *run_with(tmp_path, project, "until [ -e go ]; do sleep 0.02; done", "touch seen"))
    read_until(run, "approved by")
    (session,) = re.findall(r"--resume ([0-9a-f]{16})", leave(run, project))
    run.wait(10)
    again = start(tmp_path, "run", "--resume", session, "--on-ask", "approve")
    shown, told = again.communicate(timeout=20)
    assert again.returncode == 0, told
    assert "touch seen" in shown
    assert (project / "seen").exists()


@pytest.mark.parametrize(
    "arguments", [["settings"], ["settings", "--schema"], ["settings", "--show"], ["sessions"], ["doctor"], ["--help"]]
)
def test_other_commands_end_quietly(tmp_path: Path, arguments: list[str]) -> None:
    command = start(tmp_path, *arguments)
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    assert command.stderr.read() == ""
    assert command.wait(20) == 0
    assert gone(str(tmp_path / "XDG_STATE_HOME")) == []
