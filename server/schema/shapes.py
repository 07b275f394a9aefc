"""Reads the definition of the wire: every object with its members, every open vocabulary, and how types are spelled.

Invariants: the order is that of the definition, so the same definition always gives the same text. A member may be left
out by a client if it has a default, and by the server if it may be None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, Union, get_args, get_origin

from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from server.protocol import Params, Wire, messages, session, settings, words
from server.protocol.base import StrictParams
from server.protocol.words import Words

T = TypeVar("T")


class Style(Protocol, Generic[T]):
    """How a target language spells types."""

    def plain(self, kind: type) -> T:
        """Spell str, int, float or bool."""

    def many(self, item: T) -> T:
        """Spell a list."""

    def table(self, item: T) -> T:
        """Spell a map from text."""

    def one_of(self, choices: tuple[str, ...]) -> T:
        """Spell a closed choice of words."""

    def named(self, name: str) -> T:
        """Spell a reference to a shape or a vocabulary."""

    def either(self, parts: list[T]) -> T:
        """Spell a union."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a shape, by its name on the wire."""

    name: str
    field: FieldInfo
    of_params: bool

    @property
    def doc(self) -> str:
        """What it is."""
        return self.field.description or ""

    @property
    def optional(self) -> bool:
        """Whether it may be left out: by a client if there is a default, by the server if it may be None."""
        return not self.field.is_required() if self.of_params else NoneType in get_args(self.field.annotation)

    @property
    def nullable(self) -> bool:
        """Whether null means something else than leaving it out."""
        takes_none = NoneType in get_args(self.field.annotation)
        return self.of_params and takes_none and self.field.default is not None

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds of its value, by their names in pydantic."""
        names = ("ge", "gt", "le", "min_length")
        found = ((name, getattr(bound, name, None)) for bound in self.field.metadata for name in names)
        return {name: value for name, value in found if value is not None}

    def spell(self, style: Style[T]) -> T:
        """Spell its type without null."""
        for word in self.field.metadata:
            if isinstance(word, Words):
                return style.named(word.name)
        return _spell(self.field.annotation, style)


@dataclass(frozen=True, slots=True)
class Shape:
    """One object on the wire."""

    name: str
    doc: str
    members: tuple[Member, ...]
    closed: bool


def shapes() -> list[Shape]:
    """Give every object of the wire, in the order of its definition."""
    return [_shape(model) for module in (settings, session, messages) for model in _models(module)]


def vocabularies() -> list[Words]:
    """Give every open vocabulary, in the order of its definition."""
    return [part for alias in vars(words).values() for part in get_args(alias)[1:] if isinstance(part, Words)]


def _models(module: ModuleType) -> Iterator[type[Wire]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Wire) and value.__module__ == module.__name__:
            yield value


def _shape(model: type[Wire]) -> Shape:
    of_params = issubclass(model, Params)
    members = tuple(Member(to_camel(name), field, of_params) for name, field in model.model_fields.items())
    return Shape(model.__name__, _sentence(model.__doc__ or ""), members, issubclass(model, StrictParams))


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _spell(annotation: Any, style: Style[T]) -> T:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        vocabulary = next((part for part in args[1:] if isinstance(part, Words)), None)
        return style.named(vocabulary.name) if vocabulary else _spell(args[0], style)
    if origin in (Union, UnionType):
        parts = [_spell(part, style) for part in args if part is not NoneType]
        return parts[0] if len(parts) == 1 else style.either(parts)
    if origin is list:
        return style.many(_spell(args[0], style))
    if origin is dict:
        return style.table(_spell(args[1], style))
    if origin is Literal:
        return style.one_of(args)
    if issubclass(annotation, Wire):
        return style.named(annotation.__name__)
    return style.plain(annotation)
