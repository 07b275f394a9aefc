"""Finds processes by the mark in their environment and ends them; run as a script, it is the supervisor of a server.

Invariants: it only looks at `/proc`, sends signals and asks the kernel for orphans; it imports nothing but the standard
library and nothing heavy, because the supervisor runs this very file with `python -I -S`, where no other package and no
workspace is on the path, and because a server's keeper is made of it before the server imports anything.

The supervisor ends a server's commands when the server can no longer do it: killed by SIGKILL, or by an editor that
kills the whole process tree. A parent-death signal would reach the shells alone and not their children, and a child of
the server would be killed together with it; so the supervisor has left the server's tree, and holds the reading end
of a pipe whose only writing end is the server's. When that is closed, whatever closed it, the supervisor ends every
process that bears the server's mark, with all that descends from it or shares its process session, and then itself.
What has cleared its environment and lost its parents it cannot know; that is what `handrail serve` has a keeper for.

Systems without `/proc` (macOS): nothing is found; commands are then ended by their process group alone.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

MARK_VARIABLE = "HANDRAIL_MARK"
_PR_SET_CHILD_SUBREAPER = 36
_EXITING = 0x4  # the kernel's PF_EXITING: it has been killed or has ended, and is only being cleared away
_ROUND_SECONDS = 0.005
_GRACE_SECONDS = 0.3
_LONGEST_SWEEP_SECONDS = 10.0


class Process(NamedTuple):
    """One process as `/proc` shows it. `started`, in ticks since boot, tells it from a later one of the same id."""

    pid: int
    alive: bool
    zombie: bool
    group: int
    session: int
    started: int
    resident_pages: int


def look(pid: int) -> Process | None:
    """Return the process of that id, or None if there is none or it cannot be seen."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if len(fields) < 22:
        return None
    state, flags, threads = fields[0], int(fields[6]), int(fields[17])
    # A process whose first thread has ended looks like a zombie while its other threads live.
    alive = threads > 1 or (state not in b"ZX" and not flags & _EXITING)
    return Process(pid, alive, state == b"Z", int(fields[2]), int(fields[3]), int(fields[19]), int(fields[21]))


def carries(pid: int, mark: bytes) -> bool:
    """Whether the process was started with a mark that begins so."""
    return MARK_VARIABLE.encode() + b"=" + mark in _read(pid, "environ")


def writes_to(pid: int, pipe: str) -> bool:
    """Whether standard output or standard error of a process is that pipe, named `pipe:[inode]`."""
    for descriptor in (1, 2):
        try:
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == pipe:
                return True
        except OSError:
            continue
    return False


def command_line(pid: int) -> str:
    """Return the words that the process was started with, in printable characters; `""` if they cannot be seen."""
    words = _read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in words)


def become_subreaper(*, wanted: bool) -> bool:
    """Ask the kernel to make this process a subreaper, or no longer; return whether it is one now.

    A subreaper becomes the parent of every process below it that loses its own.
    """
    try:
        import ctypes  # only here, since a server that runs no command has no use for it

        done = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0
    except (ImportError, OSError, AttributeError):
        return False
    return done and wanted


def lists_children() -> bool:
    """Whether this kernel tells the children of a process."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def children_of(pid: int) -> list[int]:
    """Return the ids of the children of all threads of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in _read(pid, f"task/{thread}/children").split()]


def everything() -> list[int]:
    """Return the ids of all processes that can be seen."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def with_descendants(roots: Iterable[int]) -> dict[int, Process]:
    """Return the living processes among `roots` and below them, by id; those that are just ending are left out."""
    found: dict[int, Process] = {}
    pending = list(roots)
    while pending:
        pid = pending.pop()
        process = look(pid) if pid not in found else None
        if process is not None and process.alive:
            found[pid] = process
            pending += children_of(pid)
    return found


def marked(mark: bytes) -> dict[int, Process]:
    """Return every living process with that mark, its descendants, and those in a process session with one of them."""
    pids = everything()
    found = with_descendants(pid for pid in pids if carries(pid, mark))
    # A command's process sessions are made by its own processes only, so whoever shares one belongs to it.
    sessions = {process.session for process in found.values()}
    others = (process for pid in pids if pid not in found and (process := look(pid)) is not None)
    return found | with_descendants(process.pid for process in others if process.session in sessions)


def send(pids: Iterable[int], signum: int) -> None:
    """Send a signal to each; those that are gone or belong to someone else are passed over."""
    for pid in pids:
        try:
            os.kill(pid, signum)
        except (ProcessLookupError, PermissionError):
            continue


def end_all(find: Callable[[], Iterable[int]], longest: float = _LONGEST_SWEEP_SECONDS) -> None:
    """End what `find` returns: ask once, wait a little, then kill in rounds until nothing is found or time is up.

    Rounds are needed because a process may start another between the look and the signal.
    """
    started = time.monotonic()
    send(find(), signal.SIGTERM)
    while time.monotonic() - started < _GRACE_SECONDS and find():
        time.sleep(_ROUND_SECONDS)
    while time.monotonic() - started < longest and (left := list(find())):
        send(left, signal.SIGKILL)
        time.sleep(_ROUND_SECONDS)


def supervise(mark: bytes) -> None:
    """Wait until standard input is at its end, which is when the server is gone, and end all that bears its mark."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    end_all(lambda: marked(mark))


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read() or b""
    except OSError:
        return b""


if __name__ == "__main__":
    supervise(sys.argv[1].encode())
