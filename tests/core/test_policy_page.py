"""The page 'How rules are judged' in editors/README.md: every example in its tables is judged as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_core.policy import Policy
from agent_core.policy_context import Below, PolicyContext
from agent_core.rules import Rule

PAGE = (
    (Path(__file__).parents[2] / "editors" / "README.md")
    .read_text(encoding="utf-8")
    .split("## How rules are judged")[1]
)


def below(folder: str) -> Below:
    """The page's workspace has a `.env` in its root, which git does not track."""
    return Below((".env",) if folder == "/workspace" else ())


CONTEXT = PolicyContext(cwd="/workspace", roots=("/workspace",), below=below, tracked=lambda *_: Below())


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table with this header."""
    lines = PAGE[PAGE.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def commands(cell: str) -> list[str]:
    """Return the commands of a cell that stand before any remark about rules."""
    return re.findall(r"`([^`]+)`", re.sub(r" under the rule.*|: the rule.*|\([^)]*\)", "", cell))


FIRST = [(command, row[1]) for row in rows("| command | verdict | why |") for command in commands(row[0])]
SECOND = [
    (rule, command, decision)
    for words, runs, asks in rows("| rule | runs | asks |")
    for rule in commands(words)
    for cell, decision in ((runs, "allow"), (asks, "ask"))
    for command in commands(cell)
    if "under the rule" not in cell
]


THIRD = [
    (command, row[1]) for row in rows("| command | verdict under a deny rule | why |") for command in commands(row[0])
]


def judged(rule: str, command: str) -> str:
    rules = [Rule(match=tuple(rule.split()), decision="allow")]
    return Policy(rules, "rules").judge(command, CONTEXT).decision


@pytest.mark.parametrize(("command", "verdict"), FIRST)
def test_the_first_table(command: str, verdict: str) -> None:
    assert judged("git status", command) == verdict


@pytest.mark.parametrize(("rule", "command", "verdict"), SECOND)
def test_the_second_table(rule: str, command: str, verdict: str) -> None:
    assert judged(rule, command) == verdict


@pytest.mark.parametrize(("command", "verdict"), THIRD)
def test_the_third_table(command: str, verdict: str) -> None:
    denying = Policy([Rule(match=("git", "push"), decision="deny")], "trusted")
    assert denying.judge(command, CONTEXT).decision == verdict


def test_the_tables_were_found() -> None:
    assert len(FIRST) >= 10
    assert len(SECOND) >= 18
    assert len(THIRD) >= 20
