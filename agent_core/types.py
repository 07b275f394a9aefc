"""The nouns of the core: frozen values in the field's words.

Invariants: values never change after they are made, hold no behaviour beyond what follows from their own members, and
import nothing of the project. Times are seconds since the epoch (`at`, `*_at`) or plain seconds, unless a name ends in
`_ms`. Everything here can be written as JSON and read back equal.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class CallStatus(StrEnum):
    """Where a tool call stands. Each call ends in exactly one of the terminal ones."""

    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    RUNNING = "running"
    COMPLETED = "completed"  # the shell ended by itself, whatever its exit code
    FAILED = "failed"  # it could not be run, or was ended by a signal or a limit
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"  # a crash or shutdown came in between; whether it had an effect is not known

    @property
    def terminal(self) -> bool:
        """Whether the call is over."""
        return self not in _OPEN_STATUSES


_OPEN_STATUSES = frozenset(
    {CallStatus.PENDING, CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED, CallStatus.RUNNING},
)


class Reason(StrEnum):
    """Why a call was not run, or not to its end: the one list that the person and the model are told from."""

    FORMAT_ERROR = "format_error"  # this call was malformed
    BATCH_REFUSED = "batch_refused"  # another call of the same reply was malformed
    REJECTED_BY_PERSON = "rejected_by_person"
    REJECTED_UNATTENDED = "rejected_unattended"  # the client answered by itself: no person was there
    STOPPED_BY_PERSON = "stopped_by_person"  # the person stopped the turn at this or an earlier call
    DENIED_BY_RULE = "denied_by_rule"
    NO_APPROVAL_POSSIBLE = "no_approval_possible"  # the client cannot show approvals
    APPROVAL_EXPIRED = "approval_expired"
    WORKSPACE_UNTRUSTED = "workspace_untrusted"
    PLAN_MODE = "plan_mode"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"  # an earlier call of the batch was cancelled or interrupted
    INTERRUPTED = "interrupted"
    UNUSABLE = "unusable"  # the folder is missing, or the system refused the text
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    DETACHED = "detached"  # left running by the person


class StopReason(StrEnum):
    """Why a turn came to rest."""

    STEP_DONE = "step_done"
    END_TURN = "end_turn"
    SUBMITTED = "submitted"
    FORMAT_ERRORS = "format_errors"
    MAX_STEPS = "max_steps"
    COST_LIMIT = "cost_limit"
    TIME_LIMIT = "time_limit"
    MAX_TOKENS = "max_tokens"
    MAX_REPEATS = "max_repeats"
    MAX_REJECTIONS = "max_rejections"
    CONTEXT_TOO_LONG = "context_too_long"
    REFUSAL = "refusal"
    MODEL_ERROR = "model_error"
    REJECTED_AND_STOPPED = "rejected_and_stopped"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


UNFINISHED = frozenset(
    {
        StopReason.STEP_DONE,
        StopReason.INTERRUPTED,
        StopReason.MAX_STEPS,
        StopReason.COST_LIMIT,
        StopReason.TIME_LIMIT,
        StopReason.MODEL_ERROR,
        StopReason.CANCELLED,
    },
)
"""The stop reasons after which a turn can go on without a new prompt."""


class Finish(StrEnum):
    """How a reply ended, in one vocabulary for all dialects. Calls are only ever taken from STOP and TOOL_CALLS."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    CONTEXT_TOO_LONG = "context_too_long"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    PAUSED = "paused"  # the provider asks for the conversation to be sent back as it is
    UNKNOWN = "unknown"


class FailureKind(StrEnum):
    """Why a query gave no reply. Only the transient ones are tried again."""

    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    CONTEXT_TOO_LONG = "context_too_long"
    CONTENT_FILTER = "content_filter"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    MALFORMED_REPLY = "malformed_reply"
    EMPTY_REPLY = "empty_reply"
    WORKER_DIED = "worker_died"
    TAPE = "tape"
    OFFLINE = "offline"
    CANCELLED = "cancelled"

    @property
    def transient(self) -> bool:
        """Whether the same query may succeed if it is sent again."""
        return self in _TRANSIENT_FAILURES


_TRANSIENT_FAILURES = frozenset(
    {
        FailureKind.RATE_LIMIT,
        FailureKind.OVERLOADED,
        FailureKind.SERVER_ERROR,
        FailureKind.TIMEOUT,
        FailureKind.CONNECTION,
        FailureKind.EMPTY_REPLY,
    },
)


@dataclass(frozen=True, slots=True)
class Usage:
    """What replies used. `input_tokens` includes cached ones; `cost` is in US dollars, None if unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Sum both; an unknown cost makes the sum unknown (R13)."""
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model wrote: its id as received ("" if it gave none), the tool's name, the arguments as JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One complete reply of a model. `raw` is the provider's own assistant turn as JSON text, verbatim (R12)."""

    dialect: str
    model: str
    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish: Finish
    finish_raw: str
    usage: Usage
    raw: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Something told to the model in the user's place: a prompt, a correction, the person's own command."""

    text: str
    origin: Literal["prompt", "queued", "correction", "person_ran", "notice"] = "prompt"


@dataclass(frozen=True, slots=True)
class Observation:
    """What the model is told about one call. `call_key` is the call's key in this session."""

    call_key: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """A reply in the conversation, with the key of each of its calls, in the model's order."""

    reply: ModelReply
    call_keys: tuple[str, ...]


Message = UserMessage | AssistantTurn | Observation


@dataclass(frozen=True, slots=True)
class Action:
    """A validated tool call: a command that the model asks for, and the time limit it asks for (None: the setting)."""

    call: ToolCall
    command: str
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class CallFault:
    """What is wrong with one call of a reply; `error` is the sentence for the model."""

    call: ToolCall
    error: str
    reason: Reason = Reason.FORMAT_ERROR


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy says about a command, by which rule, and why in words a person reads."""

    decision: Literal["allow", "ask", "deny"]
    rule: str
    why: str
    reason: Reason = Reason.DENIED_BY_RULE  # what a call that this verdict refuses is told


@dataclass(frozen=True, slots=True)
class Proposal:
    """Exactly what would run. The person approves its digest; the runner takes nothing but this value (R1)."""

    key: str
    command: str
    cwd: str
    shell: str
    timeout: float
    sandbox: str = "off"
    added_variables: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The sha256, in hexadecimal, of the canonical JSON of all members (design, section 6)."""
        members = {
            "callId": self.key,
            "command": self.command,
            "cwd": self.cwd,
            "shell": self.shell,
            "sandbox": self.sandbox,
            "timeout": self.timeout,
            "variables": sorted(self.added_variables),
        }
        canonical = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided about one call; `digest` is that of the proposal they were shown.

    `edited` is the proposal that runs instead (approve_edited only). `remember` is "exact" or a proposed rule's words.
    """

    key: str
    decision: Literal["approve", "approve_edited", "reject", "stop"]
    digest: str
    reason: str = ""
    edited: Proposal | None = None
    edited_verdict: Verdict | None = None
    remember: str = ""
    by: str = "person"  # or "client …": what answered in a person's place


Ending = Literal["exited", "signalled", "timed_out", "cancelled", "limit", "unusable", "refused", "detached"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What the shell did.

    `output` is the bounded text for the model (masked, ANSI removed, progress folded); `exit_code` is set only if the
    shell exited by itself, `signal` (a name such as "SIGKILL") only if a signal ended it. `error` is a sentence if the
    command could not be run. `leftovers` names processes that outlived the shell. `spool` is the file with the whole
    output, `""` if there is none.
    """

    ending: Ending
    output: str = ""
    exit_code: int | None = None
    signal: str = ""
    reason: Reason | None = None
    error: str = ""
    started_at: float = 0.0
    duration_ms: int = 0
    total_bytes: int = 0
    omitted_bytes: int = 0
    omitted_lines: int = 0
    leftovers: tuple[str, ...] = ()
    spool: str = ""
    changed_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """When a turn stops by itself. 0 or None means no limit; costs are US dollars, times seconds."""

    max_steps: int = 0
    max_cost: float | None = None
    max_seconds: float | None = None
    max_format_errors: int = 3
    max_repeats: int = 5
    max_rejections: int = 3
    max_turn_tokens: int = 0
