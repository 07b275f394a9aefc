"""Texts that are secrets by their look: the well-known shapes of keys and tokens, whole and cut off at the end.

Invariants: every shape has a fixed introduction and a bounded body, and begins only where no token is already under
way, so that searching is linear. The pattern for the whole shape and the one for a shape that the end of the data cuts
off come from the same description.
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


def _boundary(introduction: str) -> str:
    return _BOUNDARY if introduction[0].isalnum() else ""


def _whole(shape: _Shape) -> str:
    body = "".join(f"{kind}{{{fewest},{most}}}" for kind, fewest, most in shape.parts)
    check = _NEEDS_DIGIT if shape.needs_digit else ""
    start = f"{_boundary(shape.introduction)}{re.escape(shape.introduction)}{check}"
    return start + (f"({body})" if shape.shows_introduction else body)


def _cut_off(shape: _Shape) -> str:
    """Return a pattern for every text that begins this shape, has its introduction, and ends with the data."""
    rest = r"\Z"
    for kind, fewest, most in reversed(shape.parts):
        rest = rf"(?:{kind}{{0,{most}}}\Z|{kind}{{{fewest},{most}}}{rest})"
    return f"{_boundary(shape.introduction)}{re.escape(shape.introduction)}{rest}"


class _Finder:
    """Finds one shape; the quick search for its introduction decides where the patterns are tried."""

    def __init__(self, shape: _Shape) -> None:
        self.introduction = shape.introduction.encode()
        self._boundary = re.compile(_boundary(shape.introduction).encode())
        self._whole = re.compile(_whole(shape).encode())
        self._cut_off = re.compile(_cut_off(shape).encode())

    def scan(self, data: bytes, start: int) -> tuple[list[tuple[int, int]], int]:
        """Return the shape's spans in `data[start:]`, and the first place where the end of the data may cut one off."""
        spans: list[tuple[int, int]] = []
        held = len(data)
        at = data.find(self.introduction, start)
        while at >= 0:
            match = self._whole.match(data, at)
            if match:
                # A shape with a group hides the group alone and leaves what introduces it readable.
                spans.append(match.span(match.lastindex or 0))
            if held == len(data) and self._cut_off.match(data, at):
                held = at
            at = data.find(self.introduction, match.end() if match else at + 1)
        begun = beginning_of(self.introduction, data, start)
        return spans, min(held, begun if self._boundary.match(data, begun) else len(data))


def beginning_of(wanted: bytes, data: bytes, start: int) -> int:
    """Return the first place in `data[start:]` from which the rest of the data is a beginning of `wanted`."""
    at = data.find(wanted[:1], max(start, len(data) - len(wanted) + 1))
    while at >= 0 and not wanted.startswith(data[at:]):
        at = data.find(wanted[:1], at + 1)
    return at if at >= 0 else len(data)


_FINDERS = tuple(_Finder(shape) for shape in _SHAPES)


def scan_shapes(data: bytes, start: int) -> tuple[list[tuple[int, int]], int]:
    """Return the spans of all well-known shapes in `data[start:]`, and where the end of the data may cut one off."""
    spans: list[tuple[int, int]] = []
    held = len(data)
    for finder in _FINDERS:
        found, cut = finder.scan(data, start)
        spans += found
        held = min(held, cut)
    return spans, held
