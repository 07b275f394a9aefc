"""Puts a streamed message together as the whole one it would have been.

Invariants: blocks of every kind are kept, also those that are not known; what a call's input says is never repaired: if
it is no JSON object, its text is kept for the parser to refuse. The reply exists only after `message_stop` (R5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_core.dialects import Delta
from agent_core.dialects.shapes import mapping_of, reported_failure, stream_cut, text_of
from agent_core.parsing import ArgumentsError, read_object
from agent_core.types import ModelReply


class AnthropicAssembler:
    """One streamed message."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._decode = decode
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: list[_BlockPieces] = []
        self._open: dict[Any, _BlockPieces] = {}
        self._stopped = False

    def feed(self, event: Mapping[str, Any]) -> list[Delta]:
        """Take the next event."""
        match event.get("type"):
            case "error":
                raise reported_failure(event.get("error"), event)
            case "message_start":
                self._message = dict(mapping_of(event.get("message")))
                self._usage |= _told(self._message.get("usage"))
            case "content_block_start":
                block = _BlockPieces(mapping_of(event.get("content_block")))
                self._blocks.append(block)
                self._open[event.get("index")] = block
            case "content_block_delta":
                return self._feed_delta(event)
            case "message_delta":
                self._message |= _told(event.get("delta"))
                self._usage |= _told(event.get("usage"))
            case "message_stop":
                self._stopped = True
        return []

    def finish(self) -> ModelReply:
        """Return the reply; raise `ProviderFailure` if the message did not stop."""
        body = {**self._message, "content": [block.whole() for block in self._blocks], "usage": self._usage}
        if not self._stopped:
            raise stream_cut(body)
        return self._decode(body)

    def _feed_delta(self, event: Mapping[str, Any]) -> list[Delta]:
        block = self._open.get(event.get("index"))
        if block is None:
            raise stream_cut(dict(event))  # a piece of a block whose beginning was lost
        delta = mapping_of(event.get("delta"))
        block.join(delta)
        text, thinking = text_of(delta.get("text")), text_of(delta.get("thinking"))
        return [Delta("text", text)] if text else [Delta("reasoning", thinking)] if thinking else []


class _BlockPieces:
    """One block so far: texts grow, lists grow, anything else is replaced."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self._block: dict[str, Any] = dict(start)
        self._texts: dict[str, list[str]] = {}
        self._input: list[str] = []

    def join(self, delta: Mapping[str, Any]) -> None:
        """Take a further piece of the block."""
        for key, value in delta.items():
            if key == "partial_json":
                self._input.append(text_of(value))
            elif key == "citation":
                self._block["citations"] = [*(self._block.get("citations") or []), value]
            elif key != "type" and isinstance(value, str):
                self._texts.setdefault(key, [str(self._block.get(key) or "")]).append(value)
            elif key != "type":
                self._block[key] = value

    def whole(self) -> dict[str, Any]:
        """Return the block as a whole reply holds it."""
        block = self._block | {key: "".join(pieces) for key, pieces in self._texts.items()}
        text = "".join(self._input)
        if not text.strip():
            return block
        try:
            return block | {"input": read_object(text)}
        except ArgumentsError:
            return block | {"input": text}


def _told(value: Any) -> dict[str, Any]:
    return {key: member for key, member in mapping_of(value).items() if member is not None}
