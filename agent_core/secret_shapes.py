"""Texts that are secrets by their look: the well-known shapes of keys and tokens, whole and cut off at the end.

Invariants: every shape has a fixed introduction and a bounded body, and begins only where no token is already under
way, so that searching is linear. `SHAPE_BEGINNING` matches at every place where a `SHAPE` may begin that the end of
the data cuts off; both come from the same description.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Part = tuple[str, int, int]
"""A character class of a regular expression with the fewest and the most of its characters."""

_WORD = "[A-Za-z0-9_-]"
_PLAIN = "[A-Za-z0-9]"
_ADDRESS = "[A-Za-z0-9_.~+/=%-]"


@dataclass(frozen=True, slots=True)
class _Shape:
    introduction: str  # literal text, also what a quick search looks for
    parts: tuple[Part, ...]
    needs_digit: bool = False  # for introductions that ordinary words share
    shows_introduction: bool = False


_SHAPES = (
    _Shape("sk-", ((_WORD, 16, 512),), needs_digit=True),
    _Shape("sk_live_", ((_PLAIN, 16, 255),)),
    _Shape("sk_test_", ((_PLAIN, 16, 255),)),
    _Shape("rk_live_", ((_PLAIN, 16, 255),)),
    _Shape("gsk_", ((_PLAIN, 20, 255),)),
    _Shape("xai-", ((_PLAIN, 20, 255),), needs_digit=True),
    _Shape("hf_", ((_PLAIN, 30, 255),)),
    _Shape("gh", (("[opusr]", 1, 1), ("_", 1, 1), (_PLAIN, 30, 255))),
    _Shape("github_pat_", ((_WORD, 30, 255),)),
    _Shape("glpat-", ((_WORD, 20, 255),)),
    _Shape("npm_", ((_PLAIN, 30, 255),)),
    _Shape("pypi-", ((_WORD, 50, 512),)),
    _Shape("xox", (("[abeprs]", 1, 1), ("-", 1, 1), (_WORD, 10, 255))),
    _Shape("AIza", ((_WORD, 30, 64),)),
    _Shape("AKIA", (("[A-Z0-9]", 16, 16),)),
    _Shape("ASIA", (("[A-Z0-9]", 16, 16),)),
    _Shape("eyJ", ((_WORD, 10, 4096), ("[.]", 1, 1), (_WORD, 10, 4096), ("[.]", 1, 1), (_WORD, 10, 1024))),
    _Shape("Bearer ", ((_ADDRESS, 16, 2048),), needs_digit=True, shows_introduction=True),
    _Shape("bearer ", ((_ADDRESS, 16, 2048),), needs_digit=True, shows_introduction=True),
    _Shape("?key=", ((_ADDRESS, 16, 512),), needs_digit=True, shows_introduction=True),
    _Shape("&key=", ((_ADDRESS, 16, 512),), needs_digit=True, shows_introduction=True),
    _Shape(
        "-----BEGIN ",
        (
            ("[A-Z ]", 0, 24),
            *((f"[{letter}]", 1, 1) for letter in "PRIVATE KEY-----"),
            (r"[A-Za-z0-9+/=\r\n\\]", 32, 8192),
        ),
    ),
)

# Where a token may begin: after anything that is no part of one, after a terminal's colour sequence, after an escape
# of JSON and after a percent-encoded byte. Each of these ends with a character that no body can hold before it.
_BOUNDARY = (
    r"(?:(?<![A-Za-z0-9_-])|(?<=\x1b\[[mK])|(?<=\x1b\[\dm)|(?<=\x1b\[\d\dm)|(?<=\x1b\[\d;\d\dm)"
    r"|(?<=\x1b\[\d\d;\d\dm)|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
)
_NEEDS_DIGIT = f"(?={_ADDRESS.replace('0-9', '')}{{0,64}}[0-9])"


def _boundary(shape: _Shape) -> str:
    return _BOUNDARY if shape.introduction[0].isalnum() else ""


def _whole(shape: _Shape) -> str:
    body = "".join(f"{kind}{{{fewest},{most}}}" for kind, fewest, most in shape.parts)
    check = _NEEDS_DIGIT if shape.needs_digit else ""
    start = f"{_boundary(shape)}{re.escape(shape.introduction)}{check}"
    return start + (f"({body})" if shape.shows_introduction else body)


def _cut_off(parts: tuple[Part, ...]) -> str:
    """Return a pattern for every text that these parts begin and the end of the data cuts off."""
    pattern = r"\Z"
    for kind, fewest, most in reversed(parts):
        pattern = rf"(?:{kind}{{0,{most}}}\Z|{kind}{{{fewest},{most}}}{pattern})"
    return pattern


def _beginning(shape: _Shape) -> str:
    letters = tuple((re.escape(letter), 1, 1) for letter in shape.introduction)
    # The first letter must be there: an empty text is no beginning.
    return _boundary(shape) + letters[0][0] + _cut_off((*letters[1:], *shape.parts))


def _compiled(patterns: list[str]) -> re.Pattern[bytes]:
    return re.compile("|".join(patterns).encode())


SHAPE = _compiled([_whole(shape) for shape in _SHAPES])
SHAPE_BEGINNING = _compiled([_beginning(shape) for shape in _SHAPES])
LONGEST_SHAPE = max(len(shape.introduction) + sum(most for _, _, most in shape.parts) for shape in _SHAPES)
_INTRODUCTIONS = tuple(sorted({shape.introduction.encode() for shape in _SHAPES}))


def may_hold_shape(data: bytes) -> bool:
    """Whether any shape's introduction is in the data; much faster than searching for the shapes."""
    return any(introduction in data for introduction in _INTRODUCTIONS)
