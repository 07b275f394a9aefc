"""The only file that starts processes: a command, or the supervisor of this server.

Invariants: a child gets no standard input, a process session of its own and no descriptor but its output (R14); no
`preexec_fn` and no thread, so that starting stays a quick `vfork`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from agent_core import sweep


class Started:
    """A child that runs: its process, and the reading end of the pipe that takes both its output streams."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self._process = process
        self.pid = process.pid
        self.output = output

    def on_exit(self, callback: Callable[[int], None]) -> None:
        """Call back once in the running loop with the exit code, or with the negated number of the ending signal."""
        loop = asyncio.get_running_loop()
        try:
            exits = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            # macOS and kernels before 5.3: a thread of the pool waits.
            waiting = loop.run_in_executor(None, self._process.wait)
            waiting.add_done_callback(lambda done: callback(done.result()))
            return

        def ended() -> None:
            loop.remove_reader(exits)
            os.close(exits)
            callback(self._process.wait())

        loop.add_reader(exits, ended)

    def kill(self) -> None:
        """Kill the child itself, if it still runs."""
        self._process.kill()


def start(arguments: Sequence[str | bytes], *, executable: str, cwd: str, environment: Mapping[str, str]) -> Started:
    """Start a child; raise `OSError` or `ValueError` if the system refuses its folder, its text or its number."""
    output, child_end = os.pipe()
    try:
        os.set_blocking(output, False)
        process = subprocess.Popen(
            arguments,
            executable=executable,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=child_end,
            stderr=child_end,
            start_new_session=True,
        )
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(child_end)
    return Started(process, output)


def start_supervisor(bash: str, mark: str) -> int:
    """Start this server's supervisor and return the writing end of the pipe that it watches; raise `OSError` if not.

    A shell starts it in the background and ends at once, so that it is no descendant of the server. It runs isolated
    (`-I`: no current folder, no variables of Python) and without site packages (`-S`): a quick start, and nothing of a
    workspace on its path. Its environment is empty, so it bears no mark that another server might sweep.
    """
    watched, lifeline = os.pipe()
    try:
        done = subprocess.run(
            [bash, "--norc", "--noprofile", "-c", '"$@" <&0 &', bash, sys.executable, "-I", "-S", sweep.__file__, mark],
            cwd="/",
            env={},
            stdin=watched,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
        if done.returncode != 0:
            raise OSError(errno.ECHILD, f"the supervisor of Handrail's commands cannot be started by {bash}")
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(watched)
    return lifeline
