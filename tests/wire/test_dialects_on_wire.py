"""What really leaves for each kind of provider, through the worker and litellm, is accepted by a strict one."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent_core.dialects import Query, dialect_for
from agent_core.parsing import Actions, parse
from agent_core.provider import Provider
from agent_core.types import Message, Observation, UserMessage
from tests.core.replies import (
    anthropic_body,
    bash,
    chat_body,
    function_call,
    output_message,
    reasoning_item,
    responses_body,
    text_block,
    thinking_block,
    tool_use,
    turn,
)
from tests.wire.double import Answer, ProviderDouble
from tests.wire.strict import check

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[Provider]:
    names = ("OPENAI", "ANTHROPIC", "MISTRAL", "DEEPSEEK")
    provider = Provider({"PATH": os.environ["PATH"], **{f"{name}_API_KEY": f"sk-{name}" for name in names}})
    provider.warm_up()
    yield provider
    await provider.close()


# Nine letters and digits, since that is what Mistral itself makes.
CHAT = chat_body("I look.", [bash("a1B2c3D4e", "ls"), bash("a1B2c3D4f", "pwd")], reasoning_content="hm")
ANTHROPIC = anthropic_body(
    thinking_block("hm", "S+/="), text_block("I look."), tool_use("toolu_1", "ls"), tool_use("toolu_2", "pwd")
)
RESPONSES = responses_body(
    reasoning_item("hm"), output_message("I look."), function_call("call_1", "ls"), function_call("call_2", "pwd")
)
BODIES = {"chat": CHAT, "anthropic": ANTHROPIC, "responses": RESPONSES}


async def second_request(
    provider: Provider, name: str, model: str, first: dict[str, Any], end: str = ""
) -> dict[str, Any]:
    """Return what arrives after a reply with two calls, of which one was rejected, and a prompt."""
    dialect = dialect_for(model, name)
    history: list[Message] = [UserMessage("task")]
    async with ProviderDouble([Answer(first)] * 5) as double:  # litellm asks some servers about the model as well
        source = provider.source(api_base=double.url + end, timeout=10)
        for _ in range(2):
            query = Query(model, "You help.", history, 500)
            reply = await source.ask(dialect, query, stream=False, on_delta=lambda _: None)
            parsed = parse(reply, "reply")
            assert isinstance(parsed, Actions)
            assert [action.command for action in parsed.actions] == ["ls", "pwd"]
            said = turn(reply, "k1", "k2")
            history += [said, Observation("k1", "files"), Observation("k2", "Rejected.", is_error=True)]
            history.append(UserMessage("and now"))
    bodies: list[dict[str, Any]] = [
        request.body for request in double.requests if {"messages", "input"} & {*request.body}
    ]
    assert len(bodies) == 2
    return bodies[1]


@pytest.mark.parametrize(
    ("name", "model", "end"),
    [
        ("chat", "openai/gpt-test", "/v1"),
        ("chat", "mistral/mistral-test", "/v1"),
        ("chat", "deepseek/deepseek-test", ""),
        ("anthropic", "anthropic/claude-test", ""),
        ("responses", "openai/gpt-5-test", "/v1"),
    ],
)
async def test_the_request_after_two_calls_is_accepted(provider: Provider, name: str, model: str, end: str) -> None:
    body = await second_request(provider, name, model, BODIES[name], end)
    check(name, body, model.partition("/")[0])
    text = json.dumps(body)
    for said in ("I look.", "files", "Rejected.", "and now"):
        assert said in text
    assert ("hm" in text) is (model != "openai/gpt-test" and "mistral" not in model)


async def test_dl_22_ollama_gets_arguments_as_objects_from_the_same_history(provider: Provider) -> None:
    calls = [{"function": {"name": "bash", "arguments": {"command": command}}} for command in ("ls", "pwd")]
    first = {
        "model": "small",
        "message": {"role": "assistant", "content": "I look.", "tool_calls": calls},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 5,
        "eval_count": 5,
    }
    body = await second_request(provider, "chat", "ollama_chat/small", first)
    given = [call["function"]["arguments"] for message in body["messages"] for call in message.get("tool_calls") or ()]
    assert given == [{"command": "ls"}, {"command": "pwd"}]
    assert [message["role"] for message in body["messages"]][-4:] == ["assistant", "tool", "tool", "user"]
