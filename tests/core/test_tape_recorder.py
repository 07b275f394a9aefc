"""Recording: what is written replays, holds no secret, and tells what differs from another day's."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_core.dialects import Query
from agent_core.errors import ProviderFailure, SettingsError
from agent_core.redaction import Masker
from agent_core.source import Exchange
from agent_core.tape import Tape, TapeSource
from agent_core.tape_difference import tape_differences
from agent_core.tape_recorder import Recorder
from agent_core.types import AssistantTurn, FailureKind, Message, ModelReply, Observation, UserMessage
from tests.wire import chat_bodies
from tests.wire.plain_dialect import PlainDialect

CANARY = "canary-9f8e7d6c5b4a"
MASKER = Masker.from_sources({"OPENAI_API_KEY": CANARY}, "", ("OPENAI_API_KEY",))
TWO_CALLS = chat_bodies.reply("", [chat_bodies.call("a", "ls"), chat_bodies.call("b", "pwd")])


def recorder(path: Path, workspace: str = "/w/here", masker: Masker = MASKER) -> Recorder:
    return Recorder(path, model="m", dialect="chat", masker=masker, workspace=workspace)


def record(
    recorder: Recorder, history: list[Message], *, body: Any = None, events: Any = None, failure: Any = None
) -> None:
    """Record one call and, if it gave a reply, lengthen the history by it and a result for each of its calls."""
    reply: ModelReply | None = None
    if body is not None:
        reply = PlainDialect().decode(body)
    elif events is not None:
        assembler = PlainDialect().assembler()
        for event in events:
            assembler.feed(event)
        reply = assembler.finish()
    exchange = Exchange("chat", body=body, events=events, failure=failure, latency_ms=5, reply=reply)
    recorder.take(Query("m", "Be brief.", list(history)), exchange)
    if reply is not None:
        keys = tuple(f"{len(history)}-{number}" for number in range(len(reply.calls)))
        history.append(AssistantTurn(reply, keys))
        history += [Observation(key, "done in 0.3s at /w/here") for key in keys]


def whole_run(path: Path) -> list[Message]:
    history: list[Message] = [UserMessage("list it")]
    taker = recorder(path)
    record(taker, history, failure={"status": 429, "retry_after": "2", "body": "", "error": "RateLimitError"})
    record(taker, history, body=TWO_CALLS)
    record(taker, history, events=tuple(chat_bodies.text_chunks(["one ", "tw\u2028o"])[:-1]))
    assert taker.problem == ""
    return history


async def next_reply(source: TapeSource, query: Query) -> ModelReply:
    """Pass over the recorded failure."""
    try:
        return await source.ask(PlainDialect(), query, stream=False, on_delta=lambda _: None)
    except ProviderFailure as failure:
        if failure.kind is not FailureKind.RATE_LIMIT:
            raise
    return await next_reply(source, query)


async def replay(path: Path, history: list[Message], *, strict: bool, workspace: str = "/w/here") -> TapeSource:
    """Replay against the same conversation, as far as it goes."""
    source = TapeSource(Tape.load(path), strict=strict, workspace=workspace)
    turns = [index for index, message in enumerate(history) if isinstance(message, AssistantTurn)]
    for index in turns:
        query = Query("m", "Be brief.", history[:index])
        assert await next_reply(source, query) == history[index].reply  # type: ignore[union-attr]
    return source


async def test_a_recording_replays_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    history = whole_run(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["format"] == "handrail.recording/1"
    tape = Tape.load(path)
    assert tape.prompts == ("list it",)
    assert (await replay(path, history, strict=False)).remarks() == ()


async def test_a_body_that_is_no_reply_fails_again_and_counts_as_no_turn(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    history: list[Message] = [UserMessage("go")]
    taker = recorder(path)
    filtered = chat_bodies.reply(choices=[])
    for query_history in (list(history), list(history)):
        taker.take(Query("m", "", query_history), Exchange("chat", body=filtered))
    record(taker, history, body=TWO_CALLS)
    record(taker, history, body=chat_bodies.reply("done"))
    source = TapeSource(Tape.load(path))
    for _ in range(2):
        with pytest.raises(ProviderFailure, match=r"^Frame \d of the tape .*run.json: .*no choices"):
            await source.ask(PlainDialect(), Query("m", "", history[:1]), stream=False, on_delta=lambda _: None)
    resumed = TapeSource(Tape.load(path))
    assert (await next_reply(resumed, Query("m", "", history[:-1]))).text == "done"


async def test_strict_replay_names_what_is_not_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    history = whole_run(path)
    moved = [
        Observation(message.call_key, "done in 9.9s at /elsewhere") if isinstance(message, Observation) else message
        for message in history
    ]
    assert (await replay(path, moved, strict=True, workspace="/elsewhere")).left_over == 0
    moved[3] = Observation("1-1", "something else")
    with pytest.raises(ProviderFailure, match="the result of call b"):
        await replay(path, moved, strict=True, workspace="/elsewhere")
    assert (await replay(path, moved, strict=False)).left_over == 0


async def test_bare_frames_cannot_be_replayed_strictly() -> None:
    source = TapeSource(Tape.parse(json.dumps({"frames": [TWO_CALLS]}), "t.json"), strict=True)
    with pytest.raises(ProviderFailure, match="does not tell what was sent"):
        await source.ask(PlainDialect(), Query("m", "", [UserMessage("x")]), stream=False, on_delta=lambda _: None)


def test_secrets_are_masked_everywhere(tmp_path: Path) -> None:
    """SE-06: grep the file for the canary."""
    path = tmp_path / "run.json"
    taker = recorder(path)
    history: list[Message] = [UserMessage(f"my key is {CANARY}")]
    record(taker, history, failure={"status": 401, "body": f"bad key {CANARY}", "error": CANARY})
    record(taker, history, body=chat_bodies.reply(f"it is {CANARY}", [chat_bodies.call(CANARY, f"echo {CANARY}")]))
    assert taker.problem == ""
    assert CANARY not in path.read_text()
    assert "<masked:OPENAI_API_KEY>" in path.read_text()
    assert len(Tape.load(path).frames) == 2


def test_a_secret_split_over_events_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    taker = recorder(path)
    history: list[Message] = [UserMessage("go")]
    record(taker, history, body=chat_bodies.reply("fine"))
    record(taker, history, events=tuple(chat_bodies.text_chunks([CANARY[:9], CANARY[9:]])[:-1]))
    record(taker, history, body=chat_bodies.reply("after"))
    assert "frame 2 still held OPENAI_API_KEY" in taker.problem
    assert CANARY[9:] not in path.read_text()
    assert len(Tape.load(path).frames) == 1


def test_a_recording_is_continued_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    history = whole_run(path)
    record(recorder(path), history, body=chat_bodies.reply("more"))
    tape = Tape.load(path)
    assert len(tape.frames) == 4
    assert tape.frames[3].about["request"]["turn"] == 3
    other = tmp_path / "mine.json"
    other.write_text("{}")
    with pytest.raises(SettingsError, match=r"mine\.json"):
        recorder(other)
    assert other.read_text() == "{}"
    with pytest.raises(SettingsError, match="cannot be written"):
        recorder(tmp_path / "missing" / "run.json")


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    record(recorder(path), [UserMessage("go")], body=chat_bodies.reply("half \ud83d of a pair"))
    body = Tape.load(path).frames[0].body
    assert body["choices"][0]["message"]["content"] == "half \ud83d of a pair"


async def test_edits_and_left_over_frames_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    history = whole_run(path)
    value = json.loads(path.read_text())
    value["frames"][1]["body"]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "{}"
    value["frames"][1]["body"]["new_member"] = 1
    value["frames"].append(TWO_CALLS)
    path.write_text(json.dumps(value))
    source = TapeSource(Tape.load(path))
    await next_reply(source, Query("m", "", history[:1]))
    first, second, third = source.remarks()
    assert "Frame 2" in first
    assert "edited" in first
    assert "read otherwise" in second
    assert "2 of the 4 frames" in third


@pytest.mark.parametrize(
    ("recorded_at", "words"),
    [("2026-01-01T00:00:00Z", "120 days old"), ("2026-04-30", ""), ("long ago", "does not tell")],
)
def test_the_age_is_told(recorded_at: str, words: str) -> None:
    text = json.dumps({"model": "m", "recorded_at": recorded_at, "frames": []})
    assert words in (remark := Tape.parse(text, "t").age_remark(datetime(2026, 5, 1, tzinfo=UTC)))
    assert bool(words) == bool(remark)


def test_differences_between_two_days_are_told(tmp_path: Path) -> None:
    whole_run(tmp_path / "old.json")
    whole_run(tmp_path / "same.json")
    old, same = Tape.load(tmp_path / "old.json"), Tape.load(tmp_path / "same.json")
    assert tape_differences(old, same) == []
    history: list[Message] = [UserMessage("list it")]
    taker = recorder(tmp_path / "new.json")
    record(taker, history, body=chat_bodies.reply("hello"))
    changed = chat_bodies.reply("", [chat_bodies.call("x", "ls -a")], a_new_member=1)
    del changed["created"]
    record(taker, history, body=changed)
    lines = tape_differences(old, Tape.load(tmp_path / "new.json"))
    assert lines[0] == "frame 1: a failure (429) then, a reply now"
    assert 'frame 2: called {"command": "ls"}, {"command": "pwd"} then, {"command": "ls -a"} now' in lines
    assert "frame 2: now sends a_new_member:number" in lines
    assert "frame 2: no longer sends created:number" in lines
    assert lines[-1] == "frames: 3 then, 2 now"
