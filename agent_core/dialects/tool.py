"""The one tool that every model is offered, in words and as a JSON schema.

Invariants: what the schema asks for is exactly what `parsing` accepts.
"""

from __future__ import annotations

from typing import Any, Final

from agent_core.parsing import TOOL_NAME

NAME: Final = TOOL_NAME

DESCRIPTION: Final = (
    "Run one command in a real bash. Each command starts fresh in the session's folder: variables, functions and "
    "changes of folder do not carry over to the next one. There is no terminal and no standard input, so start nothing "
    "that asks or pages. A person may have to approve the command first, and may refuse it. "
    "The result is its output and its exit code."
)

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The bash command, complete and exactly as it shall run."},
        "timeout": {
            "type": "number",
            "description": "Seconds after which the command is ended; leave out for the default.",
        },
    },
    "required": ["command"],
    "additionalProperties": False,
}
