"""What the step machine remembers of a session: the conversation, the steps with their calls, the ledger, the counters.

Invariants: only `machine.py` changes a record, through `apply`, with an event that `checks.py` found to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_core import events as ev
from agent_core.errors import BrokenInvariant
from agent_core.steps import Call, Step, Turn
from agent_core.types import (
    AssistantTurn,
    CallStatus,
    Decision,
    FailureKind,
    Limits,
    Message,
    Proposal,
    Reason,
    StopReason,
    ToolCall,
    Usage,
)


@dataclass(slots=True)
class Record:
    """Everything that follows from the events so far."""

    limits: Limits = field(default_factory=Limits)
    settings: str = "{}"
    system: str = ""
    instructions: tuple[str, ...] = ()
    budget: int | None = None  # tokens of history that are sent; None: all of it
    history: list[Message] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    turn: Turn = field(default_factory=Turn)
    stop: StopReason | None = None
    usage: Usage = field(default_factory=Usage)
    replies: int = 0
    remembered: list[tuple[str, Proposal]] = field(default_factory=list)  # "exact" or a rule's words, and for what
    queue: dict[str, ev.Queued] = field(default_factory=dict)  # by prompt id, oldest first
    revision: int = 0
    last_at: float = 0.0

    # --- what is asked of it -------------------------------------------------------------------------------------

    @property
    def step(self) -> Step | None:
        """The current step, or the last one."""
        return self.steps[-1] if self.steps else None

    @property
    def calls(self) -> list[Call]:
        """The calls of the current step."""
        return self.steps[-1].calls if self.steps else []

    def with_status(self, *statuses: CallStatus) -> list[Call]:
        """Return the current step's calls that have one of these statuses, in order."""
        return [call for call in self.calls if call.status in statuses]

    def find(self, key: str) -> Call | None:
        """Return the call with this key, of any step."""
        index, _, position = key.partition(".")
        if not (index.isdecimal() and position.isdecimal()) or not 1 <= int(index) <= len(self.steps):
            return None
        calls = self.steps[int(index) - 1].calls
        return calls[int(position) - 1] if 1 <= int(position) <= len(calls) else None

    def known(self, key: str) -> Call:
        """Return the call with this key, which a checked event names."""
        call = self.find(key)
        if call is None:
            raise BrokenInvariant(f"There is no call {key}.")
        return call

    def key(self, position: int) -> str:
        """Return the key of the current step's call at this position, counted from 1."""
        return f"{len(self.steps)}.{position}"

    # --- what an event changes -------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Take a checked event in; `Closed` is about this process alone, so it leaves no trace."""
        if isinstance(event, ev.Closed):
            return
        _APPLY[type(event)](self, event)
        self.revision += 1
        self.last_at = event.at

    def _configured(self, event: ev.Configured) -> None:
        self.limits, self.settings = event.limits, event.settings

    def _step_requested(self, event: ev.StepRequested) -> None:
        if event.message is not None:
            self.turn = Turn()
            self.history.append(event.message)
        if event.system is not None:
            self.system, self.instructions = event.system, event.instructions
        self.turn.steps_wanted = None if event.max_steps is None else self.turn.steps + event.max_steps
        self.stop = None
        self.begin_step(event.at, [event.prompt] if event.message else [])

    def begin_step(self, at: float, prompts: list[str]) -> None:
        """Open the next step of the turn."""
        self.steps.append(Step(index=len(self.steps) + 1, started_at=at, prompts=prompts))
        self.turn.steps += 1

    def _person_ran(self, event: ev.PersonRan) -> None:
        step = Step(index=len(self.steps) + 1, started_at=event.at, by_person=True, stop=self.stop)
        tool = ToolCall(id="", name="", arguments="")
        step.calls.append(
            Call(
                event.proposal.key,
                tool,
                CallStatus.APPROVED,
                event.proposal,
                event.proposal,
                decided_by="person",
                decided_at=event.at,
            ),
        )
        self.steps.append(step)

    def _bill(self, usage: Usage) -> None:
        self.usage += usage
        self.turn.usage += usage

    def _model_replied(self, event: ev.ModelReplied) -> None:
        self._bill(event.reply.usage)
        self.replies += 1
        step = self.steps[-1]
        if step.stop is not None:  # cancelled meanwhile: the reply is billed and dropped
            return
        step.reply, step.error, step.stop = event.reply, event.error, event.stop
        step.calls = [_proposed(each, event.at) for each in event.proposed] + [
            Call(self.key(i + 1), fault.call, CallStatus.FAILED, reason=fault.reason, note=fault.error)
            for i, fault in enumerate(event.faults)
        ]
        self.turn.format_errors = self.turn.format_errors + 1 if event.error else 0
        self.history.append(AssistantTurn(event.reply, tuple(call.key for call in step.calls)))

    def _model_failed(self, event: ev.ModelFailed) -> None:
        self._bill(event.usage)
        self.budget = self.budget if event.budget is None else event.budget
        step = self.steps[-1]
        if step.stop is None:
            step.failure = (event.kind, event.message)
            step.stop = _FAILURE_STOPS.get(event.kind, StopReason.MODEL_ERROR)

    def _decided(self, event: ev.Decided) -> None:
        for decision in event.decisions:
            self._decide(decision, event.at)

    def _decide(self, decision: Decision, at: float) -> None:
        call = self.known(decision.key)
        if call.status.terminal:  # an earlier decision of the same request stopped the turn
            return
        call.decided_by, call.decided_at, call.note = decision.by, at, decision.reason
        if decision.decision == "stop":
            self.steps[-1].stop = StopReason.REJECTED_AND_STOPPED
            self.end_calls(CallStatus.REJECTED, Reason.STOPPED_BY_PERSON)
        elif decision.decision == "reject":
            attended = decision.by == "person"
            call.end(CallStatus.REJECTED, Reason.REJECTED_BY_PERSON if attended else Reason.REJECTED_UNATTENDED)
            self.turn.rejections = 0 if decision.reason else self.turn.rejections + 1
        else:
            call.status = CallStatus.APPROVED
            call.proposal = decision.edited or call.proposal
            call.verdict = decision.edited_verdict or call.verdict
            self.turn.rejections = 0
            if decision.remember:
                self.remembered.append((decision.remember, call.to_run))

    def _rejudged(self, event: ev.Rejudged) -> None:
        for key, verdict in event.verdicts:
            call = self.known(key)
            if call.status.terminal:
                continue
            by_rule = call.decided_by.startswith("rule ")
            call.verdict = verdict
            if verdict.decision == "deny":
                call.end(CallStatus.REJECTED, verdict.reason)
            elif verdict.decision == "ask" and by_rule:
                call.status, call.decided_by = CallStatus.AWAITING_APPROVAL, ""

    def _expired(self, event: ev.Expired) -> None:
        for call in self.calls:
            if call.key in event.keys:
                call.end(CallStatus.REJECTED, Reason.APPROVAL_EXPIRED)

    def _command_finished(self, event: ev.CommandFinished) -> None:
        call = self.known(event.key)
        call.result = event.result
        call.end(_STATUS_BY_ENDING.get(event.result.ending, CallStatus.FAILED), event.result.reason)
        step = self.steps[-1]
        if event.submission is not None and step.stop is None:
            step.stop, step.submission = StopReason.SUBMITTED, event.submission
            self.end_calls(CallStatus.CANCELLED, Reason.NOT_STARTED)
        run = (call.to_run.command, event.result.exit_code, event.result.output)
        self.turn.repeats = self.turn.repeats + 1 if run == self.turn.last_run else 1
        self.turn.last_run = run

    def _detached_ended(self, event: ev.DetachedEnded) -> None:
        self.known(event.key).result = event.result

    def _queued(self, event: ev.Queued) -> None:
        self.queue[str(self.revision + 1)] = event

    def _unqueued(self, event: ev.Unqueued) -> None:
        del self.queue[event.prompt_id]

    def _compacted(self, event: ev.Compacted) -> None:
        self.budget = event.budget

    def _cancel_requested(self, _: ev.CancelRequested) -> None:
        step = self.steps[-1]
        step.stop = step.stop if step.by_person else StopReason.CANCELLED
        for call in step.calls:
            if call.status is not CallStatus.RUNNING:  # that one reports its own end
                call.end(CallStatus.CANCELLED, Reason.CANCELLED)

    def _interrupted(self, _: ev.Interrupted) -> None:
        step = self.steps[-1]
        step.stop = step.stop if step.by_person else StopReason.INTERRUPTED
        for call in self.with_status(CallStatus.RUNNING):
            call.end(CallStatus.INTERRUPTED, Reason.INTERRUPTED)
        self.end_calls(CallStatus.CANCELLED, Reason.NOT_STARTED)

    def end_calls(self, status: CallStatus, reason: Reason) -> None:
        """End every call of the step that is not over."""
        for call in self.calls:
            call.end(status, reason)

    def _observed(self, event: ev.Observed) -> None:
        step = self.steps[-1]
        step.observations = event.observations
        self.history.extend(event.observations)
        self.history.extend(event.corrections)
        self.stop = self._stop_reason()
        if step.by_person:
            return
        prompts = [each.prompt for each in self.queue.values()] if self.stop in (None, StopReason.END_TURN) else []
        if prompts:
            self.history.extend(each.message for each in self.queue.values())
            self.queue.clear()
            self.stop = None
        if self.stop is None:
            self.begin_step(event.at, prompts)

    def _stop_reason(self) -> StopReason | None:
        """Say why the turn rests after this step, None if it goes on."""
        step, turn, limits = self.steps[-1], self.turn, self.limits
        if step.stop is not None or step.by_person:
            return step.stop
        spent_unknown = limits.max_cost is not None and self.usage.cost is None
        tokens = turn.usage.input_tokens + turn.usage.output_tokens
        reached = (
            (StopReason.FORMAT_ERRORS, 0 < limits.max_format_errors <= turn.format_errors),
            (StopReason.MAX_REJECTIONS, 0 < limits.max_rejections <= turn.rejections),
            (StopReason.MAX_REPEATS, 0 < limits.max_repeats <= turn.repeats),
            (StopReason.MAX_TOKENS, 0 < limits.max_turn_tokens <= tokens),
            (StopReason.COST_LIMIT, spent_unknown or _at_least(self.usage.cost, limits.max_cost)),
            (StopReason.TIME_LIMIT, _at_least(turn.seconds, limits.max_seconds)),
            (StopReason.MAX_STEPS, 0 < limits.max_steps <= turn.steps),
            (StopReason.STEP_DONE, turn.steps_wanted is not None and turn.steps >= turn.steps_wanted),
        )
        return next((reason for reason, holds in reached if holds), None)


def _at_least(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value >= limit


def _proposed(each: ev.ProposedCall, at: float) -> Call:
    statuses = {
        "allow": CallStatus.APPROVED,
        "ask": CallStatus.AWAITING_APPROVAL,
        "deny": CallStatus.REJECTED,
    }
    decision = each.verdict.decision
    return Call(
        each.proposal.key,
        each.call,
        statuses[decision],
        each.proposal,
        each.proposal,
        each.verdict,
        each.warnings,
        each.related,
        reason=each.verdict.reason if decision == "deny" else None,
        decided_by="" if decision == "ask" else f"rule {each.verdict.rule}",
        decided_at=0.0 if decision == "ask" else at,
    )


_FAILURE_STOPS = {
    FailureKind.CONTEXT_TOO_LONG: StopReason.CONTEXT_TOO_LONG,
    FailureKind.CONTENT_FILTER: StopReason.REFUSAL,
    FailureKind.CANCELLED: StopReason.CANCELLED,
}

_STATUS_BY_ENDING = {
    "exited": CallStatus.COMPLETED,
    "detached": CallStatus.COMPLETED,
    "timed_out": CallStatus.TIMED_OUT,
    "cancelled": CallStatus.CANCELLED,
}

_APPLY: dict[type[Any], Callable[[Record, Any], None]] = {
    ev.Configured: Record._configured,
    ev.StepRequested: Record._step_requested,
    ev.PersonRan: Record._person_ran,
    ev.ModelReplied: Record._model_replied,
    ev.ModelFailed: Record._model_failed,
    ev.Decided: Record._decided,
    ev.Rejudged: Record._rejudged,
    ev.Expired: Record._expired,
    ev.CommandFinished: Record._command_finished,
    ev.DetachedEnded: Record._detached_ended,
    ev.Queued: Record._queued,
    ev.Unqueued: Record._unqueued,
    ev.Compacted: Record._compacted,
    ev.CancelRequested: Record._cancel_requested,
    ev.Interrupted: Record._interrupted,
    ev.Observed: Record._observed,
}
