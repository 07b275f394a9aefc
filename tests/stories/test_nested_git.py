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
