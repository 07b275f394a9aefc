"""Several models in turn or at random."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agent_core.errors import ProviderFailure, SettingsError
from agent_core.model import Model
from agent_core.rotation import Rotation
from agent_core.types import AssistantTurn, FailureKind, Message
from tests.core.test_model import Scripted
from tests.wire import chat_bodies
from tests.wire.plain_dialect import PlainDialect


def model(name: str, *script: Any, window: int | None = None) -> Model:
    source = Scripted(*script)
    source.context_window = window
    return Model(name, PlainDialect(), source)


async def ask(rotation: Rotation, history: list[Message]) -> str:
    reply = await rotation.query("", history, on_delta=lambda _: None, on_retry=lambda _: None)
    history.append(AssistantTurn(reply, ()))
    return rotation.name


async def test_in_turn_goes_on_after_a_resume_and_waits_for_a_failed_one() -> None:
    done = chat_bodies.reply("done")
    failed = ProviderFailure(FailureKind.BAD_REQUEST, "no")
    history: list[Message] = []
    first = Rotation([model("a", done), model("b", failed, done)])
    assert await ask(first, history) == "a"
    with pytest.raises(ProviderFailure):
        await ask(first, history)
    assert await ask(first, history) == "b"
    resumed = Rotation([model("a", done), model("b", done), model("c", done)])
    assert [await ask(resumed, history), await ask(resumed, history)] == ["c", "a"]


async def test_at_random_every_model_has_its_part() -> None:
    replies = [chat_bodies.reply("done")] * 30
    rotation = Rotation([model("a", *replies), model("b", *replies)], chance=random.Random(1))  # noqa: S311
    history: list[Message] = []
    assert {await ask(rotation, history) for _ in range(20)} == {"a", "b"}


def test_the_smallest_known_window_counts() -> None:
    assert Rotation([model("a"), model("b", window=8000), model("c", window=9000)]).context_window == 8000
    assert Rotation([model("a")]).context_window is None
    with pytest.raises(SettingsError):
        Rotation([])
