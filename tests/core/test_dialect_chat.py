"""Chat Completions both ways, plain and streamed, checked by a strict provider."""

from __future__ import annotations

import copy
import json
import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.dialects import Delta, Query, dialect_for
from agent_core.errors import ProviderFailure, SettingsError
from agent_core.parsing import Actions, parse
from agent_core.types import FailureKind, Finish, Message, ModelReply, Observation, ToolCall, UserMessage
from tests.core.replies import (
    bash,
    bash_arguments,
    call,
    chat_body,
    chat_call,
    chat_chunk,
    chat_piece,
    reply,
    results,
    turn,
)
from tests.wire.strict import check

OPENAI = "openai/gpt-test"
GO_ON = UserMessage("continue")


def encode(history: Sequence[Message], model: str = OPENAI, provider: str = "") -> list[dict[str, Any]]:
    body = dialect_for(model, "chat").encode(Query(model, "You help.", history))
    check("chat", body, provider)
    messages: list[dict[str, Any]] = body["messages"]
    return messages[1:]


def decode(body: dict[str, Any], model: str = OPENAI) -> ModelReply:
    return dialect_for(model, "chat").decode(body)


def stream(*chunks: dict[str, Any], model: str = OPENAI) -> ModelReply:
    assembler = dialect_for(model, "chat").assembler()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler.finish()


def answered(body: dict[str, Any], model: str = OPENAI) -> list[Message]:
    """Return the history after a reply whose calls all gave `done`."""
    said = turn(decode(body, model))
    return [UserMessage("task"), said, *results(said, *["done"] * len(said.reply.calls))]


def wire_ids(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [call["id"] for message in messages for call in message.get("tool_calls", ())]


def commands(said: ModelReply) -> list[tuple[str, str]]:
    parsed = parse(said, "reply")
    assert isinstance(parsed, Actions), parsed
    return [(action.call.id, action.command) for action in parsed.actions]


END = chat_chunk({}, "tool_calls")


# --- requests


def test_a_request_holds_the_system_text_the_task_the_tool_and_the_options() -> None:
    query = Query(OPENAI, "You help.", [UserMessage("task")], 100, {"temperature": 0, "tools": "no"})
    body = dialect_for(OPENAI, None).encode(query)
    assert body["messages"] == [{"role": "system", "content": "You help."}, {"role": "user", "content": "task"}]
    assert (body["model"], body["max_tokens"], body["temperature"]) == (OPENAI, 100, 0)
    parameters = body["tools"][0]["function"]["parameters"]
    assert parameters["required"] == ["command"]
    assert set(parameters["properties"]) == {"command", "timeout"}


def test_id_01_empty_and_missing_ids_become_distinct_ones() -> None:
    history = answered(chat_body(calls=[bash("", "echo one"), bash(None, "echo two")]))
    assert [call.id for call in history[1].reply.calls] == ["", ""]  # type: ignore[union-attr]
    messages = encode(history)
    first, second = wire_ids(messages)
    assert first != second
    assert [message["tool_call_id"] for message in messages[2:]] == [first, second]
    assert encode(history) == messages


def test_id_02_one_id_for_two_calls_is_told_apart_the_same_way_every_time() -> None:
    said = turn(decode(chat_body(calls=[bash("call_a", "cat a.txt"), bash("call_a", "cat b.txt")])))
    history: list[Message] = [UserMessage("task"), said, *results(said, "AAA", "BBB")]
    messages = encode(history)
    first, second = wire_ids(messages)
    assert (first, second) == ("call_a", wire_ids(encode(history))[1])
    assert second != first
    assert [(message["tool_call_id"], message["content"]) for message in messages[2:]] == [
        (first, "AAA"),
        (second, "BBB"),
    ]


def test_an_id_used_again_in_a_later_turn_is_replaced() -> None:
    said = turn(reply(call("call_0", "ls")), "k1"), turn(reply(call("call_0", "pwd")), "k2")
    history: list[Message] = [UserMessage("task"), said[0], *results(said[0], "a"), said[1], *results(said[1], "b")]
    assert wire_ids(encode(history))[0] == "call_0"


def test_id_06_a_vendors_own_form_goes_back_untouched_also_to_its_next_model() -> None:
    history = answered(chat_body(calls=[bash("functions.bash:0", "ls")]), "moonshot/kimi-k2")
    for target in ("moonshot/kimi-k2", "moonshot/kimi-k3"):
        messages = encode(history, target)
        assert wire_ids(messages) == [messages[2]["tool_call_id"]] == ["functions.bash:0"]


def test_id_07_mistral_gets_nine_letters_or_digits() -> None:
    history = answered(chat_body(calls=[bash("call_Abcdefghijklmnopqrstuvwx", "ls")]))
    messages = encode(history, "mistral/mistral-large", "mistral")
    assert re.fullmatch("[A-Za-z0-9]{9}", wire_ids(messages)[0])
    assert encode(history, "mistral/mistral-large") == messages
    own = answered(chat_body(calls=[bash("a1B2c3D4e", "ls")]), "mistral/mistral-large")
    assert wire_ids(encode(own, "mistral/devstral")) == ["a1B2c3D4e"]


@pytest.mark.parametrize(("target", "provider"), [("openai/gpt-5", "openai"), ("azure/gpt-5", "azure")])
def test_id_09_an_id_that_carries_a_token_is_shortened_for_others_and_goes_back_whole(
    target: str, provider: str
) -> None:
    long_id = "call_ab12__thought__" + "Ab+/" * 225
    history = answered(chat_body(calls=[bash(long_id, "ls")]), "gemini/gemini-3")
    messages = encode(history, target, provider)
    assert len(wire_ids(messages)[0]) <= 40
    assert wire_ids(encode(history, "gemini/gemini-3-flash")) == [long_id]


def test_azure_takes_forty_characters_where_openai_takes_more() -> None:
    history = answered(chat_body(calls=[bash("c" * 50, "ls")]))
    assert wire_ids(encode(history, "openai/other", "openai")) == ["c" * 50]
    assert len(wire_ids(encode(history, "azure/gpt", "azure"))[0]) <= 40


def test_an_unknown_vendor_gets_foreign_ids_only_in_a_form_that_none_refuses() -> None:
    history = answered(chat_body(calls=[bash("functions.bash:0", "ls"), bash("call_1", "ls")]), "moonshot/kimi-k2")
    first, second = wire_ids(encode(history, "somevendor/model"))
    assert re.fullmatch("[a-zA-Z0-9_-]{1,40}", first)
    assert second == "call_1"


def test_id_10_a_missing_result_is_told_as_not_executed_before_the_users_text() -> None:
    said = turn(reply(call("A", "ls"), call("B", "pwd")), "k1", "k2")
    history: list[Message] = [UserMessage("task"), said, Observation("k1", "files"), GO_ON]
    before = copy.deepcopy(history)
    messages = encode(history)
    assert [message.get("tool_call_id") for message in messages] == [None, None, "A", "B", None]
    assert "not executed" in messages[3]["content"]
    assert messages[4]["content"] == "continue"
    assert history == before


def test_id_11_an_orphan_is_left_out_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    dialect = dialect_for(OPENAI, None)
    history: list[Message] = [Observation("toolu_x", "lost"), UserMessage("task")]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            body = dialect.encode(Query(OPENAI, "You help.", history))
            check("chat", body)
            assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert len(caplog.records) == 1


def test_doubled_and_late_results_are_put_right() -> None:
    said = turn(reply(call("A", "ls"), call("B", "pwd")), "k1", "k2")
    history: list[Message] = [
        UserMessage("t"),
        said,
        Observation("k2", "two"),
        GO_ON,
        Observation("k1", "one"),
        Observation("k2", "x"),
    ]
    assert [message["content"] for message in encode(history)[2:]] == ["one", "two", "continue"]


@pytest.mark.parametrize("arguments", ["", None, "{", "[1]", '{"command":"ls"', "null", '{"a":1,"a":2}'])
def test_pa_02_replayed_arguments_always_parse_to_an_object(arguments: Any) -> None:
    """And never to a command that the model did not finish (the strict checker parses them)."""
    messages = encode(answered(chat_body(calls=[chat_call("c1", arguments)])))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_pa_03_arguments_given_as_an_object_become_their_text() -> None:
    body = chat_body(calls=[chat_call("c1", {"command": "ls"})])
    assert commands(decode(body)) == [("c1", "ls")]
    assert json.loads(encode(answered(body))[1]["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}


def test_valid_arguments_go_back_byte_for_byte() -> None:
    text = '{ "command" :"echo  \\u4f60 \\/"}'
    messages = encode(answered(chat_body(calls=[chat_call("c1", text)])))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == text


def test_pa_06_raw_line_feeds_go_back_as_strict_json() -> None:
    messages = encode(answered(chat_body(calls=[chat_call("c1", '{"command": "printf \'a\nb\'"}')])))
    assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == {"command": "printf 'a\nb'"}


def test_dl_18_null_content_only_beside_calls() -> None:
    with_call, without = chat_body(calls=[bash("c1", "ls")]), chat_body("", usage={"prompt_tokens": 1})
    assert encode(answered(with_call), provider="openai")[1]["content"] is None
    assert encode(answered(without), provider="openai")[1]["content"] == ""
    local = "hosted_vllm/qwen"
    assert encode(answered(with_call, local), local)[1]["content"] == ""


def test_dl_19_text_beside_a_call_stays_before_it() -> None:
    messages = encode(answered(chat_body("I check the tests first", [bash("c1", "ls")])))
    assert messages[1]["content"] == "I check the tests first"
    assert list(messages[1]).index("content") < list(messages[1]).index("tool_calls")


def test_dl_13_deepseek_gets_its_reasoning_back_in_every_turn_and_others_never() -> None:
    model = "deepseek/deepseek-reasoner"
    one = turn(decode(chat_body(calls=[bash("c1", "ls")], reasoning_content="why"), model))
    two = turn(decode(chat_body(calls=[bash("c2", "ls")]), model))
    history: list[Message] = [UserMessage("t"), one, *results(one, "a"), two, *results(two, "b")]
    assert one.reply.reasoning == "why"
    assert [message["reasoning_content"] for message in encode(history, model) if message["role"] == "assistant"] == [
        "why",
        "",
    ]
    assert "why" not in json.dumps(encode(history, OPENAI))


@pytest.mark.parametrize("place", ["call", "message"])
def test_dl_12_a_vendors_signature_goes_back_on_the_part_it_came_on(place: str) -> None:
    signature: dict[str, Any] = {"provider_specific_fields": {"thought_signature": "G1+/="}}
    one = bash("c1", "ls") | (signature if place == "call" else {})
    body = chat_body(calls=[one], **(signature if place == "message" else {}))
    message = encode(answered(body, "gemini/gemini-3"), "gemini/gemini-3")[1]
    holder = message["tool_calls"][0] if place == "call" else message
    assert holder["provider_specific_fields"] == signature["provider_specific_fields"]
    assert "G1" not in json.dumps(encode(answered(body, "gemini/gemini-3"), OPENAI))


def test_a_turn_goes_back_without_what_only_a_reply_may_hold() -> None:
    """The legacy function_call beside calls (with a wrong name, as a local server sends it), nulls, annotations."""
    body = chat_body(
        calls=[{**bash("c1", "ls"), "index": 0, "caller": None}],
        function_call={"name": "bash:", "arguments": "{}"},
        refusal=None,
        annotations=[],
    )
    said = decode(body)
    assert commands(said) == [("c1", "ls")]
    message = encode(answered(body))[1]
    assert set(message) == {"role", "content", "tool_calls"}
    assert set(message["tool_calls"][0]) == {"id", "type", "function"}


def test_a_turn_whose_verbatim_form_is_masked_goes_out_normalised() -> None:
    """R10: where the provider's own turn held a key it is not kept, and text and calls are sent."""
    said = turn(reply(call("c1", "ls"), text="Look", raw=""))
    message = encode([UserMessage("t"), said, *results(said, "a")])[1]
    assert (message["content"], message["tool_calls"][0]["function"]["name"]) == ("Look", "bash")


def test_ss_08_half_a_surrogate_pair_never_reaches_the_store_or_the_wire() -> None:
    for arguments in ('{"command":"echo \\ud83d"}', '{"command":"echo \ud83d"}'):
        body = json.loads(json.dumps(chat_body("x\ud83d", [chat_call("c1", arguments)])))
        said = decode(body)
        for text in (said.raw, said.text, said.calls[0].arguments):
            text.encode()
        message = encode([*answered(body), UserMessage("and \udc00")])[1]  # the strict checker writes UTF-8
        assert json.loads(message["tool_calls"][0]["function"]["arguments"])["command"] == "echo \ufffd"


def test_a_growing_history_is_encoded_as_a_fresh_dialect_would() -> None:
    dialect = dialect_for(OPENAI, None)
    history: list[Message] = [UserMessage("t")]
    for step in range(5):
        said = turn(decode(chat_body(calls=[bash("same", f"echo {step}")])), f"key{step}")
        history += [said, *results(said, str(step))]
        body = dialect.encode(Query(OPENAI, "s", list(history)))
        assert body == dialect_for(OPENAI, None).encode(Query(OPENAI, "s", list(history)))
        check("chat", body, "openai")
    other = dialect.encode(Query("mistral/m", "s", history))
    check("chat", other, "mistral")


def test_what_was_encoded_before_is_not_used_for_another_target_or_another_result() -> None:
    model = "deepseek/deepseek-reasoner"
    dialect = dialect_for(model, None)
    said = turn(decode(chat_body(calls=[bash("c1", "ls")], reasoning_content="why"), model))
    history: list[Message] = [UserMessage("t"), said]
    assert "not executed" in json.dumps(dialect.encode(Query(model, "s", history)))
    history += results(said, "files")
    assert "files" in json.dumps(dialect.encode(Query(model, "s", history)))
    assert "why" not in json.dumps(dialect.encode(Query(OPENAI, "s", history)))


def test_a_models_own_id_goes_back_also_where_it_is_longer_than_the_vendor_says() -> None:
    history = answered(chat_body(calls=[bash("c" * 80, "ls")]))
    assert wire_ids(encode(history)) == ["c" * 80]
    assert len(wire_ids(encode(history, "openai/other", "openai"))[0]) <= 64


# --- whole replies


def test_a_reply_is_read_with_its_usage_and_its_words() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    said = decode(chat_body("Hi", [bash("c1", "ls")], usage=usage, reasoning_content="hm"))
    assert (said.text, said.reasoning, said.finish, said.finish_raw) == ("Hi", "hm", Finish.TOOL_CALLS, "tool_calls")
    assert (said.dialect, said.model, said.calls) == ("chat", OPENAI, (ToolCall("c1", "bash", '{"command": "ls"}'),))
    used = said.usage
    assert (used.input_tokens, used.output_tokens, used.cost) == (100, 7, None)
    assert (used.cache_read_tokens, used.cache_write_tokens, used.reasoning_tokens) == (60, 5, 3)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.MAX_TOKENS),
        ("content_filter", Finish.CONTENT_FILTER),
        ("brand_new", Finish.UNKNOWN),
        (None, Finish.UNKNOWN),
    ],
)
def test_finish_reasons(finish: str | None, expected: Finish) -> None:
    assert decode(chat_body("x", finish=finish)).finish is expected


def test_the_providers_own_word_counts_more_than_its_translation() -> None:
    paused = chat_body("x", finish="length", provider_specific_fields={"stop_reason": "pause_turn"})
    assert decode(paused).finish is Finish.PAUSED
    gemini = chat_body("x")
    for word in ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"):
        gemini["choices"][0]["provider_specific_fields"] = {"native_finish_reason": word}
        assert decode(gemini).finish is Finish.UNKNOWN


def test_a_refusal_is_one_and_its_text_is_kept() -> None:
    said = decode(chat_body(None, refusal="I cannot help with that."))
    assert (said.finish, said.text) == (Finish.REFUSAL, "I cannot help with that.")


def test_content_in_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}]
    assert (decode(chat_body(parts)).reasoning, decode(chat_body(parts)).text) == ("hm", "Hi")


def failure_of(body: dict[str, Any]) -> ProviderFailure:
    with pytest.raises(ProviderFailure) as caught:
        decode(body)
    assert "Error" not in str(caught.value)
    return caught.value


def test_dl_21_no_choice_and_no_message_are_named_and_billed() -> None:
    none = chat_body("x")
    none["choices"] = []
    assert failure_of(none).kind is FailureKind.EMPTY_REPLY
    filtered = chat_body("x", finish="content_filter")
    filtered["choices"][0]["message"] = None
    failure = failure_of(filtered)
    assert failure.kind is FailureKind.CONTENT_FILTER
    assert "content_filter" in str(failure)
    assert failure.usage.input_tokens == 11


def test_bodies_that_are_no_reply() -> None:
    assert failure_of({"error": {"message": "boom", "code": 500}}).kind is FailureKind.SERVER_ERROR
    assert failure_of({"error": {"message": "slow down", "code": 429}}).kind is FailureKind.RATE_LIMIT
    inner = chat_body("half", finish="error")
    inner["choices"][0]["error"] = {"code": 502, "message": "upstream went away"}
    assert failure_of(inner).kind is FailureKind.SERVER_ERROR
    assert failure_of({"error": "plain words"}).kind is FailureKind.SERVER_ERROR
    assert failure_of({}).kind is FailureKind.MALFORMED_REPLY
    assert failure_of({"choices": "x"}).kind is FailureKind.MALFORMED_REPLY
    empty = chat_body("")
    del empty["usage"]
    assert failure_of(empty).kind is FailureKind.EMPTY_REPLY


@pytest.mark.parametrize("odd", [None, "x", 3, [], {}, {"function": None}, {"function": {"name": None}}, {"id": 5}])
def test_odd_calls_are_kept_as_calls_and_refused_by_the_parser(odd: Any) -> None:
    said = decode(chat_body(calls=[bash("c1", "ls"), odd]))
    assert len(said.calls) == 2
    assert not isinstance(parse(said, "reply"), Actions)
    encode(answered(chat_body(calls=[bash("c1", "ls"), odd])))


# --- streams


def test_dl_01_id_and_name_in_separate_pieces() -> None:
    said = stream(
        chat_piece(0, id="c1"),
        chat_piece(0, name="bash"),
        chat_piece(0, args='{"command":'),
        chat_piece(0, args='"pwd"}'),
        END,
    )
    assert commands(said) == [("c1", "pwd")]


def test_dl_02_empty_ids_and_names_are_no_news() -> None:
    said = stream(
        chat_piece(0, id="c1", name="bash", args=""), chat_piece(0, id="", name="", args=bash_arguments("pwd")), END
    )
    assert commands(said) == [("c1", "pwd")]


def test_dl_04_a_stray_piece_is_ignored() -> None:
    said = stream(chat_piece(-1, args=""), chat_piece(0, id="c1", name="bash", args=bash_arguments("ls")), END)
    assert commands(said) == [("c1", "ls")]


@pytest.mark.parametrize("ids", [("c1", "c2"), ("", ""), (None, None)])
def test_dl_05_parallel_calls_under_one_index(ids: tuple[Any, Any]) -> None:
    said = stream(
        chat_piece(0, id=ids[0], name="bash", args=bash_arguments("ls")),
        chat_piece(0, id=ids[1], name="bash", args=bash_arguments("pwd")),
        END,
    )
    assert commands(said) == [(ids[0] or "", "ls"), (ids[1] or "", "pwd")]


def test_equal_indexes_in_fragments_are_never_glued_into_a_command() -> None:
    said = stream(
        chat_piece(0, id="c1", name="bash", args='{"command":"rm -rf /tmp/'),
        chat_piece(0, id="c2", name="bash", args='x"}'),
        END,
    )
    assert not isinstance(parse(said, "reply"), Actions)


@pytest.mark.parametrize("indexed", [True, False])
def test_dl_06_running_snapshots_are_no_additions(indexed: bool) -> None:
    def snapshot(*names: str) -> dict[str, Any]:
        return chat_chunk(
            {
                "tool_calls": [
                    ({"index": place} if indexed else {}) | bash(name, f"echo {name}")
                    for place, name in enumerate(names)
                ]
            }
        )

    said = stream(snapshot("A"), snapshot("A", "B"), snapshot("A", "B", "C"), END)
    assert commands(said) == [("A", "echo A"), ("B", "echo B"), ("C", "echo C")]


def test_dl_06_snapshots_under_one_index() -> None:
    pieces = [chat_piece(0, id=name, name="bash", args=bash_arguments(name)) for name in ("A", "A", "B", "A", "B")]
    assert commands(stream(*pieces, END)) == [("A", "A"), ("B", "B")]


def test_pieces_without_index_and_with_the_id_repeated() -> None:
    def piece(call_id: str, args: str, **more: Any) -> dict[str, Any]:
        return chat_piece(..., id=call_id, args=args, **more)

    said = stream(
        piece("A", "", name="bash"),
        piece("A", '{"command":'),
        piece("A", '"ls"}'),
        piece("B", '{"command":', name="bash"),
        piece("B", '"pwd"}'),
        END,
    )
    assert commands(said) == [("A", "ls"), ("B", "pwd")]


def test_interleaved_calls() -> None:
    said = stream(
        chat_piece(1, id="B", name="bash", args='{"command":'),
        chat_piece(0, id="A", name="bash", args='{"command":'),
        chat_piece(1, args='"pwd"}'),
        chat_piece(0, args='"ls"}'),
        END,
    )
    assert sorted(commands(said)) == [("A", "ls"), ("B", "pwd")]


def test_dl_07_a_second_attempt_holds_nothing_of_the_first() -> None:
    dialect = dialect_for(OPENAI, None)
    first = dialect.assembler()
    first.feed(chat_chunk({"content": "Hi"}))
    first.feed(chat_piece(0, id="c1", name="bash", args='{"comm'))
    second = dialect.assembler()
    for chunk in (
        chat_chunk({"content": "Hi"}),
        chat_piece(0, id="c2", name="bash", args=bash_arguments("ls")),
        END,
    ):
        second.feed(chunk)
    said = second.finish()
    assert (said.text, commands(said)) == ("Hi", [("c2", "ls")])


def test_dl_08_a_stream_that_ends_early_is_a_failure_that_says_so() -> None:
    with pytest.raises(ProviderFailure, match="nothing it asked for was executed") as caught:
        stream(chat_chunk({"content": "I look"}), chat_piece(0, id="c1", name="bash", args='{"command":"l'))
    assert caught.value.kind is FailureKind.CONNECTION
    with pytest.raises(ProviderFailure):
        stream()


def test_dl_09_an_empty_list_of_calls_beside_text() -> None:
    said = stream(*(chat_chunk({"content": part, "tool_calls": []}) for part in ("hel", "lo")), chat_chunk({}, "stop"))
    assert (said.text, said.calls, said.finish) == ("hello", (), Finish.STOP)


def test_deltas_go_out_as_they_come_and_usage_arrives_last() -> None:
    assembler = dialect_for(OPENAI, None).assembler()
    assert assembler.feed(chat_chunk({"role": "assistant", "content": "", "reasoning_content": "hm"})) == [
        Delta("reasoning", "hm")
    ]
    assert assembler.feed(chat_chunk({"content": "Hi"})) == [Delta("text", "Hi")]
    assert assembler.feed(chat_chunk({}, "stop")) == []
    assembler.feed({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    said = assembler.finish()
    assert (said.text, said.reasoning, said.usage.input_tokens) == ("Hi", "hm", 5)


def test_pieces_of_signed_blocks_are_whole_again_before_they_go_back() -> None:
    def thinking(**members: Any) -> dict[str, Any]:
        return chat_chunk({"thinking_blocks": [{"type": "thinking", **members}]})

    said = stream(
        thinking(thinking="h", signature=None),
        thinking(thinking="m", signature=None),
        thinking(thinking="", signature="S1"),
        thinking(thinking="more", signature="S2"),
        chat_chunk({"thinking_blocks": [{"type": "redacted_thinking", "data": "x"}]}),
        chat_chunk({"thinking_blocks": [{"type": "redacted_thinking", "data": "y"}]}),
        chat_piece(0, id="c1", name="bash", args=bash_arguments("ls")),
        END,
        model="bedrock/claude",
    )
    history: list[Message] = [UserMessage("t"), turn(said), *results(turn(said), "x")]
    assert encode(history, "bedrock/claude")[1]["thinking_blocks"] == [
        {"type": "thinking", "thinking": "hm", "signature": "S1"},
        {"type": "thinking", "thinking": "more", "signature": "S2"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "redacted_thinking", "data": "y"},
    ]


def test_an_error_inside_a_stream_is_a_typed_failure() -> None:
    with pytest.raises(ProviderFailure) as caught:
        stream(chat_chunk({"content": "x"}), {"error": {"message": "Overloaded", "type": "overloaded_error"}})
    assert caught.value.kind is FailureKind.OVERLOADED


# --- the registry


@pytest.mark.parametrize(
    ("model", "setting", "name"),
    [
        ("openai/gpt-4o", None, "chat"),
        ("ollama_chat/qwen", None, "chat"),
        ("bedrock/anthropic.claude-5", None, "chat"),
        ("openrouter/anthropic/claude-5", None, "chat"),
        ("anthropic/claude-5", "chat", "chat"),
    ],
)
def test_the_dialect_follows_from_the_name_and_a_setting_overrides_it(
    model: str, setting: str | None, name: str
) -> None:
    assert dialect_for(model, setting).name == name


def test_an_unknown_dialect_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"'chad'.*chat, responses, anthropic, text"):
        dialect_for("openai/gpt-4o", "chad")
