"""What a session is made of while it goes on: turns, steps, and calls with their status.

Invariants: only the record changes them; a call's status moves towards one terminal status and then stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_core.errors import BrokenInvariant
from agent_core.types import (
    CallStatus,
    CommandResult,
    FailureKind,
    ModelReply,
    Observation,
    Proposal,
    Reason,
    StopReason,
    ToolCall,
    Usage,
    Verdict,
)


@dataclass(slots=True)
class Call:
    """One tool call of a step. `proposal` is what would run (None if malformed), `shown` what the model asked for."""

    key: str
    tool: ToolCall
    status: CallStatus
    proposal: Proposal | None = None
    shown: Proposal | None = None
    verdict: Verdict | None = None
    warnings: tuple[str, ...] = ()
    related: str = ""  # a command like it that the person rejected in this turn
    reason: Reason | None = None
    note: str = ""  # the person's reason, or what was wrong with the call
    decided_by: str = ""
    decided_at: float = 0.0
    started_at: float = 0.0  # 0 until it counts as running
    result: CommandResult | None = None

    @property
    def to_run(self) -> Proposal:
        """What is run if the call is; a malformed call has nothing to run."""
        if self.proposal is None:
            raise BrokenInvariant(f"Call {self.key} is malformed and has no command to run.")
        return self.proposal

    def end(self, status: CallStatus, reason: Reason | None, note: str = "") -> None:
        """Move to a terminal status; a call that is over stays as it is."""
        if not self.status.terminal:
            self.status, self.reason = status, reason
            self.note = note or self.note


@dataclass(slots=True)
class Step:
    """One model query with its calls, or one command of the person's own (`by_person`)."""

    index: int
    started_at: float
    by_person: bool = False
    prompts: list[str] = field(default_factory=list)
    reply: ModelReply | None = None
    error: str = ""  # what was wrong with the reply
    failure: tuple[FailureKind, str] | None = None
    calls: list[Call] = field(default_factory=list)
    observations: tuple[Observation, ...] = ()
    stop: StopReason | None = None
    submission: str = ""


@dataclass(slots=True)
class Turn:
    """From a prompt to a stop reason: how much of its limits is used up, and the counters of things in a row."""

    steps: int = 0
    steps_wanted: int | None = None  # by the newest request; None: until the turn ends
    seconds: float = 0.0  # of work, not of waiting for a person
    usage: Usage = field(default_factory=Usage)
    format_errors: int = 0
    rejections: int = 0
    repeats: int = 0
    last_run: tuple[str, int | None, str] | None = None
