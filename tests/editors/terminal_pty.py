"""A real terminal for the `handrail` command: a pseudo-terminal, what it showed, and keys.

Invariants: every wait is bounded; what was started is gone after `close`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import pyte

ROOT = Path(__file__).parents[2]
CTRL_C, CTRL_D = "\x03", "\x04"
_QUESTION_ENDS = b"\x1b[?2004l"  # the end of bracketed paste
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>78]|\([AB0])")


class Terminal:
    """One `handrail` command on a terminal of its own."""

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        rows: int = 40,
        columns: int = 100,
        owned: bool = True,
        stderr: IO[str] | None = None,
    ) -> None:
        """Start it. Only an `owned` terminal sends signals, as for Ctrl-C or when it is gone."""
        self._main, side = pty.openpty()
        termios.tcsetwinsize(side, (rows, columns))
        self._screen = pyte.Screen(columns, rows)
        self._screen_input = pyte.ByteStream(self._screen)
        self._raw = b""
        self._shown = ""
        self._read_to = 0
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "editors.terminal.cli", *arguments],
            stdin=side,
            stdout=side,
            stderr=stderr or side,
            env={"TERM": "xterm", **environment},
            start_new_session=True,
            preexec_fn=_own_terminal if owned else None,
        )
        os.close(side)

    def expect(self, *texts: str, within: float = 15.0) -> str:
        """Wait until one of `texts` is shown after what was waited for before; return what was shown up to its end."""
        deadline = time.monotonic() + within
        wanted = re.compile("|".join(map(re.escape, texts)))
        while (found := wanted.search(self._shown, self._read_to)) is None:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{texts} were not shown, but:\n{self._shown[self._read_to :]}")
        begin, self._read_to = self._read_to, found.end()
        return self._shown[begin : self._read_to]

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._main, keys.encode())

    def question(self, *ends: str) -> str:
        """Wait until the cursor stands at a question that ends so ("? >"), and return what was shown before it."""
        self._until(lambda: self._line.endswith(ends or ("? >",)))
        begin, self._read_to = self._read_to, len(self._shown)
        return self._shown[begin:]

    def enter(self, keys: str) -> None:
        """Answer the question at the cursor with `keys` and Enter, and wait until it is gone."""
        ended = self._raw.count(_QUESTION_ENDS)  # the next one may look the same
        self.type(keys + "\r")
        self._until(lambda: self._raw.count(_QUESTION_ENDS) > ended)

    def answer(self, keys: str) -> str:
        """Wait for the question, answer it, and return what was shown before it."""
        shown = self.question()
        self.enter(keys)
        return shown

    def resize(self, rows: int, columns: int = 100) -> None:
        """Give the window another size; a smaller one loses its first rows."""
        lost = max(0, self._screen.lines - rows)
        self._screen.resize(rows, columns)
        self._screen.cursor.y = max(0, self._screen.cursor.y - lost)
        termios.tcsetwinsize(self._main, (rows, columns))  # its owner gets a signal by that

    def hang_up(self) -> None:
        """Take the terminal away."""
        os.close(self._main)
        self._main = -1

    def exit_code(self, within: float = 10.0) -> int:
        """Wait for the end and return the exit code."""
        deadline = time.monotonic() + within
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    @property
    def shown(self) -> str:
        """All that was shown, without colours and cursor moves."""
        return self._shown

    @property
    def _line(self) -> str:
        return str(self._screen.display[self._screen.cursor.y]).rstrip()

    def _until(self, holds: Callable[[], bool], within: float = 15.0) -> None:
        deadline = time.monotonic() + within
        while not holds():
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"it did not come to that, but to:\n{self.screen}")

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        return "\n".join(row.rstrip() for row in self._screen.display)

    def close(self) -> None:
        """End the command."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)
        if self._main >= 0:
            os.close(self._main)

    def _read(self, within: float) -> bool:
        if within <= 0 or not select.select([self._main], [], [], within)[0]:
            return False
        try:
            data = os.read(self._main, 65536)
        except OSError:  # the last process closed the terminal
            return False
        self._raw += data
        self._screen_input.feed(data)
        self._shown = _SEQUENCE.sub("", self._shown + data.decode("utf-8", "replace").replace("\r\n", "\n"))
        return bool(data)


def _own_terminal() -> None:
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which nothing of the person's is seen or changed."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    places = {name: str(folder / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    (folder / "HOME").mkdir(exist_ok=True)
    return {**kept, **places, "PYTHONPATH": str(ROOT)}


def tape(path: Path, *replies: tuple[str, list[str]]) -> Path:
    """Write a tape in which the model says each text and asks for its commands."""
    frames = []
    for number, (text, asked) in enumerate(replies):
        message: dict[str, object] = {"role": "assistant", "content": text}
        if asked:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}_{at}",
                    "type": "function",
                    "function": {"name": "bash", "arguments": json.dumps({"command": command})},
                }
                for at, command in enumerate(asked)
            ]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if asked else "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
        frames.append({"id": f"r{number}", "object": "chat.completion", "choices": [choice], "usage": usage})
    path.write_text(json.dumps({"model": "m", "recorded_at": "", "dialect": "chat", "frames": frames}))
    return path


def processes_of(marker: str) -> list[str]:
    """Return the command lines of all processes that hold `marker` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and marker.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def gone(marker: str, within: float = 5.0) -> list[str]:
    """Wait until no process holds `marker`; return those that still do."""
    deadline = time.monotonic() + within
    while (left := processes_of(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
