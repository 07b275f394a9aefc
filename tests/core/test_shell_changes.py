"""Which files changed while a command ran."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_core.shell import changes
from agent_core.shell.changes import Changes


async def changed(watch: Changes, folder: Path, act: object = None) -> list[str]:
    started = time.time()
    if callable(act):
        act()
    return [path.removeprefix(f"{folder}/") for path in await watch.since(started)]


def old(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_made_changed_moved_and_removed_files_are_named(tmp_path: Path) -> None:
    for name in ("a", "b", "sub/c", "sub/deep/d", "gone/e", "quiet"):
        old(tmp_path / name)
    watch = Changes(str(tmp_path))
    await watch.begin()

    def act() -> None:
        (tmp_path / "made").write_text("new")
        (tmp_path / "a").write_text("other")
        (tmp_path / "b").unlink()
        (tmp_path / "sub/c").rename(tmp_path / "sub/moved")
        (tmp_path / "gone/e").unlink()
        (tmp_path / "gone").rmdir()

    assert await changed(watch, tmp_path, act) == ["a", "b", "gone/e", "made", "sub/c", "sub/moved"]
    assert await changed(watch, tmp_path) == []


async def test_a_change_that_keeps_size_and_modification_time_is_seen(tmp_path: Path) -> None:
    path = old(tmp_path / "a", "one")
    status = path.stat()
    watch = Changes(str(tmp_path))
    await watch.begin()

    def act() -> None:
        path.write_text("two")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert await changed(watch, tmp_path, act) == ["a"]


async def test_what_a_person_did_between_two_commands_is_not_the_commands(tmp_path: Path) -> None:
    old(tmp_path / "a")
    old(tmp_path / "b")
    watch = Changes(str(tmp_path))
    await watch.begin()
    (tmp_path / "a").write_text("by the person")
    (tmp_path / "b").unlink()
    await asyncio.sleep(0.05)  # the clock of files is coarse
    assert await changed(watch, tmp_path) == []
    (tmp_path / "c").write_text("by the person")
    await asyncio.sleep(0.05)
    assert await changed(watch, tmp_path, lambda: (tmp_path / "a").write_text("by the command")) == ["a"]


async def test_what_tools_write_links_and_unreadable_folders_are_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "inside"
    old(outside / "secret")
    for name in ("node_modules/m", ".git/index", "__pycache__/p", "kept"):
        old(inside / name)
    (inside / "link").symlink_to(outside)
    watch = Changes(str(inside))
    await watch.begin()

    def act() -> None:
        for name in ("node_modules/m", ".git/index", "__pycache__/p", "kept"):
            (inside / name).write_text("changed")
        (outside / "secret").write_text("changed")

    assert await changed(watch, inside, act) == ["kept"]


async def test_a_missing_folder_has_no_changes(tmp_path: Path) -> None:
    watch = Changes(str(tmp_path / "nowhere"))
    await watch.begin()
    assert await changed(watch, tmp_path) == []


@pytest.mark.parametrize("bound", ["_MOST_ENTRIES", "_LONGEST", "_PROCESSOR_SECONDS"])
async def test_a_large_tree_is_looked_at_in_part_and_nothing_is_called_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    for number in range(5):
        old(tmp_path / f"folder{number}" / "file")
    watch = Changes(str(tmp_path))
    await watch.begin()
    monkeypatch.setattr(changes, "_MOMENT", -1)
    monkeypatch.setattr(changes, bound, -1)
    assert await changed(watch, tmp_path, lambda: (tmp_path / "made").write_text("x")) == []


async def test_what_takes_longer_than_a_moment_is_looked_at_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_MOMENT", -1)
    watch = Changes(str(tmp_path))
    await watch.begin()
    assert await changed(watch, tmp_path, lambda: (tmp_path / "made").write_text("x")) == ["made"]


async def test_a_busy_machine_hides_no_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a processor for a tenth of a second has not looked through a large folder."""
    watch = Changes(str(tmp_path))
    await watch.begin()
    passed = itertools.count(time.monotonic(), 0.1)
    clocks = SimpleNamespace(monotonic=lambda: next(passed), thread_time=time.thread_time)
    monkeypatch.setattr(changes, "time", clocks)
    assert await changed(watch, tmp_path, lambda: (tmp_path / "made").write_text("x")) == ["made"]


async def test_at_most_a_hundred_are_named(tmp_path: Path) -> None:
    watch = Changes(str(tmp_path))
    await watch.begin()

    def act() -> None:
        for number in range(150):
            (tmp_path / f"{number:03}").write_text("x")

    assert len(await changed(watch, tmp_path, act)) == 100
