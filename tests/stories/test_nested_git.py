"""A repository inside the workspace's own one must not make a reading git command run its programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.stories.conftest import Story, go, rest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: apt-get install git")


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def nested_repositories(outer: Path) -> Path:
    """Make a repository with another one recorded in it, whose filter leaves a mark; return the mark's path."""
    inner, mark = outer / "inner", outer.parent / "mark"
    inner.mkdir()
    for folder in (outer, inner):
        git(folder, "init", "-q")
    (inner / "y").write_text("x\n")
    (inner / ".gitattributes").write_text("y filter=e\n")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "inner")
    git(outer, "add", "inner")
    git(outer, "commit", "-qm", "outer")
    (inner / "y").write_text("z\n")
    git(inner, "config", "filter.e.clean", f"touch {mark}; cat")
    return mark


@pytest.mark.parametrize("command", ["git status", "git diff", "git diff HEAD", "git diff --submodule=diff"])
@pytest.mark.parametrize("mode", ["plan", "rules"])
async def test_a_nested_repository_is_asked_about(story: Story, mode: str, command: str) -> None:
    mark = nested_repositories(story.workspace)
    replies = (chat_body(None, [bash("c1", command)]), chat_body("Done."))
    session = await story.open(*replies, mode=mode, rules=["read-only"])
    await go(session)
    await rest(session)
    assert not mark.exists()
    verdict = session.machine.record.steps[0].calls[0].verdict
    assert verdict is not None
    assert verdict.decision == ("deny" if mode == "plan" else "ask")


async def test_a_repository_without_another_in_it_is_not_asked_about(story: Story) -> None:
    git(story.workspace, "init", "-q")
    (story.workspace / "a").write_text("a\n")
    git(story.workspace, "add", ".")
    replies = (chat_body(None, [bash("c1", "git status")]), chat_body("Done."))
    session = await story.open(*replies, mode="plan")
    await go(session)
    result = session.machine.record.steps[0].calls[0].result
    assert result is not None
    assert result.exit_code == 0


CORE = "[core]\nrepositoryformatversion = 0\nfilemode = true\nbare = false\n"
CLEAN = 'clean = "touch ../mark; cat"\n'


@pytest.mark.parametrize(
    "config",
    [
        CORE + '[filter "e;b"] ' + CLEAN,
        CORE + '[filter "e"]\r' + CLEAN,
        CORE + '[filter "e\\"#b"] ' + CLEAN,
        CORE + '[filter "e"]\x0b' + CLEAN,
        CORE + '[filter "e"] ' + CLEAN,
        CORE + '[filter\t"e"]\n' + CLEAN.replace(" =", "="),
        "\ufeff[include]\npath = ../evil\n" + CORE,
    ],
)
@pytest.mark.parametrize("command", ["git status", "git diff", "git diff --stat"])
async def test_a_configuration_that_is_not_written_simply_runs_nothing_by_a_rule(
    story: Story, config: str, command: str
) -> None:
    """Git and a reader of ours need not agree on more than the simplest lines."""
    prepare(story.workspace, config)
    (story.workspace / "evil").write_text('[filter "e"]\n' + CLEAN)
    await refused(story, command)


@pytest.mark.parametrize("way", ["commondir", "bare"])
async def test_a_repository_with_its_configuration_elsewhere_runs_nothing_by_a_rule(story: Story, way: str) -> None:
    prepare(story.workspace, CORE)
    risky = CORE + '[filter "e"]\n' + CLEAN
    if way == "commondir":
        shutil.copytree(story.workspace / ".git", story.workspace / "cd")
        (story.workspace / "cd" / "config").write_text(risky)
        (story.workspace / ".git" / "commondir").write_text("../cd\n")
        await refused(story, "git status")
    else:
        (story.workspace / ".git").rename(story.workspace / "b")
        (story.workspace / "b" / "config").write_text(risky + "[core]\nworktree = ..\n")
        await refused(story, "cd b && git status && git diff")


def prepare(folder: Path, config: str) -> None:
    git(folder, "init", "-q")
    (folder / "y").write_text("x\n")
    (folder / ".gitattributes").write_text("y filter=e\ny filter=e;b\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
    (folder / "y").write_text("z\n")
    (folder / ".git" / "config").write_text(config)


async def refused(story: Story, command: str) -> None:
    session = await story.open(chat_body(None, [bash("c1", command)]), chat_body("Done."), mode="plan")
    await go(session)
    verdict = session.machine.record.steps[0].calls[0].verdict
    assert verdict is not None
    assert verdict.decision == "deny"
    assert not (story.workspace.parent / "mark").exists()
