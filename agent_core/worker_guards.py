"""What the model worker does to itself before it does anything else.

Invariants: nothing heavy is imported here, for the guards have to stand before the imports; the process never outlives
its parent, and its descriptors 0 and 1 lead nowhere that anyone reads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Ask the kernel to end this process with its parent, and end it now if that is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def guard_descriptors() -> tuple[int, int]:
    """Move the pipes of the parent to descriptors nobody else knows; prints go to standard error from here on."""
    requests, replies = os.dup(0), os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies
