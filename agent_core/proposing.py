"""From what the model asks for to what a person is shown: exactly one proposal per action, judged and annotated.

Invariants: a proposal holds the model's text byte for byte; what is judged is what would run, in the folder and with
the variables it would have; judging reads the disk but never changes it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from agent_core.display import related_rejection, warnings_for
from agent_core.events import ModelReplied, ProposedCall
from agent_core.parsing import Actions, EndOfTurn, FormatError, parse
from agent_core.policy import Policy, may_remember, proposed_rules
from agent_core.policy_context import PolicyContext
from agent_core.program_risks import rule_run_environment
from agent_core.record import Record
from agent_core.redaction import Masker
from agent_core.regular_files import read_regular
from agent_core.secret_files import SecretFiles
from agent_core.settings import Settings
from agent_core.shell import CommandLimits, base_environment
from agent_core.steps import Call
from agent_core.tracked_secrets import INDEX_BYTES, tracked_secrets
from agent_core.types import Action, CallFault, CallStatus, ModelReply, Proposal, Reason, Verdict

_GIT_CONFIG_BYTES = 64 * 1024
_GITLINK_MODE = b"\x00\x00\xe0\x00"  # mode 160000 of an index entry (gitformat-index(5)): another repository
_UNREADABLE_CONFIG = '[include]\npath = "elsewhere"\n'
_HOLDS_KEY = "A command holds the key of a model provider, which must never be used; nothing of this reply was run."


class Proposer:
    """Proposes and judges the commands of one session, by the settings it has now."""

    def __init__(
        self,
        *,
        cwd: str,
        bash: str,
        settings: Settings,
        policy: Policy,
        environ: Mapping[str, str],
        masker: Masker,
        files: SecretFiles,
        can_ask: bool,
        trusted: Callable[[], bool],
        unsaved: Callable[[str], tuple[str, ...]] = lambda command: (),
    ) -> None:
        """`unsaved` gives the files with unsaved changes in the editor that a command touches, as of now."""
        self.unsaved = unsaved
        self.bash = bash
        self.policy = policy
        self.command_limits = CommandLimits(
            kept_bytes=settings.command.output_limit,
            memory_bytes=settings.command.memory_limit,
            processes=settings.command.process_limit,
        )
        self._cwd = cwd
        self._settings = settings
        self._masker = masker
        self._files = files
        self._can_ask = can_ask
        self._is_trusted = trusted
        command = settings.command
        self._environment = base_environment(environ, inherit=command.inherit, added=command.env)

    @property
    def trusted(self) -> bool:
        """Whether the person trusts the folder."""
        return self._is_trusted()

    def proposal(self, key: str, command: str, timeout: float | None) -> Proposal:
        """Return what would run for a command text; `timeout` is what the model asks for, None the setting."""
        return Proposal(
            key,
            command,
            self._cwd,
            self.bash,
            timeout or self._settings.command.timeout,
            self._settings.sandbox,
            tuple(sorted(self._settings.command.env)),
        )

    def replied(self, record: Record, reply: ModelReply, completion: Literal["reply", "submit"]) -> ModelReplied:
        """Return what a reply means: proposals, or what is wrong with it, or the end of the turn."""
        now = time.time()
        parsed = parse(reply, completion)
        reply = self._without_keys(reply)
        match parsed:
            case Actions(actions=actions) if not any(self._masker.holds_provider_key(each.command) for each in actions):
                proposed = tuple(self.propose(record, place, action) for place, action in enumerate(actions, 1))
                return ModelReplied(now, reply, proposed)
            case Actions():
                faults = tuple(CallFault(call, _HOLDS_KEY) for call in reply.calls)
                return ModelReplied(now, reply, faults=faults, error=_HOLDS_KEY)
            case FormatError(error=error, faults=faults):
                return ModelReplied(now, reply, faults=faults, error=error)
            case EndOfTurn(stop=stop):
                return ModelReplied(now, reply, stop=stop)

    def _without_keys(self, reply: ModelReply) -> ModelReply:
        """Return the reply as it is stored: one that holds a known secret is masked, and so replayed normalised."""
        if not self._masker.secrets_in(reply.raw):
            return reply
        mask = self._masker.mask
        calls = tuple(replace(call, arguments=mask(call.arguments)) for call in reply.calls)
        return replace(reply, text=mask(reply.text), reasoning=mask(reply.reasoning), calls=calls, raw="")

    def propose(self, record: Record, position: int, action: Action) -> ProposedCall:
        """Return an action as it would run, with its verdict and what a person should know."""
        proposal = self.proposal(record.key(position), action.command, action.timeout)
        context = self.context(record, action.command)
        related = related_rejection(action.command, context) or ""
        warnings = list(warnings_for(action.command, context))
        if action.timeout and action.timeout > self._settings.command.timeout:
            warnings.append(
                f"It asks for {action.timeout:g} s, more than the usual {self._settings.command.timeout:g} s."
            )
        return ProposedCall(action.call, proposal, self._verdict(action.command, context), tuple(warnings), related)

    def warnings(self, record: Record, command: str) -> tuple[str, ...]:
        """Return what a person should know of a command."""
        return warnings_for(command, replace(self.context(record, command), unsaved=self.unsaved(command)))

    def judge(self, record: Record, command: str) -> Verdict:
        """Return what the policy says about a command now."""
        return self._verdict(command, self.context(record, command))

    def last_word(self, record: Record, call: Call) -> Verdict | None:
        """Judge a call right before it starts; return the verdict if it may not start, None if it may."""
        if record.steps[-1].by_person:
            return None
        verdict = self.judge(record, call.to_run.command)
        by_rule = call.decided_by.startswith("rule ")
        refused = verdict.decision == "deny" or (verdict.decision == "ask" and by_rule)
        return verdict if refused else None

    def environment(self, call: Call) -> dict[str, str]:
        """Return the whole environment of a call's command."""
        if call.decided_by.startswith("rule "):
            return {**self._environment, **rule_run_environment()}
        return self._environment

    def rules_to_remember(self, record: Record, command: str) -> list[tuple[str, ...]]:
        """Return the rules that a decision about this command may remember for the session."""
        return list(proposed_rules(command, self.context(record, command)))

    def may_remember(self, record: Record, command: str, words: str) -> bool:
        """Whether a decision about this command may remember it: `exact`, or the words of a proposed rule."""
        if words == "exact":
            return may_remember(command, self.context(record, command))
        return tuple(shlex.split(words)) in self.rules_to_remember(record, command)

    def context(self, record: Record, command: str) -> PolicyContext:
        """Return what a verdict about this command depends on besides the rules."""
        return PolicyContext(
            cwd=self._cwd,
            roots=(os.path.realpath(self._cwd),),
            home=self._environment.get("HOME", "/home"),
            trusted=self.trusted,
            remembered=frozenset((each.cwd, each.command) for words, each in record.remembered if words == "exact"),
            remembered_rules=frozenset(tuple(shlex.split(words)) for words, _ in record.remembered if words != "exact"),
            environment=frozenset(self._environment),
            secrets=self._masker.secrets_in(command),
            rejected=_rejected(record),
            resolve=os.path.realpath,
            find_program=lambda name: shutil.which(name, path=self._environment.get("PATH")),
            below=self._files.below,
            tracked=tracked_secrets,
            unhidden=self._files.unhidden,
            git_config=_git_config,
        )

    def _verdict(self, command: str, context: PolicyContext) -> Verdict:
        verdict = self.policy.judge(command, context)
        if verdict.decision == "ask" and not self._can_ask:
            return Verdict(
                "deny",
                verdict.rule,
                "The editor did not say that it can show approvals.",
                Reason.NO_APPROVAL_POSSIBLE,
            )
        return verdict


def _rejected(record: Record) -> tuple[str, ...]:
    """Return the commands that the person rejected in the current turn."""
    steps = record.steps[-record.turn.steps :] if record.turn.steps else []
    return tuple(
        call.shown.command
        for step in steps
        for call in step.calls
        if call.status is CallStatus.REJECTED and call.reason is Reason.REJECTED_BY_PERSON and call.shown
    )


def _holds_repositories(git_folder: Path) -> bool:
    """Whether git may enter other repositories from here and obey their configuration; a doubt counts as yes."""
    try:
        if any(git_folder.glob("sharedindex.*")):
            return True
        index = read_regular(git_folder / "index", INDEX_BYTES + 1)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return len(index) > INDEX_BYTES or _GITLINK_MODE in index


def _git_config(folder: str) -> str:
    """Return the configuration of the repository that the folder is in; what cannot be read makes git be asked."""
    for place in (Path(folder), *Path(folder).parents):
        if (place / ".git").is_dir() and not os.path.lexists(place / ".git" / "commondir"):
            try:
                text = read_regular(place / ".git" / "config", _GIT_CONFIG_BYTES + 1).decode(errors="replace")
            except OSError:
                return _UNREADABLE_CONFIG
            whole = len(text) <= _GIT_CONFIG_BYTES and not _holds_repositories(place / ".git")
            return text if whole else _UNREADABLE_CONFIG
        # What has its configuration elsewhere (a worktree, a submodule), or is a repository without a `.git`.
        if os.path.lexists(place / ".git") or os.path.lexists(place / "HEAD"):
            return _UNREADABLE_CONFIG
    return ""
