"""Refuses, in a sentence, any provider request that a strict provider would refuse.

Invariants: every call has exactly one result directly after its message, in order, under its id; no orphans; ids fit
the provider; arguments parse strictly to an object; no empty text blocks; everything can be written as UTF-8 JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

ID_PATTERNS = {
    "anthropic": r"[a-zA-Z0-9_-]+",
    "azure": r".{1,40}",
    "bedrock": r"[a-zA-Z0-9_.:-]{1,64}",
    "mistral": r"[a-zA-Z0-9]{9}",
    "openai": r".{1,64}",
}


class Refused(AssertionError):
    """What a strict provider would answer."""


def check(dialect: str, body: dict[str, Any], provider: str = "") -> None:
    """Refuse a request body of a dialect by name; `provider` adds its pattern of ids (a key of ID_PATTERNS)."""
    {"chat": check_chat, "text": check_chat}[dialect](body, provider)


def check_chat(body: dict[str, Any], provider: str = "") -> None:
    """Refuse a Chat Completions request."""
    _check_encodable(body)
    messages = body["messages"]
    if not any(tool["function"]["name"] == "bash" for tool in body.get("tools", [])) and _calls_of(messages):
        raise Refused("calls without the tool being offered")
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            _answer(waiting, message["tool_call_id"], place)
            _check_text(message.get("content"), f"the tool message at {place}")
            continue
        if waiting:
            raise Refused(f"message {place} ({role}) comes before the results of {waiting}")
        if role == "assistant":
            waiting = _check_assistant(message, place, provider, seen)
        elif role not in ("system", "user"):
            raise Refused(f"message {place} has the unknown role {role!r}")
        elif not message.get("content"):
            raise Refused(f"message {place} ({role}) is empty")
        elif role == "system" and place:
            raise Refused(f"the system message stands at {place}")
    if waiting:
        raise Refused(f"no results for {waiting}")


def _calls_of(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for message in messages for call in message.get("tool_calls", ())]


def _check_assistant(message: dict[str, Any], place: int, provider: str, seen: set[str]) -> list[str]:
    if "content" not in message:
        raise Refused(f"the assistant message at {place} has no content member")
    if "tool_calls" not in message:
        if message["content"] is None:
            raise Refused(f"the assistant message at {place} has null content without calls")
        return []
    if not message["tool_calls"]:
        raise Refused(f"the assistant message at {place} has an empty list of calls")
    if message["content"] == "" and provider in ("openai", "azure"):
        raise Refused(f"the assistant message at {place} has empty content beside calls")
    if "function_call" in message:
        raise Refused(f"the assistant message at {place} has calls in two forms")
    for call in message["tool_calls"]:
        if call.get("type") != "function" or None in call.values():
            raise Refused(f"the call {call} is no function call")
        check_arguments(call["function"]["arguments"])
    ids = [call["id"] for call in message["tool_calls"]]
    check_ids(ids, provider, seen)
    return ids


def check_ids(ids: Sequence[Any], provider: str, seen: set[str]) -> None:
    """Refuse ids that are empty, used before, or not of the provider's form."""
    for wire_id in ids:
        if not isinstance(wire_id, str) or not wire_id:
            raise Refused(f"the id {wire_id!r} is empty")
        if wire_id in seen:
            raise Refused(f"the id {wire_id!r} is used twice")
        if provider in ID_PATTERNS and not re.fullmatch(ID_PATTERNS[provider], wire_id):
            raise Refused(f"the id {wire_id!r} is refused by {provider}")
        seen.add(wire_id)


def check_arguments(arguments: Any) -> None:
    """Refuse arguments that are no text of a JSON object."""
    if not isinstance(arguments, str):
        raise Refused(f"arguments are no text: {arguments!r}")
    try:
        members = json.loads(arguments)
    except ValueError as error:
        raise Refused(f"arguments {arguments!r} are no JSON: {error}") from None
    if not isinstance(members, dict):
        raise Refused(f"arguments {arguments!r} are no object")
    _check_encodable(members)


def _answer(waiting: list[str], wire_id: str, place: int) -> None:
    if not waiting:
        raise Refused(f"the result at {place} answers {wire_id!r}, which is no open call")
    if waiting[0] != wire_id:
        raise Refused(f"the result at {place} answers {wire_id!r}, but {waiting[0]!r} is next")
    waiting.pop(0)


def _check_text(content: Any, where: str) -> None:
    if isinstance(content, list):
        if any(part.get("type") == "text" and not part.get("text") for part in content):
            raise Refused(f"{where} holds an empty text block")
    elif not isinstance(content, str):
        raise Refused(f"{where} has no text: {content!r}")


def _check_encodable(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Refused(f"the request cannot be written as JSON in UTF-8: {error}") from None
