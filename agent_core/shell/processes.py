"""The processes of one command: which they are, and how they are ended.

Invariants: nothing is signalled that does not belong to the command. To it belong the shell's process group, every
process that bears the command's mark or is in the shell's process session, every child of this server that writes to
the command's pipe, all their descendants, and whatever was seen to be one of these before. So a process escapes only if
it clears its environment, leaves the session, closes its output and loses its parents, all before anyone looks; then
only the sandbox, or the server's end, ends it.

Without a subreaper and `/proc` (macOS) the process group is all that is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

from agent_core import sweep
from agent_core.shell.guard import GUARD
from agent_core.sweep import Process

_LOOK_SECONDS = 0.01
_LONGEST_KILL_SECONDS = 1.0
_LONGEST_NAME = 80
_MOST_NAMED = 20


class CommandProcesses:
    """The processes that bear one mark; `shell` is the id of the shell's process, group and session, if it has one."""

    def __init__(self, mark: str, shell: int | None, output: int | None = None) -> None:
        """`output` is the reading end of the command's pipe: whoever can write to it belongs to the command."""
        self._mark = mark.encode()
        self._pipe = f"pipe:[{os.fstat(output).st_ino}]" if output is not None else ""
        self._shell = shell
        self._seen: dict[int, int] = {}  # id to start time
        self._group_may_live = shell is not None
        if shell is not None:
            GUARD.note(shell)

    def alive(self, *, everywhere: bool = False) -> dict[int, Process]:
        """Return the command's living processes by id.

        The quick look goes down from this server's children, where a subreaper finds all of them; `everywhere` looks
        at each process of the machine, which takes some milliseconds.
        """
        GUARD.reap()
        found = sweep.with_descendants(pid for pid in sweep.children_of(os.getpid()) if self._owns(pid))
        if everywhere or not GUARD.subreaper:
            found |= sweep.marked(self._mark)
        known = (sweep.look(pid) for pid in self._seen if pid not in found)
        still = [process.pid for process in known if process is not None and self._seen[process.pid] == process.started]
        found |= sweep.with_descendants(still)
        self._seen = {process.pid: process.started for process in found.values()}
        GUARD.note_orphans(self._seen)
        return found

    def names(self) -> list[str]:
        """Return the first of what is alive, each as `command line (pid N)`."""
        pids = sorted(self.alive())[:_MOST_NAMED]
        return [f"{sweep.command_line(pid)[:_LONGEST_NAME]} (pid {pid})" for pid in pids]

    async def end(self, grace: float, shell_ended: Callable[[], bool]) -> None:
        """Ask all to end, wait up to `grace` seconds, then kill until nothing is left or a second has passed."""
        found = self.alive(everywhere=True)
        members = {pid for pid, process in found.items() if process.group == self._shell}
        if shell_ended() and not members and sweep.look(os.getpid()) is not None:
            self._group_may_live = False
        self._signal_group(signal.SIGTERM)
        sweep.send(set(found) - members, signal.SIGTERM)
        await self._until_gone(time.monotonic() + grace, shell_ended)
        deadline = time.monotonic() + _LONGEST_KILL_SECONDS
        while time.monotonic() < deadline:
            self._signal_group(signal.SIGKILL)
            left = self.alive(everywhere=True)
            if not left and shell_ended():
                return
            sweep.send(left, signal.SIGKILL)
            await asyncio.sleep(_LOOK_SECONDS / 2)

    async def _until_gone(self, deadline: float, shell_ended: Callable[[], bool]) -> None:
        # Nothing tells when the last process of a group ends, so it is looked at again and again.
        while time.monotonic() < deadline:
            if shell_ended() and not self.alive() and not self._group_lives():
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _owns(self, pid: int) -> bool:
        process = sweep.look(pid)
        if process is None:
            return False
        return process.session == self._shell or sweep.carries(pid, self._mark) or sweep.writes_to(pid, self._pipe)

    def _group_lives(self) -> bool:
        self._signal_group(0)
        return self._group_may_live

    def _signal_group(self, signum: int) -> None:
        """Signal the shell's group, unless it was once seen empty: its number may then be another's."""
        if self._shell is None or not self._group_may_live:
            return
        try:
            os.killpg(self._shell, signum)
        except ProcessLookupError:
            self._group_may_live = False
        except PermissionError:
            return  # what is left in it belongs to another user
