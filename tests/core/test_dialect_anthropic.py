"""Anthropic Messages both ways, plain and streamed, checked by a strict provider."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.dialects import Delta, Query, dialect_for
from agent_core.errors import ProviderFailure
from agent_core.parsing import Actions, FormatError, parse
from agent_core.types import FailureKind, Finish, Message, ModelReply, Observation, UserMessage
from tests.core.replies import (
    anthropic_body,
    bash,
    call,
    chat_body,
    reply,
    results,
    text_block,
    thinking_block,
    tool_use,
    turn,
)
from tests.wire.strict import check

CLAUDE = "anthropic/claude-test"


def body_for(history: Sequence[Message], model: str = CLAUDE, provider: str = "") -> dict[str, Any]:
    body = dialect_for(model, "anthropic").encode(Query(model, "You help.", history))
    check("anthropic", body, provider)
    return body


def encode(history: Sequence[Message], model: str = CLAUDE) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = body_for(history, model)["messages"]
    return messages


def decode(body: dict[str, Any], model: str = CLAUDE) -> ModelReply:
    return dialect_for(model, "anthropic").decode(body)


def answered(body: dict[str, Any], model: str = CLAUDE) -> list[Message]:
    said = turn(decode(body, model))
    return [UserMessage("task"), said, *results(said, *["done"] * len(said.reply.calls))]


def ids(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]


def bare(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def test_the_dialect_follows_from_the_name() -> None:
    for model in ("anthropic/claude-5", "claude-opus-5"):
        assert dialect_for(model, None).name == "anthropic"


def test_a_request_holds_the_system_text_apart_and_a_number_of_tokens() -> None:
    body = body_for([UserMessage("task")])
    assert [bare(block) for block in body["system"]] == [text_block("You help.")]
    assert [bare(block) for block in body["messages"][0]["content"]] == [text_block("task")]
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 10_000}}
    query = Query(CLAUDE, "", [UserMessage("task")], None, thinking)
    assert dialect_for(CLAUDE).encode(query)["max_tokens"] > 10_000
    assert dialect_for(CLAUDE).encode(Query(CLAUDE, "", [], 55))["max_tokens"] == 55


def test_id_04_dots_and_colons_are_rewritten_on_both_sides_and_kept_in_the_record() -> None:
    said = turn(dialect_for("moonshot/kimi").decode(chat_body(calls=[bash("functions.bash:0", "ls")])))
    history: list[Message] = [UserMessage("task"), said, *results(said, "done")]
    messages = encode(history)
    assert ids(messages) == [messages[2]["content"][0]["tool_use_id"]]
    assert ids(messages) != ["functions.bash:0"]
    assert said.reply.calls[0].id == "functions.bash:0"


def test_id_05_two_ids_never_become_one() -> None:
    one, two = turn(reply(call("a.b:0", "ls")), "k1"), turn(reply(call("a_b_0", "pwd")), "k2")
    history: list[Message] = [UserMessage("t"), one, *results(one, "1"), two, *results(two, "2")]
    first, second = ids(encode(history))
    assert second == "a_b_0"
    assert first != second


def test_id_10_and_11_damaged_histories() -> None:
    said = turn(reply(call("A", "ls"), call("B", "pwd")), "k1", "k2")
    history: list[Message] = [Observation("x", "?"), UserMessage("t"), said, Observation("k1", "1"), UserMessage("go")]
    answers = encode(history)[2]["content"]
    assert [block["type"] for block in answers] == ["tool_result", "tool_result", "text"]
    assert answers[1]["is_error"] is True
    assert "not executed" in answers[1]["content"]


def test_dl_10_thinking_goes_back_before_the_call_byte_for_byte() -> None:
    thinking, hidden = thinking_block("T \u2028 é", "S1+/=="), {"type": "redacted_thinking", "data": "D+/="}
    messages = encode(answered(anthropic_body(thinking, hidden, tool_use("c1", "ls"))))
    assert messages[1]["content"][:2] == [thinking, hidden]
    assert messages[1]["content"][2]["type"] == "tool_use"


def test_thinking_of_one_vendor_is_not_sent_to_another() -> None:
    history = answered(anthropic_body(thinking_block("secret", "S"), text_block("I look"), tool_use("c1", "ls")))
    assert "secret" not in json.dumps(encode(history, "bedrock/claude"))
    chat = dialect_for("openai/gpt", None).encode(Query("openai/gpt", "", history))
    check("chat", chat, "openai")
    assert "secret" not in json.dumps(chat)
    assert chat["messages"][1]["content"] == "I look"


def test_unknown_blocks_are_kept_and_sent_back() -> None:
    block = {"type": "brand_new", "payload": {"a": [1, None]}}
    messages = encode(answered(anthropic_body(block, tool_use("c1", "ls", caller=None))))
    assert messages[1]["content"][0] == block
    assert "caller" not in messages[1]["content"][1]


def test_dl_16_one_user_message_with_all_results_in_order_then_the_users_text() -> None:
    said = turn(decode(anthropic_body(tool_use("A", "ls"), tool_use("B", "pwd"))))
    history: list[Message] = [UserMessage("t"), said, *results(said, "one", "two"), UserMessage("next")]
    dialect = dialect_for(CLAUDE, None)
    assert dialect.encode(Query(CLAUDE, "You help.", history)) == dialect.encode(Query(CLAUDE, "You help.", history))
    last = encode(history)[-1]
    assert [bare(block) for block in last["content"]] == [
        {"type": "tool_result", "tool_use_id": "A", "content": "one"},
        {"type": "tool_result", "tool_use_id": "B", "content": "two"},
        text_block("next"),
    ]


@pytest.mark.parametrize("blocks", [[text_block("")], [text_block(" \n")], []])
def test_dl_17_no_blank_text_block(blocks: list[dict[str, Any]]) -> None:
    assert [
        block["type"] for block in encode(answered(anthropic_body(*blocks, tool_use("c1", "ls"))))[1]["content"]
    ] == ["tool_use"]
    foreign = turn(reply(call("c1", "ls"), text=""))
    assert encode([UserMessage("t"), foreign, *results(foreign, "x")])[1]["content"][0]["type"] == "tool_use"


def test_dl_20_thinking_alone_is_no_answer_and_can_still_be_replayed() -> None:
    said = decode(anthropic_body(thinking_block("hm", "S"), text_block("")))
    assert isinstance(parse(said, "reply"), FormatError)
    messages = encode([UserMessage("t"), turn(said), UserMessage("No tool calls found.", "correction")])
    assert messages[1]["content"][0] == thinking_block("hm", "S")


def test_dl_23_the_error_flag_says_what_was_not_executed() -> None:
    said = turn(decode(anthropic_body(*(tool_use(name, "x") for name in "ABCD"))))
    flags = [False, False, True, True]
    observed = [Observation(key, "x", flag) for key, flag in zip(said.call_keys, flags, strict=True)]
    answers = encode([UserMessage("t"), said, *observed])[2]["content"]
    assert [block.get("is_error", False) for block in answers] == flags


def test_input_that_is_no_object_is_refused_and_never_replayed() -> None:
    for given in ("ls", ["ls"], None, 3):
        body = anthropic_body({**tool_use("c1"), "input": given})
        assert isinstance(parse(decode(body), "reply"), FormatError)
        assert encode(answered(body))[1]["content"][0]["input"] == {}


def test_empty_missing_and_repeated_ids() -> None:
    no_id = {key: value for key, value in tool_use("", "pwd").items() if key != "id"}
    history = answered(anthropic_body(tool_use("", "ls"), no_id, tool_use("X", "a"), tool_use("X", "b")))
    assert len(set(ids(encode(history)))) == 4


def test_marks_for_the_cache_stand_at_the_end_and_never_pile_up() -> None:
    dialect = dialect_for(CLAUDE, None)
    history: list[Message] = [UserMessage("t")]
    for step in range(6):
        said = turn(decode(anthropic_body(text_block("x"), tool_use(f"c{step}", "ls"))), f"k{step}")
        history += [said, *results(said, "done")]
        body = dialect.encode(Query(CLAUDE, "s", history))
        check("anthropic", body)
        assert body == dialect_for(CLAUDE, None).encode(Query(CLAUDE, "s", history))
        assert "cache_control" in body["system"][0]
        assert "cache_control" in body["messages"][-1]["content"][-1]


def test_a_masked_turn_and_one_of_another_dialect_go_out_normalised() -> None:
    said = turn(reply(call("c1", "ls"), text="Look", dialect="anthropic", model=CLAUDE, raw=""))
    assert encode([UserMessage("t"), said, *results(said, "x")])[1]["content"] == [
        text_block("Look"),
        tool_use("c1", "ls"),
    ]


def test_images_are_sent_only_when_asked_for_and_only_from_the_text_itself() -> None:
    def marked(url: str) -> str:
        return f"<MSWEA_MULTIMODAL_CONTENT><CONTENT_TYPE>image_url</CONTENT_TYPE>{url}</MSWEA_MULTIMODAL_CONTENT>"

    said = turn(decode(anthropic_body(tool_use("c1", "ls"))))
    text = f"before {marked('data:image/png;base64,iVBORw0=')} after {marked('https://evil.example/x.png')}"
    history: list[Message] = [UserMessage("t"), said, *results(said, text)]
    assert encode(history)[2]["content"][0]["content"] == text
    body = dialect_for(CLAUDE, None).encode(Query(CLAUDE, "", history, images=True))
    check("anthropic", body)
    before, image, after = body["messages"][2]["content"][0]["content"]
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}
    assert (before["text"], "evil.example" in after["text"]) == ("before ", True)
    for name in ("chat", "responses"):
        other = dialect_for("openai/gpt", name).encode(Query("openai/gpt", "", history, images=True))
        check(name, other)
        assert json.dumps(other).count("data:image/png;base64,iVBORw0=") == 1


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("tool_use", Finish.TOOL_CALLS),
        ("max_tokens", Finish.MAX_TOKENS),
        ("pause_turn", Finish.PAUSED),
        ("refusal", Finish.REFUSAL),
        ("model_context_window_exceeded", Finish.CONTEXT_TOO_LONG),
        ("brand_new", Finish.UNKNOWN),
    ],
)
def test_stop_reasons(stop: str, expected: Finish) -> None:
    said = decode(anthropic_body(text_block("x"), stop=stop))
    assert (said.finish, said.finish_raw) == (expected, stop)


def test_a_refusal_tells_its_explanation() -> None:
    said = decode(anthropic_body(stop="refusal", stop_details={"type": "refusal", "explanation": "Not this."}))
    assert (said.finish, said.text) == (Finish.REFUSAL, "Not this.")


def test_usage_counts_what_came_from_the_cache_as_input() -> None:
    usage = {
        "input_tokens": 36,
        "output_tokens": 7,
        "cache_read_input_tokens": 54,
        "cache_creation_input_tokens": 10,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    used = decode(anthropic_body(text_block("x"), usage=usage)).usage
    assert (used.input_tokens, used.cache_read_tokens, used.cache_write_tokens) == (100, 54, 10)
    assert (used.output_tokens, used.reasoning_tokens, used.cost) == (7, 3, None)


def test_bodies_that_are_no_reply() -> None:
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    no_usage = {**anthropic_body(), "usage": None}
    for body, kind in [
        (overloaded, FailureKind.OVERLOADED),
        ({}, FailureKind.MALFORMED_REPLY),
        (no_usage, FailureKind.EMPTY_REPLY),
    ]:
        with pytest.raises(ProviderFailure) as caught:
            decode(body)
        assert caught.value.kind is kind


def start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


BEGIN = {"type": "message_start", "message": anthropic_body() | {"stop_reason": None}}
END: list[dict[str, Any]] = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]


def stream(*events: dict[str, Any]) -> tuple[ModelReply, list[Delta]]:
    assembler = dialect_for(CLAUDE, None).assembler()
    deltas = [delta for event in copy.deepcopy(events) for delta in assembler.feed(event)]
    return assembler.finish(), deltas


def test_a_stream_with_thinking_text_and_a_call() -> None:
    said, deltas = stream(
        BEGIN,
        {"type": "ping"},
        start(0, thinking_block("", "")),
        piece(0, "thinking_delta", thinking="h"),
        piece(0, "thinking_delta", thinking="m"),
        piece(0, "signature_delta", signature="S1"),
        start(1, text_block("")),
        piece(1, "text_delta", text="Look"),
        start(2, {"type": "brand_new", "data": "x"}),
        piece(2, "brand_new_delta", data="y"),
        start(3, tool_use("c1")),
        piece(3, "input_json_delta", partial_json=""),
        piece(3, "input_json_delta", partial_json='{"comm'),
        piece(3, "input_json_delta", partial_json='and":"ls"}'),
        {"type": "content_block_stop", "index": 3},
        *END,
    )
    assert deltas == [Delta("reasoning", "h"), Delta("reasoning", "m"), Delta("text", "Look")]
    assert json.loads(said.raw)["content"] == [
        thinking_block("hm", "S1"),
        text_block("Look"),
        {"type": "brand_new", "data": "xy"},
        tool_use("c1", "ls"),
    ]
    parsed = parse(said, "reply")
    assert isinstance(parsed, Actions)
    assert (parsed.actions[0].command, said.usage.input_tokens, said.usage.output_tokens) == ("ls", 11, 9)


@pytest.mark.parametrize("text", ['{"command":"ls', '{"command":"a","command":"b"}', '{"command":"a"}{"command":"b"}'])
def test_streamed_input_that_is_no_object_keeps_its_text_for_the_parser(text: str) -> None:
    said, _ = stream(BEGIN, start(0, tool_use("c1")), piece(0, "input_json_delta", partial_json=text), *END)
    assert said.calls[0].arguments == text
    assert isinstance(parse(said, "reply"), FormatError)
    assert encode([UserMessage("t"), turn(said), *results(turn(said), "bad")])[1]["content"][0]["input"] == {}


def test_a_stream_that_ends_early_or_with_an_error() -> None:
    with pytest.raises(ProviderFailure, match="before its end"):
        stream(BEGIN, start(0, text_block("x")), END[0])
    with pytest.raises(ProviderFailure) as caught:
        stream(BEGIN, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert caught.value.kind is FailureKind.OVERLOADED
