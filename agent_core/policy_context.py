"""What a verdict depends on besides the command and the rules: where it would run and what is known about that place.

Invariants: a value; whatever touches the disk is one of its functions, given by the caller, so that judging is pure and
tests need no disk. The defaults know of no disk at all.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from agent_core.secret_names import is_sensitive

_ADDRESS = re.compile(r"(?:https?|ssh|git|ftps?)://\S*")
_ENDS_OF_PIECES = re.compile(r"[=:,]")


@dataclass(frozen=True, slots=True)
class Below:
    """What was found below a folder; a file has nothing below it. Paths are seen from the folder."""

    secrets: tuple[str, ...] = ()  # files that may hold secrets
    links: tuple[str, ...] = ()
    whole: bool = True  # whether everything was looked at


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """Where and for whom a command is judged. Paths are absolute; the workspace's roots have their links resolved."""

    cwd: str
    roots: tuple[str, ...]  # the workspace's folders
    home: str = "/home"
    trusted: bool = True  # whether the editor trusts the workspace
    remembered: Collection[tuple[str, str]] = frozenset()  # (cwd, exact text) that the person approved for the session
    remembered_rules: Collection[tuple[str, ...]] = frozenset()  # argv prefixes that the person approved so
    environment: Collection[str] = frozenset()  # names of the variables that a command gets
    secrets: tuple[str, ...] = ()  # names of the known secrets that are in the command
    rejected: tuple[str, ...] = ()  # the commands that the person rejected in this turn
    unsaved: tuple[str, ...] = ()  # files with unsaved changes in the editor
    resolve: Callable[[str], str] = posixpath.normpath  # an absolute path with its links resolved
    find_program: Callable[[str], str | None] = field(default=lambda _name: None)  # where PATH has a program
    below: Callable[[str], Below] = field(default=lambda _folder: Below())  # what an absolute path has below it
    # The same by git's list of what it tracks; True looks in all of the repository around.
    tracked: Callable[[str, bool], Below] = field(default=lambda _folder, _whole: Below())
    unhidden: Callable[[str], bool] = field(default=lambda _path: False)  # whether an ignore file asks for a hidden one
    git_config: Callable[[str], str] = field(default=lambda _cwd: "")  # text of a repository's own configuration

    def outside(self, word: str, folder: str) -> str | None:
        """Return the path in this word that lies outside the workspace, as seen from `folder`, if any."""
        for path in paths_in(word):
            if path.startswith("~") or not self.inside(path, folder):
                return path
        return None

    def inside(self, path: str, folder: str) -> bool:
        """Whether the path lies in the workspace in all its readings."""
        return all(map(self._in_workspace, self.readings(path, folder)))

    def touches(self, program: str) -> bool:
        """Whether a program's file is in the workspace, be it only a link to one elsewhere."""
        full = _normal(posixpath.join(self.cwd, program))
        folder, name = posixpath.split(full)
        return any(map(self._in_workspace, (full, f"{self.resolve(folder)}/{name}", self.resolve(full))))

    def readings(self, path: str, folder: str) -> frozenset[str]:
        """Return where the path leads, links resolved: as the shell reads `link/..`, by name, and as the system."""
        full = posixpath.join(folder, path)
        return frozenset(map(self.resolve, {_normal(full), full}))

    def _in_workspace(self, path: str) -> bool:
        return any(_within(path, root) for root in self.roots)

    def sensitive(self, word: str, folder: str) -> str | None:
        """Return the path in this word that leads to keys or to configuration that can run something."""
        if word.startswith("--exclude"):
            return None  # naming what is left out is the contrary of reaching it
        for path in paths_in(word):
            resolved = self.resolve(posixpath.join(folder, path))
            own = next((resolved[len(root) :] for root in self.roots if _within(resolved, root)), resolved)
            if any(map(is_sensitive, [*path.split("/"), *own.split("/")])):
                return path
        return None


def paths_in(word: str) -> Iterator[str]:
    """Yield every text in a word that a program may take for a path.

    That is the word itself, what follows `=`, `:` or `,`, and what is glued to an option: `-I../x`, `--file=x`, `a:b`.
    """
    seen: set[str] = set()
    # The parts of an address are no paths here; the whole word still may be one, as `http:` is a fine folder's name.
    for piece in (word, *_ENDS_OF_PIECES.split(_ADDRESS.sub("", word))):
        candidates = [piece]
        if piece.startswith("-"):
            candidates = [piece[2:], *(piece[at:] for at in (piece.find("/"), piece.find("..")) if at > 0)]
        for candidate in candidates:
            if candidate and candidate not in seen:
                seen.add(candidate)
                yield candidate


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _normal(path: str) -> str:
    # POSIX leaves the meaning of a leading `//` open, and normpath keeps it; the systems we run on do not.
    return posixpath.normpath("/" + path.lstrip("/"))
