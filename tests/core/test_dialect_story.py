"""One story through every dialect: the same transcript, and a session that may go on in any other dialect."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agent_core.dialects import Query, dialect_for
from agent_core.dialects.text import FENCE
from agent_core.parsing import Actions, parse
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
from tests.wire.strict import check

MODELS = {
    "chat": "deepseek/deepseek-test",
    "responses": "openai/gpt-5-codex",
    "anthropic": "anthropic/claude-test",
    "text": "ollama/small",
}

FIRST, SECOND = "cat notes.txt", "make test"
REJECTED = Observation("k1", "The person rejected this command: not that file.", is_error=True)
FAILING = Observation("k2", "<exit_code>2</exit_code>\nmake: no rule 'test'")


def written(command: str) -> dict[str, Any]:
    return chat_body(f"I look.\n```{FENCE}\n{command}\n```", reasoning_content="hm")


BODIES: dict[str, list[dict[str, Any]]] = {
    "chat": [chat_body("I look.", [bash("a", FIRST), bash("b", SECOND)], reasoning_content="hm")],
    "responses": [
        responses_body(
            reasoning_item("hm"), output_message("I look."), function_call("a", FIRST), function_call("b", SECOND)
        )
    ],
    "anthropic": [
        anthropic_body(thinking_block("hm", "S+/="), text_block("I look."), tool_use("a", FIRST), tool_use("b", SECOND))
    ],
    "text": [written(FIRST), written(SECOND)],  # one command per reply is all that this dialect can say
}


def story(name: str) -> list[Message]:
    """Return the history after both calls, one rejected and one failing."""
    history: list[Message] = [UserMessage("Repair it.")]
    observations = iter([REJECTED, FAILING])
    for body in BODIES[name]:
        reply = dialect_for(MODELS[name], name).decode(body)
        parsed = parse(reply, "reply")
        assert isinstance(parsed, Actions)
        mine = list(itertools.islice(observations, len(parsed.actions)))
        history += [turn(reply, *(each.call_key for each in mine)), *mine]
    return history


def transcript(history: list[Message]) -> list[tuple[str, str]]:
    """Return the commands with what was told about each, and the rest of the story, in one form for all dialects."""
    replies = [message.reply for message in history if hasattr(message, "reply")]
    parsed = [parse(reply, "reply") for reply in replies]
    commands = [action.command for each in parsed if isinstance(each, Actions) for action in each.actions]
    told = [message.text for message in history if isinstance(message, Observation)]
    said = {reply.text.partition("\n")[0] for reply in replies} | {reply.reasoning for reply in replies}
    return [*zip(commands, told, strict=True), *(("said", each) for each in sorted(said))]


def test_the_same_story_gives_the_same_transcript_in_every_dialect() -> None:
    transcripts = [transcript(story(name)) for name in MODELS]
    assert transcripts == [transcripts[0]] * len(MODELS)
    assert transcripts[0][:2] == [(FIRST, REJECTED.text), (SECOND, FAILING.text)]


@pytest.mark.parametrize(("made_in", "goes_on_in"), list(itertools.product(MODELS, MODELS)))
def test_a_session_of_one_dialect_goes_on_in_any_other(made_in: str, goes_on_in: str) -> None:
    model = MODELS[goes_on_in]
    history = [*story(made_in), UserMessage("Go on.")]
    body = dialect_for(model, goes_on_in).encode(Query(model, "You help.", history))
    check(goes_on_in, body)
    wire = repr(body)
    for text in (FIRST, SECOND, "I look.", "not that file", "make: no rule", "Go on."):
        assert text in wire
    own_thinking = {"chat": "hm", "responses": "gAAA+/=", "anthropic": "S+/="}.get(goes_on_in, "")
    if made_in == goes_on_in:
        assert own_thinking in wire
    elif goes_on_in != "chat":  # this vendor wants the reasoning of every turn, whoever made it
        assert "'hm'" not in wire
