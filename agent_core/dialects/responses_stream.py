"""Puts a streamed response together from its terminal event, or from its finished items where that holds none.

Invariants: the reply exists only after a terminal event (R5); pieces are shown, never taken into the reply, since every
item comes once more as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent_core.dialects import Delta
from agent_core.dialects.shapes import count_of, mapping_of, reported_failure, stream_cut, text_of
from agent_core.types import ModelReply

_SHOWN = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesAssembler:
    """One streamed response."""

    def __init__(self, decode: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._decode = decode
        self._done: dict[int, Any] = {}
        self._response: Mapping[str, Any] | None = None

    def feed(self, event: Mapping[str, Any]) -> list[Delta]:
        """Take the next event."""
        kind = text_of(event.get("type"))
        if kind == "error" or (not kind and event.get("error")):
            raise reported_failure(event.get("error") or event, event)
        if kind in _TERMINAL:
            self._response = mapping_of(event.get("response"))
        elif kind == "response.output_item.done":
            self._done[count_of(event.get("output_index"))] = event.get("item")
        elif text := text_of(event.get("delta")) if kind in _SHOWN else "":
            return [Delta("text" if _SHOWN[kind] == "text" else "reasoning", text)]
        return []

    def finish(self) -> ModelReply:
        """Return the reply; raise `ProviderFailure` if no terminal event came."""
        items = [self._done[place] for place in sorted(self._done)]
        if self._response is None:
            raise stream_cut({"output": items})
        if items and not self._response.get("output"):
            return self._decode({**self._response, "output": items})
        return self._decode(self._response)
