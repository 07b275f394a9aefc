"""The exit codes of the `handrail` command, and which one a turn ends with.

Invariants: 0 means that the model ended its turn by itself; every other outcome has its own code, told by `--help`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from editors.terminal.view import DONE_WELL
from server.protocol import Snapshot


class Exit(IntEnum):
    """An exit code with its meaning."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """Make a member that carries its meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    DONE = 0, "the model ended its turn, or the command did what was asked"
    FAILED = 1, "the turn ended otherwise: the model could not be asked, refused, or kept making faulty calls"
    USAGE = 2, "wrong usage or settings; nothing ran"
    UNDECIDED = 3, "a command needed a person (--on-ask fail, or you left); it still waits in the session"
    LIMIT = 4, "a limit of steps, cost, time, repeats or rejections was reached"
    SERVER = 5, "the server ended, could not be started, or refused"
    STOPPED = 6, "you rejected a command and stopped the turn"
    CANCELLED = 130, "you cancelled the turn"


_BY_STOP_REASON = {
    **dict.fromkeys(DONE_WELL, Exit.DONE),
    **dict.fromkeys(
        ("max_steps", "cost_limit", "time_limit", "max_repeats", "max_rejections", "step_done"), Exit.LIMIT
    ),
    "rejected_and_stopped": Exit.STOPPED,
    "cancelled": Exit.CANCELLED,
}


def exit_of(snapshot: Snapshot) -> Exit:
    """Return the exit code for a session at rest."""
    if snapshot.pending:
        return Exit.UNDECIDED
    return _BY_STOP_REASON.get(snapshot.stop_reason or "", Exit.FAILED)
