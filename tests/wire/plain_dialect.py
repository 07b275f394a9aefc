"""A dialect of a few lines, for tests of what carries replies and does not care for their shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_core.dialects import Delta, Query
from agent_core.errors import ProviderFailure
from agent_core.types import AssistantTurn, FailureKind, Finish, ModelReply, Observation, ToolCall, Usage, UserMessage


class PlainDialect:
    """Chat Completions without any of its irregularities."""

    name = "chat"

    def encode(self, query: Query) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": query.system}]
        ids: dict[str, str] = {}
        for message in query.history:
            match message:
                case UserMessage():
                    messages.append({"role": "user", "content": message.text})
                case AssistantTurn():
                    messages.append(json.loads(message.reply.raw))
                    ids.update(zip(message.call_keys, (call.id for call in message.reply.calls), strict=True))
                case Observation():
                    messages.append({"role": "tool", "tool_call_id": ids[message.call_key], "content": message.text})
        return {"model": query.model, "messages": messages, **query.options}

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        if not body.get("choices"):
            raise ProviderFailure(FailureKind.MALFORMED_REPLY, "no choices", raw=json.dumps(body))
        message = body["choices"][0]["message"]
        return self.reply(message, body["choices"][0]["finish_reason"], body.get("usage") or {})

    def reply(self, message: Mapping[str, Any], finish: str, usage: Mapping[str, Any]) -> ModelReply:
        calls = tuple(
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", [])
        )
        used = Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0), cost=None)
        text = message.get("content") or ""
        return ModelReply("chat", "m", text, "", calls, Finish(finish), finish, used, json.dumps(message))

    def assembler(self) -> PlainAssembler:
        return PlainAssembler(self)


class PlainAssembler:
    def __init__(self, dialect: PlainDialect) -> None:
        self._dialect = dialect
        self._text = ""
        self._finish = ""
        self._usage: Mapping[str, Any] = {}

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk["choices"]:
            self._finish = choice["finish_reason"] or self._finish
            if piece := choice["delta"].get("content"):
                self._text += piece
                return [Delta("text", piece)]
        return []

    def finish(self) -> ModelReply:
        if not self._finish:
            raise ProviderFailure(FailureKind.CONNECTION, "the stream ended early")
        return self._dialect.reply({"role": "assistant", "content": self._text}, self._finish, self._usage)
