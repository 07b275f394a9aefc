"""A model's patience: what is tried again, how long it waits, and what is left of a failed attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent_core.dialects import Delta, Dialect, Query
from agent_core.errors import ProviderFailure
from agent_core.model import Model, Retry
from agent_core.types import FailureKind, ModelReply
from tests.wire import chat_bodies
from tests.wire.plain_dialect import PlainDialect


class Scripted:
    """A source that gives what it was told to: a body, or a failure after a piece of text."""

    context_window: int | None = 1000

    def __init__(self, *script: dict[str, Any] | ProviderFailure) -> None:
        self.script = list(script)
        self.asked = 0

    async def ask(
        self, dialect: Dialect, query: Query, *, stream: bool, on_delta: Callable[[Delta], None]
    ) -> ModelReply:
        self.asked += 1
        item = self.script.pop(0)
        on_delta(Delta("text", "Hi"))
        if isinstance(item, ProviderFailure):
            raise item
        return dialect.decode(item)

    async def close(self) -> None: ...


def failing(kind: FailureKind, retry_after: float | None = None) -> ProviderFailure:
    return ProviderFailure(kind, f"it was {kind}", retry_after=retry_after)


async def run(source: Scripted, **options: Any) -> tuple[ModelReply | ProviderFailure, list[Retry], list[float]]:
    retries: list[Retry] = []
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    model = Model("m", PlainDialect(), source, sleep=sleep, **options)
    try:
        return await model.query("", [], on_delta=lambda _: None, on_retry=retries.append), retries, waits
    except ProviderFailure as failure:
        return failure, retries, waits


@pytest.mark.parametrize("kind", list(FailureKind))
async def test_only_transient_kinds_are_tried_again(kind: FailureKind) -> None:
    source = Scripted(failing(kind), chat_bodies.reply("done"))
    outcome, retries, _ = await run(source)
    assert source.asked == (2 if kind.transient else 1)
    assert isinstance(outcome, ModelReply) == kind.transient
    assert [(retry.attempt, retry.reason) for retry in retries] == ([(2, f"it was {kind}")] if kind.transient else [])


async def test_the_last_failure_is_told_when_all_attempts_failed() -> None:
    source = Scripted(*[failing(FailureKind.OVERLOADED)] * 9)
    outcome, retries, waits = await run(source, max_attempts=3)
    assert isinstance(outcome, ProviderFailure)
    assert (source.asked, len(retries)) == (3, 2)
    assert all(0 <= wait <= 31 for wait in waits)
    assert waits == [retry.in_seconds for retry in retries]


async def test_what_the_provider_asks_for_is_waited() -> None:
    """CO-07: a 429 with Retry-After is followed by one more request, after that time."""
    source = Scripted(failing(FailureKind.RATE_LIMIT, 7.5), chat_bodies.reply("done"))
    outcome, retries, waits = await run(source)
    assert isinstance(outcome, ModelReply)
    assert waits == [7.5] == [retry.in_seconds for retry in retries]


async def test_an_hour_is_not_waited_for() -> None:
    source = Scripted(failing(FailureKind.RATE_LIMIT, 3600.0), chat_bodies.reply("done"))
    outcome, retries, _ = await run(source)
    assert isinstance(outcome, ProviderFailure)
    assert retries == []


async def test_a_cancel_ends_the_wait_at_once() -> None:
    """CX-06: no further request after a cancel in the wait."""
    source = Scripted(failing(FailureKind.RATE_LIMIT, 30.0), chat_bodies.reply("done"))
    told = asyncio.Event()
    model = Model("m", PlainDialect(), source)
    task = asyncio.create_task(model.query("", [], on_delta=lambda _: None, on_retry=lambda _: told.set()))
    await told.wait()
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    assert task.cancelled()
    assert source.asked == 1


async def test_nothing_of_a_failed_attempt_is_in_the_reply() -> None:
    """DL-07: one text and one call, however often the stream had to begin anew."""
    source = Scripted(failing(FailureKind.CONNECTION), chat_bodies.reply("Hi", [chat_bodies.call("1", "ls")]))
    outcome, _, _ = await run(source)
    assert isinstance(outcome, ModelReply)
    assert (outcome.text, len(outcome.calls)) == ("Hi", 1)


async def test_a_persons_own_price_wins() -> None:
    prices = {"m": {"input_cost_per_token": 1.0, "output_cost_per_token": 2.0, "max_input_tokens": 5}}
    source = Scripted(chat_bodies.reply("hi"))
    outcome, _, _ = await run(source, prices=prices)
    assert isinstance(outcome, ModelReply)
    assert outcome.usage.cost == 11 + 14
    assert Model("m", PlainDialect(), source, prices=prices).context_window == 5
    assert Model("other", PlainDialect(), source, prices=prices).context_window == 1000


async def test_an_unknown_price_is_unknown() -> None:
    """CO-03."""
    outcome, _, _ = await run(Scripted(chat_bodies.reply("hi")))
    assert isinstance(outcome, ModelReply)
    assert outcome.usage.cost is None
