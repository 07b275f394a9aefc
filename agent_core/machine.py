"""The step machine: which event is legal when, where it leads, and the one thing to do next.

Invariants: `TRANSITIONS` is the whole control flow; `feed` is the only door; an illegal event raises and changes
nothing; the machine is pure and synchronous and holds at most one effect in flight; the same events give the same
session. What an event is stands in `events.py`, what it does to the data in `record.py`, when it fits in `checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agent_core import events as ev
from agent_core.checks import check
from agent_core.errors import IllegalEvent
from agent_core.record import Record
from agent_core.types import CallStatus


class State(StrEnum):
    """The states of a session. IDLE, AWAITING_APPROVAL and CLOSED rest; in each other one effect is in flight."""

    IDLE = "idle"
    QUERYING = "querying"
    AWAITING_APPROVAL = "awaiting_approval"
    EXECUTING = "executing"
    OBSERVING = "observing"
    CANCELLING = "cancelling"
    CLOSED = "closed"

    @property
    def resting(self) -> bool:
        """Whether nothing is in flight."""
        return self in (State.IDLE, State.AWAITING_APPROVAL, State.CLOSED)


# Conditions, asked after the event was taken in.


def undecided_left(record: Record) -> bool:
    """Whether a call of the step still waits for a person."""
    return bool(record.with_status(CallStatus.AWAITING_APPROVAL))


def approved_left(record: Record) -> bool:
    """Whether a call of the step is approved and not started."""
    return bool(record.with_status(CallStatus.APPROVED))


def turn_goes_on(record: Record) -> bool:
    """Whether no stop reason holds after the step."""
    return record.stop is None and not record.steps[-1].by_person


# Effects, made after the event was taken in.


def query_model(record: Record) -> ev.Effect:
    """Ask for the reply of the step that was begun."""
    return ev.QueryModel(len(record.steps))


def run_command(record: Record) -> ev.Effect:
    """Start the first approved call: from here on it counts as running, so that a crash cannot run it twice."""
    call = record.with_status(CallStatus.APPROVED)[0]
    call.status, call.started_at = CallStatus.RUNNING, record.last_at
    return ev.RunCommand(call.to_run)


def observe(record: Record) -> ev.Effect:
    """Render what the model is told of the step."""
    return ev.Observe(len(record.steps))


def stop_work(_: Record) -> ev.Effect:
    """Stop what is in flight."""
    return ev.StopWork()


def rest(record: Record) -> ev.Effect:
    """Wait for a person."""
    return ev.Rest(record.stop)


Condition = Callable[[Record], bool]
EffectMaker = Callable[[Record], ev.Effect]


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table. Without `effect`, what is in flight goes on."""

    source: State
    event: type[Any]
    target: State
    effect: EffectMaker | None = None
    when: Condition | None = None


def _calls_settled(source: State, event: type[Any]) -> tuple[Transition, ...]:
    """Whenever calls were decided: wait for the rest, or run the approved ones in order, or tell the model."""
    return (
        Transition(source, event, State.AWAITING_APPROVAL, rest, undecided_left),
        Transition(source, event, State.EXECUTING, run_command, approved_left),
        Transition(source, event, State.OBSERVING, observe),
    )


_ANY_TIME = (ev.Configured, ev.Queued, ev.Unqueued, ev.Compacted, ev.DetachedEnded)
_IN_FLIGHT = (State.QUERYING, State.EXECUTING, State.OBSERVING, State.CANCELLING)

TRANSITIONS: tuple[Transition, ...] = (
    Transition(State.IDLE, ev.Configured, State.IDLE, rest),
    Transition(State.IDLE, ev.Unqueued, State.IDLE, rest),
    Transition(State.IDLE, ev.Compacted, State.IDLE, rest),
    Transition(State.IDLE, ev.DetachedEnded, State.IDLE, rest),
    Transition(State.IDLE, ev.StepRequested, State.QUERYING, query_model),
    Transition(State.IDLE, ev.PersonRan, State.EXECUTING, run_command),
    Transition(State.IDLE, ev.Closed, State.CLOSED, rest),
    *_calls_settled(State.QUERYING, ev.ModelReplied),
    Transition(State.QUERYING, ev.ModelFailed, State.OBSERVING, observe),
    Transition(State.QUERYING, ev.CancelRequested, State.CANCELLING, stop_work),
    *_calls_settled(State.AWAITING_APPROVAL, ev.Decided),
    *_calls_settled(State.AWAITING_APPROVAL, ev.Rejudged),
    *_calls_settled(State.AWAITING_APPROVAL, ev.Expired),
    Transition(State.AWAITING_APPROVAL, ev.CancelRequested, State.OBSERVING, observe),
    *(Transition(State.AWAITING_APPROVAL, each, State.AWAITING_APPROVAL, rest) for each in _ANY_TIME),
    Transition(State.AWAITING_APPROVAL, ev.Closed, State.CLOSED, rest),
    Transition(State.EXECUTING, ev.CommandFinished, State.EXECUTING, run_command, approved_left),
    Transition(State.EXECUTING, ev.CommandFinished, State.OBSERVING, observe),
    *_calls_settled(State.EXECUTING, ev.Rejudged),
    Transition(State.EXECUTING, ev.CancelRequested, State.CANCELLING, stop_work),
    Transition(State.OBSERVING, ev.Observed, State.QUERYING, query_model, turn_goes_on),
    Transition(State.OBSERVING, ev.Observed, State.IDLE, rest),
    Transition(State.OBSERVING, ev.CancelRequested, State.OBSERVING),
    Transition(State.CANCELLING, ev.ModelReplied, State.OBSERVING, observe),
    Transition(State.CANCELLING, ev.ModelFailed, State.OBSERVING, observe),
    Transition(State.CANCELLING, ev.CommandFinished, State.OBSERVING, observe),
    *(Transition(state, ev.Interrupted, State.OBSERVING, observe) for state in _IN_FLIGHT),
    *(Transition(state, each, state) for state in _IN_FLIGHT for each in _ANY_TIME),
)


def _index() -> dict[tuple[State, type[Any]], list[Transition]]:
    rows: dict[tuple[State, type[Any]], list[Transition]] = {}
    for row in TRANSITIONS:
        rows.setdefault((row.source, row.event), []).append(row)
    return rows


_ROWS = _index()

_ASKED: dict[type[Any], str] = {
    ev.StepRequested: "A step",
    ev.PersonRan: "Running a command of one's own",
    ev.Decided: "A decision",
    ev.CancelRequested: "Cancelling",
    ev.Queued: "Queueing a prompt",
}
"""What a person asked for, in words."""


@dataclass(slots=True)
class StepMachine:
    """One session's state and record. Feed it events; do the effect it returns, then feed what came of it."""

    state: State = State.IDLE
    record: Record = field(default_factory=Record)

    def feed(self, event: ev.Event) -> ev.Effect | None:
        """Take one event in and return the effect to carry out, None if what is in flight goes on.

        Raises `UsageError` (`IllegalEvent`, `StaleDecision`) without any change if the event does not fit.
        """
        rows = _ROWS.get((self.state, type(event)))
        if rows is None:
            asked = _ASKED.get(type(event), type(event).__name__)
            way_out = "wait until it rests, or cancel" if not self.state.resting else "look at its newest snapshot"
            raise IllegalEvent(f"{asked} is not possible while the session is {self.state.value}: {way_out}.")
        check(self.record, event)
        if not self.state.resting:
            self.record.turn.seconds += max(0.0, event.at - self.record.last_at)
        self.record.apply(event)
        row = next(row for row in rows if row.when is None or row.when(self.record))
        self.state = row.target
        return row.effect(self.record) if row.effect else None


def as_mermaid() -> str:
    """Return the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> idle"]
    for row in TRANSITIONS:
        label = row.event.__name__
        if row.when:
            label += f" [{row.when.__name__.replace('_', ' ')}]"
        if row.effect:
            label += f" / {row.effect.__name__.replace('_', ' ')}"
        lines.append(f"    {row.source.value} --> {row.target.value}: {label}")
    return "\n".join(lines)
