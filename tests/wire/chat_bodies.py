"""Builders of Chat Completions bodies and events for tests; everything goes through a JSON encoder later."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def call(call_id: str, command: str) -> dict[str, Any]:
    """Return one tool call of the bash tool."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command})},
    }


def reply(text: str = "", calls: Iterable[dict[str, Any]] = (), *, finish: str = "", **members: Any) -> dict[str, Any]:
    """Return a whole reply; the finish follows from its calls if it is not given."""
    tool_calls = list(calls)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = tool_calls
    finish = finish or ("tool_calls" if tool_calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": USAGE,
        **members,
    }


def chunk(delta: dict[str, Any], finish: str | None = None, **members: Any) -> dict[str, Any]:
    """Return one event of a streamed reply."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **members,
    }


def text_chunks(pieces: Iterable[str]) -> list[Any]:
    """Return the events of a streamed reply of text, its usage and `[DONE]` included."""
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in pieces),
        chunk({}, "stop"),
        {**chunk({}), "choices": [], "usage": USAGE},
        "[DONE]",
    ]
