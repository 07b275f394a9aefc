"""Raw replies over the network: owns the model worker and gives each session a source that asks through it.

Invariants: provider keys reach the worker by its environment and nothing else; a worker that dies fails its calls with
`WORKER_DIED` and is started again once by itself, later by the next call; a call that cannot succeed (offline, key
missing) never reaches it; every text that leaves here in a failure is masked.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent_core.dialects import Delta, Dialect, Query
from agent_core.errors import ProviderFailure
from agent_core.failures import failure_from_report, missing_key
from agent_core.keys import key_variables
from agent_core.prices import cost_of
from agent_core.source import Exchange, OnExchange
from agent_core.types import FailureKind, ModelReply
from agent_core.worker_process import WorkerProcess

OFFLINE_VARIABLE = "HANDRAIL_OFFLINE"
_GRACE = 10.0  # seconds a worker may take beyond a call's own limit before it counts as stuck


class Provider:
    """Owns the worker process that all sessions share."""

    def __init__(self, environment: Mapping[str, str], *, mask: Callable[[str], str] = str) -> None:
        """Take the worker's environment, keys included, and the masker for what comes back."""
        self._environment = dict(environment)
        self.mask = mask
        self._worker: asyncio.Task[WorkerProcess] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._closed = False

    @property
    def offline(self) -> bool:
        """Whether live calls are forbidden."""
        return self._environment.get(OFFLINE_VARIABLE, "") not in ("", "0")

    def warm_up(self) -> None:
        """Start the worker if none runs, without waiting for it; to be called in a running event loop."""
        if self._worker is None and not self.offline and not self._closed:
            self._start(restart=True)

    def source(
        self,
        *,
        api_base: str = "",
        timeout: float = 600.0,
        on_exchange: OnExchange | None = None,
    ) -> LiveSource:
        """Return a source for one session; `timeout` in seconds, `api_base` as the provider's own client takes it."""
        return LiveSource(self, api_base=api_base, timeout=timeout, on_exchange=on_exchange)

    def has_key(self, model: str) -> bool:
        """Whether a key for the model is in the environment, or none is known to be needed."""
        variables = key_variables(model)
        return not variables or any(self._environment.get(name) for name in variables)

    async def worker(self) -> WorkerProcess:
        """Return the running worker, started if there is none; raise `ProviderFailure` if it cannot be."""
        if self._closed:
            raise ProviderFailure(FailureKind.CANCELLED, "The model provider is closed; open the session again.")
        if self._worker is None:
            self._start(restart=False)
        assert self._worker is not None  # noqa: S101 - `_start` has just set it
        return await asyncio.shield(self._worker)

    async def facts(self, model: str) -> Mapping[str, Any]:
        """Return `context_window` (tokens or None) and `price` (an entry for `prices`, or None) of a model."""
        if model not in self._facts:
            worker = await self.worker()
            async with contextlib.aclosing(worker.exchange({"facts": model})) as messages:
                async for message in messages:
                    self._facts[model] = message["facts"]
        return self._facts[model]

    async def close(self) -> None:
        """End the worker and every call."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        if self._worker is not None:
            with contextlib.suppress(OSError):
                await (await self._worker).close()

    def _start(self, *, restart: bool) -> None:
        self._worker = asyncio.create_task(WorkerProcess.start(self._environment, self.mask))
        self._watching = asyncio.create_task(self._watch(self._worker, restart))

    async def _watch(self, starting: asyncio.Task[WorkerProcess], restart: bool) -> None:
        """Forget a dead worker, and start the next one so that its imports are over when the next prompt comes."""
        was_ready = False
        try:
            worker = await asyncio.shield(starting)
            await worker.died()
            was_ready = worker.was_ready
        except OSError:
            pass  # it could not be started at all; whoever asks is told
        self._worker = None
        if restart and was_ready and not self._closed:
            self._start(restart=False)


class LiveSource:
    """One session's way to its provider."""

    def __init__(self, provider: Provider, *, api_base: str, timeout: float, on_exchange: OnExchange | None) -> None:
        self._provider = provider
        self._api_base = api_base
        self._timeout = timeout
        self._on_exchange = on_exchange
        self.context_window: int | None = None

    async def ask(
        self,
        dialect: Dialect,
        query: Query,
        *,
        stream: bool,
        on_delta: Callable[[Delta], None],
    ) -> ModelReply:
        """Make one call through the worker (see `Source.ask`)."""
        self._refuse_hopeless(query.model)
        began = time.monotonic()
        request = self._request(dialect, query, stream)
        worker = await self._provider.worker()
        await worker.ready()
        events: list[Mapping[str, Any]] = []
        last: Mapping[str, Any] = {}
        reply: ModelReply | None = None
        try:
            async with asyncio.timeout(None) as watch, contextlib.aclosing(worker.exchange(request)) as messages:
                assembler = dialect.assembler()
                watch.reschedule(self._deadline())
                async for message in messages:
                    last = message
                    if "event" in message:
                        watch.reschedule(self._deadline())
                        events.append(message["event"])
                        for delta in assembler.feed(message["event"]):
                            on_delta(delta)
            if "failure" in last:
                raise failure_from_report(last["failure"], query.model)
            reply = dialect.decode(last["body"]) if "body" in last else assembler.finish()
        except TimeoutError:
            last = {"failure": {"fault": f"TimeoutError: nothing came for {self._timeout:g} s"}}
            raise failure_from_report(last["failure"], query.model) from None
        except ProviderFailure as failure:
            raise self._masked(failure) from None
        finally:
            self._tell(query, dialect, last, events, reply, began)
        return await self._priced(reply, query.model)

    async def close(self) -> None:
        """Nothing is held; the worker is the provider's."""

    def _refuse_hopeless(self, model: str) -> None:
        if self._provider.offline:
            raise ProviderFailure(
                FailureKind.OFFLINE,
                f"{OFFLINE_VARIABLE} is set, so {model} was not called. Unset it, or replay a tape.",
            )
        if not self._api_base and not self._provider.has_key(model):
            raise missing_key(model)

    def _request(self, dialect: Dialect, query: Query, stream: bool) -> dict[str, Any]:
        ask: dict[str, Any] = {
            "dialect": dialect.name,
            "body": dialect.encode(query),
            "stream": stream,
            "timeout": self._timeout,
            "api_base": self._api_base,
        }
        if not self._provider.has_key(query.model):
            ask["api_key"] = "none"  # a server of one's own needs no key, but litellm refuses to go without
        return {"ask": ask}

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._timeout + _GRACE

    async def _priced(self, reply: ModelReply, model: str) -> ModelReply:
        facts = await self._provider.facts(model)
        self.context_window = facts["context_window"]
        if reply.usage.cost is not None:
            return reply  # the provider told it
        return replace(reply, usage=replace(reply.usage, cost=cost_of(reply.usage, facts["price"])))

    def _masked(self, failure: ProviderFailure) -> ProviderFailure:
        mask = self._provider.mask
        return ProviderFailure(
            failure.kind,
            mask(str(failure)),
            raw=mask(failure.raw),
            usage=failure.usage,
            retry_after=failure.retry_after,
        )

    def _tell(
        self,
        query: Query,
        dialect: Dialect,
        last: Mapping[str, Any],
        events: list[Mapping[str, Any]],
        reply: ModelReply | None,
        began: float,
    ) -> None:
        if self._on_exchange is None or not last:
            return
        self._on_exchange(
            query,
            Exchange(
                dialect.name,
                body=last.get("body"),
                events=tuple(events) if "end" in last else None,
                failure=last.get("failure"),
                latency_ms=round((time.monotonic() - began) * 1000),
                reply=reply,
            ),
        )
