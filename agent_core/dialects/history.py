"""The conversation as every provider wants it: each call with one result, directly after its turn, under one id.

Invariants: the history given is never changed. A missing result is told as not executed, orphans and doubles are left
out (with one warning each), and ids are rewritten for the target alone: injective, and the same at every rebuild (R11).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.dialects import Query
from agent_core.dialects.vendors import Vendor
from agent_core.types import AssistantTurn, Message, Observation, UserMessage

_logger = logging.getLogger(__name__)

NOT_EXECUTED = "This command was not executed: no result of it was recorded."


@dataclass(frozen=True, slots=True)
class Exchange:
    """An assistant turn with the id of each call on the wire, and one result per call, all in the model's order."""

    turn: AssistantTurn
    ids: tuple[str, ...]
    results: tuple[Observation, ...]


Items = list[dict[str, Any]]
"""What one exchange becomes on the wire."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    exchange: Exchange
    target: tuple[str, bool]
    items: Items


class Conversation:
    """Encodes one session's growing history, each exchange once; remembers which orphans it warned of."""

    def __init__(self, encode: Callable[[Exchange, Query], Items]) -> None:
        self._encode = encode
        self._encoded: dict[int, _Encoded] = {}
        self._warned: set[str] = set()

    def items(self, query: Query) -> Iterator[UserMessage | Items]:
        """Yield the repaired history: encoded exchanges (shared, not to be changed), and the user's messages."""
        vendor, target = Vendor(query.model), (query.model, query.images)
        kept: dict[int, _Encoded] = {}
        for item in self._pairs(query.history, vendor):
            if isinstance(item, UserMessage):
                yield item
                continue
            # The turn is alive as long as its entry, so its identity cannot be that of another one.
            known = self._encoded.get(id(item.turn))
            if known is None or known.target != target or known.exchange != item:
                known = _Encoded(item, target, self._encode(item, query))
            kept[id(item.turn)] = known
            yield known.items
        self._encoded = kept

    def _pairs(self, history: Sequence[Message], vendor: Vendor) -> Iterator[UserMessage | Exchange]:
        taken: set[str] = set()
        turn: AssistantTurn | None = None
        following: list[UserMessage | Observation] = []
        for message in history:
            if isinstance(message, AssistantTurn):
                yield from self._close(turn, following, vendor, taken)
                turn, following = message, []
            else:
                following.append(message)
        yield from self._close(turn, following, vendor, taken)

    def _close(
        self,
        turn: AssistantTurn | None,
        following: Sequence[UserMessage | Observation],
        vendor: Vendor,
        taken: set[str],
    ) -> Iterator[UserMessage | Exchange]:
        """Yield one assistant turn with its results, then the user's messages that came among or after them."""
        keys = turn.call_keys if turn else ()
        found: dict[str, Observation] = {}
        for message in following:
            if isinstance(message, Observation):
                if message.call_key in keys and message.call_key not in found:
                    found[message.call_key] = message
                else:
                    self._warn(message.call_key)
        if turn is not None:
            ids = _wire_ids(turn, vendor, taken)
            results = tuple(found.get(key) or Observation(key, NOT_EXECUTED, is_error=True) for key in keys)
            yield Exchange(turn, ids, results)
        yield from (message for message in following if isinstance(message, UserMessage) and message.text.strip())

    def _warn(self, key: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            _logger.warning("A result without its call was left out of the request (call %r).", key[:80])


def _wire_ids(turn: AssistantTurn, vendor: Vendor, taken: set[str]) -> tuple[str, ...]:
    """Return the id of each call for this target, none of them in `taken`, and add them to it."""
    ids: list[str] = []
    for call, key in zip(turn.reply.calls, turn.call_keys, strict=True):
        wire_id, attempt = call.id, 0
        while wire_id in taken or (attempt == 0 and not vendor.takes_id(wire_id, turn.reply.model)):
            attempt += 1
            wire_id = vendor.make_id(key, attempt)
        taken.add(wire_id)
        ids.append(wire_id)
    return tuple(ids)
