"""A model as a session sees it: one dialect, one source of raw replies, a price, and patience.

Invariants: only failures of a transient kind are tried again, each attempt from nothing; a wait between attempts is
told before it begins, honours what the provider asked for, and ends at once when the task is cancelled; `usage.cost`
of a reply is a known price or None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import tenacity

from agent_core.dialects import Delta, Dialect, Query
from agent_core.errors import ProviderFailure
from agent_core.prices import cost_of, entry_for
from agent_core.source import Source
from agent_core.types import Message, ModelReply

_LONGEST_WAIT = 300.0  # seconds; a provider that asks for more is told to the person instead of waited for
_BACK_OFF = tenacity.wait_exponential_jitter(multiplier=1.0, max=30.0)


@dataclass(frozen=True, slots=True)
class Retry:
    """An attempt failed and the next one follows: `attempt` is the number of the next, counted from 1."""

    attempt: int
    in_seconds: float
    reason: str


OnDelta = Callable[[Delta], None]
OnRetry = Callable[[Retry], None]


class AnyModel(Protocol):
    """What a session asks: a `Model`, or a `Rotation` of several."""

    @property
    def name(self) -> str: ...  # noqa: D102 - told where it is implemented
    @property
    def dialect(self) -> str: ...  # noqa: D102
    @property
    def context_window(self) -> int | None: ...  # noqa: D102

    async def query(
        self, system: str, history: Sequence[Message], *, on_delta: OnDelta, on_retry: OnRetry
    ) -> ModelReply:
        """Ask for the next reply; raise `ProviderFailure` if there is none."""

    async def close(self) -> None:
        """Give back what the model holds."""


@dataclass(slots=True)
class Model:
    """One model to ask. `prices` are a person's own price entries by model name; they win over the source's price."""

    name: str
    dialect_used: Dialect
    source: Source
    stream: bool = False
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    max_attempts: int = 4
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    images: bool = False
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def dialect(self) -> str:
        """The name of the dialect that the model is spoken to in."""
        return self.dialect_used.name

    @property
    def context_window(self) -> int | None:
        """How many tokens the model takes in; None as long as it is not known."""
        own = entry_for(self.name, self.prices) or {}
        window: int | None = own.get("max_input_tokens")
        return window if window is not None else self.source.context_window

    async def query(
        self,
        system: str,
        history: Sequence[Message],
        *,
        on_delta: OnDelta,
        on_retry: OnRetry,
    ) -> ModelReply:
        """Ask for the next reply; raise the last `ProviderFailure` if no attempt gave one.

        After an `on_retry` the deltas begin anew: what came before it belongs to no reply.
        """
        query = Query(self.name, system, history, self.max_tokens, self.options, self.images)

        def tell(state: tenacity.RetryCallState) -> None:
            on_retry(Retry(state.attempt_number + 1, state.upcoming_sleep, str(_failure(state))))

        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_worth_another),
            stop=tenacity.stop_after_attempt(self.max_attempts),
            wait=_wait,
            before_sleep=tell,
            sleep=self.sleep,
            reraise=True,
        )
        reply: ModelReply = await attempts(
            self.source.ask, self.dialect_used, query, stream=self.stream, on_delta=on_delta
        )
        own = entry_for(self.name, self.prices)
        return replace(reply, usage=replace(reply.usage, cost=cost_of(reply.usage, own))) if own else reply

    async def close(self) -> None:
        """Give back what the source holds."""
        await self.source.close()


def _worth_another(error: BaseException) -> bool:
    return isinstance(error, ProviderFailure) and error.kind.transient and (error.retry_after or 0) <= _LONGEST_WAIT


def _wait(state: tenacity.RetryCallState) -> float:
    asked = getattr(_failure(state), "retry_after", None)
    return float(_BACK_OFF(state)) if asked is None else float(asked)


def _failure(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None
