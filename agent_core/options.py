"""Takes a program's words apart as it would itself: options with their values, and operands.

Invariants: pure; a word that its grammar does not know makes the whole unknown, so that no option hides as a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """A program's words: `given` holds each option with its value, perhaps empty; `paths` are operands after `--`."""

    given: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    paths: tuple[str, ...] = ()

    def values(self, *names: str) -> list[str]:
        """Return the values of all options of these names, in order."""
        return [value for name, value in self.given if name in names]


@dataclass(frozen=True, slots=True)
class Grammar:
    """Which options a program has. `letters` and `long` stand alone, the `valued` ones take a value."""

    letters: str
    valued_letters: str
    long: frozenset[str]
    valued_long: frozenset[str]

    def read(self, words: Sequence[str]) -> Options | None:
        """Return the words taken apart; None if one of them is not known, or lacks its value."""
        given: list[tuple[str, str]] = []
        operands: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                return Options(tuple(given), tuple(operands), tuple(rest))
            if word.startswith("-") and word != "-":
                found = self._long(word[2:], rest) if word.startswith("--") else self._letters(word[1:], rest)
                if found is None:
                    return None
                given += found
            else:
                operands.append(word)
        return Options(tuple(given), tuple(operands))

    def _long(self, text: str, rest: Iterator[str]) -> list[tuple[str, str]] | None:
        name, equals, value = text.partition("=")
        known = self.long | self.valued_long
        names = [name] if name in known else [option for option in known if option.startswith(name)]
        if len(names) != 1:
            return None
        if names[0] in self.valued_long and not equals:
            after = next(rest, None)
            return None if after is None else [(names[0], after)]
        return [(names[0], value)]

    def _letters(self, text: str, rest: Iterator[str]) -> list[tuple[str, str]] | None:
        found: list[tuple[str, str]] = []
        for at, letter in enumerate(text):
            if letter in self.valued_letters:
                value = text[at + 1 :] or next(rest, None)
                return None if value is None else [*found, (letter, value)]
            if letter not in self.letters:
                return None
            found.append((letter, ""))
        return found
