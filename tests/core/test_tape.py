"""Tapes: frames come once, in order, and only to the conversation they were recorded for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.dialects import Query
from agent_core.errors import ProviderFailure, SettingsError
from agent_core.tape import Tape, TapeSource
from agent_core.types import AssistantTurn, FailureKind, Message, ModelReply, Observation, UserMessage
from tests.wire import chat_bodies
from tests.wire.plain_dialect import PlainDialect


def tape(*frames: dict[str, Any], **members: Any) -> Tape:
    value = {"model": "m", "recorded_at": "2026-09-24T10:00:00Z", "dialect": "chat", "frames": frames, **members}
    return Tape.parse(json.dumps(value), "t.json")


TWO_CALLS = chat_bodies.reply("", [chat_bodies.call("a", "ls"), chat_bodies.call("b", "pwd")])
DONE = chat_bodies.reply("done")


class Conversation:
    """Feeds a source the history that its own replies make."""

    def __init__(self, source: TapeSource) -> None:
        self.source = source
        self.history: list[Message] = [UserMessage("go")]
        self.deltas: list[str] = []

    async def ask(self) -> ModelReply:
        query = Query("m", "", self.history)
        return await self.source.ask(
            PlainDialect(), query, stream=False, on_delta=lambda delta: self.deltas.append(delta.text)
        )

    async def step(self, answered: Sequence[int] | None = None) -> ModelReply:
        reply = await self.ask()
        keys = tuple(f"{len(self.history)}-{number}" for number in range(len(reply.calls)))
        self.history.append(AssistantTurn(reply, keys))
        self.history += [Observation(key, "ok") for n, key in enumerate(keys) if answered is None or n in answered]
        return reply

    async def failure(self) -> ProviderFailure:
        with pytest.raises(ProviderFailure) as raised:
            await self.ask()
        return raised.value


async def test_frames_come_in_order_and_the_end_is_told() -> None:
    talk = Conversation(TapeSource(tape(TWO_CALLS, DONE)))
    assert [call.id for call in (await talk.step()).calls] == ["a", "b"]
    assert (await talk.step()).text == "done"
    talk.history.append(UserMessage("more"))
    failed = await talk.failure()
    assert failed.kind is FailureKind.TAPE
    assert "ended after 2 frames" in str(failed)


async def test_a_conversation_that_answers_other_calls_is_told() -> None:
    talk = Conversation(TapeSource(tape(TWO_CALLS, DONE)))
    await talk.step(answered=[0])
    failed = await talk.failure()
    assert "answers to a, b" in str(failed)
    assert "answers a." in str(failed)


async def test_a_frame_of_another_turn_is_told() -> None:
    late = {"$frame": {"request": {"turn": 5, "answers": ["a", "b"]}}, "body": DONE}
    talk = Conversation(TapeSource(tape(TWO_CALLS, late)))
    await talk.step()
    assert "recorded for turn 5, but this is turn 2" in str(await talk.failure())


async def test_a_resumed_conversation_goes_on_where_it_was() -> None:
    """The place is found from the history, recorded failures included."""
    busy = {"$frame": {"status": 503}, "body": {"error": {"message": "busy"}}}
    frames = (busy, TWO_CALLS, busy, DONE)
    talk = Conversation(TapeSource(tape(*frames)))
    assert (await talk.failure()).kind is FailureKind.OVERLOADED
    await talk.step()
    resumed = Conversation(TapeSource(tape(*frames)))
    resumed.history = talk.history
    assert (await resumed.failure()).kind is FailureKind.OVERLOADED
    assert (await resumed.step()).text == "done"
    assert resumed.source.left_over == 0


async def test_recorded_failures_are_failures() -> None:
    frames = (
        {"$frame": {"status": 429, "headers": {"retry-after": "3"}}, "body": {"error": {"message": "slow"}}},
        {"$frame": {"kind": "raise", "error": "timeout"}},
    )
    talk = Conversation(TapeSource(tape(*frames)))
    first = await talk.failure()
    assert (first.kind, first.retry_after) == (FailureKind.RATE_LIMIT, 3.0)
    assert (await talk.failure()).kind is FailureKind.TIMEOUT


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_streamed_frame_goes_through_the_assembler(as_text: bool) -> None:
    events = chat_bodies.text_chunks(["one ", "two"])
    if as_text:
        text = "".join(f"event: x\ndata: {e if isinstance(e, str) else json.dumps(e)}\n\n" for e in events)
        frame = {"$frame": {"kind": "sse"}, "body_text": text}
    else:
        frame = {"$frame": {"kind": "sse"}, "events": events[:-1]}
    talk = Conversation(TapeSource(tape(frame)))
    assert (await talk.step()).text == "one two"
    assert talk.deltas == ["one ", "two"]


async def test_replies_do_not_share_the_tapes_values() -> None:
    source = tape(DONE)
    reply = await Conversation(TapeSource(source)).step()
    assert reply.text == "done"
    assert source.frames[0].body == DONE


async def test_the_newest_turn_alone_is_looked_at() -> None:
    class Counted(list[Message]):
        looked = 0

        def __reversed__(self) -> Any:
            for item in super().__reversed__():
                Counted.looked += 1
                yield item

        def __iter__(self) -> Any:
            Counted.looked += len(self)
            return super().__iter__()

    calls = [chat_bodies.reply("", [chat_bodies.call(f"c{n}", "ls")]) for n in range(50)]
    talk = Conversation(TapeSource(tape(*calls)))
    talk.history = Counted(talk.history)
    for _ in range(40):
        await talk.step()
    Counted.looked = 0
    await talk.step()
    assert Counted.looked <= 3


async def test_another_dialect_is_refused() -> None:
    talk = Conversation(TapeSource(tape(DONE, dialect="anthropic.messages")))
    assert "recorded in the dialect anthropic, but chat is set" in str(await talk.failure())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ('{"model": "m"}', "no list `frames`"),
        ('{"format": "other/9", "frames": []}', "other/9"),
        ('{"frames": [{"$frame": 1}]}', "frame 1"),
    ],
)
def test_what_is_no_tape_is_told(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Tape.parse(text, "t.json")


def test_the_dialect_is_guessed_by_shape() -> None:
    assert Tape.parse(json.dumps({"frames": [{"type": "message"}]}), "t").dialect == "anthropic"
    assert Tape.parse(json.dumps({"frames": [{"object": "response"}]}), "t").dialect == "responses"
    assert Tape.parse(json.dumps({"frames": [DONE]}), "t").dialect == "chat"
