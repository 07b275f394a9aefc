"""What the runner's tests share: a shell in a temporary folder, and a look at which processes live."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_core.redaction import Masker
from agent_core.shell import Command, CommandLimits, Shell, base_environment, find_bash
from agent_core.types import CommandResult, Proposal

BASH = find_bash()
_RUN = os.environ.setdefault("HANDRAIL_TEST_RUN", str(os.getpid()))
_LONG_SLEEP = re.compile(r"\b30[0-9]{3}\b")


def _of_this_run(text: str) -> str:
    """Make the length of each long sleep this test run's own, so that runs on one machine do not see each other's."""
    return _LONG_SLEEP.sub(rf"\g<0>.{_RUN}", text)


class Workbench:
    """One session's shell in a folder, with short ways to start and run a command in it."""

    def __init__(self, folder: Path, secrets: Mapping[str, str] | None = None) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.spools = folder / "spools"
        self.shell = Shell(bash=BASH, session_id="s1", masker=Masker(secrets or {}), spool_dir=self.spools)

    async def start(
        self,
        command: str,
        *,
        timeout: float = 20.0,
        limits: CommandLimits | None = None,
        on_output: Callable[[bytes], None] | None = None,
        environ: Mapping[str, str] | None = None,
        added: Mapping[str, str] | None = None,
        sandbox: str = "off",
    ) -> Command:
        proposal = Proposal("k1", _of_this_run(command), str(self.folder), BASH, timeout, sandbox)
        environment = base_environment(environ or os.environ, inherit=(), added=added or {})
        return await self.shell.start(
            proposal, environment=environment, limits=limits or CommandLimits(), on_output=on_output
        )

    async def run(
        self,
        command: str,
        *,
        timeout: float = 20.0,
        limits: CommandLimits | None = None,
        on_output: Callable[[bytes], None] | None = None,
        environ: Mapping[str, str] | None = None,
        added: Mapping[str, str] | None = None,
        sandbox: str = "off",
    ) -> CommandResult:
        started = await self.start(
            command, timeout=timeout, limits=limits, on_output=on_output, environ=environ, added=added, sandbox=sandbox
        )
        return await started.wait()


def living(*words: str) -> list[str]:
    """Return the command lines of living processes that are exactly these words."""
    wanted = b"".join(_of_this_run(word).encode() + b"\0" for word in words)
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if line == wanted:
                found.append(line.replace(b"\0", b" ").decode())
    return found


class Stopwatch:
    """How long something took, in seconds."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun


def spooled(result: CommandResult) -> bytes:
    """Return what is in the spool file of a result."""
    return Path(result.spool).read_bytes()


def mode_of(path: Path) -> int:
    """Return the permission bits of a file or folder."""
    return path.stat().st_mode & 0o777
