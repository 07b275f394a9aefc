"""Reads files whose place a workspace or a setting names, and only regular ones.

Invariants: reading never waits (a named pipe or a device in a file's place is refused, not opened and read), and never
takes in more than it was asked to.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most: int = 1 << 30) -> bytes:
    """Return at most `most` bytes of a regular file; raises `OSError` for anything else, also for a pipe or device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def why_unread(fault: Exception) -> str:
    """Return in words why a text could not be read, for a sentence that names the file already."""
    if isinstance(fault, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {fault.start})"
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
