"""The provider over a real worker, real litellm and a real socket; one worker serves the whole module."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent_core.dialects import Delta, Query
from agent_core.errors import ProviderFailure
from agent_core.provider import LiveSource, Provider
from agent_core.source import Exchange
from agent_core.types import AssistantTurn, FailureKind, Message, ModelReply, UserMessage
from tests.wire import chat_bodies
from tests.wire.double import Answer, Drop, EventStream, Hang, ProviderDouble
from tests.wire.plain_dialect import PlainDialect

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEY = "sk-canary-0123456789abcdef"
DIALECT = PlainDialect()


def ignore(_: Delta) -> None:
    """Take a delta that the test does not look at."""


def query(model: str = "openai/some-model") -> Query:
    return Query(model, "Be brief.", [UserMessage("hello")])


def environment(**variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "OPENAI_API_KEY": KEY, **variables}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[Provider]:
    provider = Provider(environment(), mask=lambda text: text.replace(KEY, "<masked:OPENAI_API_KEY>"))
    provider.warm_up()
    yield provider
    await provider.close()


def source(provider: Provider, double: ProviderDouble, timeout: float = 20.0) -> LiveSource:
    return provider.source(api_base=f"{double.url}/v1", timeout=timeout)


async def ask(source: LiveSource, *, stream: bool = False, model: str = "openai/some-model") -> ModelReply:
    return await source.ask(DIALECT, query(model), stream=stream, on_delta=ignore)


async def failure(source: LiveSource, *, stream: bool = False) -> ProviderFailure:
    with pytest.raises(ProviderFailure) as raised:
        await ask(source, stream=stream)
    return raised.value


async def test_two_calls_at_once_do_not_wait_for_each_other(provider: Provider) -> None:
    async with ProviderDouble([Hang(), Answer(chat_bodies.reply("hi", [chat_bodies.call("", "ls")]))]) as double:
        slow = asyncio.create_task(ask(source(provider, double)))
        await double.arrived.wait()
        reply = await ask(source(provider, double))
        assert not slow.done()
        slow.cancel()
        await asyncio.wait({slow})
    # The empty id is the proof that the body is the provider's own: litellm would have kept it, but not this raw turn.
    assert [call.id for call in reply.calls] == [""]
    assert reply.usage.input_tokens == 11
    assert reply.usage.cost is None
    assert double.bodies[1]["messages"][1] == {"role": "user", "content": "hello"}
    assert double.requests[1].headers["authorization"] == f"Bearer {KEY}"


async def test_a_null_id_is_not_replaced_on_the_way(provider: Provider) -> None:
    broken = {**chat_bodies.call("x", "ls"), "id": None}
    async with ProviderDouble([Answer(chat_bodies.reply("", [broken]))]) as double:
        reply = await ask(source(provider, double))
    assert reply.calls[0].id is None


async def test_a_known_model_has_its_price_and_window(provider: Provider) -> None:
    async with ProviderDouble([Answer(chat_bodies.reply("hi"))]) as double:
        live = source(provider, double)
        reply = await ask(live, model="openai/gpt-4o")
    assert live.context_window == 128000
    assert reply.usage.cost == pytest.approx(11 * 2.5e-6 + 7 * 1e-5)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer({"error": {"message": f"bad key {KEY}"}}, 401), FailureKind.AUTHENTICATION, "OPENAI_API_KEY"),
        (Answer({"error": {"message": "no credit"}}, 402), FailureKind.QUOTA, "no credit"),
        (Answer({"error": {"message": "not yours"}}, 403), FailureKind.PERMISSION, "not yours"),
        (Answer({"error": {"message": "no such model"}}, 404), FailureKind.NOT_FOUND, "no such model"),
        (Answer({"error": {"message": "odd"}}, 400), FailureKind.BAD_REQUEST, "odd"),
        (
            Answer({"error": {"message": "maximum context length is 8192", "code": "context_length_exceeded"}}, 400),
            FailureKind.CONTEXT_TOO_LONG,
            "Compact",
        ),
        (Answer({"error": {"message": "used up", "code": "insufficient_quota"}}, 429), FailureKind.QUOTA, "used up"),
        (Answer({"error": {"message": "boom"}}, 500), FailureKind.SERVER_ERROR, "boom"),
        (Answer({"error": {"message": "busy"}}, 529), FailureKind.OVERLOADED, "busy"),
        (Answer("<html>Bad gateway</html>", 502, content_type="text/html"), FailureKind.SERVER_ERROR, "Bad gateway"),
        (Answer("<html>log in</html>", content_type="text/html"), FailureKind.MALFORMED_REPLY, "log in"),
        (Answer('{"choices": [{"ind'), FailureKind.MALFORMED_REPLY, "choices"),
        (Answer(""), FailureKind.MALFORMED_REPLY, "no reply"),
        (Drop(), FailureKind.CONNECTION, "disconnected"),
    ],
)
async def test_each_failure_has_its_kind_and_one_request(
    provider: Provider, answer: Answer | Drop, kind: FailureKind, words: str
) -> None:
    """CO-05, CO-06: one request each, and a sentence that names the cause; the key's value is in none of it."""
    async with ProviderDouble([answer]) as double:
        failed = await failure(source(provider, double))
    assert (failed.kind, len(double.requests)) == (kind, 1), failed
    assert words in str(failed)
    assert KEY not in str(failed) + failed.raw


async def test_options_go_as_given_but_never_change_how_the_call_is_made(provider: Provider) -> None:
    options = {"num_ctx": 4096, "extra_headers": {"x-mine": "1"}, "stream": True, "timeout": 0.001, "max_retries": 5}
    async with ProviderDouble([Answer({"error": {"message": "busy"}}, 503)]) as double:
        given = Query("openai/m", "", [UserMessage("hello")], options=options)
        with pytest.raises(ProviderFailure, match="busy"):
            await source(provider, double).ask(DIALECT, given, stream=False, on_delta=ignore)
    assert len(double.requests) == 1
    assert double.bodies[0]["num_ctx"] == 4096
    assert not double.bodies[0].get("stream")
    assert double.requests[0].headers["x-mine"] == "1"


async def test_retry_after_is_told(provider: Provider) -> None:
    slow_down = Answer({"error": {"message": "slow down"}}, 429, {"retry-after": "30"})
    async with ProviderDouble([slow_down]) as double:
        failed = await failure(source(provider, double))
    assert (failed.kind, failed.retry_after) == (FailureKind.RATE_LIMIT, 30.0)


async def test_a_refused_connection_is_a_connection_failure(provider: Provider) -> None:
    failed = await failure(provider.source(api_base="http://127.0.0.1:9/v1", timeout=5))
    assert failed.kind is FailureKind.CONNECTION


async def test_a_certificate_that_nobody_vouches_for_is_told_once(provider: Provider, tls: ssl.SSLContext) -> None:
    async with ProviderDouble(tls=tls) as double:
        failed = await failure(source(provider, double))
    assert "caBundle" in str(failed)
    assert not failed.kind.transient


async def test_the_time_limit_closes_the_connection(provider: Provider) -> None:
    async with ProviderDouble([Hang()]) as double:
        failed = await failure(source(provider, double, timeout=0.3))
        assert failed.kind is FailureKind.TIMEOUT
        await asyncio.wait_for(double.requests[0].abandoned.wait(), 3)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cancel_closes_the_connection(provider: Provider, stream: bool) -> None:
    """CX-05, LS-16: the answer to a cancel does not wait for the provider."""
    events = EventStream(chat_bodies.text_chunks("abc" * 100), pause=0.05)
    async with ProviderDouble([events if stream else Hang()]) as double:
        heard: list[Exchange] = []
        live = provider.source(api_base=f"{double.url}/v1", on_exchange=lambda _, exchange: heard.append(exchange))
        task = asyncio.create_task(ask(live, stream=stream))
        await double.arrived.wait()
        began = time.monotonic()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert time.monotonic() - began < 1
        await asyncio.wait_for(double.requests[0].abandoned.wait(), 3)
        assert heard == []


async def test_an_error_amid_a_stream_ends_the_call(provider: Provider) -> None:
    """A dialect that finds an error in an event does not leave the provider talking to nobody."""

    def fail(_: Delta) -> None:
        raise ProviderFailure(FailureKind.OVERLOADED, "an event said so")

    async with ProviderDouble([EventStream(chat_bodies.text_chunks("abc" * 100), pause=0.05)]) as double:
        with pytest.raises(ProviderFailure, match="an event said so"):
            await source(provider, double).ask(DIALECT, query(), stream=True, on_delta=fail)
        await asyncio.wait_for(double.requests[0].abandoned.wait(), 3)


async def test_a_streamed_reply_comes_in_pieces(provider: Provider) -> None:
    pieces = ["one ", "two\u2028", "three"]
    told: list[str] = []
    async with ProviderDouble([EventStream(chat_bodies.text_chunks(pieces))]) as double:
        reply = await source(provider, double).ask(
            DIALECT, query(), stream=True, on_delta=lambda delta: told.append(delta.text)
        )
    assert told == pieces
    assert reply.text == "".join(pieces)
    assert reply.usage.output_tokens == 7
    assert double.bodies[0]["stream_options"] == {"include_usage": True}


async def test_a_long_stream_may_take_longer_than_the_time_limit(provider: Provider) -> None:
    """The limit is for the wait between two events, else no long reply could be streamed."""
    async with ProviderDouble([EventStream(chat_bodies.text_chunks("abcdef"), pause=0.12)]) as double:
        reply = await ask(source(provider, double, timeout=0.6), stream=True)
    assert reply.text == "abcdef"


async def test_a_stream_of_html_is_no_empty_success(provider: Provider) -> None:
    async with ProviderDouble([Answer("<html>log in</html>", content_type="text/html")]) as double:
        failed = await failure(source(provider, double), stream=True)
    assert failed.kind is FailureKind.MALFORMED_REPLY


async def test_a_cut_stream_is_a_failure(provider: Provider) -> None:
    """DL-08: a stream that ends without its terminal event is never a reply."""
    cut = EventStream(chat_bodies.text_chunks("ab")[:2], cut=True)
    async with ProviderDouble([cut]) as double:
        failed = await failure(source(provider, double), stream=True)
    assert failed.kind is FailureKind.CONNECTION


async def test_an_unknown_provider_prints_nothing_into_the_lines(provider: Provider) -> None:
    """LS-01: litellm prints a list of providers for this name; the lines between the processes stay whole."""
    with pytest.raises(ProviderFailure) as raised:
        await provider.source(timeout=5).ask(DIALECT, query("nobody/nothing"), stream=False, on_delta=ignore)
    assert raised.value.kind is FailureKind.BAD_REQUEST
    async with ProviderDouble([Answer(chat_bodies.reply("hi"))]) as double:
        assert (await ask(source(provider, double))).text == "hi"


async def test_a_killed_worker_fails_its_calls_and_is_started_again(provider: Provider) -> None:
    async with ProviderDouble([Hang(), Answer(chat_bodies.reply("back"))]) as double:
        task = asyncio.create_task(failure(source(provider, double)))
        await double.arrived.wait()
        os.kill((await provider.worker().running()).pid, signal.SIGKILL)
        failed = await asyncio.wait_for(task, 3)
        assert failed.kind is FailureKind.WORKER_DIED
        assert "signal 9" in str(failed)
        assert (await ask(source(provider, double))).text == "back"


async def test_a_growing_conversation_arrives_whole(provider: Provider) -> None:
    """Only what is new is sent to the worker; the provider gets all of it, also from a worker that was just started."""
    done = Answer(chat_bodies.reply("ok"))
    async with ProviderDouble([done, done, done]) as double:
        live = source(provider, double)
        history: list[Message] = [UserMessage("one")]
        expected = []
        for number in range(3):
            if number == 2:
                worker = await provider.worker().running()
                os.kill(worker.pid, signal.SIGKILL)
                await worker.died()
            query = Query("openai/m", "Be brief.", list(history))
            expected.append(DIALECT.encode(query)["messages"])
            reply = await live.ask(DIALECT, query, stream=False, on_delta=ignore)
            history += [AssistantTurn(reply, ()), UserMessage(f"more {number}")]
        await live.close()
    assert [body["messages"] for body in double.bodies] == expected


async def test_offline_and_a_missing_key_never_reach_the_worker() -> None:
    """CO-05: the variable is named before anything is sent."""
    offline = Provider(environment(HANDRAIL_OFFLINE="1"))
    assert (await failure(offline.source())).kind is FailureKind.OFFLINE
    keyless = Provider({"PATH": os.environ["PATH"]})
    failed = await failure(keyless.source())
    assert failed.kind is FailureKind.AUTHENTICATION
    assert "OPENAI_API_KEY" in str(failed)
