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
    checks = {"chat": check_chat, "text": check_text, "anthropic": check_anthropic, "responses": check_responses}
    checks[dialect](body, provider)


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


def check_text(body: dict[str, Any], provider: str = "") -> None:
    """Refuse a Chat Completions request to a model without tools."""
    check_chat(body, provider)
    if "tools" in body or any(message["role"] == "tool" or "tool_calls" in message for message in body["messages"]):
        raise Refused("tools for a model that has none")


def check_anthropic(body: dict[str, Any], provider: str = "") -> None:
    """Refuse an Anthropic Messages request; sides have to take turns, as Bedrock demands too."""
    _check_encodable(body)
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        raise Refused("max_tokens is missing")
    if not any(tool["name"] == "bash" and tool["input_schema"]["type"] == "object" for tool in body["tools"]):
        raise Refused("the tool is not offered")
    blocks = [*body.get("system", ()), *(block for message in body["messages"] for block in message["content"])]
    if sum("cache_control" in block for block in blocks) > 4:
        raise Refused("more than four marks for the cache")
    seen: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(body["messages"]):
        if set(message) != {"role", "content"} or message["role"] != ("user", "assistant")[place % 2]:
            raise Refused(f"message {place} ({message.get('role')}) is out of turn or has other members")
        _check_blocks(message, place)
        if message["role"] == "assistant":
            waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            check_ids(waiting, provider or "anthropic", seen)
            continue
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if results != waiting:
            raise Refused(f"message {place} answers {results}, but the calls before it are {waiting}")
        if any(block["type"] == "tool_result" for block in message["content"][len(results) :]):
            raise Refused(f"message {place} holds something before its results")
        waiting = []
    if waiting:
        raise Refused(f"no results for {waiting}")


def _check_blocks(message: dict[str, Any], place: int) -> None:
    blocks = message["content"]
    if not isinstance(blocks, list) or not blocks:
        raise Refused(f"message {place} is empty")
    if blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        raise Refused(f"message {place} ends in thinking")
    for block in [
        *blocks,
        *(part for each in blocks if isinstance(each.get("content"), list) for part in each["content"]),
    ]:
        if block["type"] == "text" and not block["text"].strip():
            raise Refused(f"message {place} holds a blank text block")
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            raise Refused(f"the input of {block['id']} is no object: {block['input']!r}")
        if block["type"] in ("text", "tool_use") and None in block.values():
            raise Refused(f"a block of message {place} has a null member")


def check_responses(body: dict[str, Any], provider: str = "") -> None:
    """Refuse a Responses request: outputs directly after the items of their turn, reasoning before what it led to."""
    _check_encodable(body)
    if not any(tool["type"] == "function" and tool["name"] == "bash" for tool in body["tools"]):
        raise Refused("the tool is not offered")
    seen: set[str] = set()
    waiting: list[str] = []
    answering = False
    items = body["input"]
    for place, item in enumerate(items):
        if None in item.values():
            raise Refused(f"item {place} has a null member: {item}")
        kind = item["type"]
        if kind == "function_call_output":
            answering = True
            _answer(waiting, item["call_id"], place)
            _check_text(item["output"], f"the output at {place}")
            continue
        if waiting and (answering or item.get("role") == "user"):
            raise Refused(f"item {place} ({kind}) comes before the outputs of {waiting}")
        answering = False
        if kind == "function_call":
            check_ids([item["call_id"]], provider or "openai", seen)
            check_arguments(item["arguments"])
            waiting.append(item["call_id"])
        elif kind == "reasoning":
            following = items[place + 1]["type"] if place + 1 < len(items) else "nothing"
            if following == "nothing" or items[place + 1].get("role") == "user" or following == "function_call_output":
                raise Refused(f"the reasoning at {place} is followed by {following}")
        elif kind == "message" and not all(part.get("text", "x") for part in item["content"]):
            raise Refused(f"the message at {place} holds an empty text")
    if waiting:
        raise Refused(f"no outputs for {waiting}")


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
