"""What a reply costs."""

from __future__ import annotations

import pytest

from agent_core.prices import cost_of
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
