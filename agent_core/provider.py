"""Raw replies over the network: owns the model worker and gives each session a source that asks through it.

Invariants: provider keys reach a worker by its environment and nothing else; a call that cannot succeed (offline, key
missing) never reaches one; a call that fails or is cancelled leaves nothing behind; every text that leaves here in a
failure is masked, and what the provider billed for it all the same is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agent_core.dialects import Delta, Dialect, Query
from agent_core.errors import ProviderFailure, SettingsError
from agent_core.failures import failure_from_report, missing_key
from agent_core.kept_worker import KeptWorker
from agent_core.keys import key_variables
from agent_core.prices import priced
from agent_core.shared_history import SharedHistory
from agent_core.source import Exchange, OnExchange
from agent_core.types import FailureKind, ModelReply
from agent_core.worker_process import WorkerProcess

OFFLINE_VARIABLE = "HANDRAIL_OFFLINE"
_GRACE = 10.0  # seconds a worker may take beyond a call's own limit before it counts as stuck


class Provider:
    """Owns the worker processes that all sessions share: one, and one more for each `caBundle` in use."""

    def __init__(self, environment: Mapping[str, str], *, mask: Callable[[str], str] = str) -> None:
        """Take the workers' environment, keys included, and the masker for what comes back."""
        self._environment = dict(environment)
        self.mask = mask
        self._workers: dict[str, KeptWorker] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}

    @property
    def offline(self) -> bool:
        """Whether live calls are forbidden."""
        return self._environment.get(OFFLINE_VARIABLE, "") not in ("", "0")

    def warm_up(self, ca_bundle: str = "") -> None:
        """Start a worker if none runs, without waiting for it; to be called in a running event loop."""
        if not self.offline:
            self.worker(ca_bundle).warm_up()

    def source(
        self,
        *,
        api_base: str = "",
        timeout: float = 300.0,
        ca_bundle: str = "",
        on_exchange: OnExchange | None = None,
    ) -> LiveSource:
        """Return a source for one session; raise `SettingsError` if `ca_bundle` is no file of certificates.

        `timeout` is in seconds: for a whole reply, or between two events of a streamed one. `api_base` is as the
        provider's own client takes it.
        """
        if ca_bundle:
            _check_certificates(ca_bundle)
        return LiveSource(self, api_base=api_base, timeout=timeout, ca_bundle=ca_bundle, on_exchange=on_exchange)

    def has_key(self, model: str) -> bool:
        """Whether a key for the model is in the environment, or none is known to be needed."""
        variables = key_variables(model)
        return not variables or any(self._environment.get(name) for name in variables)

    def worker(self, ca_bundle: str = "") -> KeptWorker:
        """Return the worker that checks servers by these certificates; "" is the usual ones."""
        if ca_bundle not in self._workers:
            certificates = {"SSL_CERT_FILE": ca_bundle} if ca_bundle else {}
            self._workers[ca_bundle] = KeptWorker(self._environment | certificates, self.mask)
        return self._workers[ca_bundle]

    async def facts(self, model: str, worker: WorkerProcess) -> Mapping[str, Any]:
        """Return `context_window` (tokens or None) and `price` (an entry for `prices`, or None) of a model."""
        if model not in self._facts:
            async with contextlib.aclosing(worker.exchange({"facts": model})) as messages:
                async for message in messages:
                    self._facts[model] = message["facts"]
        return self._facts[model]

    async def close(self) -> None:
        """End the workers and every call."""
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))


class LiveSource:
    """One session's way to its provider."""

    def __init__(
        self,
        provider: Provider,
        *,
        api_base: str,
        timeout: float,
        ca_bundle: str,
        on_exchange: OnExchange | None,
    ) -> None:
        self._provider = provider
        self._api_base = api_base
        self._timeout = timeout
        self._ca_bundle = ca_bundle
        self._on_exchange = on_exchange
        self._history = SharedHistory()
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
        body = dialect.encode(query)
        worker = await self._provider.worker(self._ca_bundle).running()
        facts = await self._provider.facts(query.model, worker)
        self.context_window = facts["context_window"]
        call = _Call(dialect, query, on_delta, facts["price"])
        try:
            await self._exchange(worker, self._request(dialect.name, body, stream, worker), call)
            return call.read()
        except asyncio.CancelledError:
            call.last = {}  # what had come so far belongs to nothing, a tape neither
            raise
        except ProviderFailure as failure:
            raise self._masked(failure, facts["price"]) from None
        finally:
            if self._on_exchange is not None and call.last:
                self._on_exchange(query, call.exchange())

    async def close(self) -> None:
        """Let the worker forget the conversation."""
        self._history.forget()

    async def _exchange(self, worker: WorkerProcess, request: Mapping[str, Any], call: _Call) -> None:
        """Send the request and give every message to the call."""
        loop = asyncio.get_running_loop()
        patience = self._timeout + _GRACE
        try:
            async with (
                asyncio.timeout(patience) as watch,
                contextlib.aclosing(worker.exchange(request)) as messages,
            ):
                async for message in messages:
                    watch.reschedule(loop.time() + patience)
                    call.take(message)
        except TimeoutError:
            call.last = {"failure": {"fault": f"TimeoutError: nothing came for {patience:g} s"}}

    def _refuse_hopeless(self, model: str) -> None:
        if self._provider.offline:
            raise ProviderFailure(
                FailureKind.OFFLINE,
                f"{OFFLINE_VARIABLE} is set, so {model} was not called. Unset it, or replay a tape.",
            )
        if not self._api_base and not self._provider.has_key(model):
            raise missing_key(model)

    def _request(self, dialect: str, body: Mapping[str, Any], stream: bool, worker: WorkerProcess) -> dict[str, Any]:
        ask: dict[str, Any] = {
            "dialect": dialect,
            "stream": stream,
            "timeout": self._timeout,
            "api_base": self._api_base,
            **self._history.parts(body, worker),
        }
        if not self._provider.has_key(body["model"]):
            ask["api_key"] = "none"  # a server of one's own needs no key, but litellm refuses to go without
        return {"ask": ask}

    def _masked(self, failure: ProviderFailure, price: Mapping[str, Any] | None) -> ProviderFailure:
        mask = self._provider.mask
        return ProviderFailure(
            failure.kind,
            mask(str(failure)),
            raw=mask(failure.raw),
            usage=priced(failure.usage, price),
            retry_after=failure.retry_after,
        )


class _Call:
    """What one call has brought so far."""

    def __init__(
        self,
        dialect: Dialect,
        query: Query,
        on_delta: Callable[[Delta], None],
        price: Mapping[str, Any] | None,
    ) -> None:
        self._dialect = dialect
        self._price = price
        self._model = query.model
        self._on_delta = on_delta
        self._assembler = dialect.assembler()
        self._events: list[Mapping[str, Any]] = []
        self._began = time.monotonic()
        self.last: Mapping[str, Any] = {}
        self.reply: ModelReply | None = None

    def take(self, message: Mapping[str, Any]) -> None:
        """Take the worker's next message."""
        self.last = message
        if "event" in message:
            self._events.append(message["event"])
            for delta in self._assembler.feed(message["event"]):
                self._on_delta(delta)

    def read(self) -> ModelReply:
        """Return the reply; raise `ProviderFailure` if there is none."""
        if "failure" in self.last:
            raise failure_from_report(self.last["failure"], self._model)
        reply = self._dialect.decode(self.last["body"]) if "body" in self.last else self._assembler.finish()
        self.reply = replace(reply, usage=priced(reply.usage, self._price))
        return self.reply

    def exchange(self) -> Exchange:
        """Return what came over the wire."""
        return Exchange(
            self._dialect.name,
            body=self.last.get("body"),
            events=None if "body" in self.last or "failure" in self.last else tuple(self._events),
            failure=self.last.get("failure"),
            latency_ms=round((time.monotonic() - self._began) * 1000),
            reply=self.reply,
        )


def _check_certificates(ca_bundle: str) -> None:
    try:
        ssl.create_default_context(cafile=ca_bundle)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"caBundle: {ca_bundle} cannot be used: {error}. Name a file of certificates in PEM form."
        ) from error
