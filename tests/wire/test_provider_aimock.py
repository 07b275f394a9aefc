"""Whole turns against a peer nobody here wrote, in every dialect that it speaks, streamed and not."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from agent_core.dialects import Query, dialect_for
from agent_core.errors import ProviderFailure
from agent_core.provider import LiveSource, Provider
from agent_core.types import AssistantTurn, FailureKind, Finish, Message, Observation, UserMessage
from tests.wire import aimock

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMMANDS = ["ls -a", "pwd"]
FIXTURES = [
    {"match": {"userMessage": "list it", "hasToolResult": True}, "response": {"content": "It holds one file."}},
    {
        "match": {"userMessage": "list it"},
        "response": {
            "toolCalls": [{"name": "bash", "arguments": json.dumps({"command": command})} for command in COMMANDS]
        },
    },
]
MODELS = [
    ("openai/gpt-4o", "chat", "/v1"),
    ("openai/gpt-4o", "responses", "/v1"),
    ("anthropic/claude-sonnet-4-5", "anthropic", ""),
    ("ollama_chat/llama3", "chat", ""),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[Provider]:
    aimock.installed()
    keys = {"OPENAI_API_KEY": "sk-one", "ANTHROPIC_API_KEY": "sk-two"}
    provider = Provider({"PATH": os.environ["PATH"], **keys})
    provider.warm_up()
    yield provider
    await provider.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with aimock.running(FIXTURES, tmp_path_factory.mktemp("aimock")) as url:
        yield url


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "dialect_name", "path"), MODELS)
async def test_two_parallel_calls_and_their_results(
    provider: Provider, url: str, model: str, dialect_name: str, path: str, stream: bool
) -> None:
    dialect = dialect_for(model, dialect_name)
    source = provider.source(api_base=url + path, timeout=20)
    history: list[Message] = [UserMessage("list it")]

    async def ask() -> AssistantTurn:
        query = Query(model, "Be brief.", history, max_tokens=500)
        reply = await source.ask(dialect, query, stream=stream, on_delta=lambda _: None)
        return AssistantTurn(reply, tuple(f"key-{number}" for number in range(len(reply.calls))))

    turn = await ask()
    assert turn.reply.finish is Finish.TOOL_CALLS
    assert [json.loads(call.arguments) for call in turn.reply.calls] == [{"command": each} for each in COMMANDS]
    history += [turn, Observation("key-0", "README.md"), Observation("key-1", "denied", is_error=True)]
    last = (await ask()).reply
    assert (last.text, last.finish, last.calls) == ("It holds one file.", Finish.STOP, ())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "dialect_name", "path"), MODELS[:3])
async def test_chaos_gives_typed_failures(
    provider: Provider, url: str, model: str, dialect_name: str, path: str, stream: bool
) -> None:
    source = provider.source(api_base=url + path, timeout=20)
    kinds = [
        await _failure_in_chaos(source, url, model, dialect_name, stream, rate)
        for rate in ("dropRate", "malformedRate", "disconnectRate")
    ]
    assert kinds[0] is FailureKind.SERVER_ERROR
    assert kinds[1] is FailureKind.MALFORMED_REPLY
    assert kinds[2] is FailureKind.CONNECTION


async def _failure_in_chaos(
    source: LiveSource, url: str, model: str, dialect_name: str, stream: bool, rate: str
) -> FailureKind:
    query = Query(model, "", [UserMessage("list it")], max_tokens=500)
    aimock.set_chaos(url, **{rate: 1.0})
    try:
        with pytest.raises(ProviderFailure) as raised:
            await source.ask(dialect_for(model, dialect_name), query, stream=stream, on_delta=lambda _: None)
    finally:
        aimock.set_chaos(url)
    return raised.value.kind
