"""Which files changed while a command ran: a look at the folder after it, compared with the look before.

Invariants: no process is started and git is not asked, since a scan of a small tree costs less than starting it: one
walk after each command, cut off after a bounded time and number of entries, in a thread unless it is done in a moment;
what was not looked at is not reported. A busy machine is no large folder: the bound is of our own processor time. Links
are not followed, and folders that only tools write are left out.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

_LEFT_OUT = frozenset(
    {
        *(".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__", "target", "dist", "build"),
        *(".tox", ".nox", ".cache", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".gradle", ".next", ".hypothesis"),
    }
)
_MOMENT = 0.001  # seconds; a thread costs half as much
_PROCESSOR_SECONDS = 0.03
_LONGEST = 1.0  # seconds; a slow disk takes no processor time
_MOST_ENTRIES = 10_000
_MOST_REPORTED = 100
_CLOCK_NS = 20_000_000
"""File times come from a coarser clock than ours and may lie this much before the time of the change."""


@dataclass(slots=True)
class _Look:
    """What was seen: each file with (time of its last change, size), each folder with the time of its last change."""

    whole: bool = True
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)


class Changes:
    """Watches one folder over one command after the other."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._last: _Look | None = None

    async def begin(self) -> None:
        """Look before the first command; the look after each command is the one before the next."""
        if self._last is None:
            self._last = await _look(self._folder)

    async def since(self, started_at: float) -> tuple[str, ...]:
        """Return the absolute paths of files made, changed or removed since then (seconds since the epoch), sorted.

        What a person did in between two commands is not reported, what they did while one ran is.
        """
        before = self._last or _Look(whole=False)
        self._last = now = await _look(self._folder)
        earliest = int(started_at * 1e9) - _CLOCK_NS
        changed = [path for path, seen in now.files.items() if seen[0] >= earliest and before.files.get(path) != seen]
        if now.whole:
            changed += [path for path in before.files.keys() - now.files.keys() if _emptied(path, now, earliest)]
        return tuple(sorted(changed)[:_MOST_REPORTED])


def _emptied(path: str, now: _Look, earliest: int) -> bool:
    """Whether a file that is gone went since then: its folder, or the nearest one around it that is left, says so."""
    folder = os.path.dirname(path)
    while folder not in now.folders and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return now.folders.get(folder, 0) >= earliest


async def _look(folder: str) -> _Look:
    look = _walk(folder, _MOMENT, _MOMENT)
    return look if look.whole else await asyncio.to_thread(_walk, folder, _LONGEST, _PROCESSOR_SECONDS)


def _walk(folder: str, seconds: float, processor_seconds: float) -> _Look:
    """Walk a tree, nearest folders first, until either time is over."""
    look = _Look()
    waiting = deque([folder])
    deadline, processor_deadline = time.monotonic() + seconds, time.thread_time() + processor_seconds
    while waiting:
        try:
            for _ in _look_into(waiting.popleft(), look, waiting):
                late = time.monotonic() > deadline or time.thread_time() > processor_deadline
                if late or len(look.files) + len(look.folders) > _MOST_ENTRIES:
                    look.whole = False
                    return look
        except OSError:
            continue  # it went away, or is not for us to read
    return look


def _look_into(folder: str, look: _Look, waiting: deque[str]) -> Iterator[None]:
    """Note a folder and what is in it; yield after each entry."""
    look.folders[folder] = os.stat(folder).st_mtime_ns
    yield
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _LEFT_OUT:
                    waiting.append(entry.path)
            else:
                status = entry.stat(follow_symlinks=False)
                look.files[entry.path] = status.st_ctime_ns, status.st_size
            yield
