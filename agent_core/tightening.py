"""Rules that deny or ask: what they see in a command text, and where they may hold although nothing is seen.

Invariants: pure. Where a command may only turn out to be what a rule names, because the shell expands a word, a shell
reads its commands from elsewhere, or another program is handed the rule's words, there is a reason to ask. What a
program does by its own code is not seen, and no reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from agent_core.program_risks import known_name, may_be_alias
from agent_core.programs import (
    FINDERS,
    INTERPRETERS,
    WRAPPERS,
    inner_commands,
    inner_texts,
    may_feed_a_shell,
    reads_commands,
    runs_unknown,
)
from agent_core.rules import Rule, only_reads
from agent_core.shell_syntax import PARSE_ERROR, TOO_LONG, Analysis, SimpleCommand, analyse
from agent_core.types import Verdict

Words = tuple[str | None, ...]
"""A command's words; None stands for what the shell makes any number of words of."""

_DEEPEST_TEXT = 3  # shell texts inside shell texts that are looked into
_MOST_WORDS = 200
_REDEFINING = frozenset({"alias", "enable", "hash"})
_FED = frozenset({"parallel", "xargs"})
_RUNNING_OPTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"})
_TOKEN = re.compile(r"[\w@%+.-]+")
_ESCAPE = re.compile(r"\\[abefnrtv]")
_ASSIGNS = re.compile(r"(?:^| )\w+\+?=")
_EXPANDED = re.compile(r"[$`{*?\\]")


class Tightening:
    """The rules of one session that deny or ask."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Keep the rules by the program that they are about."""
        self._rules = tuple(rules)
        self._by_program: dict[str, list[Rule]] = {}
        for rule in self._rules:
            self._by_program.setdefault(rule.program, []).append(rule)

    def seen(self, analysis: Analysis) -> Verdict | None:
        """Return what the rules say about the commands that the text shows: deny, or else ask, or else nothing."""
        asked: Verdict | None = None
        for rule, words in self._candidates(analysis):
            if rule.matches_generously(words):
                verdict = Verdict(rule.decision, rule.name, rule.why or f"the rule `{rule.words}` says so")
                if rule.decision == "deny":
                    return verdict
                asked = asked or verdict
        return asked

    def suspected(self, analysis: Analysis) -> Verdict | None:
        """Return a question if one of the rules may hold for what the text does not show."""
        hides = hidden_by(analysis) if self._rules else None
        if hides:
            return Verdict("ask", "analysis", f"{hides}, so it is not known whether a rule denies or asks for that")
        for rule, words in self._candidates(analysis):
            if may_turn_out(rule, words):
                return Verdict("ask", rule.name, f"it may turn out to be `{rule.words}`, for which there is a rule")
        for program, rule in self._handed(analysis) if self._rules else ():
            return Verdict("ask", rule.name, f"`{program}` may run `{rule.words}`, for which there is a rule")
        return None

    def _handed(self, analysis: Analysis) -> Iterator[tuple[str, Rule]]:
        """Yield each program that is handed a rule's program, before its operands or beside an expansion.

        The operands may come later in the text: it may be a copy of the program that they are given to.
        """
        handed = list(_handed_texts(analysis))
        tokens = [_tokens(text) for _, text in handed]
        first: dict[str, tuple[int, int]] = {}
        for piece, (program, _) in enumerate(handed):
            for at, token in enumerate(tokens[piece] if program else ()):
                first.setdefault(known_name(token).casefold(), (piece, at))
        for named, (piece, at) in first.items():
            program, text = handed[piece]
            for rule in self._by_program.get(named, ()):
                after = chain(tokens[piece][at + 1 :], *tokens[piece + 1 :])
                if _EXPANDED.search(text) or all(token in after for word in rule.operands for token in _tokens(word)):
                    yield program, rule

    def _candidates(self, analysis: Analysis) -> Iterator[tuple[Rule, Words]]:
        for words in readings(analysis) if self._rules else ():
            for name in (known_name(words[0] or "").casefold(), "*"):
                yield from ((rule, words) for rule in self._by_program.get(name, ()))


def readings(analysis: Analysis, depth: int = 0) -> Iterator[Words]:
    """Yield the words of every command that the text may run, also through wrappers and in texts among the words."""
    for simple in analysis.commands:
        yield simple.words
        yield from map(_bounded, inner_commands(simple.words))
        yield from _given_more_words(simple.words)
        for inner in _inner_analyses(simple, depth):
            yield from readings(inner, depth + 1)


def _bounded(words: Words) -> Words:
    """Return words of which so many are looked at for each of many readings; what comes after them is not known."""
    return words if len(words) <= _MOST_WORDS else (*words[:_MOST_WORDS], None)


def hidden_by(analysis: Analysis, depth: int = 0) -> str | None:
    """Return what of the text hides which commands it runs, if anything does, as the beginning of a sentence."""
    if TOO_LONG in analysis.doubts:
        return "it is too long to be read"
    if PARSE_ERROR in analysis.doubts:
        return "it is not read as bash would read it"
    for simple in analysis.commands:
        found = _hides(simple)
        if found:
            return found
        for inner in _inner_analyses(simple, depth):
            found = hidden_by(inner, depth + 1)
            if found:
                return found
    return None


def may_turn_out(rule: Rule, words: Words) -> bool:
    """Whether the command may be what the rule names, although that is not seen."""
    if rule.matches_generously(words) is None:
        return True
    return rule.names_program(words[0] or "") and may_be_alias(words)


def _handed_texts(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Yield the words that each command is handed, and the bodies of heredocs, with the program that may run them.

    That is "" for one that only reads, unless another may be fed by it.
    """
    runs = [
        bool(simple.expanded) or not only_reads(simple.argv) or bool(_ASSIGNS.search(simple.around))
        for simple in analysis.commands
    ]
    running = [simple.argv[0] for simple, itself in zip(analysis.commands, runs, strict=True) if itself]
    fed = next((program for program in running if known_name(program) in INTERPRETERS | WRAPPERS), "")
    for simple, itself in zip(analysis.commands, runs, strict=True):
        yield simple.argv[0] if itself else fed, " ".join((*simple.argv[1:], simple.around))
    if running:
        yield fed or running[0], " ".join(analysis.bodies)


def _tokens(text: str) -> list[str]:
    """Return the words in a text of any language, with those that are glued to an option or an escaped sign."""
    tokens = [part for token in _TOKEN.findall(text) for part in ((token, token[2:]) if token[0] == "-" else (token,))]
    return tokens + _TOKEN.findall(_ESCAPE.sub(" ", text)) if "\\" in text else tokens


def _inner_analyses(simple: SimpleCommand, depth: int) -> Iterator[Analysis]:
    if depth < _DEEPEST_TEXT:
        yield from map(analyse, inner_texts(simple.words))


def _given_more_words(words: Words) -> Iterator[Words]:
    """Yield the commands to which a program adds what it reads or finds, or puts it in the place of their words."""
    name = known_name(words[0] or "")
    if name in _FED:
        yield from ((word, None) for word in words[1:])
    elif name in FINDERS:
        yield from ((after, None) for word, after in pairwise(words) if word in _RUNNING_OPTIONS)


def _hides(simple: SimpleCommand) -> str | None:
    program = simple.words[0]
    if program is None:
        return f"`{simple.argv[0]}` stands where the name of a program does"
    name = known_name(program)
    if name in _REDEFINING:
        return f"`{name}` can give a command another meaning"
    if simple.expanded and (name in WRAPPERS or name in FINDERS or runs_unknown(simple.words)):
        return f"`{simple.argv[min(simple.expanded)]}` may be the command that `{name}` runs"
    if name in _FED and may_feed_a_shell(simple.words):
        return f"`{name}` makes commands of its input"
    shells = (words for words in (simple.words, *inner_commands(simple.words)) if words[0] and reads_commands(words))
    shell = next(shells, None)
    return f"`{shell[0]}` reads its commands from its input" if shell else None
