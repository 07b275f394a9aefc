"""Output that nobody takes any more: the reader leaves, or the disk is full. Nothing goes on unseen, nothing hangs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.editors.terminal_pty import environment, gone, tape

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
