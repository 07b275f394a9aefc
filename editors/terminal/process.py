"""The server's process: started in a session of its own, watched, and ended for certain.

Invariants: the folder of the process is never a workspace, so nothing in one can be imported as ours (F21); its death
is seen at once, whatever other processes still hold its pipes, and is told with its exit code and last log lines
(LS-17); after `end` the process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence

SERVER_COMMAND = (sys.executable, "-P", "-m", "server")
PLACES = ("HANDRAIL_STATE_DIR", "HANDRAIL_CONFIG", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""Variables that say where the server keeps its record and finds its settings."""
_NEUTRAL_FOLDER = "/"
_KEPT_LOG_LINES = 30
_SHOWN_LOG_LINES = 8
_LONGEST_LOG_LINE = 2000
_LATE_BYTES = 0.3  # seconds that answers and log lines may arrive after the exit was seen
_PATIENCE = 3.0  # seconds a server gets to end by itself: twice what it may take by design

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class ServerGone(Exception):
    """The server's process ended: its `exit_code` (negative: the signal; None: not known) and its last `log_lines`."""

    def __init__(self, exit_code: int | None, log_lines: Sequence[str]) -> None:
        self.exit_code = exit_code
        self.log_lines = tuple(log_lines)
        told = "".join(f"\n  {line}" for line in self.log_lines[-_SHOWN_LOG_LINES:])
        super().__init__(f"The server ended {_how(exit_code)}." + (f" Its last lines were:{told}" if told else ""))


class ServerProcess(asyncio.SubprocessProtocol):
    """One running server. Bytes of its stdout go to `on_bytes`, its end to `on_gone`, each on the event loop."""

    def __init__(self) -> None:
        self.log: deque[str] = deque(maxlen=_KEPT_LOG_LINES)
        self.on_bytes: Callable[[bytes], None] = lambda data: None
        self.on_gone: Callable[[ServerGone], None] = lambda reason: None
        self.on_log: Callable[[str], None] = lambda line: None
        self._log_rest = b""
        self._open_pipes = {_STDOUT, _STDERR}
        self._exited = asyncio.Event()
        self._told = False
        self._transport: asyncio.SubprocessTransport

    async def start(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        """Start `command`. Its own session keeps the terminal's Ctrl-C from it: that is the client's to handle."""
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *command,
            env=_seen_from_here(os.environ if environment is None else environment),
            cwd=_NEUTRAL_FOLDER,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._transport.get_returncode()

    def write(self, data: bytes) -> None:
        """Write to the server's stdin; a server that does not listen any more is told about by `on_gone`."""
        stdin = self._transport.get_pipe_transport(_STDIN)
        if isinstance(stdin, asyncio.WriteTransport) and not stdin.is_closing():
            stdin.write(data)

    async def end(self, *, at_once: bool = False) -> None:
        """Return when it is gone: by the end of its stdin (not if `at_once`), or else by TERM, or else by KILL."""
        stdin = self._transport.get_pipe_transport(_STDIN)
        if stdin is not None:
            stdin.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL)[at_once:]:
            if number is not None:
                self._signal_group(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._exited.wait(), _PATIENCE)
                break
        self._transport.close()

    def _signal_group(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Give on what came."""
        if fd == _STDOUT:
            self.on_bytes(data)
            return
        *lines, rest = (self._log_rest + data).split(b"\n")
        self._log_rest = rest[-_LONGEST_LOG_LINE:]
        for line in lines:
            self._keep_log(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note that a pipe is at its end; without stdout the server can answer nothing."""
        if fd == _STDERR and self._log_rest:
            self._keep_log(self._log_rest)
        self._open_pipes.discard(fd)
        if fd == _STDOUT or self._exited.is_set():
            self._tell_soon()

    def process_exited(self) -> None:
        """Note the exit."""
        self._exited.set()
        self._tell_soon()

    def _keep_log(self, line: bytes) -> None:
        text = line[:_LONGEST_LOG_LINE].decode("utf-8", "replace")
        self.log.append(text)
        self.on_log(text)

    def _tell_soon(self) -> None:
        """Tell the end once everything is read; other processes may hold the pipes, so not later than a moment."""
        if self._exited.is_set() and not self._open_pipes:
            self._tell()
        else:
            asyncio.get_running_loop().call_later(_LATE_BYTES, self._tell)

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self.on_gone(ServerGone(self.exit_code, tuple(self.log)))


def _seen_from_here(environment: Mapping[str, str]) -> dict[str, str]:
    """Make the places absolute: a relative one is meant from our folder, not from the server's."""
    named = {name: environment[name] for name in PLACES if environment.get(name)}
    return {**environment, **{name: os.path.abspath(os.path.expanduser(path)) for name, path in named.items()}}


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "its answers while it was still running"
    if exit_code < 0:
        with contextlib.suppress(ValueError):
            return f"by the signal {signal.Signals(-exit_code).name}"
    return f"with exit code {exit_code}"
