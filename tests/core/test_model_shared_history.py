"""The worker always puts together the whole conversation, however it changed and whoever was told what."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.provider_worker import Worker
from agent_core.shared_history import SharedHistory
from agent_core.worker_process import WorkerProcess


class FakeProcess:
    """A process in name only: what it is sent passes through JSON into a real `Worker`."""

    def __init__(self) -> None:
        self.worker = Worker(None, lambda _: None)
        self.told: list[Any] = []

    def tell(self, message: Any) -> None:
        self.told.append(message)

    def ask(self, shared: SharedHistory, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
        ask = json.loads(json.dumps(shared.parts(body, cast("WorkerProcess", self))))
        sent = len(ask["history"]["more"])
        self.worker._complete(ask)
        return ask["body"], sent


MESSAGE = st.fixed_dictionaries({"role": st.sampled_from("ab"), "content": st.sampled_from(["x", "y"])})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(MESSAGE, max_size=6), st.integers(0, 1), st.integers(0, 1)), max_size=8))
def test_the_whole_body_arrives(steps: list[tuple[list[dict[str, str]], int, int]]) -> None:
    processes = [FakeProcess(), FakeProcess()]
    conversations = [SharedHistory(), SharedHistory()]
    for messages, process, conversation in steps:
        body = {"model": "m", "input" if conversation else "messages": messages, "more": 1}
        assert processes[process].ask(conversations[conversation], body)[0] == body


def test_only_what_is_new_is_sent() -> None:
    process, shared = FakeProcess(), SharedHistory()
    messages = [{"n": number} for number in range(100)]
    assert process.ask(shared, {"messages": messages})[1] == 100
    assert process.ask(shared, {"messages": [*messages, {"n": 100}]})[1] == 1
    assert process.ask(shared, {"messages": [*messages, {"n": 100}]})[1] == 0
    assert process.ask(shared, {"messages": [{"n": -1}, *messages[1:]]})[1] == 100


def test_a_forgotten_conversation_is_told_anew() -> None:
    process, shared = FakeProcess(), SharedHistory()
    process.ask(shared, {"messages": [{"n": 1}]})
    shared.forget()
    assert len(process.told) == 1
    assert process.ask(shared, {"messages": [{"n": 1}]}) == ({"messages": [{"n": 1}]}, 1)
