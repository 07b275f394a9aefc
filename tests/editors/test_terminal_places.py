"""Where a run finds its settings and keeps its record: as the person who types it means it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.editors.terminal_pty import environment, tape

DENYING = 'mode = "trusted"\n[[rules]]\nmatch = ["touch"]\ndecision = "deny"\n'


def handrail(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it in `tmp_path/here`."""
    (tmp_path / "here").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-P", "-m", "editors.terminal.cli", *arguments],
        env={**environment(tmp_path), **variables},
        cwd=tmp_path / "here",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def run_with(tmp_path: Path) -> list[str]:
    the_tape = tape(tmp_path / "tape.json", ("", ["touch made"]), ("done", []))
    return ["run", "do it", "--replay", str(the_tape), "--model", "m", "--on-ask", "deny"]


@pytest.mark.parametrize("named", ["conf.toml", "./conf.toml", "../here/conf.toml", "~/conf.toml"])
def test_a_settings_file_is_found_from_where_it_is_named(tmp_path: Path, named: str) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "HOME").mkdir()
    for folder in ("here", "HOME"):
        (tmp_path / folder / "conf.toml").write_text(DENYING)
    shown = handrail(tmp_path, "settings", "--show", HANDRAIL_CONFIG=named)
    assert '"trusted"' in shown.stdout
    ran = handrail(tmp_path, *run_with(tmp_path), HANDRAIL_CONFIG=named)
    assert "touch" in ran.stdout
    assert ran.returncode == 0, ran.stderr
    assert not (tmp_path / "here" / "made").exists()
    (tmp_path / "here" / "conf.toml").write_text('mode = "trusted"\n')
    (tmp_path / "HOME" / "conf.toml").write_text('mode = "trusted"\n')
    handrail(tmp_path, *run_with(tmp_path), HANDRAIL_CONFIG=named)
    assert (tmp_path / "here" / "made").exists()


@pytest.mark.parametrize("variable", ["HANDRAIL_STATE_DIR", "XDG_STATE_HOME"])
def test_a_record_is_kept_where_it_is_named_from(tmp_path: Path, variable: str) -> None:
    ran = handrail(tmp_path, *run_with(tmp_path), **{variable: "kept"})
    assert ran.returncode == 0, ran.stderr
    assert list((tmp_path / "here" / "kept").rglob("*.db"))
    assert "do it" in handrail(tmp_path, "sessions", **{variable: "kept"}).stdout


@pytest.mark.parametrize("command", ["run", "settings", "doctor"])
def test_a_settings_file_that_is_named_and_not_there_is_told_and_nothing_runs(tmp_path: Path, command: str) -> None:
    """Its rules would be lost in silence."""
    arguments = {"run": run_with(tmp_path), "settings": ["settings", "--show"], "doctor": ["doctor"]}[command]
    ended = handrail(tmp_path, *arguments, HANDRAIL_CONFIG="conf.toml")
    told = f"There is no settings file {tmp_path}/here/conf.toml, which HANDRAIL_CONFIG names. Make it, or unset"
    assert told in (ended.stdout if command == "doctor" else ended.stderr)
    assert ended.returncode == (1 if command == "doctor" else 2)


def test_without_a_name_no_file_is_needed(tmp_path: Path) -> None:
    assert handrail(tmp_path, "settings", "--show").returncode == 0


@pytest.mark.parametrize("task", ["", "  "])
def test_an_empty_task_is_refused(tmp_path: Path, task: str) -> None:
    ended = handrail(tmp_path, "run", task, "--model", "m", "--on-ask", "deny")
    assert (ended.returncode, ended.stderr) == (
        2,
        'handrail: The task is empty. Say what to do: handrail run "TASK" --model NAME\n',
    )


def test_doctor_tries_to_write_the_record(tmp_path: Path) -> None:
    """A folder may be there and of the right permissions, and yet take nothing."""
    told = handrail(tmp_path, "doctor", HANDRAIL_STATE_DIR="/proc/self").stdout
    assert "✗ state folder: nothing can be written to /proc/self: " in told
    assert "Free space, make the folder writable, or set HANDRAIL_STATE_DIR to another one." in told


@pytest.mark.parametrize("kind", ["folder", "pipe", "in no folder"])
def test_a_recording_goes_to_a_file_alone(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place" / "tape" if kind == "in no folder" else tmp_path / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    arguments = ["run", "do it", "--model", "openai/m", "--set", "apiBase=http://127.0.0.1:9/v1", "--on-ask", "deny"]
    ended = handrail(tmp_path, *arguments, "--record", str(place), HANDRAIL_OFFLINE="0", OPENAI_API_KEY="x")
    assert ended.returncode == 2
    assert str(place) in ended.stderr
    assert "`record`" in ended.stderr
    assert "Errno" not in ended.stderr


def test_a_state_folder_that_is_none_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    ended = handrail(tmp_path, "sessions", HANDRAIL_STATE_DIR=str(tmp_path / "taken"))
    assert ended.stderr.startswith(f"handrail: The state folder {tmp_path}/taken cannot be used: File exists. Free")
