"""The table of all settings in the README, made from the core's models.

Invariants: names are those of the wire and of editors, nested ones with their group before a dot; what a model does
not say is not in the table.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from agent_core.settings import Settings

BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"
_KINDS = {str: "text", bool: "true or false", int: "whole number", float: "number"}


def with_settings(page: str) -> str:
    """Return the page with the table between its markers; raises ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the markers {BEGIN.strip()} and {END}")
    return before + begin + settings_table() + end + after


def settings_table() -> str:
    """Return the table."""
    lines = ["| setting | values | default | meaning |", "|---|---|---|---|", *_rows(Settings, "")]
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], group: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        told = group + to_camel(name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _rows(field.annotation, f"{told}.")
        else:
            yield f"| `{told}` | {_values(field.annotation)} | {_default(field)} | {_cell(field.description or '')} |"


def _values(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_values(each) for each in arguments if each is not type(None))
    if origin is list:
        return f"list of {_values(arguments[0])}"
    if origin is dict:
        return "names with values"
    return _KINDS.get(kind, "rule")


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value in (None, "", [], {}):
        return ""
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
