"""The instruction files of a project: AGENTS.md from the workspace's root down to the session's folder, else CLAUDE.md.

Invariants: read only in trusted folders, once per session; capped in size; they are words for the model and never
settings, so nothing in them can loosen what is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_core.regular_files import read_regular

_NAMES = ("AGENTS.md", "CLAUDE.md")
_MOST_BYTES = 32 * 1024
_MOST_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Instructions:
    """The files that were read, and their text for the system prompt."""

    files: tuple[str, ...] = ()
    text: str = ""


def read_instructions(cwd: str) -> Instructions:
    """Read the instruction files of a folder, outermost first; a file that cannot be read is left out."""
    files: list[str] = []
    parts: list[str] = []
    room = _MOST_BYTES
    for folder in _from_root(Path(cwd)):
        found = next((path for name in _NAMES if (path := folder / name).is_file()), None)
        text = _read(found, room) if found else ""
        if found and text:
            files.append(str(found))
            parts.append(f"Instructions of the project, from {found}:\n\n{text}")
            room -= len(text.encode(errors="replace"))
    return Instructions(tuple(files), "\n\n".join(parts))


def _from_root(cwd: Path) -> Iterator[Path]:
    """Yield the folders from the repository's root (the nearest one with `.git`, else cwd alone) down to cwd."""
    upwards = [cwd, *cwd.parents][:_MOST_LEVELS]
    root = next((place for place, folder in enumerate(upwards) if (folder / ".git").exists()), 0)
    yield from reversed(upwards[: root + 1])


def _read(path: Path, room: int) -> str:
    try:
        data = read_regular(path, room + 1)
    except OSError:
        return ""
    text = data[:room].decode(errors="replace").strip()
    return f"{text}\n[The rest of the file is left out.]" if len(data) > room and text else text
