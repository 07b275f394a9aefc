"""What git prints of secrets that it tracks is told by its words: the reference is git itself."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_core.policy import Policy
from agent_core.policy_context import PolicyContext
from agent_core.rules import Rule
from agent_core.tracked_secrets import tracked_secrets

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")

VALUE = "value-0815"
POLICY = Policy([Rule(match=("git",), decision="allow")], "rules")
# BLOB stands for the secret file's name in git's store.
COMMANDS = """
git archive HEAD
git cat-file -p BLOB
git show BLOB
git show -s BLOB
git show --stat BLOB
git show HEAD
git show --all HEAD:src/x.py
git show :/second
git show --no-patch HEAD:src/x.py BLOB
git diff
git diff HEAD
git diff --stat -p
git diff -n -s
git diff --stat -U1
git diff --stat --check
git diff HEAD~1 HEAD
git diff HEAD:nested HEAD~1:nested
git diff HEAD: HEAD~1:
git grep value
git grep --cached value
git grep value HEAD
git grep value nested
git log -p
git log -U1
git log --patch-with-stat
git log --check
git diff-tree -p HEAD~1 HEAD
git diff-index -p HEAD
git diff-files -p
git add -p
git checkout -p
git checkout --patch HEAD~1
git reset -p HEAD~1
git restore -p .
git stash -p
git stash push --patch
git status -v -v
git status -vv
git status --verbose --verbose
git commit --dry-run -v
git commit --dry-run -av
git range-diff HEAD~1..HEAD HEAD~1..HEAD
""".strip().splitlines()


def git(folder: Path, *words: str) -> str:
    person = {f"GIT_{who}_{what}": "someone@h" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    alone = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**alone, **person, "HOME": str(folder)},
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository that tracks a secret, which changed in two commits, in the index and since."""
    folder = tmp_path_factory.mktemp("tracking")
    git(folder, "init", "-q")
    for path in ("nested", "src"):
        (folder / path).mkdir()
    (folder / "src" / "x.py").write_text("x = 1\n")
    for number, word in enumerate(("first", "second", "staged", "")):
        (folder / "nested" / "prod.env").write_text(f"A_TOKEN={VALUE}-{number} \n")
        if word:
            git(folder, "add", ".")
        if word in ("first", "second"):
            git(folder, "commit", "-qm", word)
    return folder


def judged(command: str, folder: Path) -> str:
    context = PolicyContext(cwd=str(folder), roots=(str(folder),), tracked=tracked_secrets)
    return POLICY.judge(command, context).decision


@pytest.mark.parametrize("command", COMMANDS)
def test_what_git_prints_of_a_secret_is_asked(repository: Path, command: str) -> None:
    command = command.replace("BLOB", git(repository, "rev-parse", "HEAD:nested/prod.env").strip())
    words = shlex.split(command)[1:]
    if "add" not in words and "reset" not in words:  # these could change what the next command finds
        printed = VALUE in git(repository, *words)
        assert printed or words[0] in ("range-diff", "log", "checkout", "stash", "restore", "commit"), "tests nothing"
    assert judged(command, repository) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline -G_TOKEN=GUESS",
        "git log --oneline -G _TOKEN=GUESS",
        "git log -SGUESS --format=%h",
        "git log --pickaxe-regex -S GUESS",
        "git whatchanged --oneline -s -GGUESS",
        "git reflog show -GGUESS",
        "git diff --name-only HEAD~1 -GGUESS",
        "git diff --stat HEAD~1 --pickaxe-all -GGUESS",
        "git show --stat -GGUESS HEAD",
    ],
)
def test_what_git_answers_about_a_secret_is_asked(repository: Path, command: str) -> None:
    """Letter by letter, whether a guess is found tells what the secret is."""
    words = shlex.split(command)[1:]
    answers = {git(repository, *(word.replace("GUESS", guess) for word in words)) for guess in ("value-0", "value-1")}
    assert len(answers) == 2, "tests nothing"
    assert judged(command, repository) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status --porcelain",
        "git status -sb",
        "git log --oneline",
        "git log --pretty=oneline -3",
        "git diff --stat",
        "git diff --stat --cached --name-only",
        "git diff --cached --stat",
        "git diff --name-only HEAD~1",
        "git diff -- src",
        "git grep x src",
        "git grep x -- src",
        "git show --stat HEAD",
        "git show HEAD:src/x.py",
        "git cat-file -p HEAD:src/x.py",
        "git add src",
        "git commit -m words",
        "git checkout main",
    ],
)
def test_what_prints_none_is_not(repository: Path, command: str) -> None:
    assert VALUE not in (
        git(repository, *shlex.split(command)[1:]) if command.split()[1] not in ("add", "commit") else ""
    )
    assert judged(command, repository) == "allow"


def test_what_git_tracks_counts_though_its_file_is_gone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".env").write_text(f"A_TOKEN={VALUE}\n")
    git(tmp_path, "add", ".")
    (tmp_path / ".env").unlink()
    assert VALUE in git(tmp_path, "diff")
    assert judged("git diff", tmp_path) == "ask"


@pytest.mark.parametrize("command", ["git diff", "git log -p", "git show HEAD"])
def test_what_git_tracks_counts_though_the_workspace_is_only_a_part(repository: Path, command: str) -> None:
    assert VALUE in git(repository / "src", *command.split()[1:])
    assert judged(command, repository / "src") == "ask"
    assert judged("git grep x", repository / "src") == "allow"


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_form_of_the_index_is_read_or_doubted(tmp_path: Path, version: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "sub").mkdir()
    for name in ("a" * 200, ".editorconfig", ".env.example", "sub/.env.local", "sub/x.py"):
        (tmp_path / name).write_text("x")
    git(tmp_path, "add", ".")
    if version == "3":
        (tmp_path / "later").write_text("x")
        git(tmp_path, "add", "-N", "later")
    if version == "4":
        git(tmp_path, "update-index", "--index-version", "4")
    assert (tmp_path / ".git" / "index").read_bytes()[7] == int(version)
    found = tracked_secrets(str(tmp_path))
    assert (found.secrets, found.whole) == (((), False) if version == "4" else (("sub/.env.local",), True))
    assert tracked_secrets(str(tmp_path / "sub")).secrets == (() if version == "4" else (".env.local",))


def test_no_repository_tracks_nothing(tmp_path: Path) -> None:
    assert tracked_secrets(str(tmp_path)).whole
    assert not tracked_secrets(str(tmp_path)).secrets
