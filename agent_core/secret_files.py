"""Finds the files of a workspace that may hold secrets, quickly enough to be asked at every judgement.

Invariants: one bounded walk that follows no link; a folder is read again only when its time of change says so, so that
asking again costs a look at each folder. What was not looked at is said. Folders of other people's packages
(`node_modules`, `site-packages`) are left out, and of git's own folder only the configuration is looked at.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agent_core.policy_context import Below
from agent_core.regular_files import read_regular
from agent_core.secret_names import is_env_file, is_key_folder, may_hold_secrets

_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__"})
_WHILE_JUDGING = 0.02  # seconds: judging is done where the sessions' other work waits for it
_AT_FIRST = 0.5
_WAITING = 6  # times as long may pass where a disk or another program is waited for
_MOST_FOLDERS = 20_000
_CLOCK_NS = 20_000_000
"""File times come from a coarser clock than ours: a folder that changed this short before the look may change again."""
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_READ_BYTES = 64 * 1024
_MOST_ENV_FILES = 64
_MOST_ENV_BYTES = 128 * 1024
_SIMPLE_NAME = re.compile(r"[^\[\]{}\\]+")  # other patterns mean to ripgrep what they mean nowhere else
_HOLDS_PASSWORD = re.compile(
    rb"https?://[^/\s@]+@|://[^/\s@]+:[^/\s@]+@|extraheader|(?:password|token)\s*=", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Folder:
    changed: int  # nanoseconds; 0 if it may have changed again since
    secrets: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class _OutOfTime(Exception):
    pass


def _timer(seconds: float) -> Callable[[], bool]:
    """Return what tells whether so much of this thread's own time has passed, or far more in all.

    A machine that is busy with something else makes no folder large.
    """
    own, all_ = time.thread_time() + seconds, time.monotonic() + seconds * _WAITING
    return lambda: time.thread_time() > own or time.monotonic() > all_


class SecretFiles:
    """Knows one workspace's folders; not for use by two threads at a time."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._known: dict[str, _Folder] = {}

    def below(self, folder: str, seconds: float = _WHILE_JUDGING) -> Below:
        """Return what lies below a folder (absolute, links resolved); look for so many seconds of processor time."""
        try:
            if not stat.S_ISDIR(os.stat(folder).st_mode):
                return Below()
        except OSError:
            return Below(whole=False)
        secrets: list[str] = []
        links: list[str] = []
        whole = True
        try:
            for place, seen in self._walk(folder, _timer(seconds)):
                secrets += (os.path.join(place, name) for name in seen.secrets)
                links += (os.path.join(place, name) for name in seen.links)
        except _OutOfTime:
            whole = False
        return Below(_seen_from(folder, secrets), _seen_from(folder, links), whole)

    def env_texts(self) -> Iterator[str]:
        """Yield the texts of the workspace's environment files, nearest first; as many as are worth knowing."""
        found = [path for path in self.below(self._root, _AT_FIRST).secrets if is_env_file(os.path.basename(path))]
        left = _MOST_ENV_BYTES
        for path in sorted(found, key=lambda path: (path.count("/"), path))[:_MOST_ENV_FILES]:
            place = Path(self._root, path)
            if not left:
                return
            if place.is_symlink():
                continue
            try:
                text = read_regular(place, min(left, _READ_BYTES))
            except OSError:
                continue
            left -= len(text)
            yield text.decode(errors="replace")

    def unhidden(self, path: str) -> bool:
        """Whether an ignore file asks for a hidden file, by a line that begins with `!`."""
        parts = Path(path).parts
        for folder in Path(path).parents:
            for name in _IGNORE_FILES:
                patterns = _asked_for(folder / name)
                if any(fnmatchcase(part, pattern) for pattern in patterns for part in parts):
                    return True
            if str(folder) == self._root:
                break
        return False

    def _walk(self, top: str, time_is_up: Callable[[], bool]) -> Iterator[tuple[str, _Folder]]:
        waiting = deque([top])  # nearest first
        while waiting:
            if time_is_up() or len(self._known) > _MOST_FOLDERS:
                raise _OutOfTime
            place = waiting.popleft()
            try:
                seen = self._folder(place, time_is_up)
            except OSError:
                continue  # it went away, or is not for us to read
            waiting += (os.path.join(place, name) for name in seen.folders)
            yield place, seen

    def _folder(self, place: str, time_is_up: Callable[[], bool]) -> _Folder:
        own = os.path.basename(place) == ".git"
        # What git's folder says changes with its configuration.
        changed = os.stat(os.path.join(place, "config") if own else place).st_mtime_ns
        known = self._known.get(place)
        if known is None or known.changed != changed:
            settled = changed if changed < time.time_ns() - _CLOCK_NS else 0
            known = self._known[place] = _git_folder(place, settled) if own else self._look(place, settled, time_is_up)
        return known

    def _look(self, place: str, changed: int, time_is_up: Callable[[], bool]) -> _Folder:
        secrets, links, folders = [], [], []
        in_keys = any(map(is_key_folder, place.removeprefix(self._root).split("/")))
        with os.scandir(place) as entries:
            for entry in entries:
                if time_is_up():
                    raise _OutOfTime
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _LEFT_OUT:
                        folders.append(entry.name)
                    continue
                if entry.is_symlink():
                    links.append(entry.name)
                if in_keys or may_hold_secrets(entry.name):
                    secrets.append(entry.name)
        return _Folder(changed, tuple(secrets), tuple(links), tuple(folders))


def _seen_from(folder: str, paths: list[str]) -> tuple[str, ...]:
    return tuple(os.path.relpath(path, folder) for path in paths)


def _git_folder(place: str, changed: int) -> _Folder:
    held = _HOLDS_PASSWORD.search(read_regular(Path(place, "config"), _READ_BYTES))
    return _Folder(changed, secrets=("config",) if held else ())


def _asked_for(ignore_file: Path) -> list[str]:
    """Return the names for which an ignore file makes an exception, as patterns."""
    try:
        data = read_regular(ignore_file, _READ_BYTES + 1)
    except OSError:
        return []
    if len(data) > _READ_BYTES:
        return ["*"]
    text = data.decode("utf-8-sig", "replace")
    asked = (line[1:].strip().rstrip("/").rsplit("/", 1)[-1] for line in text.splitlines() if line.startswith("!"))
    return [name if _SIMPLE_NAME.fullmatch(name) else "*" for name in asked]
