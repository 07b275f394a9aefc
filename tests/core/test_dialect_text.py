"""Commands written as text: one fenced block per reply, whose end is beyond doubt, or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agent_core.dialects import Query, dialect_for
from agent_core.dialects.text import FENCE
from agent_core.parsing import Actions, EndOfTurn, FormatError, Parsed, parse
from agent_core.types import Message, ModelReply, StopReason, UserMessage
from tests.core.replies import bash, call, chat_body, chat_chunk, reply, results, turn
from tests.wire.strict import check

SMALL = "ollama/small"


def decode(text: str, **members: Any) -> ModelReply:
    return dialect_for(SMALL, "text").decode(chat_body(text, **members))


def read(text: str, **members: Any) -> Parsed:
    return parse(decode(text, **members), "reply")


def command_of(text: str) -> str:
    parsed = read(text)
    assert isinstance(parsed, Actions), parsed
    (action,) = parsed.actions
    return action.command


def block(command: str, fence: str = "```") -> str:
    return f"{fence}{FENCE}\n{command}\n{fence}"


def test_one_block_is_one_command_byte_for_byte() -> None:
    assert command_of(f"I look.\n\n{block('ls -la')}") == "ls -la"
    assert command_of(block("cat <<'E'\n  a\n\nE")) == "cat <<'E'\n  a\n\nE"
    assert command_of(f"For example:\n```python\nx\n```\n{block('ls')}\nThat is all.") == "ls"


def test_a_longer_fence_holds_shorter_ones() -> None:
    command = "cat > a.md <<'E'\n```\ncode\n```\nE"
    assert command_of(block(command, "````")) == command


@pytest.mark.parametrize(
    "text",
    [
        block("cat > a.md <<'E'\n```\ncode\n```\nE"),
        block("cat > a.md <<'E'\n```python\ncode\n```\nE"),
        f"```{FENCE}\nrm -rf build",
        f"```{FENCE}\nrm -rf build ```",
        f"{block('ls')}\n```\nmore\n```",
        f"````{FENCE}\nls\n```",
    ],
)
def test_a_block_whose_end_is_in_doubt_runs_nothing(text: str) -> None:
    parsed = read(text)
    assert isinstance(parsed, FormatError), parsed
    assert "fence" in parsed.error or "not closed" in parsed.error


def test_several_blocks_are_refused_with_their_number() -> None:
    parsed = read(f"{block('ls')}\n{block('pwd')}")
    assert isinstance(parsed, FormatError)
    assert "Expected exactly 1 action, found 2." in parsed.error


def test_no_block_is_an_answer_or_in_submit_an_error() -> None:
    assert read("All done. Try `ls`, or:\n```bash\nls\n```") == EndOfTurn(StopReason.END_TURN)
    parsed = parse(decode("All done."), "submit")
    assert isinstance(parsed, FormatError)
    assert "Expected exactly 1 action, found 0." in parsed.error


def test_a_cut_reply_and_real_calls_run_nothing() -> None:
    assert isinstance(read(block("ls"), finish="length"), FormatError)
    assert isinstance(read("x", calls=[bash("c1", "ls")]), FormatError)
    assert isinstance(read(block(" ")), FormatError)


def test_streamed_and_whole_are_the_same_reply() -> None:
    text = f"I look.\n{block('ls')}"
    assembler = dialect_for(SMALL, "text").assembler()
    for place in range(0, len(text), 3):
        assembler.feed(chat_chunk({"role": "assistant", "content": text[place : place + 3]}))
    assembler.feed({**chat_chunk({}, "stop"), "usage": chat_body("x")["usage"]})
    assert assembler.finish() == decode(text)


def test_the_request_explains_the_fence_and_offers_no_tool() -> None:
    own = turn(decode(f"I look.\n{block('ls')}"))
    foreign = turn(reply(call("c1", "cat <<E\n```\nE"), text="And", model="openai/gpt"))
    history: list[Message] = [UserMessage("task"), own, *results(own, "files"), foreign, *results(foreign, "text")]
    body = dialect_for(SMALL, "text").encode(Query(SMALL, "You help.", history, 9, {"tools": [], "temperature": 0}))
    check("text", body)
    system, *messages = body["messages"]
    assert FENCE in system["content"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == f"I look.\n{block('ls')}"
    assert command_of(messages[3]["content"]) == "cat <<E\n```\nE"
