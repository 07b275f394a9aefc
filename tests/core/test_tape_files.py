"""The shipped tapes: one story in every dialect, streamed and not, failures included, gives the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_core.dialects import Delta, dialect_for
from agent_core.model import Model
from agent_core.tape import Tape, TapeSource
from agent_core.types import AssistantTurn, Message, Observation, UserMessage

TAPES = sorted((Path(__file__).parent.parent / "tapes").glob("*.json"))
COMMANDS = ["ls", "cat missing.txt", "python -m pytest -q"]


@pytest.mark.parametrize("path", TAPES, ids=lambda path: path.stem)
async def test_every_tape_tells_the_same_story(path: Path) -> None:
    tape = Tape.load(path)
    source = TapeSource(tape)
    heard: list[Delta] = []

    async def no_sleep(_: float) -> None: ...

    model = Model(tape.model, dialect_for(tape.model, tape.dialect), source, sleep=no_sleep)
    history: list[Message] = [UserMessage("Repair the tests.")]
    commands: list[str] = []
    while True:
        reply = await model.query("", history, on_delta=heard.append, on_retry=lambda _: None)
        keys = tuple(f"{len(history)}.{number}" for number in range(len(reply.calls)))
        history += [AssistantTurn(reply, keys), *(Observation(key, "seen", is_error=True) for key in keys)]
        commands += [json.loads(call.arguments)["command"] for call in reply.calls]
        if not reply.calls:
            break
    first = next(message.reply for message in history if isinstance(message, AssistantTurn))
    assert commands == COMMANDS
    assert reply.text == "The tests pass now."
    assert first.text.startswith("I look around first.")
    assert first.reasoning == ("" if tape.dialect == "text" else "First look around.")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (11, 7)
    assert source.remarks() == ()
    if "streamed" in path.stem:
        shown = "".join(delta.text for delta in heard if delta.channel == "text")
        assert shown == "I look around first.The tests pass now."


def test_there_is_a_tape_for_every_dialect() -> None:
    assert {Tape.load(path).dialect for path in TAPES} == {"chat", "responses", "anthropic", "text"}
