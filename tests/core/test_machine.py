"""The step machine: every state with every event, and its invariants under random sequences of events."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent_core import events as ev
from agent_core.errors import IllegalEvent, StaleDecision, UsageError
from agent_core.machine import TRANSITIONS, State, StepMachine, as_mermaid
from agent_core.steps import Call
from agent_core.types import (
    UNFINISHED,
    AssistantTurn,
    CallFault,
    CallStatus,
    CommandResult,
    Decision,
    FailureKind,
    Finish,
    Limits,
    ModelReply,
    Observation,
    Proposal,
    Reason,
    StopReason,
    ToolCall,
    Usage,
    UserMessage,
    Verdict,
)

ASK = Verdict("ask", "", "No rule allows it.")
ALLOW = Verdict("allow", "true", "A rule allows it.")
DENY = Verdict("deny", "rm", "A rule denies it.")
EVENTS: tuple[type[Any], ...] = get_args(ev.Event)


def proposal(key: str, command: str = "true") -> Proposal:
    return Proposal(key, command, "/w", "/bin/bash", 60.0)


def model_reply(count: int, *, cost: float | None = 0.5) -> ModelReply:
    calls = tuple(ToolCall(f"call_{i}", "bash", '{"command":"true"}') for i in range(count))
    finish = Finish.TOOL_CALLS if calls else Finish.STOP
    return ModelReply("chat", "m", "text", "", calls, finish, finish.value, Usage(10, 5, cost=cost), "{}")


def replied(machine: StepMachine, *verdicts: Verdict, cost: float | None = 0.5) -> ev.ModelReplied:
    reply = model_reply(len(verdicts), cost=cost)
    proposed = tuple(
        ev.ProposedCall(call, proposal(machine.record.key(i + 1)), verdict)
        for i, (call, verdict) in enumerate(zip(reply.calls, verdicts, strict=True))
    )
    return ev.ModelReplied(1.0, reply, proposed, stop=None if verdicts else StopReason.END_TURN)


def malformed(count: int) -> ev.ModelReplied:
    reply = model_reply(count)
    return ev.ModelReplied(1.0, reply, faults=tuple(CallFault(c, "bad") for c in reply.calls), error="bad")


def finished(machine: StepMachine, ending: Any = "exited", output: str = "out") -> ev.CommandFinished:
    key = machine.record.with_status(CallStatus.RUNNING)[0].key
    code = 0 if ending == "exited" else None
    return ev.CommandFinished(1.0, key, CommandResult(ending, output, code))


def observed(machine: StepMachine) -> ev.Observed:
    step = machine.record.steps[-1]
    calls = [] if step.by_person else step.calls
    return ev.Observed(1.0, tuple(Observation(call.key, "text") for call in calls))


def decide(call: Call, decision: Any, **more: Any) -> Decision:
    assert call.shown is not None
    return Decision(call.key, decision, call.shown.digest, **more)


def requested(max_steps: int | None = None, prompt: str | None = "Do it.") -> ev.StepRequested:
    return ev.StepRequested(1.0, None if prompt is None else UserMessage(prompt), max_steps, "system", prompt or "")


def machine_in(state: State) -> StepMachine:
    """Return a machine in a state, by ordinary events."""
    machine = StepMachine()
    if state is State.IDLE:
        return machine
    if state is State.CLOSED:
        machine.feed(ev.Closed(1.0))
        return machine
    machine.feed(requested())
    if state is State.AWAITING_APPROVAL:
        machine.feed(replied(machine, ASK, ASK))
    elif state is State.EXECUTING:
        machine.feed(replied(machine, ALLOW, ALLOW))
    elif state is State.OBSERVING:
        machine.feed(malformed(1))
    elif state is State.CANCELLING:
        machine.feed(ev.CancelRequested(1.0))
    assert machine.state is state
    return machine


def sample(kind: type[Any], machine: StepMachine) -> ev.Event:
    """Return an event of a kind that fits the machine as far as any can."""
    waiting = machine.record.with_status(CallStatus.AWAITING_APPROVAL)
    running = machine.record.with_status(CallStatus.RUNNING)
    samples: dict[type[Any], Any] = {
        ev.Configured: lambda: ev.Configured(1.0, Limits(), "{}"),
        ev.StepRequested: requested,
        ev.PersonRan: lambda: ev.PersonRan(1.0, proposal(f"{len(machine.record.steps) + 1}.1")),
        ev.ModelReplied: lambda: replied(machine, ASK),
        ev.ModelFailed: lambda: ev.ModelFailed(1.0, FailureKind.TIMEOUT, "late", Usage()),
        ev.Decided: lambda: ev.Decided(1.0, tuple(decide(call, "approve") for call in waiting[:1])),
        ev.Rejudged: lambda: ev.Rejudged(1.0, tuple((call.key, DENY) for call in waiting[:1] or running)),
        ev.Expired: lambda: ev.Expired(1.0, tuple(call.key for call in waiting)),
        ev.CommandFinished: lambda: ev.CommandFinished(
            1.0, running[0].key if running else "1.1", CommandResult("exited", "", 0)
        ),
        ev.DetachedEnded: lambda: ev.DetachedEnded(1.0, "1.1", CommandResult("exited", "", 0)),
        ev.Queued: lambda: ev.Queued(1.0, UserMessage("more", "queued"), "more"),
        ev.Unqueued: lambda: ev.Unqueued(1.0, next(iter(machine.record.queue), "")),
        ev.Compacted: lambda: ev.Compacted(1.0, 1000),
        ev.CancelRequested: lambda: ev.CancelRequested(1.0),
        ev.Interrupted: lambda: ev.Interrupted(1.0),
        ev.Observed: lambda: observed(machine) if machine.record.steps else ev.Observed(1.0, ()),
        ev.Closed: lambda: ev.Closed(1.0),
    }
    event: ev.Event = samples[kind]()
    return event


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("state", State)
def test_each_state_takes_exactly_the_events_of_its_rows(state: State, kind: type[Any]) -> None:
    machine = machine_in(state)
    if kind is ev.Unqueued and not state.resting:
        machine.feed(sample(ev.Queued, machine))
    event = sample(kind, machine)
    legal = any(row.source is state and row.event is kind for row in TRANSITIONS)
    # A command's end is only legal if a command is in flight; here the model was being asked when it was cancelled.
    legal = legal and not (state is State.CANCELLING and kind is ev.CommandFinished)
    legal = legal and kind is not ev.DetachedEnded  # nothing was left running here; see the test of that
    legal = legal and not (kind is ev.Unqueued and not machine.record.queue)
    before = copy.deepcopy((machine.state, machine.record))
    if legal:
        machine.feed(event)
        assert machine.state in {row.target for row in TRANSITIONS if row.source is state and row.event is kind}
        assert machine.record.revision == before[1].revision + (kind is not ev.Closed)
    else:
        with pytest.raises(IllegalEvent):
            machine.feed(event)
        assert (machine.state, machine.record) == before


@pytest.mark.parametrize("state", [state for state in State if state not in (State.CLOSED, State.CANCELLING)])
def test_the_end_of_a_command_that_was_left_running_is_taken_once_and_changes_only_its_result(state: State) -> None:
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ALLOW))
    machine.feed(ev.CommandFinished(1.0, "1.1", CommandResult("detached", "so far", reason=Reason.DETACHED)))
    if state is not State.OBSERVING:
        machine.feed(observed(machine))
    if state is State.EXECUTING:
        machine.feed(replied(machine, ALLOW))
    elif state in (State.IDLE, State.AWAITING_APPROVAL):
        machine.feed(replied(machine, ASK))
    if state is State.IDLE:
        machine.feed(ev.CancelRequested(1.0))
        machine.feed(observed(machine))
    assert machine.state is state
    end = ev.DetachedEnded(2.0, "1.1", CommandResult("exited", "so far and on", 7))
    assert machine.feed(end) in (None, ev.Rest(machine.record.stop))
    call = machine.record.known("1.1")
    assert (call.status, call.reason, call.result) == (CallStatus.COMPLETED, Reason.DETACHED, end.result)
    assert machine.state is state
    with pytest.raises(IllegalEvent):
        machine.feed(end)


def test_the_diagram_in_the_docs_is_the_table() -> None:
    readme = (Path(__file__).parents[2] / "agent_core" / "README.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{as_mermaid()}\n```" in readme


def test_approved_calls_run_in_the_models_order_whatever_order_they_were_decided_in() -> None:
    """ID-13."""
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ASK, ASK, ASK))
    a, b, c = machine.record.calls
    for call in (c, a):
        assert isinstance(machine.feed(ev.Decided(1.0, (decide(call, "approve"),))), ev.Rest)
    started = [machine.feed(ev.Decided(1.0, (decide(b, "approve"),)))]
    while machine.state is State.EXECUTING:
        started.append(machine.feed(finished(machine)))
    assert [e.proposal.key for e in started if isinstance(e, ev.RunCommand)] == [a.key, b.key, c.key]


def test_a_stop_rejects_the_whole_batch_and_ends_the_turn() -> None:
    """AP-25."""
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ASK, ASK, ALLOW))
    effect = machine.feed(ev.Decided(1.0, (decide(machine.record.calls[0], "stop", reason="no"),)))
    assert isinstance(effect, ev.Observe)
    assert {call.reason for call in machine.record.calls} == {Reason.STOPPED_BY_PERSON}
    assert machine.feed(observed(machine)) == ev.Rest(StopReason.REJECTED_AND_STOPPED)


@pytest.mark.parametrize("fault", ["digest", "unknown", "decided", "twice", "denied edit", "edit without text"])
def test_a_faulty_decision_decides_nothing(fault: str) -> None:
    """AP-19, AP-20: all or nothing, digest-bound."""
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ASK, ASK, ASK))
    good, bad, third = machine.record.calls
    machine.feed(ev.Decided(1.0, (decide(third, "approve"),)))
    decision = decide(bad, "approve")
    faulty = {
        "digest": (Decision(bad.key, "approve", "0" * 64),),
        "unknown": (Decision("9.9", "approve", "0" * 64),),
        "decided": (decide(third, "reject"),),
        "twice": (decision, decision),
        "denied edit": (decide(bad, "approve_edited", edited=proposal(bad.key, "rm x"), edited_verdict=DENY),),
        "edit without text": (decide(bad, "approve_edited"),),
    }[fault]
    before = copy.deepcopy(machine.record)
    with pytest.raises(StaleDecision):
        machine.feed(ev.Decided(1.0, (decide(good, "approve"), *faulty)))
    assert machine.record == before


def test_an_edited_approval_runs_the_edited_text_and_keeps_both() -> None:
    """AP-18."""
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ASK))
    call = machine.record.calls[0]
    effect = machine.feed(
        ev.Decided(
            1.0,
            (
                decide(
                    call,
                    "approve_edited",
                    edited=proposal(call.key, "ls -l ."),
                ),
            ),
        )
    )
    assert effect == ev.RunCommand(proposal(call.key, "ls -l ."))
    assert call.shown is not None
    assert call.shown.command == "true"


@pytest.mark.parametrize("decided_by_person", [True, False])
def test_judging_again_may_ask_for_what_a_rule_allowed_and_never_starts_anything(decided_by_person: bool) -> None:
    """AP-27."""
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ASK, ASK if decided_by_person else ALLOW))
    waiting, other = machine.record.calls
    if decided_by_person:
        machine.feed(ev.Decided(1.0, (decide(other, "approve"),)))
    effect = machine.feed(ev.Rejudged(1.0, ((waiting.key, ALLOW), (other.key, ASK))))
    assert isinstance(effect, ev.Rest)
    assert waiting.status is CallStatus.AWAITING_APPROVAL
    assert other.status is (CallStatus.APPROVED if decided_by_person else CallStatus.AWAITING_APPROVAL)


def test_a_late_reply_after_a_cancel_is_billed_and_dropped() -> None:
    machine = machine_in(State.CANCELLING)
    machine.feed(replied(machine, ASK))
    assert machine.record.usage.cost == 0.5
    assert machine.record.calls == []
    assert machine.feed(observed(machine)) == ev.Rest(StopReason.CANCELLED)


def test_a_cancel_keeps_finished_results_and_answers_the_rest() -> None:
    """CX-09."""
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ALLOW, ALLOW, ALLOW))
    machine.feed(finished(machine))
    machine.feed(ev.CancelRequested(1.0))
    machine.feed(finished(machine, "cancelled", "x"))
    assert [call.status for call in machine.record.calls] == [
        CallStatus.COMPLETED,
        CallStatus.CANCELLED,
        CallStatus.CANCELLED,
    ]
    assert [call.result is not None for call in machine.record.calls] == [True, True, False]


def test_a_crash_in_the_middle_of_a_batch_interrupts_the_running_call_and_starts_no_other() -> None:
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(replied(machine, ALLOW, ALLOW))
    machine.feed(ev.Interrupted(1.0))
    assert [call.status for call in machine.record.calls] == [CallStatus.INTERRUPTED, CallStatus.CANCELLED]
    assert machine.feed(observed(machine)) == ev.Rest(StopReason.INTERRUPTED)
    assert isinstance(machine.feed(requested(prompt=None)), ev.QueryModel)


def run_turn(machine: StepMachine, reply: Any, limit: int = 50) -> tuple[int, ev.Rest]:
    """Feed the same kind of reply until the turn rests; return the number of queries and the rest."""
    effect: ev.Effect | None = machine.feed(requested())
    queries = 0
    while not isinstance(effect, ev.Rest):
        if isinstance(effect, ev.QueryModel):
            queries += 1
            assert queries <= limit
            effect = machine.feed(reply(machine))
        elif isinstance(effect, ev.RunCommand):
            effect = machine.feed(finished(machine))
        else:
            effect = machine.feed(observed(machine))
    return queries, effect


@pytest.mark.parametrize(
    ("limits", "reply", "queries", "stop"),
    [
        (Limits(), lambda m: malformed(1), 3, StopReason.FORMAT_ERRORS),  # PA-23
        (Limits(max_format_errors=0, max_cost=1.5), lambda m: malformed(1), 3, StopReason.COST_LIMIT),  # CO-01
        (Limits(max_cost=9.0), lambda m: replied(m, DENY, cost=None), 1, StopReason.COST_LIMIT),  # CO-03
        (Limits(max_steps=4), lambda m: replied(m, DENY), 4, StopReason.MAX_STEPS),
        (Limits(max_turn_tokens=40), lambda m: replied(m, DENY), 3, StopReason.MAX_TOKENS),
        (Limits(max_repeats=5), lambda m: replied(m, ALLOW), 5, StopReason.MAX_REPEATS),  # CO-09
        (Limits(), lambda m: replied(m), 1, StopReason.END_TURN),
    ],
)
def test_limits_end_a_turn_by_their_name(limits: Limits, reply: Any, queries: int, stop: StopReason) -> None:
    machine = StepMachine()
    machine.feed(ev.Configured(1.0, limits, "{}"))
    assert run_turn(machine, reply) == (queries, ev.Rest(stop))


def test_one_good_reply_resets_the_count_of_format_errors() -> None:
    """PA-23."""
    replies = iter([malformed, malformed, None, malformed, malformed, malformed])

    def next_reply(machine: StepMachine) -> ev.ModelReplied:
        kind = next(replies)
        return kind(1) if kind else replied(machine, DENY)

    assert run_turn(StepMachine(), next_reply) == (6, ev.Rest(StopReason.FORMAT_ERRORS))


def test_three_rejections_without_a_reason_in_a_row_stop_the_turn() -> None:
    machine = StepMachine()
    effect = machine.feed(requested())
    for reason in ("", "", "because", "", "", ""):
        assert isinstance(effect, ev.QueryModel)
        machine.feed(replied(machine, ASK))
        machine.feed(ev.Decided(1.0, (decide(machine.record.calls[0], "reject", reason=reason),)))
        effect = machine.feed(observed(machine))
    assert effect == ev.Rest(StopReason.MAX_REJECTIONS)


def test_an_unknown_price_makes_the_total_unknown_for_good() -> None:
    machine = StepMachine()
    run_turn(machine, lambda m: replied(m, cost=None))
    run_turn(machine, lambda m: replied(m, cost=0.0))
    assert machine.record.usage.cost is None


def test_a_queued_prompt_is_delivered_after_the_observations() -> None:
    machine = StepMachine()
    machine.feed(requested())
    machine.feed(ev.Queued(1.0, UserMessage("and this", "queued"), "and this"))
    machine.feed(replied(machine, DENY))
    assert isinstance(machine.feed(observed(machine)), ev.QueryModel)
    kinds = [type(message).__name__ for message in machine.record.history]
    assert kinds == ["UserMessage", "AssistantTurn", "Observation", "UserMessage"]
    assert machine.record.queue == {}


def test_a_persons_command_is_told_and_leaves_the_turn_as_it_was() -> None:
    machine = StepMachine()
    run_turn(machine, lambda m: replied(m))
    key = f"{len(machine.record.steps) + 1}.1"
    assert isinstance(machine.feed(ev.PersonRan(1.0, proposal(key, "make"))), ev.RunCommand)
    machine.feed(finished(machine))
    assert machine.feed(ev.Observed(1.0, (), (UserMessage("ran make", "person_ran"),))) == ev.Rest(StopReason.END_TURN)
    assert machine.record.history[-1] == UserMessage("ran make", "person_ran")


def test_time_waiting_for_a_person_is_not_work() -> None:
    machine = StepMachine()
    machine.feed(ev.StepRequested(0.0, UserMessage("x"), None))
    reply = replied(machine, ASK)
    machine.feed(ev.ModelReplied(2.0, reply.reply, reply.proposed))
    machine.feed(ev.Decided(1000.0, (decide(machine.record.calls[0], "approve"),)))
    machine.feed(ev.CommandFinished(1003.0, machine.record.calls[0].key, CommandResult("exited", "", 0)))
    assert machine.record.turn.seconds == 5.0


class RandomSession(RuleBasedStateMachine):
    """Feeds random legal and illegal events and checks section 5's invariants after each."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = StepMachine()
        self.in_flight: ev.Effect | None = None
        self.billed = 0.0
        self.cancelled = False

    def feed(self, event: ev.Event) -> None:
        effect = self.machine.feed(event)
        if isinstance(effect, ev.QueryModel | ev.RunCommand | ev.Observe):
            assert self.in_flight is None or isinstance(event, ev.Interrupted)
            assert not (self.cancelled and isinstance(effect, ev.QueryModel | ev.RunCommand)), "new work after a cancel"
            if isinstance(effect, ev.RunCommand):
                self.check_approved(effect)
            self.in_flight = effect
        elif isinstance(effect, ev.Rest):
            assert self.in_flight is None
        if isinstance(event, ev.CancelRequested):
            self.cancelled = True

    def done(self, event: ev.Event) -> None:
        """Feed the end of what is in flight."""
        assert self.in_flight is not None
        self.in_flight = None
        self.feed(event)
        if self.machine.state.resting:
            self.cancelled = False

    def check_approved(self, effect: ev.RunCommand) -> None:
        call = self.machine.record.find(effect.proposal.key)
        assert call is not None
        approved_texts = self.approved | (
            {call.shown.digest} if call.decided_by.startswith("rule ") and call.shown else set()
        )
        assert self.machine.record.steps[-1].by_person or effect.proposal.digest in approved_texts

    @property
    def approved(self) -> set[str]:
        return self._approved

    _approved: set[str]

    @rule(max_steps=st.sampled_from([1, 2, None]), prompt=st.booleans())
    def request(self, max_steps: int | None, prompt: bool) -> None:
        self._approved = getattr(self, "_approved", set())
        legal = self.machine.state is State.IDLE and (prompt or self.machine.record.stop in UNFINISHED)
        if legal:
            self.feed(requested(max_steps, "Do it." if prompt else None))
        else:
            with pytest.raises(IllegalEvent):
                self.machine.feed(requested(max_steps, "Do it." if prompt else None))

    @precondition(lambda self: isinstance(self.in_flight, ev.QueryModel))
    @rule(verdicts=st.lists(st.sampled_from([ASK, ALLOW, DENY]), max_size=4))
    def reply(self, verdicts: list[Verdict]) -> None:
        self.billed += 0.5
        self.done(replied(self.machine, *verdicts))

    @precondition(lambda self: isinstance(self.in_flight, ev.QueryModel))
    @rule(count=st.integers(0, 3))
    def malformed_reply(self, count: int) -> None:
        self.billed += 0.5
        self.done(malformed(count))

    @precondition(lambda self: isinstance(self.in_flight, ev.QueryModel))
    @rule(kind=st.sampled_from(FailureKind))
    def failure(self, kind: FailureKind) -> None:
        self.done(ev.ModelFailed(1.0, kind, "failed", Usage()))

    @precondition(lambda self: self.machine.state is State.AWAITING_APPROVAL)
    @rule(data=st.data())
    def decide(self, data: st.DataObject) -> None:
        waiting = self.machine.record.with_status(CallStatus.AWAITING_APPROVAL)
        chosen = data.draw(st.lists(st.sampled_from(waiting), min_size=1, unique_by=lambda call: call.key))
        decisions = []
        for call in chosen:
            kind = data.draw(st.sampled_from(["approve", "approve_edited", "reject", "stop"]))
            edited = proposal(call.key, "edited") if kind == "approve_edited" else None
            decisions.append(decide(call, kind, edited=edited))
            if kind.startswith("approve"):
                self._approved.add((edited or call.to_run).digest)
        self.feed(ev.Decided(1.0, tuple(decisions)))

    @precondition(lambda self: self.machine.state is State.AWAITING_APPROVAL)
    @rule(verdict=st.sampled_from([ASK, ALLOW, DENY]))
    def judge_again(self, verdict: Verdict) -> None:
        waiting = self.machine.record.with_status(CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED)
        self.feed(ev.Rejudged(1.0, tuple((call.key, verdict) for call in waiting)))

    @precondition(lambda self: isinstance(self.in_flight, ev.RunCommand))
    @rule(ending=st.sampled_from(["exited", "timed_out", "cancelled", "signalled", "unusable", "detached"]))
    def finish(self, ending: Any) -> None:
        self.done(finished(self.machine, ending, output=str(self.machine.record.revision)))

    @precondition(lambda self: isinstance(self.in_flight, ev.Observe))
    @rule()
    def observe(self) -> None:
        self.done(observed(self.machine))

    @precondition(lambda self: self.machine.state in (State.QUERYING, State.EXECUTING, State.AWAITING_APPROVAL))
    @rule()
    def cancel(self) -> None:
        self.feed(ev.CancelRequested(1.0))

    @precondition(lambda self: not self.machine.state.resting)
    @rule()
    def crash(self) -> None:
        self.in_flight = None
        self.feed(ev.Interrupted(1.0))

    @rule(kind=st.sampled_from(EVENTS))
    def illegal_event(self, kind: type[Any]) -> None:
        event = sample(kind, self.machine)
        if any(row.source is self.machine.state and row.event is kind for row in TRANSITIONS):
            return
        before = copy.deepcopy((self.machine.state, self.machine.record))
        with pytest.raises(UsageError):
            self.machine.feed(event)
        assert (self.machine.state, self.machine.record) == before

    @invariant()
    def one_effect_in_flight(self) -> None:
        assert (self.in_flight is None) == self.machine.state.resting

    @invariant()
    def every_reply_is_billed(self) -> None:
        assert self.machine.record.usage.cost == self.billed

    @invariant()
    def calls_are_answered_once_and_in_order(self) -> None:
        record = self.machine.record
        told = self.machine.state in (State.IDLE, State.CLOSED) or isinstance(self.in_flight, ev.QueryModel)
        if not told:
            return
        expected: list[str] = []
        for message in record.history:
            if isinstance(message, Observation):
                assert expected, f"an answer without a call: {message}"
                assert message.call_key == expected.pop(0)
            else:
                assert not expected, f"calls without answers: {expected}"
                expected = list(message.call_keys) if isinstance(message, AssistantTurn) else []
        assert not expected
        ended = [call.status for step in record.steps for call in step.calls]
        assert all(status.terminal for status in ended)


RandomSession.TestCase.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRandomSession = RandomSession.TestCase


def test_what_is_not_possible_now_is_named_in_words_for_people_with_the_way_out() -> None:
    machine = machine_in(State.QUERYING)
    with pytest.raises(
        IllegalEvent, match=r"^A step is not possible while the session is querying: wait until it rests"
    ):
        machine.feed(requested())
