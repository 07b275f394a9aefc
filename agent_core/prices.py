"""What a reply cost, from the price entry of its model.

An entry is one of litellm's price map, and so of a custom price file: `input_cost_per_token`,
`output_cost_per_token`, `cache_read_input_token_cost`, `cache_creation_input_token_cost`, each with variants
`_above_<N>k_tokens` for long inputs; US dollars.

Invariants: an unknown price is None, never 0 (R13); a price of 0 in the entry is a known one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_core.errors import SettingsError
from agent_core.regular_files import read_regular, why_unread
from agent_core.types import Usage

_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


def cost_of(usage: Usage, entry: Mapping[str, Any] | None) -> float | None:
    """Return what `usage` costs in US dollars by a price entry; None if there is none or it names no price."""
    if entry is None or entry.get("input_cost_per_token") is None or entry.get("output_cost_per_token") is None:
        return None
    tier = _tier(usage.input_tokens, entry)

    def price(name: str, otherwise: float) -> float:
        value = entry.get(name + tier, entry.get(name))
        return float(value) if value is not None else otherwise

    fresh = price("input_cost_per_token", 0.0)
    plain_tokens = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    return (
        plain_tokens * fresh
        + usage.cache_read_tokens * price("cache_read_input_token_cost", fresh)
        + usage.cache_write_tokens * price("cache_creation_input_token_cost", fresh)
        + usage.output_tokens * price("output_cost_per_token", 0.0)
    )


def priced(usage: Usage, entry: Mapping[str, Any] | None) -> Usage:
    """Return `usage` with its cost: what the provider told, else by the entry; unknown too if no tokens were told."""
    if usage.cost is not None or not (usage.input_tokens or usage.output_tokens):
        return usage
    return replace(usage, cost=cost_of(usage, entry))


def entry_for(model: str, prices: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the entry of a model by its whole name, else by its name without the provider; None if it has none."""
    return prices.get(model) or prices.get(model.partition("/")[2])


def read_price_file(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of a custom price file; raise `SettingsError` with the path and the line of what is wrong."""
    try:
        text = read_regular(path).decode()
        entries = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The price file {path} cannot be read: {why_unread(error)}. Check its path.") from error
    except json.JSONDecodeError as error:
        raise SettingsError(f"The price file {path}, line {error.lineno}: {error.msg}. Correct it.") from error
    except RecursionError:
        raise SettingsError(f"The price file {path} is nested too deeply to be read. Correct it.") from None
    if not isinstance(entries, dict):
        raise SettingsError(
            f"The price file {path}, line 1: it holds no object of models and their prices. Correct it."
        )
    for model, entry in entries.items():
        if fault := _fault(entry):
            line = text[: max(0, text.find(json.dumps(model, ensure_ascii=False)))].count("\n") + 1
            raise SettingsError(f"The price file {path}, line {line}: {model}: {fault}. Correct it.")
    return entries


def _fault(entry: Any) -> str:
    if not isinstance(entry, dict):
        return "the entry is no object"
    for name, value in entry.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        if "_cost" in name and "per_token" in name and value is not None and not is_number:
            return f"{name} is {json.dumps(value)}, not a number of US dollars"
    return ""


def _tier(input_tokens: int, entry: Mapping[str, Any]) -> str:
    """Return the ending of the price names that hold for an input of this length."""
    above = [int(match[1]) for name in entry if (match := _TIER.fullmatch(name))]
    reached = [thousands for thousands in above if input_tokens > thousands * 1000]
    return f"_above_{max(reached)}k_tokens" if reached else ""
