"""Judges a command text under rules: deny beats ask beats allow, and what is not fully understood is asked.

Invariants: pure. A command is allowed only if the analysis accounts for every byte of it and every one of its simple
commands is allowed by a rule that names it, with no word that can run, write or reach more than the rule says; or if
the person approved exactly this text here. A wrapper never inherits an allow. Every verdict names its rule and reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from agent_core.errors import SettingsError
from agent_core.masks import holds_mask
from agent_core.policy_context import PolicyContext
from agent_core.program_risks import configured_program, known_name
from agent_core.programs import fewest_words, needs_every_word, proposal, runs_own_code
from agent_core.reach import Search, objection_to_search
from agent_core.rules import READING, Rule, RuleTable, by_program, load_rules, only_reads
from agent_core.searches import search
from agent_core.shell_syntax import Analysis, SimpleCommand, analyse
from agent_core.tightening import Tightening, readings
from agent_core.types import Reason, Verdict

Mode = Literal["ask", "rules", "plan", "trusted"]
_MOST_WORDS = 256  # words whose paths are looked up; more would make judging slow
_MOST_FOLDERS = 4


class Policy:
    """The rules of one session in one mode; make a new one when either changes."""

    def __init__(self, rules: Iterable[Rule | str] = (), mode: Mode = "ask") -> None:
        """Load the rules; raises SettingsError, naming the rule, for one that does not do what its examples say."""
        self.mode = mode
        self.rules = load_rules(rules)
        self._tightening = Tightening(rule for rule in self.rules if rule.decision != "allow")
        self._allowing = by_program(rule for rule in self.rules if rule.decision == "allow")
        for rule in self.rules:
            if rule.origin != "read-only":
                _check_examples(rule)

    def judge(self, command: str, context: PolicyContext) -> Verdict:
        """Return what may happen with the command in this context."""
        if not context.trusted:
            why = "this workspace is not trusted, so nothing runs in it; trust it in the editor first"
            return Verdict("deny", "workspace trust", why, Reason.WORKSPACE_UNTRUSTED)
        analysis = analyse(command)
        seen = self._tightening.seen(analysis)
        if seen and seen.decision == "deny":
            return seen
        asked = _holds_secret(command, context) or seen
        if self.mode == "plan":
            return _planned(analysis, context, asked)
        if asked:
            return asked
        if (context.cwd, command) in context.remembered:
            return Verdict("allow", "remembered: exactly this text", "you approved exactly this text in this session")
        verdict = self._judge_by_mode(analysis, context)
        return (verdict.decision == "allow" and self._tightening.suspected(analysis)) or verdict

    def _judge_by_mode(self, analysis: Analysis, context: PolicyContext) -> Verdict:
        if self.mode == "trusted":
            return Verdict("allow", "mode trusted", "everything runs in the mode `trusted`")
        remembered = by_program(_session_rule(words) for words in context.remembered_rules if words)
        if self.mode == "rules":
            return _allowed_or_asked(analysis, [remembered, self._allowing], context)
        verdict = _allowed_or_asked(analysis, [remembered], context)
        if verdict.decision == "allow" or not analysis.understood:
            return verdict
        return Verdict("ask", "mode ask", "nothing that you remembered allows it")


def proposed_rules(command: str, context: PolicyContext) -> tuple[tuple[str, ...], ...]:
    """Return the argv prefixes that a person may remember for the session when they approve this command.

    Only for a single understood command, and only prefixes that would allow it: none for a bare interpreter, a wrapper,
    a word that can run or write something, or a path outside the workspace.
    """
    analysis = analyse(command)
    if not analysis.understood or len(analysis.commands) != 1 or _holds_secret(command, context):
        return ()
    argv = analysis.commands[0].argv
    if needs_every_word(argv) or fewest_words(argv) > len(argv):
        return ()
    words = proposal(argv)
    table = by_program([_session_rule(words)])
    return (words,) if _allowed_or_asked(analysis, [table], context).decision == "allow" else ()


def _session_rule(words: Sequence[str]) -> Rule:
    return Rule(match=tuple(words), decision="allow").coming_from("session")


def describe_rule(words: Sequence[str]) -> str:
    """Return a proposed rule in words, with a remark if what it allows is the workspace's own code."""
    named = Rule(match=tuple(words), decision="allow").words
    own = "; it runs the workspace's own code, whatever that will be by then" if runs_own_code(words) else ""
    return f"every command that begins with `{named}`{own}"


def may_remember(command: str, context: PolicyContext) -> bool:
    """Whether remembering exactly this text may be offered: not with a secret or mask, nor for what lies outside."""
    words = [word for simple in analyse(command).commands for word in simple.argv[1:]]
    if _holds_secret(command, context) or len(words) > _MOST_WORDS:
        return False
    return not any(context.outside(word, context.cwd) for word in words)


def _holds_secret(command: str, context: PolicyContext) -> Verdict | None:
    if context.secrets:
        return Verdict("ask", "secrets", f"it contains the value of {', '.join(context.secrets)}")
    if holds_mask(command):
        return Verdict("ask", "secrets", "it contains a mask, which would stand where the real secret was")
    return None


def _planned(analysis: Analysis, context: PolicyContext, asked: Verdict | None) -> Verdict:
    verdict = asked or _allowed_or_asked(analysis, [READING], context)
    if verdict.decision == "allow":
        return verdict
    why = f"in the mode `plan` only commands run that are known to read and nothing else; here: {verdict.why}"
    return Verdict("deny", "mode plan", why, Reason.PLAN_MODE)


def _allowed_or_asked(analysis: Analysis, sources: Sequence[RuleTable], context: PolicyContext) -> Verdict:
    """Return allow if every simple command is allowed, else ask with the first reason against it."""
    if not analysis.understood:
        return Verdict("ask", "analysis", f"not fully understood: {', '.join(analysis.doubts)}")
    if sum(len(simple.argv) for simple in analysis.commands) > _MOST_WORDS:
        return Verdict("ask", "analysis", f"more than {_MOST_WORDS} words")
    folders = _folders(analysis, context)
    # What lies where is known as of now: beside a command that may move files, a search may meet any of them.
    moving = len(analysis.commands) > 1 and not all(only_reads(simple.argv) for simple in analysis.commands)
    rules: dict[str, str] = {}
    for simple in analysis.commands:
        searched = search(simple.argv, context.environment)
        if moving and searched.folders:
            searched = replace(searched, everywhere=True)
        rule, objection = _allowing_rule(simple, searched, sources, context, folders)
        if rule is None:
            return Verdict("ask", "default", objection)
        rules[rule.name] = _why_allowed(rule)
    return Verdict("allow", "; ".join(rules), "; ".join(dict.fromkeys(rules.values())))


def _allowing_rule(
    simple: SimpleCommand,
    searched: Search,
    sources: Sequence[RuleTable],
    context: PolicyContext,
    folders: Sequence[str],
) -> tuple[Rule | None, str]:
    """Return the rule that allows a simple command, or None and the best reason why none does."""
    objection = f"no rule allows `{simple.argv[0]}`"
    for source in sources:
        for rule in source.get(simple.argv[0], ()):
            if not rule.matches_exactly(simple.argv):
                continue
            found = rule.objection_to_words(simple.argv)
            found = found or _objection_to_place(simple.argv, searched, context, folders)
            if found is None:
                return rule, ""
            objection = found
    return None, objection


def _objection_to_place(
    argv: Sequence[str], searched: Search, context: PolicyContext, folders: Sequence[str]
) -> str | None:
    program = context.find_program(argv[0]) if "/" not in argv[0] else None
    if program and context.touches(program):
        return f"`{argv[0]}` is a program inside the workspace ({program})"
    if len(folders) > _MOST_FOLDERS:
        return "it goes through too many folders"
    for folder in folders:
        found = _objection_in_folder(argv, searched, context, folder)
        if found:
            return found
    return _objection_to_cd(argv)


def _objection_in_folder(argv: Sequence[str], searched: Search, context: PolicyContext, folder: str) -> str | None:
    if not context.inside(folder, context.cwd):
        return f"`{folder}` lies outside the workspace"
    for word in argv[1:]:
        outside = context.outside(word, folder)
        if outside:
            return f"`{outside}` lies outside the workspace"
    for word in searched.paths_among(argv[1:]):
        sensitive = context.sensitive(word, folder)
        if sensitive:
            return f"`{sensitive}` may hold keys, or configuration that can run something"
    configured = configured_program(context.git_config(folder)) if known_name(argv[0]) == "git" else None
    if configured:
        return f"this repository's own configuration has `{configured}`, by which git can run a program"
    return objection_to_search(argv[0], searched, context, folder)


def _objection_to_cd(argv: Sequence[str]) -> str | None:
    if argv[0] != "cd" or (len(argv) == 2 and not argv[1].startswith("-")):
        return None
    return "`cd` without exactly one folder leaves the workspace or is not understood"


def _folders(analysis: Analysis, context: PolicyContext) -> list[str]:
    """Return every folder that any of the commands may run in: a `cd` may fail, or be in a pipe."""
    folders = [context.cwd]
    for simple in analysis.commands:
        if simple.argv[0] == "cd" and len(simple.argv) == 2:
            targets = [target for folder in folders for target in sorted(context.readings(simple.argv[1], folder))]
            folders = list(dict.fromkeys([*folders, *targets]))[: _MOST_FOLDERS + 1]
    return folders


def _why_allowed(rule: Rule) -> str:
    why = rule.why or f"the rule `{rule.words}` allows it"
    return f"{why} (runs the workspace's own code)" if runs_own_code(rule.match) else why


def _check_examples(rule: Rule) -> None:
    for text, expected in [(text, True) for text in rule.examples.match] + [
        (text, False) for text in rule.examples.no_match
    ]:
        if _decides(rule, text) != expected:
            says = "should match but does not" if expected else "should not match but does"
            raise SettingsError(
                f"The rule `{rule.name}` does not do what its example says: `{text}` {says}. "
                "Change the rule's words or the example."
            )


def _decides(rule: Rule, text: str) -> bool:
    analysis = analyse(text)
    if rule.decision == "allow":
        nowhere = PolicyContext(cwd="/workspace", roots=("/workspace",))
        return _allowed_or_asked(analysis, [by_program([rule])], nowhere).decision == "allow"
    return any(rule.matches_generously(words) for words in readings(analysis))
