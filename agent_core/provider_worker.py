"""The model worker: a process of its own that makes the calls to providers, and the only file that imports litellm.

Run as `python -P -m agent_core.provider_worker PARENT_PID`. One JSON object a line, in:

    {"id": 1, "ask": {"dialect", "body", "history": {"of", "member", "keep", "more"}, "stream", "timeout", "api_base"}}
    {"id": 2, "facts": "model"}
    {"cancel": 1}
    {"forget": 7}                              the conversation 7 (see `shared_history`)

and out, any number of calls at once:

    {"ready": {"litellm": "1.110.2"}}
    {"id": 1, "event": {…}}                    one event of a streamed reply, in the order received
    {"id": 1, "end": true}                     the stream is over
    {"id": 1, "body": {…}}                     a whole reply
    {"id": 1, "failure": {"status", "retry_after", "body", "error", "fault", "message"}}
    {"id": 2, "facts": {"context_window", "price"}}

A provider that speaks the dialect itself is heard as it spoke: litellm makes the request, `provider_tap` takes the
response. For all others the reply is litellm's own shape. What litellm 1.110.2 was seen to do to our requests:
`acompletion`, `aresponses` and `anthropic_messages` send native bodies member by member as they are, `is_error`,
signatures, cache marks and unknown blocks included, streamed or not; the first keeps options it does not know, the
second keeps them in `extra_body` only, the third drops them, and for the newest Claude models it turns a thinking
budget into an effort. Responses of a model that it does not know it streams only once the model is registered.

Invariants: nothing but these lines reaches the parent; keys come from the environment alone; the process ends with
its parent, whatever ended that; a cancelled call closes its connection; litellm never retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from importlib.metadata import version
from typing import Any

from agent_core import provider_tap
from agent_core.worker_guards import end_with_parent, guard_descriptors

_PATH_ENDS = {
    "chat": "/chat/completions",
    "text": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/messages",
}
_FUNCTIONS = {
    "chat": "acompletion",
    "text": "acompletion",
    "responses": "aresponses",
    "anthropic": "anthropic_messages",
}
_ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",  # else it loads the nearest .env, a workspace's perhaps
    "LITELLM_OFFLINE_MODE": "true",  # else it asks its project's site for prices, and waits
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
_LINE_LIMIT = 1 << 28


class Worker:
    """Takes requests from the parent and runs each as a task."""

    def __init__(self, litellm: Any, write: Callable[[bytes], None]) -> None:
        self._litellm = litellm
        self._write = write
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._histories: dict[int, list[Any]] = {}

    async def run(self, requests: asyncio.StreamReader) -> None:
        """Serve until the parent closes its end."""
        self._tell({"ready": {"litellm": version("litellm")}})
        while line := await requests.readline():
            request = json.loads(line)
            if "cancel" in request:
                if task := self._tasks.get(request["cancel"]):
                    task.cancel()
                continue
            if "forget" in request:
                self._histories.pop(request["forget"], None)
                continue
            if "ask" in request:
                self._complete(request["ask"])
            number = request["id"]
            task = asyncio.create_task(self._serve(number, request))
            self._tasks[number] = task
            task.add_done_callback(functools.partial(self._forget, number))

    def _complete(self, ask: dict[str, Any]) -> None:
        """Put the conversation into the body: what is held of it from before, and what is new."""
        history = ask["history"]
        items = self._histories.get(history["of"], [])[: history["keep"]] + history["more"]
        self._histories[history["of"]] = items
        ask["body"][history["member"]] = list(items)

    def _forget(self, number: int, _: asyncio.Task[None]) -> None:
        del self._tasks[number]

    async def _serve(self, number: int, request: Mapping[str, Any]) -> None:
        if "facts" in request:
            self._tell({"id": number, "facts": self._facts(request["facts"])})
            return
        tap = provider_tap.Tap(_PATH_ENDS[request["ask"]["dialect"]])
        try:
            await self._ask(number, tap, request["ask"])
        except Exception as error:
            # Whatever went wrong inside litellm or on the way: the parent sorts it, and the worker lives on.
            self._tell({"id": number, "failure": await tap.report(error)})
        finally:
            await tap.close()

    async def _ask(self, number: int, tap: provider_tap.Tap, ask: Mapping[str, Any]) -> None:
        calling = asyncio.create_task(self._call(ask))
        try:
            async with asyncio.timeout(ask["timeout"]) as watch:
                await asyncio.wait({calling, tap.taken}, return_when=asyncio.FIRST_COMPLETED)
                if tap.taken.done():
                    response = tap.taken.result()
                    if ask["dialect"] == "anthropic":
                        _tell_what_is_lost(ask["body"], response.request.content)
                    events = response.aiter_bytes() if provider_tap.is_event_stream(response) else None
                    body = "" if events else await tap.text()
                else:
                    reply = await calling
                    events = _as_events(reply) if hasattr(reply, "__aiter__") else None
                    body = "" if events else json.dumps(_plain(reply))
                if events is None:
                    self._tell_body(number, body)
                else:
                    await self._tell_events(number, events, watch, ask["timeout"])
        finally:
            calling.cancel()

    async def _call(self, ask: Mapping[str, Any]) -> Any:
        body, dialect, stream = dict(ask["body"]), ask["dialect"], ask["stream"]
        if dialect == "responses":
            self._prepare_responses(body, stream)
        elif dialect == "anthropic":
            # litellm's streams for other vendors than Anthropic need the packages of its proxy; a whole reply does not.
            stream = stream and self._provider(body["model"])[1] == "anthropic"
        elif stream:
            body.setdefault("stream_options", {"include_usage": True})
        where = {name: ask[name] for name in ("api_base", "api_key") if ask.get(name)}
        function = getattr(self._litellm, _FUNCTIONS[dialect])
        made = {"stream": stream, "timeout": ask["timeout"], "max_retries": 0}
        return await function(**(body | where | made))

    def _prepare_responses(self, body: dict[str, Any], stream: bool) -> None:
        """Keep litellm from dropping options it does not know, and from faking the stream of a model it does not."""
        known = inspect.signature(self._litellm.responses).parameters
        more = {name: body.pop(name) for name in list(body) if name not in known}
        body["extra_body"] = more | (body.get("extra_body") or {})
        name, provider = self._provider(body["model"])
        if stream and not self._price_entry(body["model"]):
            entry = {"litellm_provider": provider, "mode": "responses", "supports_native_streaming": True}
            self._litellm.register_model({f"{provider}/{name}": entry})

    def _provider(self, model: str) -> tuple[str, str]:
        """Return the model's name at its provider, and the provider; raise litellm's error if it knows none."""
        name, provider, *_ = self._litellm.get_llm_provider(model)
        return name, provider

    def _facts(self, model: str) -> dict[str, Any]:
        entry = self._price_entry(model)
        return {"context_window": entry.get("max_input_tokens") or entry.get("max_tokens"), "price": entry or None}

    def _price_entry(self, model: str) -> dict[str, Any]:
        """Return what litellm's local map says of a model; {} if it is not in it. Never asks the network."""
        prices = self._litellm.model_cost
        try:
            name, provider = self._provider(model)
        except Exception:
            return dict(prices.get(model, {}))
        for key in (model, f"{provider}/{name}", name):
            entry = prices.get(key)
            if entry is not None and str(entry.get("litellm_provider", "")).startswith(provider):
                return dict(entry)
        return {}

    def _tell(self, message: Mapping[str, Any]) -> None:
        self._write(json.dumps(message).encode() + b"\n")

    async def _tell_events(
        self, number: int, chunks: AsyncIterator[bytes], watch: asyncio.Timeout, limit: float
    ) -> None:
        """Pass on the events as they come; `limit` is the seconds that the next one may take."""
        events = provider_tap.Events(chunks)
        async with contextlib.aclosing(aiter(events)) as each:
            async for event in each:
                watch.reschedule(asyncio.get_running_loop().time() + limit)
                self._tell_event(number, event)
        if events.stray:
            raise provider_tap.NoReplyError(events.stray)
        self._tell({"id": number, "end": True})

    def _tell_event(self, number: int, event: bytes) -> None:
        # The event's own text goes on, not a re-encoding of it; only its form is checked.
        if event == b"[DONE]":
            return
        try:
            json.loads(event)
        except ValueError as error:
            raise provider_tap.NoReplyError(event.decode(errors="replace")) from error
        self._write(b'{"id":%d,"event":%b}\n' % (number, event))

    def _tell_body(self, number: int, text: str) -> None:
        try:
            body = json.loads(text)
        except ValueError as error:
            raise provider_tap.NoReplyError(text) from error
        if not isinstance(body, dict):
            raise provider_tap.NoReplyError(text)
        self._tell({"id": number, "body": body})


def _tell_what_is_lost(body: Mapping[str, Any], sent: bytes) -> None:
    """Log the options that litellm dropped; it says nothing of it itself."""
    lost = [name for name in body if not name.startswith("extra_") and b'"%b"' % name.encode() not in sent]
    if lost:
        print(f"litellm does not send {', '.join(lost)} of modelOptions to Anthropic", file=sys.stderr)


async def _as_events(reply: Any) -> AsyncGenerator[bytes, None]:
    """Return litellm's own stream in the form of server-sent events."""
    async for chunk in reply:
        yield chunk if isinstance(chunk, bytes) else b"data: %b\n\n" % json.dumps(_plain(chunk)).encode()


def _plain(reply: Any) -> Any:
    return reply.model_dump(mode="json") if hasattr(reply, "model_dump") else reply


def import_litellm() -> Any:
    """Import litellm without its habits: no `.env`, no network, no retries, no prints of its own."""
    os.environ.update(_ENVIRONMENT)
    names = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING)
    gc.disable()  # collecting in between finds nothing and takes a third of the import's time
    import litellm

    gc.freeze()  # nor is any of this ever garbage
    gc.enable()
    for name in names:
        logging.getLogger(name).handlers.clear()
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


async def serve(litellm: Any, requests: int, replies: int) -> None:
    """Connect the pipes and serve until the parent's end is closed."""
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    pipe = os.fdopen(requests, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    with os.fdopen(replies, "wb") as out:

        def write(line: bytes) -> None:
            out.write(line)
            out.flush()

        await Worker(litellm, write).run(reader)


def main() -> None:
    """Run the worker."""
    end_with_parent(int(sys.argv[1]))
    requests, replies = guard_descriptors()
    litellm = import_litellm()
    provider_tap.install()
    asyncio.run(serve(litellm, requests, replies))


if __name__ == "__main__":
    main()
