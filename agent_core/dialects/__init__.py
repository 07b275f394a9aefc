"""Dialects: pure, two-way translations between the core's conversation and one provider's shapes.

Invariants: a dialect never does I/O, never invents a command and never changes the record it is given; what it cannot
read becomes a `ProviderFailure` or a `Finish.UNKNOWN`, never a guess. Adding a dialect is one file and one line here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_core.errors import SettingsError
from agent_core.types import Message, ModelReply


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it streams, for display only."""

    channel: Literal["text", "reasoning"]
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a model: the conversation in the core's values, and the options of the person's settings."""

    model: str
    system: str
    history: Sequence[Message]
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # modelOptions, given to the provider as they are
    images: bool = False  # whether images marked in outputs are sent as images


class Assembler(Protocol):
    """Puts one streamed reply together; made anew for every attempt."""

    def feed(self, chunk: Mapping[str, Any]) -> list[Delta]:
        """Take the next event of the stream and return what can be displayed of it."""

    def finish(self) -> ModelReply:
        """Return the reply; raise `ProviderFailure` if the stream did not reach its terminal event (R5)."""


class Dialect(Protocol):
    """One provider's shapes, both ways."""

    name: str

    def encode(self, query: Query) -> dict[str, Any]:
        """Return the body of the provider's request."""

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole reply; raise `ProviderFailure` for one that is none."""

    def assembler(self) -> Assembler:
        """Return an empty assembler for one streamed reply."""


_DIALECTS = {
    "chat": "agent_core.dialects.chat:ChatDialect",
    "responses": "agent_core.dialects.responses:ResponsesDialect",
    "anthropic": "agent_core.dialects.anthropic:AnthropicDialect",
    "text": "agent_core.dialects.text:TextDialect",
}

_BY_MODEL = (
    (re.compile(r"(?:anthropic/)?claude|anthropic/", re.IGNORECASE), "anthropic"),
    (
        re.compile(
            r"(?:[a-z_]+/)?responses/|(?:openai/)?(?:gpt-5[\w.-]*-(?:codex|pro)|codex-|o[13]-pro)", re.IGNORECASE
        ),
        "responses",
    ),
)
"""Which names speak something other than `chat`, which litellm speaks to every other vendor."""


def dialect_for(model: str, setting: str | None = None) -> Dialect:
    """Return a new dialect for a model's name as litellm takes it; `setting` overrides what follows from the name.

    A dialect belongs to one session: it remembers what it encoded, so that a long history is not encoded anew for every
    query. Raises `SettingsError` for a dialect that does not exist.
    """
    name = setting or next((name for pattern, name in _BY_MODEL if pattern.match(model)), "chat")
    if name not in _DIALECTS:
        raise SettingsError(
            f"There is no dialect '{name}'. Set `dialect` to one of {', '.join(_DIALECTS)}, or leave it out."
        )
    module, _, kind = _DIALECTS[name].partition(":")
    dialect: Dialect = getattr(importlib.import_module(module), kind)(model)
    return dialect
