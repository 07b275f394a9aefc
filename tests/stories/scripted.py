"""A model that answers from a script through the real dialect, and checks every request as a strict provider would.

Invariants: what a session asks is encoded by the production dialect and refused if a strict provider would refuse it;
replies are provider bodies, read by the production decoder.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from agent_core.dialects import Delta, Dialect, Query
from agent_core.errors import ProviderFailure
from agent_core.types import FailureKind, ModelReply
from tests.wire import strict

Scripted = dict[str, Any] | list[dict[str, Any]] | ProviderFailure | Callable[[], Awaitable[dict[str, Any]]]
"""A whole body, the events of a streamed one, a failure, or what gives a body later."""


class Script:
    """A `Source`: gives the scripted replies in order and remembers the requests' bodies."""

    context_window: int | None = None

    def __init__(self, *replies: Scripted, cost: float | None = 0.01) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.cost = cost

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the newest request."""
        body = self.requests[-1]
        messages: list[dict[str, Any]] = body["input" if "input" in body else "messages"]
        return messages

    async def ask(
        self, dialect: Dialect, query: Query, *, stream: bool, on_delta: Callable[[Delta], None]
    ) -> ModelReply:
        body = json.loads(json.dumps(dialect.encode(query)))
        strict.check(dialect.name, body)
        self.requests.append(body)
        if not self.replies:
            raise ProviderFailure(FailureKind.TAPE, "The script is at its end.")
        reply = self.replies.pop(0)
        if isinstance(reply, ProviderFailure):
            raise reply
        assert isinstance(reply, list) is stream or callable(reply), "settings and script differ"
        decoded = _assembled(dialect, reply, on_delta) if isinstance(reply, list) else await _decoded(dialect, reply)
        return replace(decoded, usage=replace(decoded.usage, cost=self.cost))

    async def close(self) -> None:
        self.replies.clear()


async def _decoded(dialect: Dialect, reply: Any) -> ModelReply:
    return dialect.decode(reply if isinstance(reply, dict) else await reply())


def _assembled(dialect: Dialect, events: list[dict[str, Any]], on_delta: Callable[[Delta], None]) -> ModelReply:
    assembler = dialect.assembler()
    for event in events:
        for delta in assembler.feed(event):
            on_delta(delta)
    return assembler.finish()


async def never() -> dict[str, Any]:
    """A reply that does not come."""
    await asyncio.Event().wait()
    raise AssertionError
