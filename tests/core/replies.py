"""Builds replies and provider bodies for tests, always through a JSON encoder.

Invariants: a body has the shape its provider sends, with nothing parsed or repaired in advance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_core.types import AssistantTurn, Finish, ModelReply, Observation, ToolCall, Usage


def bash_arguments(command: Any, **others: Any) -> str:
    """Return the arguments of a bash call as JSON text."""
    return json.dumps({"command": command, **others})


def bash(call_id: Any, command: Any, **others: Any) -> dict[str, Any]:
    """Return a call as a chat completion holds it."""
    return chat_call(call_id, bash_arguments(command, **others))


def chat_call(call_id: Any, arguments: Any, name: Any = "bash") -> dict[str, Any]:
    """Return a call with any arguments as a chat completion holds it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_body(
    text: Any = None,
    calls: Sequence[dict[str, Any]] = (),
    *,
    finish: str | None = "",
    model: str = "gpt-test",
    usage: dict[str, Any] | None = None,
    **message: Any,
) -> dict[str, Any]:
    """Return a whole chat completion; without `finish` the reason that fits."""
    said: dict[str, Any] = {"role": "assistant", "content": text, **message}
    if calls:
        said["tool_calls"] = list(calls)
    reason = ("tool_calls" if calls else "stop") if finish == "" else finish
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": said, "finish_reason": reason}],
        "usage": usage or {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def chat_chunk(delta: dict[str, Any], finish: str | None = None, **members: Any) -> dict[str, Any]:
    """Return one chunk of a streamed chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **members,
    }


def chat_piece(index: Any, **members: Any) -> dict[str, Any]:
    """Return a chunk with one piece of one call; `id`, `name`, `args` as far as it has them."""
    piece: dict[str, Any] = {} if index is ... else {"index": index}
    function = {theirs: members[ours] for ours, theirs in (("name", "name"), ("args", "arguments")) if ours in members}
    if "id" in members:
        piece["id"] = members["id"]
    return chat_chunk({"tool_calls": [{**piece, "function": function}]})


def reply(
    *calls: ToolCall,
    text: str = "",
    reasoning: str = "",
    finish: Finish | None = None,
    finish_raw: str = "",
    dialect: str = "chat",
    model: str = "openai/gpt-test",
    raw: str = "",
) -> ModelReply:
    """Return a reply as a dialect gives it, without a verbatim turn unless one is given."""
    ending = finish or (Finish.TOOL_CALLS if calls else Finish.STOP)
    return ModelReply(dialect, model, text, reasoning, tuple(calls), ending, finish_raw or ending.value, Usage(), raw)


def call(call_id: str, command: Any, **others: Any) -> ToolCall:
    """Return a bash call."""
    return ToolCall(call_id, "bash", bash_arguments(command, **others))


def turn(said: ModelReply, *keys: str) -> AssistantTurn:
    """Return a turn; without keys `<first id or 'k'>-0`, `-1` and so on."""
    stem = (said.calls[0].id or "k") if said.calls else "k"
    return AssistantTurn(said, keys or tuple(f"{stem}-{place}" for place in range(len(said.calls))))


def results(of: AssistantTurn, *texts: str) -> list[Observation]:
    """Return one observation per call."""
    return [Observation(key, text) for key, text in zip(of.call_keys, texts, strict=True)]


def anthropic_body(
    *blocks: dict[str, Any],
    stop: str | None = None,
    usage: dict[str, Any] | None = None,
    **members: Any,
) -> dict[str, Any]:
    """Return a whole Anthropic message; without `stop` the reason that fits."""
    fitting = "tool_use" if any(block.get("type") == "tool_use" for block in blocks) else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(blocks),
        "stop_reason": stop or fitting,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 11, "output_tokens": 7},
        **members,
    }


def tool_use(call_id: Any, command: Any = None, **members: Any) -> dict[str, Any]:
    """Return a call as an Anthropic message holds it."""
    given = {} if command is None else {"command": command}
    return {"type": "tool_use", "id": call_id, "name": "bash", "input": given, **members}


def text_block(text: str) -> dict[str, Any]:
    """Return a text as an Anthropic message holds it."""
    return {"type": "text", "text": text}


def thinking_block(text: str, signature: str) -> dict[str, Any]:
    """Return thinking as an Anthropic message holds it."""
    return {"type": "thinking", "thinking": text, "signature": signature}


def responses_body(*items: dict[str, Any], status: str = "completed", **members: Any) -> dict[str, Any]:
    """Return a whole response."""
    return {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-test",
        "output": list(items),
        "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
        **members,
    }


def function_call(call_id: Any, command: Any = None, *, item_id: str = "fc_1", **members: Any) -> dict[str, Any]:
    """Return a call as a response holds it."""
    arguments = bash_arguments(command)
    kind = {"type": "function_call", "id": item_id, "call_id": call_id, "name": "bash", "arguments": arguments}
    return {**kind, "status": "completed", **members}


def output_message(text: str) -> dict[str, Any]:
    """Return a text as a response holds it."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": None}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def reasoning_item(text: str = "", **members: Any) -> dict[str, Any]:
    """Return a reasoning item as a response holds it, null members included."""
    summary = [{"type": "summary_text", "text": text}] if text else []
    item = {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA+/=", "status": None}
    return {**item, "content": None, **members}
