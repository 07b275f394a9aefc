"""What a repository can make git run is off for commands that run by a rule; checked with real git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_core.program_risks import configured_program, rule_run_environment

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

HELPERS = ("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass")


def git(folder: Path, *words: str, more: dict[str, str]) -> None:
    person = {f"GIT_{who}_{what}": "someone@h" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}
    subprocess.run(["git", *words], cwd=folder, env={**alone, **person, **more}, capture_output=True, check=False)


def marks_after_a_days_work(folder: Path, more: dict[str, str]) -> set[str]:
    """Return which of a hostile repository's helpers ran while git was used in it."""
    git(folder, "init", "-q", more={})
    for key in HELPERS:
        git(folder, "config", key, f"touch {folder}/ran.{key} #", more={})
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {folder}/ran.hook\n")
    hook.chmod(0o755)
    (folder / "file").write_text("x")
    for words in (("add", "file"), ("commit", "-m", "x"), ("commit", "--amend"), ("status",), ("log",)):
        git(folder, *words, more=more)
    git(folder, "ls-remote", "ssh://nobody@localhost.invalid/x", more=more)
    return {path.name.removeprefix("ran.") for path in folder.glob("ran.*")}


def test_a_repositorys_helpers_run_unless_switched_off(tmp_path: Path) -> None:
    hostile, calm = tmp_path / "a", tmp_path / "b"
    hostile.mkdir()
    calm.mkdir()
    assert {"hook", "core.fsmonitor", "core.editor", "core.sshCommand"} <= marks_after_a_days_work(hostile, {})
    assert marks_after_a_days_work(calm, rule_run_environment() | {"GIT_SSH_COMMAND": "false"}) == set()


@pytest.mark.parametrize("key", ["diff.external", "diff.x.textconv", "filter.x.clean", "merge.x.driver", "gpg.program"])
def test_what_the_environment_cannot_switch_off_is_seen_in_the_configuration(tmp_path: Path, key: str) -> None:
    git(tmp_path, "init", "-q", more={})
    assert configured_program((tmp_path / ".git" / "config").read_text()) is None
    git(tmp_path, "config", key, "touch x", more={})
    assert configured_program((tmp_path / ".git" / "config").read_text()) == key.rsplit(".", 1)[-1]
