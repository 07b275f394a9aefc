"""Marks by which a tape recognises the conversation that a frame was recorded for.

Invariants: pure; only the newest turn of a history is looked at (the messages after the last reply), except once when
a conversation is taken up in the middle; marks hold ids and digests, never what a command printed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_core.types import AssistantTurn, Message, Observation, UserMessage

_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "${TIME}"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "${TIME}"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|sec|seconds)\b"), "${DURATION}"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "${ADDRESS}"),
)


def newest(history: Sequence[Message]) -> tuple[AssistantTurn | None, list[Message]]:
    """Return the last reply of a conversation, if there is one, and the messages after it."""
    after: list[Message] = []
    for message in reversed(history):
        if isinstance(message, AssistantTurn):
            return message, after[::-1]
        after.append(message)
    return None, after[::-1]


def answered_ids(history: Sequence[Message]) -> tuple[str, ...]:
    """Return the provider's ids of the calls of the last reply that have a result after it, in the reply's order."""
    turn, after = newest(history)
    if turn is None:
        return ()
    observed = {message.call_key for message in after if isinstance(message, Observation)}
    return tuple(call.id for call, key in zip(turn.reply.calls, turn.call_keys, strict=True) if key in observed)


def request_marks(system: str, history: Sequence[Message], turn: int, workspace: str) -> dict[str, Any]:
    """Return what a frame keeps of the request that it answers; `turn` counts the replies from 1."""
    last, after = newest(history)
    ids = dict(zip(last.call_keys, (call.id for call in last.reply.calls), strict=True)) if last else {}
    sent = [
        {"role": "tool", "id": ids.get(message.call_key, ""), "digest": digest(message.text, workspace)}
        if isinstance(message, Observation)
        else {"role": "user", "digest": digest(_text(message), workspace)}
        for message in after
    ]
    return {
        "turn": turn,
        "answers": list(answered_ids(history)),
        "prompts": [message.text for message in after if isinstance(message, UserMessage) and _is_prompt(message)],
        "system": digest(system, workspace),
        "sent": sent,
    }


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words what of a request is not as it was when it was recorded."""
    found = [] if recorded.get("system") == now["system"] else ["the system prompt"]
    old, new = recorded.get("sent", []), now["sent"]
    for number, (one, other) in enumerate(zip(old, new, strict=False), 1):
        if one != other:
            found.append(
                f"the result of call {one['id']}" if one.get("id") else f"message {number} ({one.get('role')})"
            )
    if len(old) != len(new):
        found.append(f"the number of messages ({len(old)} then, {len(new)} now)")
    return found


def digest(text: str, workspace: str) -> str:
    """Return a digest that does not change with times, durations, addresses and the place of the workspace."""
    if workspace:
        text = text.replace(workspace, "${WORKSPACE}")
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def shape(values: Sequence[Any]) -> list[str]:
    """Return the sorted paths and types of JSON values, such as `choices[].message.content:string`."""
    return sorted({f"{path}:{kind}" for value in values for path, kind in _paths(value, "")})


def shape_digest(values: Sequence[Any]) -> str:
    """Return a digest of the shape of JSON values."""
    return hashlib.sha256(json.dumps(shape(values)).encode()).hexdigest()[:16]


def _paths(value: Any, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, member in value.items():
                yield from _paths(member, f"{path}.{name}" if path else name)
        case list():
            for item in value:
                yield from _paths(item, f"{path}[]")
        case bool():
            yield path, "boolean"
        case str():
            yield path, "string"
        case None:
            yield path, "null"
        case _:
            yield path, "number"


def _text(message: Message) -> str:
    return message.text if isinstance(message, UserMessage) else ""


def _is_prompt(message: UserMessage) -> bool:
    return message.origin in ("prompt", "queued")
