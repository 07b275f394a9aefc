"""Anthropic Messages: system text apart, calls and results as blocks, thinking that goes back as it came.

Invariants: all results of a turn stand in the one user message after it, first and in order; blocks of thinking and of
kinds that are not known go back unchanged (R12); no text block is blank, no message ends in thinking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_core.dialects import Query, tool
from agent_core.dialects.anthropic_stream import AnthropicAssembler
from agent_core.dialects.history import Conversation, Exchange, Items
from agent_core.dialects.images import parts_of
from agent_core.dialects.shapes import (
    argument_members,
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
    wire_name,
)
from agent_core.model_names import provider_of
from agent_core.types import FailureKind, Finish, ModelReply, Observation, ToolCall, Usage, UserMessage

NAME = "anthropic"

TOOL: Mapping[str, Any] = {
    "name": tool.NAME,
    "description": tool.DESCRIPTION,
    "input_schema": tool.PARAMETERS,
}

_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_use": Finish.TOOL_CALLS,
    "max_tokens": Finish.MAX_TOKENS,
    "model_context_window_exceeded": Finish.CONTEXT_TOO_LONG,
    "refusal": Finish.REFUSAL,
    "pause_turn": Finish.PAUSED,
}
_MAX_TOKENS = 8192
"""How long a reply may be where no setting says so: this wire demands a number."""

_CACHED: Mapping[str, Any] = {"cache_control": {"type": "ephemeral"}}
_THINKING = ("thinking", "redacted_thinking")
_NO_TEXT: Mapping[str, Any] = {"type": "text", "text": "(This reply held no text.)"}
_NO_TASK: Mapping[str, Any] = {"role": "user", "content": [{"type": "text", "text": "(The beginning is left out.)"}]}


class AnthropicDialect:
    """Translates to and from Anthropic Messages for one model."""

    name = NAME

    def __init__(self, model: str) -> None:
        self._model = model
        self._conversation = Conversation(_encode_exchange)

    def encode(self, query: Query) -> dict[str, Any]:
        """Return the body of the request, marked for the provider's cache up to its end."""
        body = {**query.options, "model": query.model, "messages": self._messages(query), "tools": [TOOL]}
        thinking = count_of(mapping_of(query.options.get("thinking")).get("budget_tokens"))
        body["max_tokens"] = query.max_tokens or query.options.get("max_tokens") or thinking + _MAX_TOKENS
        if query.system.strip():
            body["system"] = [{"type": "text", "text": clean(query.system), **_CACHED}]
        return body

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole reply; raise `ProviderFailure` for one that is none."""
        return read_reply(body, self._model)

    def assembler(self) -> AnthropicAssembler:
        """Return an empty assembler for one streamed reply."""
        return AnthropicAssembler(self.decode)

    def _messages(self, query: Query) -> Items:
        messages: Items = []
        for item in self._conversation.items(query):
            if not isinstance(item, UserMessage):
                messages += item
                continue
            block = {"type": "text", "text": clean(item.text)}
            if messages and messages[-1]["role"] == "user":
                # After results, or after another text: this wire wants one message per side. The list is made anew,
                # since what was encoded before is shared with later requests.
                messages[-1] = {"role": "user", "content": [*messages[-1]["content"], block]}
            else:
                messages.append({"role": "user", "content": [block]})
        if messages and messages[0]["role"] != "user":
            messages.insert(0, dict(_NO_TASK))
        _mark_for_cache(messages)
        return messages


def _mark_for_cache(messages: Items) -> None:
    """Mark the last two user messages: up to the first the last query wrote, up to the second the next one reads."""
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    for place in users[-2:]:
        *blocks, last = messages[place]["content"]
        messages[place] = {"role": "user", "content": [*blocks, {**last, **_CACHED}]}


def _encode_exchange(exchange: Exchange, query: Query) -> Items:
    reply = exchange.turn.reply
    blocks = _replayed(exchange, query) or _normalised(exchange)
    if not blocks or blocks[-1].get("type") in _THINKING:
        blocks.append(dict(_NO_TEXT))
    answers = [_result(*answer, images=query.images) for answer in zip(exchange.ids, exchange.results, strict=True)]
    message: dict[str, Any] = {"role": "assistant", "content": blocks}
    return [message, {"role": "user", "content": answers}] if reply.calls else [message]


def _replayed(exchange: Exchange, query: Query) -> Items | None:
    """Return the provider's own blocks with R12's repairs, or None if the turn has to go out in the normalised form."""
    reply = exchange.turn.reply
    if reply.dialect != NAME or provider_of(reply.model) != provider_of(query.model):
        return None
    blocks = [mapping_of(block) for block in list_of(mapping_of(load_raw(reply.raw)).get("content"))]
    if sum(block.get("type") == "tool_use" for block in blocks) != len(reply.calls):
        return None
    calls = zip(exchange.ids, reply.calls, strict=True)
    repaired: Items = []
    for block in blocks:
        if block.get("type") == "tool_use":
            repaired.append(_without_nulls(block) | _tool_use(*next(calls)))
        elif block.get("type") != "text":
            repaired.append(dict(block))
        elif text_of(block.get("text")).strip():
            repaired.append(_without_nulls(block))
    return repaired


def _normalised(exchange: Exchange) -> Items:
    reply = exchange.turn.reply
    text: Items = [{"type": "text", "text": clean(reply.text)}] if reply.text.strip() else []
    return text + [_tool_use(*call) for call in zip(exchange.ids, reply.calls, strict=True)]


def _tool_use(wire_id: str, call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": wire_id,
        "name": wire_name(call.name),
        "input": argument_members(call.arguments),
    }


def _result(wire_id: str, result: Observation, *, images: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id}
    parts = parts_of(result.text, images=images)
    if any(not isinstance(part, str) for part in parts):
        block["content"] = [
            {"type": "text", "text": clean(part)}
            if isinstance(part, str)
            else {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
            for part in parts
        ]
    elif result.text:
        block["content"] = clean(result.text)
    return block | ({"is_error": True} if result.is_error else {})


def _without_nulls(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if value is not None}


def read_reply(body: Mapping[str, Any], model: str) -> ModelReply:
    """Read one whole Messages body on plain values."""
    if body.get("type") == "error" or body.get("error"):
        raise reported_failure(body.get("error"), body)
    content = body.get("content")
    if not isinstance(content, list):
        raise failure(FailureKind.MALFORMED_REPLY, "The provider's reply is no message: it has no content.", body)
    blocks = [mapping_of(block) for block in content]
    if not blocks and not body.get("usage"):
        raise failure(FailureKind.EMPTY_REPLY, "The provider sent an empty reply.", body)
    text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
    thinking = "".join(text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking")
    calls = tuple(_read_call(block) for block in blocks if block.get("type") == "tool_use")
    finish_raw = text_of(body.get("stop_reason"))
    finish = _FINISHES.get(finish_raw, Finish.UNKNOWN)
    if finish is Finish.REFUSAL and not text:
        text = text_of(mapping_of(body.get("stop_details")).get("explanation"))
    raw = dumps({"role": "assistant", "content": content})
    return ModelReply(NAME, model, text, thinking, calls, finish, finish_raw, read_usage(body.get("usage")), raw)


def read_usage(value: Any) -> Usage:
    """Read the usage of a message; here, unlike elsewhere, what came from the cache is not part of the input."""
    usage = mapping_of(value)
    read, written = count_of(usage.get("cache_read_input_tokens")), count_of(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=count_of(usage.get("input_tokens")) + read + written,
        output_tokens=count_of(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(mapping_of(usage.get("output_tokens_details")).get("thinking_tokens")),
        cost=None,
    )


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    return ToolCall(text_of(block.get("id")), text_of(block.get("name")), arguments_text(block.get("input")))
