"""What ends a command of `handrail` with a sentence: the problem, its way out, and the exit code.

Invariants: every exception that a person can cause or meet becomes one or two sentences; a traceback is for our faults.
"""

from __future__ import annotations

from pydantic import ValidationError

from editors.terminal.client import ConnectionLost, RequestFailed, ServerGone
from editors.terminal.exits import Exit
from editors.terminal.text import escape
from editors.terminal.turn import OutputLost
from server.protocol import ErrorCode, ErrorData


class Problem(Exception):
    """A sentence for the person, and the exit code."""

    def __init__(self, text: str, code: Exit) -> None:
        super().__init__(text)
        self.code = code


_USERS_FAULTS = frozenset(
    {ErrorCode.SETTINGS_REFUSED, ErrorCode.INVALID_PARAMS, ErrorCode.UNKNOWN_SESSION, ErrorCode.ILLEGAL_STATE},
)


def problem_of(fault: RequestFailed | ServerGone | ConnectionLost | OutputLost | OSError) -> Problem:
    """Return what to tell about a fault of the conversation with the server, or of a file."""
    if isinstance(fault, RequestFailed):
        code = Exit.USAGE if fault.code in _USERS_FAULTS else Exit.SERVER
        return Problem("\n".join([escape(fault.message), *_details(fault)]), code)
    if isinstance(fault, OutputLost):
        return Problem(str(fault), Exit.UNREAD)
    if isinstance(fault, OSError):
        if not fault.filename:  # files are opened by name, all else is output
            return problem_of(OutputLost(fault))
        return Problem(escape(f"{fault.filename} cannot be used: {fault.strerror}."), Exit.USAGE)
    return Problem(escape(str(fault)) + "\n  `handrail doctor` checks what it needs.", Exit.SERVER)


def _details(fault: RequestFailed) -> list[str]:
    try:
        problems = ErrorData.model_validate(fault.data).problems or []
    except ValidationError:
        return []
    return [f"  {escape(each.field)}: {escape(each.problem)}" for each in problems if each.problem not in fault.message]
