"""A file that a workspace or a setting names is read only if it is a regular one; nothing waits for a pipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_core.errors import SettingsError
from agent_core.instructions import read_instructions
from agent_core.prices import read_price_file
from agent_core.proposing import _git_config
from agent_core.regular_files import read_regular
from agent_core.settings import read_toml
from agent_core.tape import Tape
from server.documents import _read


def _promptly(read: Callable[[], object], pipe: Path) -> object:
    """Do it in a thread, and let the thread go in case that it waits for a writer of the pipe."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(read())
        except (OSError, SettingsError) as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5)
    waits = thread.is_alive()
    if waits:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        thread.join(5)
    assert not waits, f"reading waits for somebody to write to {pipe}"
    return outcome[0]


@pytest.mark.parametrize("read", [read_toml, Tape.load, read_price_file])
def test_a_pipe_in_the_place_of_a_file_that_is_named_is_refused_with_a_sentence(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = str(_promptly(lambda: read(pipe), pipe))
    assert "cannot be read" in told
    assert "not a regular file" in told


@pytest.mark.parametrize("read", [read_toml, Tape.load, read_price_file])
@pytest.mark.parametrize(("made", "why"), [("folder", "It is not a regular file"), ("bytes", "it is not UTF-8 text")])
def test_what_is_no_text_is_told_with_reason_and_way_out(
    tmp_path: Path, read: Callable[[Path], object], made: str, why: str
) -> None:
    place = tmp_path / "place"
    place.mkdir() if made == "folder" else place.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(SettingsError, match=rf"{place} cannot be read: {why}.*\. (Correct it|Check its path)"):
        read(place)


def test_a_pipe_among_what_a_folder_holds_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("AGENTS.md", ".git/config", ".git/index"):
        os.mkfifo(tmp_path / name)
    assert _promptly(lambda: read_instructions(str(tmp_path)).files, tmp_path / "AGENTS.md") == ()
    assert _promptly(lambda: _git_config(str(tmp_path)) != "", tmp_path / ".git" / "config") is True
    assert _promptly(lambda: _read(str(tmp_path / "AGENTS.md")), tmp_path / "AGENTS.md") is None
    (tmp_path / ".git" / "config").unlink()
    (tmp_path / ".git" / "config").write_text("[core]\n")
    assert _promptly(lambda: "core" not in _git_config(str(tmp_path)), tmp_path / ".git" / "index") is True


def test_a_link_to_a_device_or_folder_is_refused_and_a_file_is_read_as_far_as_asked(tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "file").write_bytes(b"0123456789")
    for name in ("device", "."):
        with pytest.raises(OSError, match=r"regular file|directory"):
            read_regular(tmp_path / name)
    assert read_regular(tmp_path / "file", 4) == b"0123"
    assert read_regular(tmp_path / "file") == b"0123456789"


def test_a_settings_file_of_unreasonable_size_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "config.toml"
    with huge.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(SettingsError, match="larger than"):
        read_toml(huge)


@pytest.mark.parametrize(
    ("read", "text"), [(Tape.load, "[" * 9_000), (read_price_file, "[" * 9_000), (read_toml, "a = " + "[" * 9_000)]
)
def test_what_is_nested_too_deeply_is_refused_in_words_for_people(
    tmp_path: Path, read: Callable[[Path], object], text: str
) -> None:
    deep = tmp_path / "deep"
    deep.write_text(text)
    with pytest.raises(SettingsError, match=f"{deep} is nested too deeply"):
        read(deep)
