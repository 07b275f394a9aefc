"""A history that fits: old outputs first, then whole exchanges, and never a call without its result."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.dialects import Query, dialect_for
from agent_core.dialects.budget import estimated_tokens, shorten
from agent_core.types import AssistantTurn, Message, Observation, UserMessage
from tests.core.replies import call, reply, results, turn
from tests.wire.strict import check


def pairs(count: int, output: str, command: str = "ls") -> list[Message]:
    history: list[Message] = [UserMessage("the first task")]
    for number in range(count):
        said = turn(reply(call(f"c{number}", command)), f"k{number}")
        history += [said, *results(said, f"{output}{number}")]
    return history


def total(history: list[Message]) -> int:
    return sum(map(estimated_tokens, history))


def turns(history: list[Message]) -> int:
    return sum(isinstance(message, AssistantTurn) for message in history)


def test_a_history_that_fits_is_sent_as_it_is() -> None:
    history = pairs(3, "x")
    assert shorten(history, 10_000) is history


def test_old_outputs_go_first_and_the_model_is_told() -> None:
    history = pairs(10, "y" * 3000)
    short = list(shorten(history, total(history) * 2 // 3))
    assert turns(short) == 10
    assert short[0] == history[0]
    assert isinstance(short[1], UserMessage)
    assert (short[1].origin, "outputs of" in short[1].text) == ("notice", True)
    assert short[-4:] == history[-4:]
    outputs = [message.text for message in short if isinstance(message, Observation)]
    assert "left out" in outputs[0]
    assert "left out" not in outputs[-3]


def test_id_12_the_cut_falls_between_exchanges_and_the_first_task_stays() -> None:
    history = pairs(10, "short", "echo " + "x" * 2000)
    short = list(shorten(history, total(history) * 7 // 10))
    assert 2 <= turns(short) < 10
    assert short[0] == history[0]
    assert isinstance(short[1], UserMessage)
    assert f"{10 - turns(short)} earlier steps" in short[1].text
    check("chat", dialect_for("openai/gpt", None).encode(Query("openai/gpt", "s", short)))


def test_what_the_person_said_later_stays() -> None:
    history = [*pairs(4, "y" * 3000), UserMessage("second task"), *pairs(4, "z" * 3000)[1:]]
    assert UserMessage("second task") in shorten(history, 1)
    correction = UserMessage("No tool calls found", "correction")
    history = [UserMessage("t"), turn(reply(text="hm " * 900)), correction, *pairs(4, "y" * 3000)[1:]]
    assert correction not in shorten(history, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000)), max_size=12), st.integers(1, 6000))
@settings(max_examples=40, deadline=None)
def test_every_cut_is_a_sound_history(shape: list[tuple[int, int]], budget: int) -> None:
    history: list[Message] = [UserMessage("task")]
    for number, (calls, size) in enumerate(shape):
        said = turn(reply(*(call("c", "ls") for _ in range(calls)), text="x"), *(f"{number}.{n}" for n in range(calls)))
        history += [said, *results(said, *["o" * size] * calls), UserMessage("go on", "correction")]
    before = list(history)
    for name in ("chat", "anthropic", "responses", "text"):
        check(name, dialect_for("openai/gpt", name).encode(Query("openai/gpt", "s", shorten(history, budget))))
    assert history == before
    assert shorten(history, budget) == shorten(history, budget)


def test_a_growing_history_keeps_its_beginning_for_a_while() -> None:
    """So that most queries find what the provider cached of the query before."""
    history = pairs(40, "y" * 2000)
    beginnings = [list(shorten(history[: 1 + 2 * count], 6000))[:6] for count in range(15, 41)]
    changes = sum(one != other for one, other in itertools.pairwise(beginnings))
    assert changes < len(beginnings) // 2


@pytest.mark.parametrize("budget", [0, 1])
def test_a_budget_that_cannot_be_met_keeps_the_task_and_the_last_exchanges(budget: int) -> None:
    history = pairs(6, "y" * 900)
    short = list(shorten(history, budget))
    assert (short[0], short[-4:]) == (history[0], history[-4:])
    assert turns(short) == 2
