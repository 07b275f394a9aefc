"""Reading plain JSON values that may have any shape, and writing values that any strict reader takes.

Invariants: readers never raise for a wrong shape, they give the empty value of what was asked for; no text that leaves
here holds half of a surrogate pair.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_core.errors import ProviderFailure
from agent_core.failures import reported_kind
from agent_core.parsing import TOOL_NAME, ArgumentsError, read_object
from agent_core.types import FailureKind, Usage

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NAME_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_RAW = 20_000


def clean(text: str) -> str:
    """Return the text with halves of surrogate pairs replaced."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def clean_value(value: Any) -> Any:
    """Return a JSON value with every text in it cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): clean_value(member) for key, member in value.items()}
    if isinstance(value, list):
        return [clean_value(member) for member in value]
    return value


def dumps(value: Any) -> str:
    """Return compact JSON in plain ASCII, which every store and every wire takes."""
    return json.dumps(value, separators=(",", ":"))


def load_raw(raw: str) -> Any:
    """Return the value of a reply's verbatim turn, fit for the wire; None if it is missing or was made unreadable."""
    try:
        value = json.loads(raw) if raw else None
    except ValueError:
        return None
    return clean_value(value) if _ESCAPED_SURROGATE.search(raw) else value


def text_of(value: Any) -> str:
    """Return a text as it is, cleaned; anything else is no text."""
    return clean(value) if isinstance(value, str) else ""


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return a JSON object as it is; anything else is an empty one."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    """Return a JSON list as it is; anything else is an empty one."""
    return value if isinstance(value, list) else []


def count_of(value: Any) -> int:
    """Return a number of tokens; anything else is 0."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15 else 0


def arguments_text(value: Any) -> str:
    """Return a call's arguments as JSON text: text as received, an object written as text, nothing for null."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Inside JSON text the escape means the same as the character, and the text stays writable.
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def wire_name(name: str) -> str:
    """Return a tool's name in the form that every vendor takes, also where the model made one up."""
    return _NAME_REFUSED.sub("_", name.strip())[:64] or TOOL_NAME


def wire_arguments(arguments: str) -> str:
    """Return arguments as text that any strict reader takes for a JSON object (R12); such text is not touched."""
    if _is_strict_object(arguments):
        return arguments
    return dumps(argument_members(arguments))


def argument_members(arguments: str) -> dict[str, Any]:
    """Return arguments as an object fit for the wire; an empty one if they do not parse."""
    try:
        members = read_object(arguments)
    except ArgumentsError:
        return {}
    cleaned: dict[str, Any] = clean_value(members)
    return cleaned


def _is_strict_object(arguments: str) -> bool:
    if _ESCAPED_SURROGATE.search(arguments):
        return False
    try:
        return isinstance(json.loads(arguments), dict) and read_object(arguments) is not None
    except (ValueError, RecursionError):
        return False


def reported_failure(error: Any, body: Any) -> ProviderFailure:
    """Return the failure for an error that a provider reported inside a reply that began as a success."""
    members = mapping_of(error)
    said = text_of(members.get("message")) or (text_of(error) if isinstance(error, str) else dumps(error))
    code = count_of(members.get("code")) or count_of(members.get("status"))
    kind = reported_kind(code, f"{members.get('type')} {members.get('code')} {said}")
    return failure(kind, f"The provider reported an error: {said[:500]}", body)


def failure(kind: FailureKind, message: str, body: Any, usage: Usage | None = None) -> ProviderFailure:
    """Return a failure that keeps what was received."""
    return ProviderFailure(kind, message, raw=dumps(body)[:_MAX_RAW], usage=usage)


def stream_cut(body: Any, usage: Usage | None = None) -> ProviderFailure:
    """Return the failure for a stream without its terminal event: nothing of it was executed (R5)."""
    message = "The reply stopped before its end, so nothing it asked for was executed. Send the prompt again."
    return failure(FailureKind.CONNECTION, message, body, usage)
