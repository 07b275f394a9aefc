"""What a process does once before it runs commands, so that they do not outlive it: the subreaper and the supervisor.

Invariants: one guard per process. The server is a subreaper (Linux), so that whatever a command leaves behind becomes
the server's child and can be found by looking at its children alone; such a child is also reaped here, and only if it
is known to come from a command: nobody else's children are touched.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import sys

from agent_core import sweep
from agent_core.shell.launch import start_supervisor


class Guard:
    """The guard of this process; `token` begins the mark of every command that it starts."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self.subreaper = False
        self._lifeline: int | None = None
        self._sessions: set[int] = set()
        self._orphans: dict[int, int] = {}  # id to start time

    def stand_up(self, bash: str) -> None:
        """Make sure, before a command starts, that the supervisor lives; raise `OSError` if it cannot be started."""
        if not sys.platform.startswith("linux") or self._supervised():
            return
        # While this process is a subreaper, the supervisor would become its child again.
        sweep.become_subreaper(wanted=False)
        try:
            self._lifeline = start_supervisor(bash, self.token)
        finally:
            self.subreaper = sweep.become_subreaper(wanted=True)

    def note(self, session: int) -> None:
        """Remember the process session of a command, by which its orphans are known."""
        self._sessions.add(session)

    def note_orphans(self, started: dict[int, int]) -> None:
        """Remember processes, as id to start time, that were seen to come from a command."""
        self._orphans |= started

    def reap(self) -> None:
        """Take the exit of the commands' orphans that have ended."""
        for pid in sweep.children_of(os.getpid()) if self.subreaper else ():
            process = sweep.look(pid)
            # The shells themselves are waited for by the code that started them.
            if process is None or not process.zombie or pid in self._sessions:
                continue
            if self._orphans.get(pid) == process.started or process.session in self._sessions:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _supervised(self) -> bool:
        if self._lifeline is None:
            return False
        watch = select.poll()
        watch.register(self._lifeline, 0)
        if not watch.poll(0):
            return True
        # Its reading end is closed: the supervisor was killed, and another is needed.
        os.close(self._lifeline)
        self._lifeline = None
        return False


GUARD = Guard()
