"""What is told about a value that no model takes."""

from __future__ import annotations

import itertools
import re

import pytest
from pydantic import BaseModel, ValidationError

from agent_core.errors import SettingsError
from agent_core.settings import Settings, build
from agent_core.wrong_values import wrong_values
from editors.terminal.cli import main
from server.protocol import METHODS
from server.protocol import Settings as WireSettings


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"limits": {"maxSteps": -1}}, "`limits.maxSteps`: it must be 0 or more"),
        ({"limits": {"maxSteps": "x"}}, "`limits.maxSteps`: it must be a whole number"),
        ({"limits": 3}, "`limits`: it must be names with values"),
        ({"maxTokens": 0}, "`maxTokens`: it must be more than 0"),
        ({"requestTimeout": float("nan")}, "`requestTimeout`: it must be more than 0"),
        ({"mode": "foo"}, "`mode`: it must be 'ask', 'rules', 'plan' or 'trusted'"),
        ({"stream": 7}, "`stream`: it must be true or false"),
        ({"model": 7}, "`model`: it must be text"),
        ({"models": 7}, "`models`: it must be a list"),
        ({"command": {"env": {"NAME": 1}}}, "`command.env.NAME`: it must be text"),
        ({"rules": [{"match": [], "decision": "deny"}]}, "`rules.0.match`: it must not be empty"),
        ({"rules": [{"match": ["a"]}]}, "`rules.0.decision`: it is missing"),
        ({"rules": [7]}, "`rules.0`: it must be names with values or text"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_taken(values: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        build(values, "The file")
    assert str(refused.value) == f"The file: {told}."


def test_no_word_of_the_library_is_told() -> None:
    whys: list[str] = []
    models: list[type[BaseModel]] = [Settings, WireSettings, *(method.params for method in METHODS.values())]
    values: list[object] = ["", 7, -1.5, float("nan"), "x" * 200, [7], [{}], {"a": 7}, None]
    for model, value in itertools.product(models, values):
        try:
            model.model_validate({"nothing": value} | dict.fromkeys(model.model_fields, value))
        except ValidationError as refused:
            whys += [why for _, why in wrong_values(refused)]
    assert len(whys) > 300
    assert not [why for why in whys if re.search("input|required|valid|dictionary|string|integer", why, re.IGNORECASE)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("limits.maxSteps=-1", "limits.maxSteps: it must be 0 or more"),
        ("limits.maxSteps=many", "limits.maxSteps: it must be a whole number"),
        ('rules=[{"match":["a"],"decision":"maybe"}]', "rules.0.decision: it must be 'allow', 'ask' or 'deny'"),
    ],
)
def test_a_wrong_value_on_the_command_line_is_told(capsys: pytest.CaptureFixture[str], given: str, told: str) -> None:
    assert main(["settings", "--show", "--set", given]) == 2
    assert capsys.readouterr().err == f"handrail: {told}\n  `handrail settings` lists all of them.\n"
