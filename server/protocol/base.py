"""The bases of all wire models, which fix how names, nulls and unknown members are treated.

Invariants: names are camelCase on the wire and snake_case here. The server leaves out members that are None; only in
params does a written null mean something. A member that a side does not know is ignored, except in settings, where it
is refused with the nearest known name. Types are strict: a number is never taken for text, nor text for a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """Base of every model on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        strict=True,
        frozen=True,
        defer_build=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """Give the JSON object that is sent: camelCase, without members that are None."""
        return self.model_dump(by_alias=True, exclude_none=True)


class Params(Wire):
    """Base of what a client sends: what was given is sent, null included; what was not given is left out."""

    def to_wire(self) -> dict[str, Any]:
        """Give the JSON object that is sent: camelCase, only members that were given."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class StrictParams(Params):
    """Params whose unknown members are refused with the nearest known name, since a typing error there is dangerous."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: object) -> object:
        if isinstance(data, Mapping) and (unknown := [name for name in data if name not in cls._known_names()]):
            raise ValueError("; ".join(cls._about_unknown(str(name)) for name in unknown))
        return data

    @classmethod
    def _known_names(cls) -> set[str]:
        return {*cls.model_fields, *(to_camel(name) for name in cls.model_fields)}

    @classmethod
    def _about_unknown(cls, name: str) -> str:
        from difflib import get_close_matches

        names = [to_camel(known) for known in cls.model_fields]
        near = get_close_matches(name, names, n=2, cutoff=0.6)
        hint = " or ".join(f"'{known}'" for known in near)
        way_out = f"did you mean {hint}?" if near else f"known are {', '.join(names)}"
        return f"there is no setting '{name}': {way_out}"
