"""OpenAI Responses: a conversation of items, with reasoning kept next to the call that it led to.

Invariants: a call is answered by its `call_id`, never by the id of its item; the items of a turn go back in their
order, without null members (R12). A request stands for itself: nothing relies on what the provider remembers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_core.dialects import Query, tool
from agent_core.dialects.history import Conversation, Exchange, Items
from agent_core.dialects.images import parts_of
from agent_core.dialects.responses_stream import ResponsesAssembler
from agent_core.dialects.shapes import (
    arguments_text,
    clean,
    count_of,
    dumps,
    failure,
    list_of,
    load_raw,
    mapping_of,
    reported_failure,
    text_of,
    wire_arguments,
    wire_name,
)
from agent_core.model_names import provider_of, without_route
from agent_core.types import FailureKind, Finish, ModelReply, Observation, ToolCall, Usage, UserMessage

NAME = "responses"

TOOL: Mapping[str, Any] = {
    "type": "function",
    "name": tool.NAME,
    "description": tool.DESCRIPTION,
    "parameters": tool.PARAMETERS,
    "strict": False,
}

_REASONING_MODEL = re.compile(r"(?:.*/)?(?:gpt-[5-9]|o\d|codex)", re.IGNORECASE)
_SELF_CONTAINED: Mapping[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
"""What makes a reasoning model send its reasoning along, instead of keeping it and the conversation at the provider."""

_INCOMPLETE = {"max_output_tokens": Finish.MAX_TOKENS, "content_filter": Finish.CONTENT_FILTER}


class ResponsesDialect:
    """Translates to and from OpenAI Responses for one model."""

    name = NAME

    def __init__(self, model: str) -> None:
        self._model = model
        self._conversation = Conversation(_encode_exchange)

    def encode(self, query: Query) -> dict[str, Any]:
        """Return the body of the request."""
        defaults = _SELF_CONTAINED if _REASONING_MODEL.match(query.model) else {}
        body = {**defaults, **query.options, "input": self._input(query), "tools": [TOOL]}
        body["model"] = without_route(query.model)
        if query.max_tokens is not None:
            body["max_output_tokens"] = query.max_tokens
        if query.system:
            body["instructions"] = clean(query.system)
        return body

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole reply; raise `ProviderFailure` for one that is none."""
        return read_reply(body, self._model)

    def assembler(self) -> ResponsesAssembler:
        """Return an empty assembler for one streamed reply."""
        return ResponsesAssembler(self.decode)

    def _input(self, query: Query) -> Items:
        items: Items = []
        for item in self._conversation.items(query):
            items += [_message("user", "input_text", item.text)] if isinstance(item, UserMessage) else item
        return items


def _message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": clean(text)}]}


def _encode_exchange(exchange: Exchange, query: Query) -> Items:
    items = _replayed(exchange, query)
    answers = zip(exchange.ids, exchange.results, strict=True)
    return [*(_normalised(exchange) if items is None else items), *(_output(*each, query) for each in answers)]


def _replayed(exchange: Exchange, query: Query) -> Items | None:
    """Return the provider's own items with R12's repairs, or None if the turn has to go out in the normalised form."""
    reply = exchange.turn.reply
    if reply.dialect != NAME or provider_of(reply.model) != provider_of(query.model):
        return None
    given = load_raw(reply.raw)
    items = [_without_nulls(item) for item in list_of(given)]
    if not isinstance(given, list) or sum(item.get("type") == "function_call" for item in items) != len(reply.calls):
        return None
    calls = zip(exchange.ids, reply.calls, strict=True)
    repaired: Items = []
    for item in items:
        if item.get("type") == "function_call":
            repaired.append(item | _function_call(*next(calls)))
        elif item.get("type") != "message":
            repaired.append(item)
        elif content := [_without_nulls(part) for part in list_of(item.get("content")) if _says_something(part)]:
            repaired.append(item | {"content": content})
    while repaired and repaired[-1].get("type") == "reasoning":
        repaired.pop()  # the provider refuses reasoning that is not followed by what it led to
    return repaired


def _normalised(exchange: Exchange) -> Items:
    reply = exchange.turn.reply
    said = [_message("assistant", "output_text", reply.text)] if reply.text.strip() else []
    return said + [_function_call(*call) for call in zip(exchange.ids, reply.calls, strict=True)]


def _function_call(wire_id: str, call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": wire_id,
        "name": wire_name(call.name),
        "arguments": wire_arguments(call.arguments),
    }


def _output(wire_id: str, result: Observation, query: Query) -> dict[str, Any]:
    parts = parts_of(result.text, images=query.images)
    output: Any = clean(result.text)
    if any(not isinstance(part, str) for part in parts):
        output = [
            {"type": "input_text", "text": clean(part)}
            if isinstance(part, str)
            else {"type": "input_image", "image_url": part.url}
            for part in parts
        ]
    return {"type": "function_call_output", "call_id": wire_id, "output": output}


def _without_nulls(item: Any) -> dict[str, Any]:
    return {key: value for key, value in mapping_of(item).items() if value is not None}


def _says_something(part: Any) -> bool:
    return mapping_of(part).get("type") != "output_text" or bool(mapping_of(part).get("text"))


def read_reply(body: Mapping[str, Any], model: str) -> ModelReply:
    """Read one whole Responses body on plain values."""
    usage = read_usage(body.get("usage"))
    status = text_of(body.get("status"))
    if body.get("error") or status == "failed":
        reported = reported_failure(body.get("error") or "the response failed", body)
        reported.usage = usage
        raise reported
    output = body.get("output")
    if not isinstance(output, list):
        raise failure(FailureKind.MALFORMED_REPLY, "The provider's reply is no response: it has no output.", body)
    items = [mapping_of(item) for item in output]
    if not items and not body.get("usage"):
        raise failure(FailureKind.EMPTY_REPLY, "The provider sent an empty reply.", body)
    calls = tuple(_read_call(item) for item in items if item.get("type") == "function_call")
    parts = _parts(items, "message", "content")
    text, refusal = _joined(parts, "output_text", "text"), _joined(parts, "refusal", "refusal")
    reasoning = _joined(_parts(items, "reasoning", "summary"), "summary_text", "text") or _joined(
        _parts(items, "reasoning", "content"), "reasoning_text", "text"
    )
    why = text_of(mapping_of(body.get("incomplete_details")).get("reason"))
    finish = _finish(status, why, bool(calls), bool(refusal))
    finish_raw = f"{status}: {why}" if why else status
    return ModelReply(NAME, model, text or refusal, reasoning, calls, finish, finish_raw, usage, dumps(output))


def read_usage(value: Any) -> Usage:
    """Read the usage of a response."""
    usage = mapping_of(value)
    taken_in, put_out = mapping_of(usage.get("input_tokens_details")), mapping_of(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=count_of(usage.get("input_tokens")),
        output_tokens=count_of(usage.get("output_tokens")),
        cache_read_tokens=count_of(taken_in.get("cached_tokens")),
        cache_write_tokens=count_of(taken_in.get("cache_write_tokens")),
        reasoning_tokens=count_of(put_out.get("reasoning_tokens")),
        cost=None,
    )


def _finish(status: str, why: str, has_calls: bool, refused: bool) -> Finish:
    if status == "incomplete":
        return _INCOMPLETE.get(why, Finish.UNKNOWN)
    if status != "completed":
        return Finish.UNKNOWN
    if has_calls:
        return Finish.TOOL_CALLS
    return Finish.REFUSAL if refused else Finish.STOP


def _read_call(item: Mapping[str, Any]) -> ToolCall:
    return ToolCall(text_of(item.get("call_id")), text_of(item.get("name")), arguments_text(item.get("arguments")))


def _parts(items: Items | list[Mapping[str, Any]], kind: str, member: str) -> list[Mapping[str, Any]]:
    return [mapping_of(part) for item in items if item.get("type") == kind for part in list_of(item.get(member))]


def _joined(parts: list[Mapping[str, Any]], kind: str, member: str) -> str:
    return "".join(text_of(part.get(member)) for part in parts if part.get("type") == kind)
