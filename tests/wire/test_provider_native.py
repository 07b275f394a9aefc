"""Responses and Messages through the worker: our body arrives as it is, and the provider's comes back as it is."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_core.dialects import Query, dialect_for
from agent_core.errors import ProviderFailure
from agent_core.model import Model
from agent_core.provider import Provider
from agent_core.redaction import Masker
from agent_core.source import Exchange, Source
from agent_core.tape import Tape, TapeSource
from agent_core.tape_recorder import Recorder
from agent_core.types import FailureKind, Finish, ModelReply, Usage, UserMessage
from tests.wire import chat_bodies
from tests.wire.double import Answer, EventStream, ProviderDouble

CANARY = "canary-9f8e7d6c5b4a"
pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
ANTHROPIC: dict[str, Any] = {
    "model": "anthropic/claude-sonnet-4-5",
    "max_tokens": 1000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "bash", "description": "Runs.", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi \u2028 é"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SIG+/="},
                {"type": "redacted_thinking", "data": "XYZ="},
                {"type": "not_known_yet", "x": None},
                {"type": "tool_use", "id": "toolu_A", "name": "bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_A", "content": "no", "is_error": True}],
        },
    ],
    "temperature": 0.5,
}
RESPONSES: dict[str, Any] = {
    "model": "openai/a-model-litellm-does-not-know",
    "instructions": "Be brief.",
    "max_output_tokens": 1000,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "tools": [{"type": "function", "name": "bash", "description": "Runs.", "parameters": SCHEMA, "strict": True}],
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC+/="},
        {"type": "function_call", "id": "fc_1", "call_id": "A", "name": "bash", "arguments": '{"command": "ls"}'},
        {"type": "not_known_yet", "x": 1},
        {"type": "function_call_output", "call_id": "A", "output": "no"},
    ],
    "option_not_known_yet": 7,
}
BODIES = {"anthropic": ANTHROPIC, "responses": RESPONSES}
REPLIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "message",
        "content": [{"type": "not_known_yet"}, {"type": "tool_use", "id": "", "name": None, "input": "ls"}],
        "stop_reason": "a_new_one",
    },
    "responses": {"object": "response", "status": "completed", "output": [{"type": "function_call", "call_id": None}]},
}


class Verbatim:
    """A dialect that sends a given body and keeps what comes."""

    def __init__(self, name: str, body: dict[str, Any]) -> None:
        self.name = name
        self.body = body
        self.received: list[Mapping[str, Any]] = []

    def encode(self, query: Query) -> dict[str, Any]:
        return copy.deepcopy(self.body) | dict(query.options)

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        self.received.append(body)
        return ModelReply(self.name, "m", "", "", (), Finish.STOP, "", Usage(5, 5, cost=None), "")

    def assembler(self) -> Verbatim:
        return self

    def feed(self, chunk: Mapping[str, Any]) -> list[Any]:
        self.received.append(chunk)
        return []

    def finish(self) -> ModelReply:
        return ModelReply(self.name, "m", "", "", (), Finish.STOP, "", Usage(5, 5, cost=None), "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[Provider]:
    keys = {"OPENAI_API_KEY": "sk-one", "ANTHROPIC_API_KEY": "sk-two"}
    provider = Provider({"PATH": os.environ["PATH"], **keys})
    provider.warm_up()
    yield provider
    await provider.close()


def address(double: ProviderDouble, dialect: str) -> str:
    return double.url + ("" if dialect == "anthropic" else "/v1")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["anthropic", "responses"])
async def test_bodies_pass_both_ways_unchanged(provider: Provider, name: str, stream: bool) -> None:
    events = [{"type": "one", "text": "a\u2028b"}, {"type": "two", "x": None}, {**REPLIES[name], "type": "three"}]
    dialect = Verbatim(name, BODIES[name])
    heard: list[Exchange] = []
    query = Query(BODIES[name]["model"], "", [], options={"extra_headers": {"x-mine": "1"}})
    async with ProviderDouble([EventStream(events, named=True) if stream else Answer(REPLIES[name])]) as double:
        source = provider.source(
            api_base=address(double, name), timeout=10, on_exchange=lambda _, exchange: heard.append(exchange)
        )
        await source.ask(dialect, query, stream=stream, on_delta=lambda _: None)
    expected = {**BODIES[name], "model": BODIES[name]["model"].partition("/")[2]}
    sent = double.bodies[0]
    assert sent.pop("stream", False) is stream
    assert sent == expected
    assert double.requests[0].headers["x-mine"] == "1"
    assert dialect.received == (events if stream else [REPLIES[name]])
    assert (heard[0].body, heard[0].events) == ((None, tuple(events)) if stream else (REPLIES[name], None))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["anthropic", "responses"])
async def test_failures_are_sorted_and_sent_once(provider: Provider, name: str, stream: bool) -> None:
    """CO-07: both forms have a 429 with its Retry-After; neither is tried again below."""
    too_fast = Answer(
        {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, 429, {"retry-after": "1"}
    )
    too_long = Answer({"type": "error", "error": {"type": "x", "message": "prompt is too long: 3 > 2"}}, 400)
    async with ProviderDouble([too_fast, too_long]) as double:
        source = provider.source(api_base=address(double, name), timeout=10)
        query = Query(BODIES[name]["model"], "", [])
        kinds = []
        for _ in range(2):
            with pytest.raises(ProviderFailure) as raised:
                await source.ask(Verbatim(name, BODIES[name]), query, stream=stream, on_delta=lambda _: None)
            kinds.append((raised.value.kind, raised.value.retry_after))
    assert kinds == [(FailureKind.RATE_LIMIT, 1.0), (FailureKind.CONTEXT_TOO_LONG, None)]
    assert len(double.requests) == 2


async def test_an_option_that_litellm_drops_is_told_in_the_log(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "handrail.worker")
    query = Query(ANTHROPIC["model"], "", [], options={"top_k": 5, "option_not_known_yet": 7})
    async with ProviderDouble([Answer(REPLIES["anthropic"]), Answer(REPLIES["anthropic"])]) as double:
        source = provider.source(api_base=double.url)
        for _ in range(2):  # what the worker logs before an answer may come after it, but before the next one
            await source.ask(Verbatim("anthropic", ANTHROPIC), query, stream=False, on_delta=lambda _: None)
    assert double.bodies[0]["top_k"] == 5
    assert "litellm does not send option_not_known_yet of modelOptions to Anthropic" in caplog.messages


ANSWERS: dict[str, dict[str, Any]] = {
    "chat": chat_bodies.reply("Two things.", [chat_bodies.call("A", "ls"), chat_bodies.call("B", f"echo {CANARY}")]),
    "text": chat_bodies.reply("One thing.\n\n```bash-run\nls\n```\n"),
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "SIG+/="},
            {"type": "tool_use", "id": "toolu_A", "name": "bash", "input": {"command": "ls"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 7},
    },
    "responses": {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC+/="},
            {"type": "function_call", "id": "fc_1", "call_id": "A", "name": "bash", "arguments": '{"command": "ls"}'},
        ],
        "usage": {"input_tokens": 5, "output_tokens": 7},
    },
}


@pytest.mark.parametrize("name", list(ANSWERS))
async def test_a_rate_limit_is_waited_for_and_the_run_recorded_and_replayed(
    provider: Provider, name: str, tmp_path: Path
) -> None:
    """CO-07 and SE-06: two requests with the wait in between; the tape gives the same reply and holds no key."""
    model_name = "anthropic/claude-sonnet-4-5" if name == "anthropic" else "openai/gpt-4o"
    masker = Masker.from_sources({"OPENAI_API_KEY": CANARY}, "", ("OPENAI_API_KEY",))
    recorder = Recorder(tmp_path / "run.json", model=model_name, dialect=name, masker=masker)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def model(source: Source) -> Model:
        return Model(model_name, dialect_for(model_name, name), source, max_tokens=99, sleep=sleep)

    async def ask(model: Model) -> ModelReply:
        return await model.query("", [UserMessage("go")], on_delta=lambda _: None, on_retry=lambda _: None)

    busy = Answer({"error": {"message": f"slow down, {CANARY}"}}, 429, {"retry-after": "1"})
    async with ProviderDouble([busy, Answer(ANSWERS[name])]) as double:
        live = await ask(model(provider.source(api_base=address(double, name), on_exchange=recorder.take)))
        assert len(double.requests) == 2
    replayed = await ask(model(TapeSource(Tape.load(tmp_path / "run.json"), strict=True)))
    assert waits == [1.0, 1.0]
    assert live.calls
    assert live.usage.cost is not None
    assert replayed == _masked(live)
    assert CANARY not in (tmp_path / "run.json").read_text()


def _masked(reply: ModelReply) -> ModelReply:
    """Return the reply as a tape may hold it."""
    mask = "<masked:OPENAI_API_KEY>"
    calls = tuple(replace(call, arguments=call.arguments.replace(CANARY, mask)) for call in reply.calls)
    return replace(reply, calls=calls, raw=reply.raw.replace(CANARY, mask))
