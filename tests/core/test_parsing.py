"""From tool calls to actions: what is accepted, what is refused, and what the model is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.parsing import Actions, EndOfTurn, FormatError, parse
from agent_core.types import Finish, ModelReply, Reason, StopReason, ToolCall
from tests.core.replies import bash_arguments, call, reply


def actions(said: ModelReply) -> list[str]:
    parsed = parse(said, "reply")
    assert isinstance(parsed, Actions), parsed
    return [action.command for action in parsed.actions]


def refused(said: ModelReply, completion: Any = "reply") -> FormatError:
    parsed = parse(said, completion)
    assert isinstance(parsed, FormatError), parsed
    assert len(parsed.faults) == len(said.calls)
    assert [fault.call for fault in parsed.faults] == list(said.calls)
    assert all(fault.error for fault in parsed.faults)
    return parsed


def raw_call(arguments: str, name: str = "bash") -> ModelReply:
    return reply(ToolCall("c1", name, arguments))


@given(st.text(min_size=1).filter(lambda text: text.strip() and "\0" not in text))
@settings(max_examples=60)
def test_a_command_is_the_text_that_was_encoded_byte_for_byte(command: str) -> None:
    """PA-09: valid JSON is never touched, whatever quotes and backslashes are in it."""
    assert actions(raw_call(bash_arguments(command))) == [command]
    assert actions(raw_call(json.dumps({"command": command}, ensure_ascii=False))) == [command]
    assert actions(raw_call(json.dumps(bash_arguments(command)))) == [command]


def test_pa_09_escaped_quotes_and_backslashes_survive() -> None:
    command = "echo \"AI\" '\\n' | sed 's/\\\\/x/'"
    assert actions(raw_call(bash_arguments(command))) == [command]


@pytest.mark.parametrize("arguments", ["", "   ", "{}"])
def test_pa_01_empty_arguments_ask_for_the_command_without_talk_of_json(arguments: str) -> None:
    fault = refused(raw_call(arguments)).faults[0]
    assert "Missing 'command' argument" in fault.error
    assert "required" in fault.error
    assert "JSON" not in fault.error


def test_pa_04_one_extra_layer_of_encoding_is_taken_off_and_no_more() -> None:
    inner = '{"command": "ls -la"}'
    assert actions(raw_call(json.dumps(inner))) == ["ls -la"]
    assert actions(raw_call(bash_arguments('"quoted"'))) == ['"quoted"']
    refused(raw_call(json.dumps(json.dumps(inner))))


def test_pa_06_raw_control_characters_inside_strings_are_accepted() -> None:
    assert actions(raw_call('{"command": "printf \'a\nb\tc\'"}')) == ["printf 'a\nb\tc'"]


def test_pa_07_a_json_fault_is_named_with_its_position() -> None:
    error = refused(raw_call('{"command": "make \\\n  all"')).error
    assert "Error parsing tool call arguments" in error
    assert "escape" in error
    assert "line 1, column 19" in error
    assert "end early" not in error


def test_pa_08_unescaped_inner_quotes_are_not_guessed_at() -> None:
    error = refused(raw_call('{"command": "echo "hi" && ls"}')).error
    assert "Error parsing tool call arguments" in error
    assert "end early" not in error


@pytest.mark.parametrize("arguments", ['{"command":"ls"}{"command":"pwd"}', '{"command":"ls"} I will now list files'])
def test_pa_10_text_after_the_object_is_refused(arguments: str) -> None:
    assert "more text after the JSON object" in refused(raw_call(arguments)).error


@pytest.mark.parametrize(
    ("value", "received"),
    [(None, "null"), (123, "a number"), (True, "a boolean"), (["echo", "hi"], "a list"), ({"a": 1}, "an object")],
)
def test_pa_11_a_command_that_is_no_string_names_both_types(value: Any, received: str) -> None:
    error = refused(raw_call(bash_arguments(value))).error
    assert "must be a string" in error
    assert f"received {received}" in error


def test_pa_12_a_wrong_key_is_named_beside_the_one_needed() -> None:
    error = refused(raw_call('{"cmd": "ls"}')).error
    assert "Missing 'command' argument" in error
    assert "`cmd`" in error
    assert '"command"' in error


def test_an_extra_argument_is_refused_rather_than_ignored() -> None:
    assert "`workdir`" in refused(raw_call(bash_arguments("ls", workdir="/tmp"))).error


def test_pa_14_an_unknown_tool_is_answered_with_the_one_there_is() -> None:
    fault = refused(reply(ToolCall("c1", "python", '{"code":"1"}'))).faults[0]
    assert "Unknown tool 'python'" in fault.error
    assert "`bash`" in fault.error
    assert fault.reason is Reason.FORMAT_ERROR


def test_pa_15_only_case_and_outer_blanks_of_the_name_are_normalised() -> None:
    for name in ("Bash", " bash ", "BASH"):
        assert actions(reply(ToolCall("c1", name, bash_arguments("ls")))) == ["ls"]
    assert "Unknown tool 'functions.bash:0'" in refused(raw_call(bash_arguments("ls"), "functions.bash:0")).error
    assert "Unknown tool ''" in refused(raw_call(bash_arguments("ls"), "")).error


PRINTED = [
    'I do it:\n```json\n{"tool_calls": [{"name": "bash", "arguments": {"command": "rm -rf build"}}]}\n```',
    '<tool_call>\n{"name": "bash", "arguments": {"command": "rm -rf build"}}\n</tool_call>',
    '{"name": "bash", "arguments": {"command": "ls"}}',
    "<function=bash><parameter=command>ls</parameter></function>",
    '[TOOL_CALLS][{"name": "bash"}]',
]


@pytest.mark.parametrize("text", PRINTED)
def test_pa_17_a_call_written_as_text_is_asked_for_again_and_never_run(text: str) -> None:
    error = refused(reply(text=text)).error
    assert "No tool calls found" in error
    assert "never run" in error


def test_an_answer_about_tools_is_still_an_answer() -> None:
    for text in ("All done: the `tool_calls` field is read now.", "Use a function call; bash is the name.", "x < tool"):
        assert parse(reply(text=text), "reply") == EndOfTurn(StopReason.END_TURN)


def test_pa_18_a_call_in_the_reasoning_is_no_end_and_no_command() -> None:
    refused(reply(reasoning='<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>'))


def test_pa_19_a_reply_cut_at_the_limit_runs_nothing_and_answers_every_call() -> None:
    said = reply(call("c1", "rm -rf build"), call("c2", "ls"), finish=Finish.MAX_TOKENS)
    for fault in refused(said).faults:
        assert "cut at the token limit" in fault.error
        assert "again" in fault.error


def test_pa_20_unfinished_arguments_are_told_apart_whatever_the_finish_says() -> None:
    for arguments in (
        '{"command":"cat > f <<EOF\nline',
        '{"command":"ls"',
        "{",
        '{"command":"a\\',
        '{"command":"a\\u00',
    ):
        error = refused(raw_call(arguments)).error
        assert "end early" in error, arguments
        assert "not valid" not in error


def test_pa_22_tool_calls_announced_but_none_given() -> None:
    said = reply(finish=Finish.TOOL_CALLS)
    assert "No tool calls found" in refused(said).error
    assert "No tool calls found" in refused(reply(text="Now I call it.", finish=Finish.TOOL_CALLS)).error


@pytest.mark.parametrize(("command", "word"), [("", "blank"), ("  \n", "blank"), ("echo a\0b", "NUL")])
def test_pa_24_blank_commands_and_nul_are_refused(command: str, word: str) -> None:
    assert word in refused(raw_call(bash_arguments(command))).error


def test_ss_08_half_a_surrogate_pair_is_refused_in_writable_text() -> None:
    error = refused(raw_call('{"command":"echo \\ud83d"}')).error
    assert "surrogate" in error
    error.encode()
    assert actions(raw_call('{"command":"echo \\ud83d\\ude00"}')) == ["echo \N{GRINNING FACE}"]


@pytest.mark.parametrize(
    "arguments",
    ['{"command":"ls","command":"pwd"}', '{"command":NaN}', "[1]", "3", '"ls"', "null", "[" * 100_000, "9" * 5000],
)
def test_what_is_no_plain_object_is_refused(arguments: str) -> None:
    assert "Error parsing tool call arguments" in refused(raw_call(arguments)).error


def test_one_bad_call_refuses_the_batch_and_answers_each() -> None:
    """R4: the good calls are told that they were not run because of another one."""
    said = reply(call("c1", "ls"), ToolCall("c2", "bash", "{"), call("c3", "pwd"))
    parsed = refused(said)
    assert [fault.reason for fault in parsed.faults] == [
        Reason.BATCH_REFUSED,
        Reason.FORMAT_ERROR,
        Reason.BATCH_REFUSED,
    ]
    assert "another call" in parsed.faults[0].error


def test_limits_of_size_and_count() -> None:
    assert actions(reply(call("c1", "x" * 96 * 1024))) == ["x" * 96 * 1024]
    assert "98305 bytes" in refused(reply(call("c1", "x" * 96 * 1024 + "y"))).error
    assert "98306 bytes" in refused(reply(call("c1", "é" * 49153))).error
    assert len(actions(reply(*(call(str(n), "ls") for n in range(32))))) == 32
    assert "33 tool calls" in refused(reply(*(call(str(n), "ls") for n in range(33)))).error
    assert "262144" in refused(reply(*(call(str(n), "x" * 90 * 1024) for n in range(3)))).error


def test_a_time_limit_is_taken_only_as_a_number_above_nothing() -> None:
    parsed = parse(raw_call(bash_arguments("ls", timeout=2.5)), "reply")
    assert isinstance(parsed, Actions)
    assert parsed.actions[0].timeout == 2.5
    for bad in (0, -1, "3", True, None, [1]):
        assert "`timeout`" in refused(raw_call(bash_arguments("ls", timeout=bad))).error
    assert "`timeout`" in refused(raw_call('{"command":"ls","timeout":1e999}')).error


def test_ends_of_a_turn_without_calls() -> None:
    assert parse(reply(text="Done."), "reply") == EndOfTurn(StopReason.END_TURN)
    assert parse(reply(text="Half", finish=Finish.MAX_TOKENS), "reply") == EndOfTurn(StopReason.MAX_TOKENS)
    for completion in ("reply", "submit"):
        for finish, stop in [
            (Finish.REFUSAL, StopReason.REFUSAL),
            (Finish.CONTENT_FILTER, StopReason.REFUSAL),
            (Finish.CONTEXT_TOO_LONG, StopReason.CONTEXT_TOO_LONG),
        ]:
            assert parse(reply(text="No.", finish=finish), completion) == EndOfTurn(stop)


@pytest.mark.parametrize("finish", [Finish.UNKNOWN, Finish.PAUSED])
def test_an_unknown_or_paused_end_is_never_success_and_runs_nothing(finish: Finish) -> None:
    refused(reply(text="Done.", finish=finish))
    refused(reply(call("c1", "ls"), finish=finish, finish_raw="weird"))


@pytest.mark.parametrize("finish", [Finish.STOP, Finish.MAX_TOKENS, Finish.UNKNOWN])
def test_submit_needs_a_call_in_every_reply(finish: Finish) -> None:
    assert "No tool calls found" in refused(reply(text="Done.", finish=finish), "submit").error


def test_untrusted_names_cannot_break_the_sentence() -> None:
    error = refused(reply(ToolCall("c1", "evil\x1b[2J\n" + "n" * 500, "{}"))).error
    assert error.isprintable()
    assert len(error) < 500


def test_a_reply_written_as_text_holds_one_action_at_most() -> None:
    two = reply(call("", "ls"), call("", "pwd"), dialect="text", finish=Finish.STOP)
    assert "Expected exactly 1 action, found 2." in refused(two).error
    assert "Expected exactly 1 action, found 0." in refused(reply(text="hm", dialect="text"), "submit").error
