"""What a person may type when a command waits, read strictly: pure, and the only place where words become approvals.

Invariants: an approval needs a whole word of the list, typed and sent by itself; nothing, blanks, a single stray key
other than `y`, and every text that is not understood decide nothing (UX-01).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["approve", "edit", "reject", "stop", "remember", "view", "help", "unclear"]

_WORDS: dict[str, Kind] = {
    "y": "approve",
    "yes": "approve",
    "approve": "approve",
    "e": "edit",
    "edit": "edit",
    "n": "reject",
    "no": "reject",
    "reject": "reject",
    "s": "stop",
    "stop": "stop",
    "a": "remember",
    "always": "remember",
    "v": "view",
    "view": "view",
    "?": "help",
    "h": "help",
    "help": "help",
}

HELP = (
    ("y", "run exactly this command"),
    ("e", "change it first; you are asked again about the changed text"),
    ("n", "do not run it; `n use make test` tells the model why"),
    ("a", "run it, and from now on in this session: exactly this one, or a rule that you choose"),
    ("s", "do not run it and stop here"),
    ("v", "show all of it; a long command can be approved only after that"),
    ("Ctrl-C", "cancel the turn"),
    ("Ctrl-D", "leave; the command keeps waiting in the session"),
)


class Answer(NamedTuple):
    """What was typed: its kind, and the reason if it rejects with one."""

    kind: Kind
    reason: str = ""


def read_answer(typed: str) -> Answer:
    """Read a typed line. Only a rejection may carry more than its one word."""
    word, _, rest = typed.strip().partition(" ")
    kind = _WORDS.get(word.lower(), "unclear")
    if rest.strip() and kind != "reject":
        return Answer("unclear")
    return Answer(kind, rest.strip())
