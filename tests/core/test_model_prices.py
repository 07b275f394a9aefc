"""What a reply costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_core.errors import SettingsError
from agent_core.prices import cost_of, entry_for, priced, read_price_file
from agent_core.types import Usage

ENTRY = {
    "input_cost_per_token": 2.0,
    "output_cost_per_token": 10.0,
    "cache_read_input_token_cost": 0.5,
    "input_cost_per_token_above_200k_tokens": 4.0,
    "output_cost_per_token_above_200k_tokens": 20.0,
}


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(100, 10), 300.0),
        (Usage(100, 10, cache_read_tokens=40), 60 * 2 + 40 * 0.5 + 100),
        (Usage(100, 10, cache_read_tokens=40, cache_write_tokens=60), 60 * 2 + 40 * 0.5 + 100),
        (Usage(200_000, 1), 400_010.0),
        (Usage(200_001, 1), 800_024.0),
        (Usage(), 0.0),
    ],
)
def test_each_kind_of_token_has_its_price(usage: Usage, cost: float) -> None:
    assert cost_of(usage, ENTRY) == pytest.approx(cost)


def test_an_unknown_price_is_none_and_a_free_one_is_zero() -> None:
    """CO-02, CO-03 (R13)."""
    assert cost_of(Usage(5, 5), None) is None
    assert cost_of(Usage(5, 5), {"max_tokens": 100}) is None
    assert cost_of(Usage(5, 5), {"input_cost_per_token": 0, "output_cost_per_token": 0.0}) == 0.0


def test_a_reply_that_tells_no_tokens_has_an_unknown_cost() -> None:
    assert priced(Usage(cost=None), ENTRY).cost is None
    assert priced(Usage(5, 5, cost=0.0), ENTRY).cost == 0.0
    assert priced(Usage(5, 5, cost=None), ENTRY).cost == 60.0


def test_an_entry_is_found_by_name_with_and_without_provider() -> None:
    prices = {"openai/a": {"x": 1}, "b": {"x": 2}}
    assert entry_for("openai/a", prices) == {"x": 1}
    assert entry_for("openai/b", prices) == {"x": 2}
    assert entry_for("c", prices) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n "m": {\n', "line 3"),
        ("[]", "line 1: it holds no object"),
        ('{\n "a": {},\n "m": 3\n}', "line 3: m: the entry is no object"),
        ('{\n "m": {"input_cost_per_token": "1"}}', 'line 2: m: input_cost_per_token is "1"'),
        ('{"m": {"output_cost_per_token_above_200k_tokens": -1}}', "is -1, not a number"),
    ],
)
def test_a_broken_price_file_is_told_with_path_and_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"prices\.json") as raised:
        read_price_file(path)
    assert words in str(raised.value)


def test_a_missing_price_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.json cannot be read"):
        read_price_file(tmp_path / "none.json")


def test_a_good_price_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"m": {"input_cost_per_token": 1e-6, "mode": "chat"}}')
    assert read_price_file(path) == {"m": {"input_cost_per_token": 1e-6, "mode": "chat"}}
