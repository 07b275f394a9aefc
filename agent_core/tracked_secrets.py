"""Finds by git's own list which files that may hold secrets it tracks, whether they still lie in the folder or not.

Invariants: reads the index of the repository around a folder and nothing else, and only if it is a regular file of
ordinary size; a list that is not understood is said to be not whole.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from agent_core.policy_context import Below
from agent_core.regular_files import read_regular
from agent_core.secret_names import is_key_folder, may_hold_secrets

INDEX_BYTES = 32 << 20
_HEADER = struct.Struct(">4sII")  # the signature `DIRC`, the version, how many entries (gitformat-index(5))
_FLAGS_AT, _NAME_AT = 60, 62  # places in an entry
_EXTENDED = 0x40  # a bit of the flags' first byte: two more bytes come before the name


def tracked_secrets(folder: str, whole_repository: bool = False) -> Below:
    """Return which files git tracks that may hold secrets, below a folder (absolute) or anywhere in its repository.

    A file has nothing below it; what is neither a file nor a folder to git is not known, so not whole.
    """
    repository = next((place for place in (Path(folder), *Path(folder).parents) if (place / ".git").exists()), None)
    if repository is None:
        return Below()
    try:
        index = read_regular(repository / ".git" / "index", INDEX_BYTES + 1)
    except FileNotFoundError:
        return Below()
    except OSError:
        return Below(whole=False)  # a worktree or submodule, whose index is elsewhere
    if len(index) > INDEX_BYTES or len(index) < _HEADER.size or _HEADER.unpack_from(index)[1] not in (2, 3):
        return Below(whole=False)  # from version 4 on names are shortened by what they share with the one before
    own = "." if whole_repository else os.path.relpath(folder, repository)
    prefix = b"" if own == "." else os.fsencode(own) + b"/"
    names = [os.fsdecode(name[len(prefix) :]) for name in _names(index) if (name + b"/").startswith(prefix)]
    # Where nothing is tracked the word may be no folder but a commit.
    return Below(tuple(filter(_may_hold_secrets, names)), whole=bool(names or not prefix))


def _names(index: bytes) -> Iterator[bytes]:
    """Yield the name of every entry of an index of version 2 or 3."""
    at = _HEADER.size
    for _ in range(_HEADER.unpack_from(index)[2]):
        start = at + _NAME_AT + (2 if index[at + _FLAGS_AT] & _EXTENDED else 0)
        end = index.find(b"\0", start)
        if end < 0:
            return
        yield index[start:end]
        at += (end - at) // 8 * 8 + 8  # each entry is filled up with one to eight NULs


def _may_hold_secrets(path: str) -> bool:
    *folders, name = path.split("/")
    return may_hold_secrets(name) or any(map(is_key_folder, folders))
