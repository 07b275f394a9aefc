"""From a reply's tool calls to actions that can be asked for: all of them, or one refusal that answers every call.

Invariants: a command is exactly the string that the model wrote, or there is none; nothing is guessed, shortened or
taken from text or reasoning (R6). Exactly three irregularities of arguments are accepted: an object instead of its text
(a dialect writes it as text), one extra layer of JSON encoding, and raw control characters inside strings. One bad call
refuses the whole batch (R4), and so does a reply that was cut (R5).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_core.types import Action, CallFault, Finish, ModelReply, Reason, StopReason, ToolCall

TOOL_NAME = "bash"
MAX_COMMAND_BYTES = 96 * 1024
MAX_BATCH_BYTES = 256 * 1024
MAX_CALLS = 32

_NEEDED = (
    f'The tool `{TOOL_NAME}` takes `{{"command": "<the command as one string>"}}` and, '
    'if you want, `"timeout"` in seconds.'
)
_AGAIN = "Nothing of this reply was run."


@dataclass(frozen=True, slots=True)
class Actions:
    """Every call of the reply is sound; in the model's order, never empty."""

    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class FormatError:
    """The reply cannot be used. `error` says why, for the model; `faults` answers each of its calls, in order."""

    error: str
    faults: tuple[CallFault, ...] = ()


@dataclass(frozen=True, slots=True)
class EndOfTurn:
    """The reply ends the turn."""

    stop: StopReason


Parsed = Actions | FormatError | EndOfTurn


class ArgumentsError(ValueError):
    """Arguments that are not one JSON object; the message is a sentence for the model."""


def parse(reply: ModelReply, completion: Literal["reply", "submit"]) -> Parsed:
    """Return the actions of a reply, or why there are none. Never raises for anything that a model may write."""
    if not reply.calls:
        return _without_calls(reply, completion)
    if reply.finish not in (Finish.STOP, Finish.TOOL_CALLS):
        return _refuse_all(reply.calls, _why_void(reply))
    if error := _count_error(reply):
        return _refuse_all(reply.calls, error)
    return _actions_or_refusal(reply.calls)


def read_object(arguments: str) -> dict[str, Any]:
    """Return the JSON object that a call's arguments hold; no text at all is an empty object.

    Raises `ArgumentsError` with a sentence for the model, which tells arguments that end early from malformed ones.
    """
    if not arguments.strip():
        return {}
    value = _decode(arguments)
    if isinstance(value, str):
        value = _decode(value)
    if not isinstance(value, dict):
        raise ArgumentsError(f"Error parsing tool call arguments: a JSON object is needed, received {_kind(value)}.")
    return value


def _actions_or_refusal(calls: Sequence[ToolCall]) -> Actions | FormatError:
    read = [_read_call(call) for call in calls]
    actions = tuple(item for item in read if isinstance(item, Action))
    if len(actions) == len(read):
        error = _size_error(actions)
        return _refuse_all(calls, error) if error else Actions(actions)
    errors = list(dict.fromkeys(item for item in read if isinstance(item, str)))
    good = f"Not run, because another call of the same reply was malformed. {_AGAIN} Send this call again."
    faults = tuple(
        CallFault(call, f"{item} {_AGAIN}") if isinstance(item, str) else CallFault(call, good, Reason.BATCH_REFUSED)
        for call, item in zip(calls, read, strict=True)
    )
    return FormatError(f"{' '.join(errors)} {_AGAIN}", faults)


def _read_call(call: ToolCall) -> Action | str:
    """Return the action of a call, or the sentence that says what was received and what is needed."""
    if call.name.strip().lower() != TOOL_NAME:
        return f"Unknown tool '{_brief(call.name)}'. The only tool is `{TOOL_NAME}`. {_NEEDED}"
    try:
        members = read_object(call.arguments)
    except ArgumentsError as error:
        return str(error)
    return _read_members(call, members)


def _read_members(call: ToolCall, members: dict[str, Any]) -> Action | str:
    unknown = [key for key in members if key not in ("command", "timeout")]
    if "command" not in members:
        received = f"received {_names(unknown)}" if unknown else "it is required"
        return f"Missing 'command' argument: {received}. {_NEEDED}"
    if unknown:
        return f"Unknown argument: received {_names(unknown)} beside `command`. {_NEEDED}"
    command = members["command"]
    if not isinstance(command, str):
        return f"The argument `command` must be a string, received {_kind(command)}. {_NEEDED}"
    if error := command_error(command):
        return error
    if "timeout" not in members:
        return Action(call, command)
    timeout = members["timeout"]
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        return f"The argument `timeout` must be a number of seconds above 0, received {_kind(timeout)}. {_NEEDED}"
    return Action(call, command, float(timeout))


def command_error(command: str) -> str:
    """Return why no shell can run a text, or ``""``; the sentence is for the model and for a person who edits."""
    if not command.strip():
        return f"The argument `command` is blank: a command is needed. {_NEEDED}"
    if "\0" in command:
        return f"The command holds a NUL character (position {command.index(chr(0))}), which no shell can take."
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        return f"The command holds half of a surrogate pair (position {error.start}), which is no valid text."
    if size > MAX_COMMAND_BYTES:
        return (
            f"The command has {size} bytes; at most {MAX_COMMAND_BYTES} can be run. "
            "Write long content to a file in several commands."
        )
    return ""


def _count_error(reply: ModelReply) -> str:
    """Return why a reply holds too many calls, or ``""``."""
    count = len(reply.calls)
    if reply.dialect == "text" and count > 1:
        return f"Expected exactly 1 action, found {count}. Write one fenced command block per reply."
    if count > MAX_CALLS:
        return f"The reply holds {count} tool calls; at most {MAX_CALLS} can be handled at once. Send fewer."
    return ""


def _size_error(actions: Sequence[Action]) -> str:
    """Return why the commands of a reply are too long taken together, or ``""``."""
    size = sum(len(action.command.encode()) for action in actions)
    if size <= MAX_BATCH_BYTES:
        return ""
    return (
        f"The commands of the reply have {size} bytes together; at most {MAX_BATCH_BYTES} can be handled at once. "
        "Send fewer or shorter ones."
    )


def _refuse_all(calls: Sequence[ToolCall], error: str) -> FormatError:
    text = f"{error} {_AGAIN}"
    return FormatError(text, tuple(CallFault(call, text) for call in calls))


def _why_void(reply: ModelReply) -> str:
    if reply.finish is Finish.MAX_TOKENS:
        return (
            "The reply was cut at the token limit, so its tool calls may be incomplete. "
            "Send the call again, with less text or a shorter command."
        )
    if reply.finish is Finish.CONTEXT_TOO_LONG:
        return "The reply was cut because the conversation fills the model's context. Send the call again, shorter."
    ending = _brief(reply.finish_raw or reply.finish.value)
    return f"The reply did not end as a complete one (it ended with '{ending}'). Send the call again."


_ENDS_TURN = {
    Finish.REFUSAL: StopReason.REFUSAL,
    Finish.CONTENT_FILTER: StopReason.REFUSAL,
    Finish.CONTEXT_TOO_LONG: StopReason.CONTEXT_TOO_LONG,
}


def _without_calls(reply: ModelReply, completion: Literal["reply", "submit"]) -> FormatError | EndOfTurn:
    if stop := _ENDS_TURN.get(reply.finish):
        return EndOfTurn(stop)
    if completion == "submit":
        return FormatError(_no_call_error(reply))
    if reply.finish is Finish.MAX_TOKENS:
        return EndOfTurn(StopReason.MAX_TOKENS)
    if reply.finish is Finish.PAUSED:
        return FormatError("You paused before the turn was over. Go on.")
    if reply.finish is not Finish.STOP or not reply.text.strip() or _prints_call(reply.text):
        return FormatError(_no_call_error(reply))
    return EndOfTurn(StopReason.END_TURN)


def _no_call_error(reply: ModelReply) -> str:
    if reply.dialect == "text":
        return "Expected exactly 1 action, found 0. Write exactly one fenced command block."
    if reply.finish is Finish.MAX_TOKENS:
        return f"No tool calls found: the reply was cut at the token limit. Answer shorter. {_NEEDED}"
    if _prints_call(reply.text):
        return (
            "No tool calls found: the text of the reply shows a call, but text is never run. "
            f"Call the tool `{TOOL_NAME}` itself. {_NEEDED}"
        )
    if not reply.text.strip():
        return f"No tool calls found, and the reply holds no text either. Call the tool, or answer in words. {_NEEDED}"
    if reply.finish not in (Finish.STOP, Finish.TOOL_CALLS):
        return f"No tool calls found: the reply ended with '{_brief(reply.finish_raw)}'. {_NEEDED}"
    return f"No tool calls found in the reply. Every reply needs a call. {_NEEDED}"


_PRINTED_CALL = re.compile(
    r'"tool_calls"\s*:\s*\[|<tool_calls?>|<function_calls>|<function=|<invoke name=|\[TOOL_CALLS\]|<\|?tool_calls?'
    rf'|"name"\s*:\s*"{TOOL_NAME}"\s*,\s*"(?:arguments|parameters|input)"\s*:',
    re.IGNORECASE,
)


def _prints_call(text: str) -> bool:
    """Whether the text looks as if the model wrote a call into it: only ever a reason to ask again, never to run."""
    return _PRINTED_CALL.search(text) is not None


def _decode(text: str) -> Any:
    try:
        # Not strict: raw control characters inside strings are one of the three accepted irregularities.
        return json.loads(text, strict=False, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ArgumentsError(_json_error(text, error)) from None
    except RecursionError:
        raise ArgumentsError("Error parsing tool call arguments: they are nested too deeply.") from None
    except ArgumentsError:
        raise
    except ValueError:  # a number with more digits than Python converts
        raise ArgumentsError("Error parsing tool call arguments: a number is too long.") from None


def _json_error(text: str, error: json.JSONDecodeError) -> str:
    where = f"line {error.lineno}, column {error.colno}"
    cut_escape = error.msg.startswith("Invalid \\uXXXX") and re.fullmatch(r"u?[0-9a-fA-F]{0,3}\s*", text[error.pos :])
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string") or cut_escape:
        return (
            f"Error parsing tool call arguments: they end early, after {len(text)} characters, "
            "so the call is unfinished. Send the whole call again, shorter if it was cut."
        )
    if error.msg == "Extra data":
        return (
            f"Error parsing tool call arguments: there is more text after the JSON object ({where}). "
            "Send one JSON object per call, and one call per command."
        )
    return f"Error parsing tool call arguments: they are not valid JSON: {error.msg} ({where})."


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ArgumentsError(f"Error parsing tool call arguments: the key `{_brief(repeated)}` appears twice.")
    return members


def _no_constant(name: str) -> Any:
    raise ArgumentsError(f"Error parsing tool call arguments: {name} is no JSON value.")


def _kind(value: Any) -> str:
    """Name a JSON value's type as a model knows it, with the value where it is short."""
    if value is None:
        return "null"
    name = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}.get(
        type(value), "an object"
    )
    return f"{name} (`{_brief(json.dumps(value))}`)"


def _names(keys: Sequence[str]) -> str:
    return ", ".join(f"`{_brief(key)}`" for key in keys[:5]) + (" and more" if len(keys) > 5 else "")


def _brief(text: str) -> str:
    """Return untrusted text fit to stand inside a sentence: short, on one line, printable."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:61])
    return shown if len(text) <= 60 else shown[:60] + "…"
