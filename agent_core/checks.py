"""Whether an event fits what is known: asked before it is taken in, so that taking it in cannot fail halfway.

Invariants: nothing is changed here; what does not fit raises `UsageError` with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent_core import events as ev
from agent_core.errors import IllegalEvent, StaleDecision
from agent_core.record import Record
from agent_core.types import UNFINISHED, CallStatus, Decision


def check(record: Record, event: ev.Event) -> None:
    """Raise `UsageError` if the event does not fit what is known; change nothing."""
    match event:
        case ev.StepRequested(message=None) if record.stop not in UNFINISHED:
            raise IllegalEvent("There is no unfinished turn to go on with: give a prompt.")
        case ev.ModelReplied(proposed=proposed):
            _expect([each.proposal.key for each in proposed], [record.key(i + 1) for i in range(len(proposed))])
        case ev.Decided(decisions=decisions):
            check_decisions(record, decisions)
        case ev.Rejudged(verdicts=verdicts):
            _subset((key for key, _ in verdicts), (call.key for call in record.calls))
        case ev.Expired(keys=keys):
            _subset(keys, (call.key for call in record.with_status(CallStatus.AWAITING_APPROVAL)))
        case ev.Unqueued(prompt_id=prompt_id) if prompt_id not in record.queue:
            raise IllegalEvent("The prompt is not queued any more: it was delivered or withdrawn.")
        case ev.CommandFinished(key=key):
            _expect([key], [call.key for call in record.with_status(CallStatus.RUNNING)])
        case ev.DetachedEnded(key=key):
            call = record.find(key)
            if call is None or call.result is None or call.result.ending != "detached":
                raise IllegalEvent(f"No command of call {key} was left running.")
        case ev.Observed(observations=observations):
            told = [] if record.steps[-1].by_person else [call.key for call in record.calls]
            _expect([each.call_key for each in observations], told)


def check_decisions(record: Record, decisions: Iterable[Decision]) -> None:
    """Raise `StaleDecision` unless each decision is about a waiting call, as it was shown, and only once."""
    seen: set[str] = set()
    for decision in decisions:
        call = record.find(decision.key)
        if call is None or call.shown is None:
            raise StaleDecision(f"There is no call {decision.key!r} to decide; nothing was decided.")
        if call.status is not CallStatus.AWAITING_APPROVAL or decision.key in seen:
            status = "decided twice in this request" if decision.key in seen else call.status.value
            raise StaleDecision(f"Call {decision.key} is not waiting for a decision: it is {status}.")
        if decision.digest != call.shown.digest:
            raise StaleDecision(
                f"The decision about call {decision.key} is for another text than the one that waits "
                f"(it names digest {decision.digest[:12]}…); look at it again.",
            )
        if (decision.decision == "approve_edited") != (decision.edited is not None):
            raise StaleDecision(f"An edited approval of call {decision.key} needs the new command, others none.")
        if decision.edited_verdict is not None and decision.edited_verdict.decision == "deny":
            raise StaleDecision(f"The edited command of call {decision.key} is denied: {decision.edited_verdict.why}")
        seen.add(decision.key)


def _expect(found: list[str], wanted: list[str]) -> None:
    if found != wanted:
        raise IllegalEvent(f"The event is about the calls {found}, the step has {wanted}.")


def _subset(found: Iterable[str], allowed: Iterable[str]) -> None:
    if unknown := set(found) - set(allowed):
        raise IllegalEvent(
            f"The event is about calls that the step does not have or that do not wait: {sorted(unknown)}."
        )
