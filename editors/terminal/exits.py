"""The exit codes of the `handrail` command.

Invariants: 0 means that the model ended its turn by itself; every other outcome has its own code, told by `--help`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


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
    UNREAD = 141, "the output could not be written, as to a pipe whose reader is gone; the session was left"


def exit_table() -> str:
    """Return the codes with their meanings, one a line."""
    return "\n".join(f"  {code.value:>3}  {code.meaning}" for code in Exit)
