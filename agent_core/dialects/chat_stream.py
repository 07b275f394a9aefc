"""Puts a streamed chat completion together as the whole one it would have been.

Invariants: pieces of calls are joined by index and id, never by guess: what cannot be told apart stays one text that no
strict parser takes. The reply is read by the same decoder as a whole one, and exists only after a finish reason (R5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agent_core.dialects import Delta
from agent_core.dialects.shapes import arguments_text, list_of, mapping_of, reported_failure, stream_cut, text_of
from agent_core.types import ModelReply

_GROWING_TEXTS = frozenset({"content", "reasoning_content", "reasoning", "refusal"})
_BLOCK_LISTS = frozenset({"thinking_blocks", "reasoning_details"})
_BLOCK_TEXTS = ("thinking", "text", "summary")


class ChatAssembler:
    """One streamed chat completion."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._decode = decode
        self._texts: dict[str, list[str]] = {}
        self._message: dict[str, Any] = {}
        self._calls: list[_CallPieces] = []
        self._choice: dict[str, Any] = {}
        self._usage: Any = None

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Take the next chunk."""
        if chunk.get("error"):
            raise reported_failure(chunk["error"], chunk)
        self._usage = chunk.get("usage") or self._usage
        deltas: list[Delta] = []
        for choice in map(mapping_of, list_of(chunk.get("choices"))[:1]):
            deltas += self._feed_delta(mapping_of(choice.get("delta")))
            for key in ("finish_reason", "provider_specific_fields", "error"):
                if choice.get(key):
                    self._choice[key] = choice[key]
        return deltas

    def finish(self) -> ModelReply:
        """Return the reply; raise `ProviderFailure` if no finish reason came."""
        body = self._body()
        if "finish_reason" not in self._choice:
            raise stream_cut(body)
        return self._decode(body)

    def _feed_delta(self, delta: Mapping[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        for key, value in delta.items():
            if key == "tool_calls":
                for piece in list_of(value):
                    self._feed_call(mapping_of(piece))
            elif key in _GROWING_TEXTS and isinstance(value, str):
                deltas += self._feed_text(key, value)
            elif value is not None:
                self._message[key] = _merged(self._message.get(key), value)
        return deltas

    def _feed_text(self, key: str, value: str) -> list[Delta]:
        self._message.setdefault(key, None)
        if not value:
            return []
        self._texts.setdefault(key, []).append(value)
        return [Delta("text" if key in ("content", "refusal") else "reasoning", text_of(value))]

    def _feed_call(self, piece: Mapping[str, Any]) -> None:
        function = mapping_of(piece.get("function"))
        new = _CallPieces(
            piece.get("index"),
            text_of(piece.get("id")),
            text_of(function.get("name")),
            arguments_text(function.get("arguments")),
            {
                key: value
                for key, value in piece.items()
                if key not in ("index", "id", "function") and value is not None
            },
        )
        call = self._owner(new)
        if call is None:
            if not new.empty:
                self._calls.append(new)
        elif not call.repeated_by(new):
            call.join(new)

    def _owner(self, new: _CallPieces) -> _CallPieces | None:
        """Return the call that a piece continues, or None if it begins one."""
        if isinstance(new.index, int) and new.index >= 0:
            call = next((call for call in reversed(self._calls) if call.index == new.index), None)
        elif new.id:
            call = next((call for call in self._calls if call.id == new.id), None)
        else:
            call = self._calls[-1] if self._calls else None
        return call if call is not None and not call.closed_by(new) else self._same_whole_call(new)

    def _same_whole_call(self, new: _CallPieces) -> _CallPieces | None:
        """Return the call that a running snapshot repeats under another index."""
        return next((call for call in self._calls if call.index == new.index and call.repeated_by(new)), None)

    def _body(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None} | self._message
        for key, pieces in self._texts.items():
            text, parts = "".join(pieces), message[key]
            # Some vendors send their thinking as parts before the text itself.
            message[key] = [*parts, {"type": "text", "text": text}] if isinstance(parts, list) else text
        for key in _BLOCK_LISTS & message.keys():
            message[key] = _joined_blocks(list_of(message[key]))
        if self._calls:
            message["tool_calls"] = [call.whole() for call in self._calls]
        return {"choices": [{**self._choice, "message": message}], "usage": self._usage}


class _CallPieces:
    """The pieces of one call so far."""

    def __init__(self, index: Any, call_id: str, name: str, arguments: str, others: dict[str, Any]) -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self._pieces = [arguments] if arguments else []
        self._others = others

    @property
    def empty(self) -> bool:
        """Whether it says nothing at all (DL-04)."""
        return not (self.id or self.name or self._pieces)

    def closed_by(self, new: _CallPieces) -> bool:
        """Whether a piece under this call's index begins another call: another id, or a name after whole arguments."""
        if self.id and new.id and self.id != new.id:
            return True
        return bool(new.name and self.name and (new._pieces or not new.id)) and self._is_whole()

    def repeated_by(self, new: _CallPieces) -> bool:
        """Whether a piece is this very call once more (DL-06)."""
        same = bool(self.id) and (self.id, self.name) == (new.id, new.name)
        return same and self._is_whole() and self._text == new._text

    def join(self, new: _CallPieces) -> None:
        """Take a further piece; an empty text is no news (DL-02)."""
        self.id = self.id or new.id
        self.name = self.name or new.name
        self._pieces += new._pieces
        self._others = _merged(self._others, new._others)

    def whole(self) -> dict[str, Any]:
        """Return the call as a whole reply holds it."""
        return {
            "id": self.id,
            "type": "function",
            **self._others,
            "function": {"name": self.name, "arguments": self._text},
        }

    @property
    def _text(self) -> str:
        return "".join(self._pieces)

    def _is_whole(self) -> bool:
        if not self._pieces or not self._pieces[-1].rstrip().endswith("}"):
            return False  # spares joining a long text for every piece of it
        try:
            return isinstance(json.loads(self._text, strict=False), dict)
        except (ValueError, RecursionError):
            return False


def _merged(old: Any, new: Any) -> Any:
    """Return both pieces of a member that is kept as it came: lists grow, objects take new members."""
    if isinstance(old, list) and isinstance(new, list):
        return old + new
    if isinstance(old, dict) and isinstance(new, Mapping):
        return old | {key: _merged(old.get(key), value) for key, value in new.items()}
    return new


def _joined_blocks(pieces: list[Any]) -> list[dict[str, Any]]:
    """Join the pieces of signed blocks, which a vendor takes back only whole; a signature ends its block."""
    blocks: list[dict[str, Any]] = []
    for piece in map(mapping_of, pieces):
        open_block = blocks[-1] if blocks and not blocks[-1].get("signature") else {}
        grows = [key for key in _BLOCK_TEXTS if isinstance(open_block.get(key), str)]
        same = all(open_block.get(key) == piece.get(key) for key in ("type", "index"))
        if not (grows and same):
            blocks.append(dict(piece))
            continue
        joined = {key: open_block[key] + text_of(piece.get(key)) for key in grows}
        open_block.update({key: value for key, value in piece.items() if value is not None} | joined)
    return blocks
