"""Secrets below the workspace's root: no rule lets a command read over them, and their values are masked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.stories.conftest import Story, approve_all, go, rest

ROOT = "root-value-0815"
NESTED = {
    "nested/.env": "nested-value-0816",
    "prod.env": "prod-value-0817",
    ".env.local": "local-value-0818",
    "packages/a/.env.production": "package-value-0819",
}


def fill(folder: Path, *, secrets: bool) -> None:
    """Make a small repository, with environment files all over it or with none."""
    (folder / "src").mkdir()
    (folder / "src" / "x.py").write_text("foo = process.env\n")
    (folder / ".env.example").write_text("APP_TOKEN=\n")
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        subprocess.run(["git", "add", "."], cwd=folder, check=True)
    if secrets:
        for path, value in {".env": ROOT, **NESTED}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f"APP_TOKEN={value}\n")


def track(folder: Path, path: str) -> None:
    subprocess.run(["git", "add", "-f", path], cwd=folder, check=True)


async def decision(story: Story, mode: str, command: str) -> str:
    session = await story.open(chat_body(None, [bash("c1", command)]), chat_body("Done."), mode=mode)
    await go(session)
    await rest(session)
    verdict = session.machine.record.steps[0].calls[0].verdict
    assert verdict is not None
    return verdict.decision


READERS = """
grep -r . .
grep -rz TOKEN
grep -r '' --include='*.env*'
grep -d recurse TOKEN .
grep --directories=recurse TOKEN .
egrep -rn TOKEN nested
rg --hidden .
rg -uuu TOKEN
rg TOKEN
diff -r nested packages
cat prod.env
cat */.*
cat *.env
head -n 5 packages/*/.e*
cat nested/.env
""".strip().splitlines()


@pytest.mark.parametrize("command", READERS)
async def test_a_search_over_secrets_is_no_matter_of_rules(story: Story, command: str) -> None:
    fill(story.workspace, secrets=True)
    assert await decision(story, "plan", command) == "deny"


ORDINARY = """
grep -rn foo src
grep -rn foo .
grep -rn process.env src
rg foo
rg --hidden -n foo .
git grep foo
git diff
cat .env.example
diff -r src src
ls -R
find . -type f
""".strip().splitlines()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")
@pytest.mark.parametrize("command", ORDINARY)
async def test_an_ordinary_search_still_runs(story: Story, command: str) -> None:
    fill(story.workspace, secrets=False)
    assert await decision(story, "plan", command) == "allow"


BESIDE_SECRETS = """
grep -rn foo src
grep -rn foo . --include='*.py'
rg foo src
rg foo -g '*.py'
git grep foo
git diff
ls -R
find . -type f
""".strip().splitlines()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")
@pytest.mark.parametrize("command", BESIDE_SECRETS)
async def test_what_does_not_read_the_secrets_runs_beside_them(story: Story, command: str) -> None:
    fill(story.workspace, secrets=True)
    assert await decision(story, "plan", command) == "allow"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")
@pytest.mark.parametrize("command", ["git grep TOKEN", "git diff", "git show HEAD", "git log -p", "git diff -- nested"])
async def test_git_prints_secrets_that_it_tracks(story: Story, command: str) -> None:
    fill(story.workspace, secrets=True)
    track(story.workspace, "nested/.env")
    assert await decision(story, "plan", command) == "deny"
    for names_only in ("git log --oneline", "git diff --stat", "git diff -- src", "git show HEAD:src/x.py"):
        assert await decision(story, "plan", names_only) == "allow", names_only


async def test_values_of_environment_files_are_masked_wherever_they_lie(story: Story) -> None:
    fill(story.workspace, secrets=True)
    command = f"cat .env {' '.join(NESTED)}"
    session = await story.open(chat_body(None, [bash("c1", command)]), chat_body("Done."))
    await go(session)
    await approve_all(session)
    result = session.machine.record.steps[0].calls[0].result
    assert result is not None
    assert result.output.count("<masked:APP_TOKEN") == 5
    assert "value-08" not in result.output
