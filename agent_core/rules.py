"""Rules about argv prefixes: their shape in the settings, their examples, where they come from, how they match.

Invariants: an allow rule matches words exactly; a rule that tightens matches generously. A workspace's rules only
tighten. A rule that does not do what its examples say does not load.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from agent_core.errors import SettingsError
from agent_core.program_risks import known_name

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

    def matches_generously(self, argv: Sequence[str]) -> bool:
        """Whether argv may mean what the rule says: by path, in another order, with options between."""
        if not argv or self.match[0] not in ("*", argv[0], known_name(argv[0])):
            return False
        options, operands = _sorted_words(tuple(argv[1:]))
        my_options, my_operands = _sorted_words(self.match[1:])
        if not my_options <= options or len(operands) < len(my_operands):
            return False
        return all(mine in ("*", word) for mine, word in zip(my_operands, operands, strict=False))


@lru_cache(maxsize=1024)  # every rule about a program meets every command of it
def _sorted_words(words: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the options, clusters of letters taken apart, and the other words in order."""
    options: set[str] = set()
    operands: list[str] = []
    for word in words:
        if word.startswith("--"):
            options.update({word} - {"--"})
        elif word.startswith("-") and len(word) > 1:
            options.update(f"-{letter}" for letter in word[1:])
        else:
            operands.append(word)
    return frozenset(options), tuple(operands)


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
