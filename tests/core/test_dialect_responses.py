"""OpenAI Responses both ways, plain and streamed, checked by a strict provider."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.dialects import Delta, Query, dialect_for
from agent_core.errors import ProviderFailure
from agent_core.parsing import Actions, EndOfTurn, FormatError, parse
from agent_core.types import FailureKind, Finish, Message, ModelReply, StopReason, UserMessage
from tests.core.replies import (
    call,
    function_call,
    output_message,
    reasoning_item,
    reply,
    responses_body,
    results,
    turn,
)
from tests.wire.strict import check

GPT = "openai/gpt-test"


def encode(history: Sequence[Message], model: str = GPT) -> list[dict[str, Any]]:
    body = dialect_for(model, "responses").encode(Query(model, "You help.", history))
    check("responses", body)
    items: list[dict[str, Any]] = body["input"]
    return items


def decode(body: dict[str, Any], model: str = GPT) -> ModelReply:
    return dialect_for(model, "responses").decode(body)


def answered(body: dict[str, Any], model: str = GPT) -> list[Message]:
    said = turn(decode(body, model))
    return [UserMessage("task"), said, *results(said, *["done"] * len(said.reply.calls))]


def test_the_dialect_follows_from_the_name() -> None:
    for model in ("openai/responses/gpt-5", "openai/gpt-5.1-codex", "gpt-5-pro", "o3-pro"):
        assert dialect_for(model, None).name == "responses", model
    route = dialect_for("openai/responses/gpt-5", None).encode(Query("openai/responses/gpt-5", "", []))
    assert (route["model"], route["store"]) == ("openai/gpt-5", False)


def test_a_request_holds_instructions_options_and_a_reasoning_models_own_memory() -> None:
    query = Query("openai/gpt-5.1-codex", "You help.", [UserMessage("t")], 99, {"reasoning": {"effort": "low"}})
    body = dialect_for(query.model, None).encode(query)
    assert (body["instructions"], body["max_output_tokens"], body["reasoning"]) == ("You help.", 99, {"effort": "low"})
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert "store" not in dialect_for("openai/gpt-4o", "responses").encode(Query("openai/gpt-4o", "", []))


def test_id_14_a_call_is_answered_by_its_call_id() -> None:
    history = answered(responses_body(function_call("call_9", "pwd")))
    assert decode(responses_body(function_call("call_9", "pwd"))).calls[0].id == "call_9"
    items = encode(history)
    assert [item.get("call_id") for item in items] == [None, "call_9", "call_9"]
    no_call_id = function_call("x", "pwd")
    del no_call_id["call_id"]
    items = encode(answered(responses_body(no_call_id)))
    assert items[1]["call_id"] == items[2]["call_id"] != "fc_1"


def test_dl_14_reasoning_stays_before_its_call_without_null_members() -> None:
    items = encode(answered(responses_body(reasoning_item("why"), function_call("call_9", "ls"))))
    assert [item["type"] for item in items] == ["message", "reasoning", "function_call", "function_call_output"]
    assert items[1]["encrypted_content"] == "gAAA+/="
    assert "status" not in items[1]


def test_dl_15_a_text_beside_a_call_does_not_end_the_turn() -> None:
    body = responses_body(output_message("I will look"), function_call("call_9", "ls"))
    said = decode(body)
    assert (said.text, said.finish) == ("I will look", Finish.TOOL_CALLS)
    assert isinstance(parse(said, "reply"), Actions)
    items = encode(answered(body))
    assert items[1]["content"] == [{"type": "output_text", "text": "I will look", "annotations": []}]
    assert items[3] == {"type": "function_call_output", "call_id": "call_9", "output": "done"}


def test_reasoning_that_led_to_nothing_is_not_sent_alone() -> None:
    said = decode(responses_body(reasoning_item("hm"), output_message("")))
    assert isinstance(parse(said, "reply"), FormatError)
    items = encode([UserMessage("t"), turn(said), UserMessage("Go on", "correction")])
    assert [item["type"] for item in items] == ["message", "message"]


def test_damaged_ids_arguments_and_histories() -> None:
    body = responses_body(
        function_call("", "a"), function_call("X", "b"), function_call("X", "c", arguments='{"command":"d')
    )
    items = encode([*answered(body)[:-1], UserMessage("go")])
    assert items[3]["arguments"] == "{}"
    assert "not executed" in items[6]["output"]


def test_turns_of_other_dialects_go_out_normalised() -> None:
    said = turn(reply(call("functions.bash:0", "ls"), text="Look", model="moonshot/kimi"))
    items = encode([UserMessage("t"), said, *results(said, "x")])
    assert [item["type"] for item in items] == ["message", "message", "function_call", "function_call_output"]
    assert items[1] == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Look"}],
    }


@pytest.mark.parametrize(
    ("status", "why", "expected"),
    [
        ("completed", None, Finish.TOOL_CALLS),
        ("incomplete", "max_output_tokens", Finish.MAX_TOKENS),
        ("incomplete", "content_filter", Finish.CONTENT_FILTER),
        ("incomplete", "steered", Finish.UNKNOWN),
        ("cancelled", None, Finish.UNKNOWN),
        ("queued", None, Finish.UNKNOWN),
    ],
)
def test_statuses(status: str, why: str | None, expected: Finish) -> None:
    details = {"reason": why} if why else None
    body = responses_body(function_call("c", "ls"), status=status, incomplete_details=details)
    said = decode(body)
    assert said.finish is expected
    assert isinstance(parse(said, "reply"), Actions) is (expected is Finish.TOOL_CALLS)


def test_a_refusal() -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    said = decode(responses_body({**output_message(""), "content": [part]}))
    assert (said.text, parse(said, "reply")) == ("I will not.", EndOfTurn(StopReason.REFUSAL))


def test_usage_and_reasoning() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    said = decode(responses_body(reasoning_item("why"), output_message("Hi"), usage=usage))
    assert (said.reasoning, said.text) == ("why", "Hi")
    assert (said.usage.input_tokens, said.usage.cache_read_tokens, said.usage.reasoning_tokens) == (100, 60, 3)


def test_bodies_that_are_no_reply() -> None:
    failed = responses_body(status="failed", error={"code": "server_error", "message": "boom"})
    for body, kind in [
        (failed, FailureKind.SERVER_ERROR),
        ({"error": {"message": "x", "code": "rate_limit_exceeded"}}, FailureKind.RATE_LIMIT),
        ({}, FailureKind.MALFORMED_REPLY),
        ({**responses_body(), "usage": None}, FailureKind.EMPTY_REPLY),
    ]:
        with pytest.raises(ProviderFailure) as caught:
            decode(body)
        assert caught.value.kind is kind
    with pytest.raises(ProviderFailure) as caught:
        decode(failed)
    assert caught.value.usage.input_tokens == 11


def done(place: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def stream(*events: dict[str, Any]) -> tuple[ModelReply, list[Delta]]:
    assembler = dialect_for(GPT, "responses").assembler()
    deltas = [delta for event in copy.deepcopy(events) for delta in assembler.feed(event)]
    return assembler.finish(), deltas


@pytest.mark.parametrize("terminal_holds_output", [True, False])
def test_a_stream(terminal_holds_output: bool) -> None:
    items = [reasoning_item("hm"), output_message("Look"), function_call("c1", "ls")]
    whole = responses_body(*items)
    said, deltas = stream(
        {"type": "response.created", "response": responses_body(status="in_progress")},
        {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
        done(0, items[0]),
        {"type": "response.output_text.delta", "delta": "Lo"},
        {"type": "response.output_text.delta", "delta": "ok"},
        {"type": "response.function_call_arguments.delta", "delta": '{"comm'},
        done(2, items[2]),
        done(1, items[1]),
        {"type": "response.completed", "response": whole if terminal_holds_output else {**whole, "output": []}},
    )
    assert said == decode(whole)
    assert deltas == [Delta("reasoning", "hm"), Delta("text", "Lo"), Delta("text", "ok")]


def test_streams_that_end_early_fail_or_are_incomplete() -> None:
    with pytest.raises(ProviderFailure, match="before its end"):
        stream(done(0, function_call("c1", "ls")))
    with pytest.raises(ProviderFailure) as caught:
        stream({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"})
    assert caught.value.kind is FailureKind.RATE_LIMIT
    with pytest.raises(ProviderFailure):
        stream({"type": "response.failed", "response": responses_body(status="failed", error={"message": "boom"})})
    cut = responses_body(
        function_call("c1", "ls"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    said, _ = stream({"type": "response.incomplete", "response": cut})
    assert isinstance(parse(said, "reply"), FormatError)


def test_the_request_can_be_written_whatever_came() -> None:
    """SS-08: half of a surrogate pair in any place of a verbatim turn."""
    item = {**reasoning_item("x\ud83d"), "extra": {"deep": ["\udc00"]}}
    items = encode(answered(responses_body(item, function_call("c1", "echo \ud83d"))))
    json.dumps(items, ensure_ascii=False).encode()
