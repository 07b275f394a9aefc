"""What can happen to a session, and what a session can be asked to do: the alphabet of the step machine.

Invariants: events are facts, computed before they are fed (ids, times, verdicts, rendered texts travel inside them), so
that feeding the journalled events again gives the same session. Each has `at`, seconds since the epoch. The journal
stores an event under its class name; a changed meaning needs a new class, not a changed one.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.types import (
    CallFault,
    CommandResult,
    Decision,
    FailureKind,
    Limits,
    ModelReply,
    Observation,
    Proposal,
    StopReason,
    ToolCall,
    Usage,
    UserMessage,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class Configured:
    """The person's settings, when the session is opened and whenever they change; `settings` is their JSON text."""

    at: float
    limits: Limits
    settings: str


@dataclass(frozen=True, slots=True)
class StepRequested:
    """The person asks for steps; without a message the unfinished turn goes on. `max_steps` None: until it ends."""

    at: float
    message: UserMessage | None
    max_steps: int | None
    system: str | None = None  # the system prompt, rendered; None keeps the one before
    prompt: str = ""  # what the person typed, before any template
    instructions: tuple[str, ...] = ()  # files whose text is in the system prompt


@dataclass(frozen=True, slots=True)
class PersonRan:
    """The person runs a command of their own."""

    at: float
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A well-formed call of a reply, as it would run, with the policy's verdict and the warnings for a person."""

    call: ToolCall
    proposal: Proposal
    verdict: Verdict
    warnings: tuple[str, ...] = ()
    related: str = ""  # a command like it that the person rejected in this turn


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """A complete reply: proposed calls, or what is wrong with it (`error`, `faults`), or the turn's end (`stop`)."""

    at: float
    reply: ModelReply
    proposed: tuple[ProposedCall, ...] = ()
    faults: tuple[CallFault, ...] = ()
    error: str = ""
    stop: StopReason | None = None


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The query gave no reply; `message` is the sentence for the person, `raw` what the provider sent (masked).

    `budget` is set if the conversation was too long: the tokens of history that are sent from now on.
    """

    at: float
    kind: FailureKind
    message: str
    usage: Usage
    raw: str = ""
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """The person's decisions about waiting calls: all of them hold, or none."""

    at: float
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class Rejudged:
    """The policy was asked again about calls that have not started; it may refuse one, never start one."""

    at: float
    verdicts: tuple[tuple[str, Verdict], ...]


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody answered in time for these calls (by key)."""

    at: float
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandFinished:
    """The running command is over; `submission` is set if its output submits the work (completion `submit`)."""

    at: float
    key: str
    result: CommandResult
    submission: str | None = None


@dataclass(frozen=True, slots=True)
class DetachedEnded:
    """A command that was left running is over; `result` is of the whole of it."""

    at: float
    key: str
    result: CommandResult


@dataclass(frozen=True, slots=True)
class Queued:
    """A prompt was typed while a turn runs; it is delivered after the observations, before the next query."""

    at: float
    message: UserMessage
    prompt: str


@dataclass(frozen=True, slots=True)
class Unqueued:
    """A queued prompt was withdrawn, by its id."""

    at: float
    prompt_id: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """From now on at most `budget` tokens of history (estimated) are sent to the model; the record stays whole."""

    at: float
    budget: int


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The person cancels the turn."""

    at: float


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A crash or shutdown cut the work; what was in flight is gone."""

    at: float


@dataclass(frozen=True, slots=True)
class Observed:
    """The step's observations, rendered, one per call in order; `corrections` answer a reply that had no calls."""

    at: float
    observations: tuple[Observation, ...]
    corrections: tuple[UserMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Closed:
    """This server lets go of the session. Not journalled: the session itself goes on at the next load."""

    at: float


Event = (
    Configured
    | StepRequested
    | PersonRan
    | ModelReplied
    | ModelFailed
    | Decided
    | Rejudged
    | Expired
    | CommandFinished
    | DetachedEnded
    | Queued
    | Unqueued
    | Compacted
    | CancelRequested
    | Interrupted
    | Observed
    | Closed
)


@dataclass(frozen=True, slots=True)
class QueryModel:
    """Ask the model for the reply of this step."""

    step: int


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run exactly this, after judging it once more."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Observe:
    """Render what the model is told of this step and feed it back as `Observed`."""

    step: int


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop what is in flight; it still reports its end, as a late result."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is in flight; the session waits for a person. `stop` says why, None while approvals are awaited."""

    stop: StopReason | None = None


Effect = QueryModel | RunCommand | Observe | StopWork | Rest
