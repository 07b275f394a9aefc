"""Tells in plain words which values of a setting or a message are wrong, and what would be taken instead.

Invariants: the value itself is never told, since it may be a secret; each place is told once.
"""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_WORDS = {
    "missing": "it is missing",
    "extra_forbidden": "it is not known",
    "int_type": "it must be a whole number",
    "float_type": "it must be a number",
    "bool_type": "it must be true or false",
    "string_type": "it must be text",
    "list_type": "it must be a list",
    "dict_type": "it must be names with values",
    "model_type": "it must be names with values",
    "literal_error": "it must be {expected}",
    "greater_than": "it must be more than {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "too_short": "it must not be empty",
    "string_too_short": "it must not be empty",
    "string_too_long": "it must have at most {max_length} characters",
}


def wrong_values(error: ValidationError) -> list[tuple[str, str]]:
    """Return the dotted place of each wrong value, and why it is wrong."""
    told: dict[str, str] = {}
    for fault in error.errors(include_url=False, include_input=False):
        place, why = place_of(fault), _why(fault)
        told[place] = f"{told[place]} or {why.removeprefix('it must be ')}" if place in told else why
    return [  # of the types that a place may have, the one that was nearly right is told
        (place, why) for place, why in told.items() if not any(other.startswith(f"{place}.") for other in told)
    ]


def place_of(fault: ErrorDetails) -> str:
    """Return where a fault is, without the types that an entry of a list may have."""
    places = [str(each) for each in fault["loc"]]
    return ".".join(
        place
        for at, place in enumerate(places)
        if not (at and places[at - 1].isdecimal() and (place == "str" or place[:1].isupper()))
    )


def _why(fault: ErrorDetails) -> str:
    words = _WORDS.get(fault["type"])
    return fault["msg"].removeprefix("Value error, ") if words is None else words.format_map(fault.get("ctx", {}))
