"""Runs the commands of one session, each in a fresh bash, and ends with the session whatever they left behind.

Invariants: what runs is exactly the proposal's text (R1), in its folder, in its shell; `start` does not raise for
anything a proposal holds: what cannot be run is a command whose result says so.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent_core.redaction import Masker
from agent_core.shell import launch
from agent_core.shell.capture import Capture
from agent_core.shell.command import Command, CommandLimits, RunningCommand, UnstartedCommand
from agent_core.shell.environment import encoding_of
from agent_core.shell.guard import GUARD
from agent_core.shell.processes import CommandProcesses
from agent_core.shell.sandbox import BUBBLEWRAP, refusal
from agent_core.shell.spool import SUFFIX, Spool, remove_spools
from agent_core.sweep import MARK_VARIABLE
from agent_core.types import Proposal, Reason

_CLOSING_GRACE = 0.3  # seconds; an editor gives the whole server two to shut down
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_shells = itertools.count(1)


class Shell:
    """The command runner of one session."""

    def __init__(
        self, *, bash: str, session_id: str, masker: Masker, spool_dir: Path | None, hidden: Sequence[Path] = ()
    ) -> None:
        """`bash` is what `find_bash` found; `spool_dir` is a folder of this session alone, made when it is needed.

        `hidden` are places that a sandbox hides beside those where people keep keys, such as Handrail's own state.
        """
        self._bash = bash
        self._hidden = tuple(hidden)
        self._masker = masker
        self._spool_dir = spool_dir
        self._mark = f"{GUARD.token}.{next(_shells)}-{_safe(session_id)}."
        self._numbers = itertools.count(1)
        self._commands: list[RunningCommand] = []
        self._closed = False

    async def start(
        self,
        proposal: Proposal,
        *,
        environment: Mapping[str, str],
        limits: CommandLimits,
        on_output: Callable[[bytes], None] | None = None,
    ) -> Command:
        """Start the proposal's command; `environment` is its whole environment, `on_output` gets masked bytes."""
        refused = await self._why_refused(proposal)
        if refused:
            return UnstartedCommand("refused", Reason.SANDBOX_UNAVAILABLE, refused)
        if self._closed:
            return _unusable("The session is closed, so the command was not run.")
        number = next(self._numbers)
        mark = f"{self._mark}{number}."
        try:
            # Bytes, so that what runs does not depend on the server's locale; a lone surrogate has none.
            arguments: list[str | bytes] = [
                "bash",
                "--norc",
                "--noprofile",
                "-c",
                "--",
                proposal.command.encode("utf-8"),
            ]
            executable = proposal.shell
            if proposal.sandbox != "off":
                wrapping = BUBBLEWRAP.words(proposal.sandbox, proposal.cwd, hidden=self._hidden, shown=self._spool_dir)
                executable, arguments = wrapping[0], [*wrapping, proposal.shell, *arguments[1:]]
            GUARD.stand_up(self._bash)
            started = launch.start(
                arguments,
                executable=executable,
                cwd=proposal.cwd,
                environment={**environment, MARK_VARIABLE: mark},
            )
        except (OSError, ValueError) as error:
            return _unusable(_why_unusable(proposal, error))
        spool = self._spool(number, proposal.key, limits)
        command = RunningCommand(
            started,
            CommandProcesses(mark, started.pid, started.output),
            Capture(
                self._masker,
                encoding=encoding_of(environment),
                limit=limits.kept_bytes,
                spool=spool,
                listener=on_output,
            ),
            timeout=proposal.timeout,
            limits=limits,
            contained=proposal.sandbox != "off",
        )
        self._commands = [each for each in self._commands if each.running or each.has_leftovers()]
        self._commands.append(command)
        return command

    async def close(self) -> None:
        """End what runs, what was detached and what was left behind; files stay. Takes a second and a half at most."""
        self._closed = True
        commands, self._commands = self._commands, []
        await asyncio.gather(*(command.close(_CLOSING_GRACE) for command in commands))
        if next(self._numbers) > 1:
            # One last look over the whole machine for what none of the commands was known to have.
            await CommandProcesses(self._mark, None).end(_CLOSING_GRACE, lambda: True)

    def remove_spools(self) -> None:
        """Remove the session's spool files; for a session that is deleted."""
        if self._spool_dir is not None:
            remove_spools(self._spool_dir)

    async def _why_refused(self, proposal: Proposal) -> str:
        """Return why the proposal's sandbox cannot be had, `""` if it can or none is wanted."""
        if proposal.sandbox == "off":
            return ""
        return refusal(proposal.sandbox, proposal.cwd) or await BUBBLEWRAP.unavailable()

    def _spool(self, number: int, key: str, limits: CommandLimits) -> Spool | None:
        if self._spool_dir is None:
            return None
        name = f"{_safe(key)}-{os.getpid()}-{number}{SUFFIX}"
        return Spool(self._spool_dir / name, limits.spool_bytes)


def _safe(name: str) -> str:
    return _UNSAFE_IN_NAMES.sub("_", name)[:40]


def _unusable(error: str) -> UnstartedCommand:
    return UnstartedCommand("unusable", Reason.UNUSABLE, error)


def _why_unusable(proposal: Proposal, error: Exception) -> str:
    """Return the sentence for a command that the system would not start."""
    if "\0" not in proposal.cwd and not os.path.isdir(proposal.cwd):
        return (
            f"The folder {proposal.cwd} is missing or is no folder, so the command was not run. "
            "Make it again, or open a session in another folder."
        )
    if isinstance(error, UnicodeEncodeError):
        return "The command holds characters that are not valid Unicode, so it was not run. Write it without them."
    if isinstance(error, ValueError):
        return "The command, its folder or its environment holds a NUL character, so it was not run."
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "The command and its environment are too long for the system, so it was not run. Split the command."
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"The command could not be started in {proposal.shell}: {reason}."
