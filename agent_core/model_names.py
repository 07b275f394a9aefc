"""What a model's name tells by itself: its provider, and whether it says how to speak to it.

Invariants: pure; names are taken as litellm takes them; a name that tells nothing is no fault.
"""

from __future__ import annotations

import re

MISTRAL = re.compile(r"mi(?:ni)?stral|mixtral|codestral|devstral|magistral|pixtral", re.IGNORECASE)

_BARE_NAMES = (
    (re.compile(r"claude", re.IGNORECASE), "anthropic"),
    (re.compile(r"gpt|chatgpt|codex|o\d", re.IGNORECASE), "openai"),
    (re.compile(r"gemini", re.IGNORECASE), "vertex_ai"),  # with `gemini/` before it, it is the other door to them
    (re.compile(r"deepseek", re.IGNORECASE), "deepseek"),
    (re.compile(r"kimi|moonshot", re.IGNORECASE), "moonshot"),
    (MISTRAL, "mistral"),
)
_ROUTE = re.compile(r"(?:^|(?<=/))responses/")


def provider_of(model: str) -> str:
    """Return the provider in a model's name (`openai/gpt-5`), or the one a bare name belongs to; "" if unknown."""
    prefix, slash, _ = without_route(model).partition("/")
    if slash:
        return prefix.lower()
    return next((name for pattern, name in _BARE_NAMES if pattern.match(prefix)), "")


def without_route(model: str) -> str:
    """Return a model's name without `responses/`, which only says how to speak to it (`openai/responses/gpt-5`)."""
    return _ROUTE.sub("", model, count=1)
