"""The vocabularies of the wire: error codes, and the words that states, statuses and reasons are told in.

Invariants: open vocabularies (`Words`) are plain text on the wire, so that a client survives a word that it does not
know. Words that a client may say are closed (`Literal`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Literal, Self


class ErrorCode(IntEnum):
    """The codes of error answers, each with what it means for the one who asked."""

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> Self:
        """Make a member that carries its meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    PARSE_ERROR = -32700, "The bytes were not JSON; the answer's id is null."
    INVALID_REQUEST = -32600, "Not a request that can be served: a batch, a repeated id, or one after `shutdown`."
    METHOD_NOT_FOUND = -32601, "No such method."
    INVALID_PARAMS = -32602, "Malformed params; `data.problems` lists the members."
    INTERNAL_ERROR = -32603, "A fault of the server; its log says more."
    NOT_INITIALIZED = -32002, "A request before `initialize`."
    REQUEST_CANCELLED = -32800, "The client cancelled the request."
    REQUEST_FAILED = -32803, "The request was well formed and could not be done, for example another major version."
    ILLEGAL_STATE = 1001, "Not possible in the session's state, which `data.state` names."
    UNKNOWN_SESSION = 1002, "No session has that id."
    DECISION_REFUSED = 1003, "A decision about a call that is unknown, changed, denied or decided; nothing was decided."
    SETTINGS_REFUSED = 1004, "A setting is unknown or wrong; `data.problems` lists which."
    SESSION_HELD = 1005, "Another server has the session open; `data.holder` names it."


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """An open vocabulary: the words of today with their meanings. A client shows an unknown word as it is."""

    name: str
    meanings: Mapping[str, str]


State = Annotated[
    str,
    Words(
        "State",
        {
            "idle": "at rest; waits for a step",
            "querying": "the model is asked",
            "awaiting_approval": "at rest; calls in `pending` wait for decisions",
            "executing": "approved commands run",
            "cancelling": "the work in flight is being stopped",
            "closed": "over until it is loaded again",
        },
    ),
]

CallStatus = Annotated[
    str,
    Words(
        "CallStatus",
        {
            "pending": "not judged yet",
            "awaiting_approval": "waits for a decision",
            "approved": "may run, has not started",
            "running": "runs now",
            "completed": "the shell ended by itself, whatever its exit code",
            "failed": "could not be run, or was ended by a signal or a limit",
            "rejected": "refused by a person, a rule or a mode",
            "cancelled": "cancelled by the person",
            "timed_out": "ended by its time limit",
            "interrupted": "a crash or shutdown came in between; whether it had an effect is not known",
        },
    ),
]

Reason = Annotated[
    str,
    Words(
        "Reason",
        {
            "format_error": "this call was malformed",
            "batch_refused": "another call of the same reply was malformed",
            "rejected_by_person": "a person rejected it",
            "rejected_unattended": "the client rejected it by itself, no person looked",
            "stopped_by_person": "a person stopped the turn at this or an earlier call",
            "denied_by_rule": "a rule denies it",
            "no_approval_possible": "the client does not announce approvals",
            "approval_expired": "nobody decided in time",
            "workspace_untrusted": "the folder is not trusted",
            "plan_mode": "the session only plans",
            "sandbox_unavailable": "the sandbox that the settings ask for cannot be had",
            "cancelled": "the person cancelled it",
            "not_started": "an earlier call of the batch was cancelled or interrupted",
            "interrupted": "a crash or shutdown came in between",
            "unusable": "the folder is missing, or the system refused the text",
            "signal": "a signal ended it",
            "timeout": "its time was over",
            "output_limit": "it wrote more than allowed",
            "memory_limit": "it used more memory than allowed",
            "process_limit": "it started more processes than allowed",
            "detached": "the person left it running; `result` has an end once it has ended",
        },
    ),
]

StopReason = Annotated[
    str,
    Words(
        "StopReason",
        {
            "step_done": "the steps that were asked for are done; the turn can go on",
            "end_turn": "the model ended its turn",
            "submitted": "the model submitted its work",
            "format_errors": "too many malformed replies in a row",
            "max_steps": "the limit of steps",
            "cost_limit": "the limit of cost",
            "time_limit": "the limit of time",
            "max_tokens": "a reply was cut, or the turn's limit of tokens",
            "max_repeats": "the model asked for the same thing too often",
            "max_rejections": "too many rejections without a reason in a row",
            "context_too_long": "the conversation no longer fits the model",
            "refusal": "the model refused",
            "model_error": "the model could not be asked; `error` says why",
            "rejected_and_stopped": "a person stopped the turn",
            "cancelled": "a person cancelled the turn",
            "interrupted": "a crash or shutdown came in between",
        },
    ),
]

Channel = Annotated[
    str,
    Words(
        "Channel",
        {
            "text": "the model's words",
            "reasoning": "the model's reasoning, as far as the provider shows it",
            "output": "what a command writes; `callId` says which",
        },
    ),
]

Origin = Annotated[
    str,
    Words(
        "Origin",
        {
            "prompt": "the person's prompt",
            "queued": "a prompt that was queued during the turn",
            "correction": "what Handrail tells the model about a malformed reply",
            "person_ran": "a command that the person ran",
            "notice": "something else that Handrail tells the model",
        },
    ),
]

JudgedAs = Annotated[
    str,
    Words("JudgedAs", {"allow": "runs by itself", "ask": "a person decides", "deny": "never runs"}),
]

Mode = Literal["ask", "rules", "plan", "trusted"]
