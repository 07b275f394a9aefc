"""Which of some files a command reads or writes, as far as its text tells.

Invariants: pure but for `resolve`; it rather names a file too many than one too few: a folder stands for what is in
it, a pattern or variable for the folder around it, and a command that runs the project's code for its whole folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from agent_core.policy_context import paths_in
from agent_core.programs import inner_commands, runs_own_code
from agent_core.shell_syntax import analyse

_MOST_WORDS = 256
_PATTERN = re.compile(r"[*?\[{$`]")


def touched(command: str, cwd: str, files: Mapping[str, str], resolve: Callable[[str], str]) -> tuple[str, ...]:
    """Return those of `files` that the command touches when it runs in `cwd`, in their order.

    `files` maps each absolute path to itself with its links resolved, as `resolve` does it for those in the command.
    """
    if not files:
        return ()
    places = {resolve(posixpath.normpath(posixpath.join(cwd, path))) for path in _paths(command)}
    return tuple(path for path, file in files.items() if any(_holds(place, file) for place in places))


def _paths(command: str) -> Iterator[str]:
    analysis = analyse(command)
    yield from analysis.writes
    if not analysis.commands:
        yield "."  # whatever it does, it most likely does it here
    count = 0
    for simple in analysis.commands:
        for argv in (simple.argv, *inner_commands(simple.argv)):
            if runs_own_code(argv):
                yield "."
            for word in argv[1:]:
                count += 1
                if count > _MOST_WORDS:
                    return
                yield from map(_searched, paths_in(word.strip("\"'")))


def _searched(path: str) -> str:
    """Return the folder that a pattern searches; a path without a pattern is itself."""
    found = _PATTERN.search(path)
    return posixpath.dirname(path[: found.start()]) or "." if found else path


def _holds(place: str, file: str) -> bool:
    return file == place or file.startswith(place.rstrip("/") + "/")
