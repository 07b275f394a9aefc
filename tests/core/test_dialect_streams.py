"""Whatever the places at which a reply is split, its stream gives the same reply as the whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.dialects import dialect_for
from agent_core.errors import ProviderFailure
from tests.core.replies import (
    anthropic_body,
    bash_arguments,
    chat_body,
    chat_call,
    chat_chunk,
    function_call,
    output_message,
    reasoning_item,
    responses_body,
    text_block,
    thinking_block,
    tool_use,
)


@dataclass(frozen=True)
class Said:
    """What a model says, before it is put into any wire."""

    thinking: str
    text: str
    commands: list[str]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SAID = st.builds(Said, TEXTS, TEXTS, st.lists(TEXTS, max_size=3)).filter(lambda said: said.text or said.commands)
Pieces = Callable[[str], list[str]]


def pieces_of(draw: Callable[[Any], Any]) -> Pieces:
    def cut(text: str) -> list[str]:
        places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]

    return cut


def chat(said: Said, cut: Pieces) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    calls = [chat_call(f"c{place}", bash_arguments(command)) for place, command in enumerate(said.commands)]
    thinking = {"reasoning_content": said.thinking} if said.thinking else {}
    body = chat_body(said.text or None, calls, **thinking)  # type: ignore[arg-type]
    events = [chat_chunk({"role": "assistant", "content": ""})]
    events += [chat_chunk({"content": part}) for part in cut(said.text)]
    events += [chat_chunk({"reasoning_content": part}) for part in (cut(said.thinking) if said.thinking else [])]
    for index, call in enumerate(calls):
        start = {"index": index, **call, "function": {"name": "bash", "arguments": ""}}
        events.append(chat_chunk({"tool_calls": [start]}))
        for part in cut(call["function"]["arguments"]):
            events.append(chat_chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]}))
    events.append(chat_chunk({}, body["choices"][0]["finish_reason"]))
    return body, [*events, {"choices": [], "usage": body["usage"]}]


def anthropic(said: Said, cut: Pieces) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    blocks = [thinking_block(said.thinking, "S+/=")] if said.thinking else []
    blocks += [text_block(said.text)] if said.text else []
    blocks += [tool_use(f"c{place}", command) for place, command in enumerate(said.commands)]
    body = anthropic_body(*blocks)
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}]
    for index, block in enumerate(blocks):
        empty: dict[str, dict[str, Any]] = {
            "thinking": {"thinking": "", "signature": ""},
            "text": {"text": ""},
            "tool_use": {"input": {}},
        }
        events.append({"type": "content_block_start", "index": index, "content_block": block | empty[block["type"]]})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in block_deltas(block, cut)
        ]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    return body, [*events, {"type": "message_stop"}]


def block_deltas(block: dict[str, Any], cut: Pieces) -> list[dict[str, Any]]:
    if block["type"] == "tool_use":
        text = bash_arguments(block["input"]["command"])
        return [{"type": "input_json_delta", "partial_json": part} for part in cut(text)]
    if block["type"] == "text":
        return [{"type": "text_delta", "text": part} for part in cut(block["text"])]
    deltas = [{"type": "thinking_delta", "thinking": part} for part in cut(block["thinking"])]
    return [*deltas, {"type": "signature_delta", "signature": block["signature"]}]


def responses(said: Said, cut: Pieces) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    items = [reasoning_item(said.thinking)] if said.thinking else []
    items += [output_message(said.text)] if said.text else []
    items += [function_call(f"c{place}", command) for place, command in enumerate(said.commands)]
    body = responses_body(*items)
    events: list[dict[str, Any]] = [{"type": "response.output_text.delta", "delta": part} for part in cut(said.text)]
    for place, item in enumerate(items):
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return body, [*events, {"type": "response.completed", "response": {**body, "output": []}}]


WIRES = {"chat": chat, "anthropic": anthropic, "responses": responses}


@pytest.mark.parametrize("name", WIRES)
@given(said=SAID, data=st.data())
@settings(max_examples=40, deadline=None)
def test_streamed_and_whole_are_the_same_reply(name: str, said: Said, data: st.DataObject) -> None:
    body, events = WIRES[name](said, pieces_of(data.draw))
    dialect = dialect_for("vendor/model", name)
    whole = dialect.decode(body)
    assert [json.loads(call.arguments)["command"] for call in whole.calls] == said.commands
    assembler = dialect.assembler()
    shown = [delta for event in events for delta in assembler.feed(event)]
    assert assembler.finish() == whole
    assert "".join(delta.text for delta in shown if delta.channel == "text") == said.text


@pytest.mark.parametrize("name", WIRES)
@given(said=SAID, data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_stream_cut_anywhere_before_its_end_is_no_reply(name: str, said: Said, data: st.DataObject) -> None:
    """R5: nothing of a stream without its terminal event is taken."""
    _, events = WIRES[name](said, pieces_of(data.draw))
    terminal = len(events) - (2 if name == "chat" else 1)  # chat sends its usage after the finish reason
    assembler = dialect_for("vendor/model", name).assembler()
    for event in events[: data.draw(st.integers(0, terminal))]:
        assembler.feed(event)
    with pytest.raises(ProviderFailure):
        assembler.finish()
