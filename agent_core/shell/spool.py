"""The file that holds the whole output of one command, as far as its cap allows.

Invariants: mode 0600 in a folder of mode 0700, never through a link and never over another file; it takes only bytes
that are already masked; a disk that is full ends the file and never the command.
"""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".output"


class Spool:
    """One spool file; it appears with the first byte."""

    def __init__(self, path: Path, cap: int) -> None:
        self._path = path
        self._room = cap
        self._descriptor: int | None = None
        self._closed = False
        self.complete = True  # whether every byte that was written is in the file

    @property
    def path(self) -> str:
        """The file's path, `""` if nothing was written."""
        return str(self._path) if self._descriptor is not None else ""

    def write(self, data: bytes) -> None:
        """Append as much as the cap leaves room for."""
        if self._closed or not self.complete or not data:
            return
        piece = data[: self._room]
        try:
            if self._descriptor is None:
                self._descriptor = self._create()
            written = os.write(self._descriptor, piece)
        except OSError:
            self.complete = False
            return
        self._room -= written
        self.complete = written == len(data)

    def close(self) -> None:
        """Close the file; its path stays known, and nothing may be written any more."""
        if self._descriptor is not None and not self._closed:
            os.close(self._descriptor)
        self._closed = True

    def _create(self) -> int:
        if not self._path.parent.is_dir():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new_file = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._path, new_file, 0o600)


def remove_spools(folder: Path) -> None:
    """Remove the spool files of a folder, and the folder if nothing else is in it."""
    for file in folder.glob(f"*{SUFFIX}"):
        file.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return  # it was never made, or holds what is not ours
