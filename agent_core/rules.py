"""Rules about argv prefixes: their shape in the settings, their examples, where they come from, how they match.

Invariants: an allow rule matches words exactly; a rule that tightens matches generously. A workspace's rules only
tighten. A rule that does not do what its examples say does not load.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from agent_core.errors import SettingsError
from agent_core.program_risks import known_name, risky_word
from agent_core.programs import fewest_words, needs_every_word

RuleTable = Mapping[str, Sequence["Rule"]]
Origin = Literal["user", "workspace", "session", "read-only"]


class Examples(BaseModel):
    """Command texts that a rule decides, and texts that it must not decide."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("no_match", "noMatch"))


class Rule(BaseModel):
    """A decision for every command that begins with these words; `*` stands for any one word."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: tuple[str, ...]
    decision: Literal["allow", "ask", "deny"]
    why: str = ""
    examples: Examples = Examples()
    _origin: Origin = PrivateAttr("user")

    @field_validator("match")
    @classmethod
    def _has_words(cls, match: tuple[str, ...]) -> tuple[str, ...]:
        if not match or not all(match):
            raise ValueError("a rule needs at least one word, and no word may be empty")
        return match

    @property
    def origin(self) -> Origin:
        """Where the rule comes from; no settings file can say so itself."""
        return self._origin

    def coming_from(self, origin: Origin) -> Rule:
        """Return the same rule from another place."""
        copy = self.model_copy()
        copy._origin = origin
        return copy

    @property
    def words(self) -> str:
        """The rule's words as one would type them."""
        return " ".join("*" if word == "*" else shlex.quote(word) for word in self.match)

    @property
    def name(self) -> str:
        """How the rule is named to a person and in the record, with its origin."""
        return f"{self.origin}: {self.decision} {self.words}"

    def matches_exactly(self, argv: Sequence[str]) -> bool:
        """Whether argv begins with the rule's words."""
        return len(argv) >= len(self.match) and all(
            mine in ("*", word) for mine, word in zip(self.match, argv, strict=False)
        )

    def matches_generously(self, words: Sequence[str | None]) -> bool | None:
        """Whether a command may mean what the rule says: by path, in another order, with options between.

        A word that is not known is None, and stands for any number of words; so is the answer if it hangs on them.
        """
        program = words[0] if words else ""
        if program is None or not (self.match[0] == "*" or self.names_program(program)):
            return None if program is None else False
        options, operands = _sorted_words(tuple(words[1:]))
        wanted, mine = self._wanted
        unknown = (None, True) in operands
        found = {wanted <= options or (None if unknown else False), _in_order(mine, operands)}
        return False if False in found else None if None in found else True

    def names_program(self, program: str) -> bool:
        """Whether this is the program that the rule is about, from whatever folder, on whatever file system."""
        return self.program == known_name(program).casefold()

    @property
    def program(self) -> str:
        """The name under which the rule's program is known, in small letters."""
        return known_name(self.match[0]).casefold()

    def objection_to_words(self, argv: Sequence[str]) -> str | None:
        """Return why this rule, whose words argv begins with, does not say all that the command can do, if so."""
        covered = len(self.match)
        if covered == len(argv) and "*" not in self.match:
            return None
        if needs_every_word(argv):
            return f"`{argv[0]}` runs or changes what its arguments name, so no rule for a part of it counts"
        if covered < fewest_words(argv) or "*" in self.match[: fewest_words(argv)]:
            return f"the rule `{self.words}` does not say what `{argv[0]}` runs"
        risky = risky_word(argv, covered)
        return f"`{risky}` can make `{argv[0]}` run or write something" if risky else None

    @property
    def operands(self) -> tuple[str, ...]:
        """The words after the program that are no options."""
        return self._wanted[1]

    @property
    def _wanted(self) -> tuple[frozenset[str], tuple[str, ...]]:
        options, operands = _sorted_words(self.match[1:])
        return options, tuple(word for word, _ in operands if word is not None)


@lru_cache(maxsize=1024)  # every rule about a program meets every command of it
def _sorted_words(words: tuple[str | None, ...]) -> tuple[frozenset[str], tuple[tuple[str | None, bool], ...]]:
    """Return the options, clusters of letters taken apart, and the other words in order.

    With each of these stands whether it may be something else than an operand: the value of the option before it.
    """
    options: set[str] = set()
    operands: list[tuple[str | None, bool]] = []
    after_option = False
    for word in words:
        if word is None or not word.startswith("-") or word == "-":
            operands.append((word, after_option or word is None))
            after_option = False
            continue
        after_option = "=" not in word and word != "--"
        if word.startswith("--"):
            options.update({word} - {"--"})
        else:
            options.update(f"-{letter}" for letter in word[1:])
    return frozenset(options), tuple(operands)


def _in_order(mine: Sequence[str], operands: Sequence[tuple[str | None, bool]]) -> bool | None:
    """Whether the operands begin with mine, values of options left out; None if that hangs on an unknown word."""
    reached = {0}  # how many of mine may have been met
    unknown = False
    for word, may_be_value in operands:
        if len(mine) in reached or not (reached or unknown):
            break
        met = {count + 1 for count in reached if mine[count] in ("*", word)}
        reached = met | (reached if may_be_value else set())
        unknown = unknown or word is None
    return len(mine) in reached or (None if unknown else False)


def by_program(rules: Iterable[Rule]) -> RuleTable:
    """Return the rules by the first of their words."""
    table: dict[str, list[Rule]] = {}
    for rule in rules:
        table.setdefault(rule.match[0], []).append(rule)
    return table


def merge_rules(user: Iterable[Rule], workspace: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the user's rules and those of the workspace's that tighten; its allow rules are left out."""
    tightening = (rule.coming_from("workspace") for rule in workspace if rule.decision != "allow")
    return (*user, *tightening)


def loosening(workspace: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules of a workspace that `merge_rules` leaves out, so that a person can be told."""
    return tuple(rule for rule in workspace if rule.decision == "allow")


def load_rules(entries: Iterable[Rule | str]) -> tuple[Rule, ...]:
    """Return the rules of a setting: each entry is a rule, or the name of a shipped set (`read-only`).

    Raises SettingsError for an unknown name and for an allow rule that would allow every program.
    """
    rules: list[Rule] = []
    for entry in entries:
        if isinstance(entry, Rule):
            if entry.decision == "allow" and entry.match[0] == "*":
                raise SettingsError(
                    f"The rule `{entry.name}` would allow every program. Name the program, or use the mode `trusted`."
                )
            rules.append(entry)
        elif entry == "read-only":
            rules += READ_ONLY
        else:
            raise SettingsError(f"There is no set of rules named `{entry}`. The one shipped set is `read-only`.")
    return tuple(rules)


def _read_only(text: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(match=tuple(line.split()), decision="allow", why="it only reads").coming_from("read-only")
        for line in text.strip().splitlines()
    )


READ_ONLY = _read_only("""
    cd
    pwd
    ls
    cat
    head
    tail
    wc
    nl
    stat
    file
    du
    tree
    basename
    dirname
    realpath
    echo
    printf
    true
    grep
    egrep
    fgrep
    rg
    find
    sed
    sort
    uniq
    cut
    tr
    comm
    diff
    cmp
    jq
    date
    which
    git status
    git log
    git show
    git diff
    git blame
    git grep
    git ls-files
    git ls-tree
    git rev-parse
    git rev-list
    git describe
    git shortlog
    git merge-base
    git cat-file
    git check-ignore
    git count-objects
    git version
    git branch --list
    git branch --show-current
    git tag --list
    git stash list
    git reflog show
""")
"""Commands that only read, under the same checks of their words as every allow rule."""

READING = by_program(READ_ONLY)


def only_reads(argv: Sequence[str]) -> bool:
    """Whether the shipped set allows these words: the program reads, and runs nothing that they name."""
    rules = READING.get(argv[0], ())
    return any(rule.matches_exactly(argv) and not rule.objection_to_words(argv) for rule in rules)
