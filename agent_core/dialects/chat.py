"""OpenAI Chat Completions: what litellm speaks to most vendors, and most local servers natively.

Invariants: every call of a request has its result in the tool messages directly after it, under the same id; arguments
on the wire are text that parses to an object; a turn goes back verbatim to the provider that made it (R12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_core.dialects import Query, tool
from agent_core.dialects.chat_stream import ChatAssembler
from agent_core.dialects.history import Conversation, Exchange, Items
from agent_core.dialects.images import Image, parts_of
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
from agent_core.dialects.vendors import Vendor
from agent_core.model_names import provider_of
from agent_core.types import FailureKind, Finish, ModelReply, Observation, ToolCall, Usage, UserMessage

NAME = "chat"

TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {"name": tool.NAME, "description": tool.DESCRIPTION, "parameters": tool.PARAMETERS},
}

_FINISHES = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.MAX_TOKENS,
    "max_tokens": Finish.MAX_TOKENS,
    "model_context_window_exceeded": Finish.CONTEXT_TOO_LONG,
    "content_filter": Finish.CONTENT_FILTER,
    "refusal": Finish.REFUSAL,
    "pause_turn": Finish.PAUSED,
}

_NATIVE_FAULTS = ("MALFORMED", "MISSING_THOUGHT", "TOO_MANY_TOOL", "UNEXPECTED_TOOL")
"""Gemini's words for calls that went wrong, which litellm tells as an ordinary stop."""

_ONLY_FROM_PROVIDERS = frozenset({"annotations", "audio", "function_call", "images", "reasoning", "reasoning_content"})
"""Members of a reply that no provider takes back, or that stand for something that does come back."""


class ChatDialect:
    """Translates to and from Chat Completions for one model."""

    name = NAME

    def __init__(self, model: str) -> None:
        self._model = model
        self._conversation = Conversation(_encode_exchange)

    def encode(self, query: Query) -> dict[str, Any]:
        """Return the body of the request."""
        body = {**query.options, "model": query.model, "messages": self._messages(query), "tools": [TOOL]}
        if query.max_tokens is not None:
            body["max_tokens"] = query.max_tokens
        return body

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole reply; raise `ProviderFailure` for one that is none."""
        return read_reply(body, self._model)

    def assembler(self) -> ChatAssembler:
        """Return an empty assembler for one streamed reply."""
        return ChatAssembler(self.decode)

    def _messages(self, query: Query) -> Items:
        messages: Items = []
        if query.system:
            messages.append({"role": "system", "content": clean(query.system)})
        for item in self._conversation.items(query):
            messages += [user_message(item)] if isinstance(item, UserMessage) else item
        return messages


def user_message(message: UserMessage) -> dict[str, Any]:
    """Return what was said in the user's place."""
    return {"role": "user", "content": clean(message.text)}


def _encode_exchange(exchange: Exchange, query: Query) -> Items:
    vendor, reply = Vendor(query.model), exchange.turn.reply
    message = _replayed(reply, vendor) or {"role": "assistant", "content": clean(reply.text)}
    if reply.calls:
        message["tool_calls"] = [
            {**given, "id": wire_id, "type": "function", "function": _function(call)}
            for given, wire_id, call in zip(_given_calls(message, reply), exchange.ids, reply.calls, strict=True)
        ]
    message["content"] = _content(message.get("content"), bool(reply.calls), vendor)
    if vendor.wants_reasoning:
        message["reasoning_content"] = reply.reasoning
    answers = [_tool_message(*answer, query) for answer in zip(exchange.ids, exchange.results, strict=True)]
    return [message, *answers, *_images(exchange.results, query)]


def _replayed(reply: ModelReply, vendor: Vendor) -> dict[str, Any] | None:
    """Return the provider's own message with R12's repairs, or None if it has to go out in the normalised form."""
    if reply.dialect != NAME or provider_of(reply.model) != vendor.provider:
        return None
    message = load_raw(reply.raw)
    if not isinstance(message, dict) or len(list_of(message.get("tool_calls"))) != len(reply.calls):
        return None
    dropped = _ONLY_FROM_PROVIDERS if reply.calls else _ONLY_FROM_PROVIDERS | {"tool_calls"}
    kept = {key: value for key, value in message.items() if value is not None and key not in dropped}
    return {"role": "assistant", "content": None} | kept


def _given_calls(message: Mapping[str, Any], reply: ModelReply) -> Sequence[dict[str, Any]]:
    """Return what stands in the verbatim calls beside id, type and function (a vendor's signatures)."""
    given = [mapping_of(call) for call in list_of(message.get("tool_calls"))] or [{}] * len(reply.calls)
    standard = ("id", "type", "function", "index", "custom")
    return [{key: value for key, value in call.items() if value is not None and key not in standard} for call in given]


def _function(call: ToolCall) -> dict[str, str]:
    return {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments)}


def _content(content: Any, has_calls: bool, vendor: Vendor) -> Any:
    """Return the content: null only beside calls, and there only for vendors that take it (DL-18)."""
    if isinstance(content, list):
        content = [part for part in content if mapping_of(part).get("type") != "text" or mapping_of(part).get("text")]
    if content:
        return content
    return None if has_calls and not vendor.refuses_null_content else ""


def _tool_message(wire_id: str, result: Observation, query: Query) -> dict[str, Any]:
    parts = parts_of(result.text, images=query.images)
    text = "".join(part if isinstance(part, str) else f"[an image, {part.media_type}, follows]" for part in parts)
    return {"role": "tool", "tool_call_id": wire_id, "content": clean(text)}


def _images(results: Sequence[Observation], query: Query) -> Items:
    """Return a message of the images in all results of a turn: a tool message of this wire holds text only."""
    parts = [part for result in results for part in parts_of(result.text, images=query.images)]
    content = [{"type": "image_url", "image_url": {"url": part.url}} for part in parts if isinstance(part, Image)]
    return [{"role": "user", "content": content}] if content else []


def read_reply(body: Mapping[str, Any], model: str) -> ModelReply:
    """Read one whole Chat Completions body on plain values."""
    if body.get("error"):
        raise reported_failure(body["error"], body)
    choices = body.get("choices")
    if not isinstance(choices, list):
        raise failure(
            FailureKind.MALFORMED_REPLY, "The provider's reply is no chat completion: it has no choices.", body
        )
    usage = read_usage(body.get("usage"))
    choice = mapping_of(choices[0]) if choices else {}
    if choice.get("error"):
        raise reported_failure(choice["error"], body)
    finish_raw = _finish_word(choice)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise _no_message(finish_raw, body, usage)
    calls = tuple(_read_call(call) for call in list_of(message.get("tool_calls")))
    text, reasoning = _read_text(message.get("content")), _read_reasoning(message)
    refusal = text_of(message.get("refusal"))
    if not (text or calls or reasoning or refusal or body.get("usage")) and finish_raw in ("stop", ""):
        raise failure(FailureKind.EMPTY_REPLY, "The provider sent an empty reply.", body)
    finish = _FINISHES.get(finish_raw, Finish.UNKNOWN)
    if refusal and not calls and finish is Finish.STOP:
        finish = Finish.REFUSAL
    return ModelReply(NAME, model, text or refusal, reasoning, calls, finish, finish_raw, usage, dumps(message))


def read_usage(value: Any) -> Usage:
    """Read the usage of a chat completion; what it cost is known only where the provider says so."""
    usage = mapping_of(value)
    prompt = mapping_of(usage.get("prompt_tokens_details"))
    completion = mapping_of(usage.get("completion_tokens_details"))
    cost = usage.get("cost")
    return Usage(
        input_tokens=count_of(usage.get("prompt_tokens")),
        output_tokens=count_of(usage.get("completion_tokens")),
        cache_read_tokens=count_of(prompt.get("cached_tokens")) or count_of(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count_of(prompt.get("cache_write_tokens"))
        or count_of(usage.get("cache_creation_input_tokens")),
        reasoning_tokens=count_of(completion.get("reasoning_tokens")),
        cost=float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _finish_word(choice: Mapping[str, Any]) -> str:
    """Return the finish reason, the provider's own word first where a translation kept it beside its own."""
    message = mapping_of(choice.get("message"))
    native = (
        text_of(mapping_of(message.get("provider_specific_fields")).get("stop_reason")),
        text_of(mapping_of(choice.get("provider_specific_fields")).get("native_finish_reason")),
    )
    word = text_of(choice.get("finish_reason"))
    return next((known for known in native if known in _FINISHES or known.startswith(_NATIVE_FAULTS)), word)


def _no_message(finish_raw: str, body: Mapping[str, Any], usage: Usage) -> Exception:
    kind = FailureKind.CONTENT_FILTER if finish_raw == "content_filter" else FailureKind.EMPTY_REPLY
    said = f"finish reason '{finish_raw}'" if finish_raw else "no finish reason"
    return failure(kind, f"The provider sent no message ({said}). Change the prompt, or try again.", body, usage)


def _read_call(value: Any) -> ToolCall:
    call = mapping_of(value)
    function = mapping_of(call.get("function")) or mapping_of(call.get("custom"))
    return ToolCall(text_of(call.get("id")), text_of(function.get("name")), arguments_text(function.get("arguments")))


def _read_text(content: Any) -> str:
    if isinstance(content, str):
        return clean(content)
    parts = [mapping_of(part) for part in list_of(content)]
    return "".join(text_of(part.get("text")) for part in parts if part.get("type") in ("text", "output_text"))


def _read_reasoning(message: Mapping[str, Any]) -> str:
    said = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    parts = [mapping_of(part) for part in list_of(message.get("content"))]
    return said or "".join(_read_thinking(part.get("thinking")) for part in parts if part.get("type") == "thinking")


def _read_thinking(value: Any) -> str:
    return text_of(value) or "".join(text_of(mapping_of(part).get("text")) for part in list_of(value))
