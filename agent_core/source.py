"""What a model's raw replies come from, and what passed over the wire of one call.

Invariants: a source knows nothing of retries, approvals or settings; it makes one call per `ask`, keeps nothing of a
call that failed or was cancelled, and reads every reply with the dialect it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_core.dialects import Delta, Dialect, Query
from agent_core.types import ModelReply


class Source(Protocol):
    """Where raw replies come from: the network, or a tape."""

    @property
    def context_window(self) -> int | None:
        """How many tokens the model takes in; None as long as it is not known."""

    async def ask(
        self,
        dialect: Dialect,
        query: Query,
        *,
        stream: bool,
        on_delta: Callable[[Delta], None],
    ) -> ModelReply:
        """Make one call and return its reply, `usage.cost` filled or None; raise `ProviderFailure` if there is none.

        Cancelling the task ends the call, and with it the provider's connection.
        """

    async def close(self) -> None:
        """Give back what this source holds."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came over the wire in one call, as it came: the provider's body or events, or why there was neither.

    Exactly one of `body` (a whole reply), `events` (a streamed one) and `failure` (the worker's report: status, error,
    fault, message, body, retry_after) is set. `latency_ms` is the time from the call to its end.
    """

    dialect: str
    body: Mapping[str, Any] | None = None
    events: tuple[Mapping[str, Any], ...] | None = None
    failure: Mapping[str, Any] | None = None
    latency_ms: int = 0
    reply: ModelReply | None = field(default=None, repr=False)  # what the dialect read, None if it could not


OnExchange = Callable[[Query, Exchange], None]
