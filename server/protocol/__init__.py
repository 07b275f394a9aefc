"""The one definition of Handrail's wire: every model, every method, every error code, with its documentation.

Invariants: this package imports pydantic only. `METHODS` names every message; the JSON Schema, the TypeScript and Lua
types and the reference page are generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from server.protocol.base import (
    Params,
    StrictParams,
    Wire,
)
from server.protocol.messages import (
    PROTOCOL_VERSION,
    AnalyzeParams,
    Announcement,
    CancelParams,
    Check,
    CommandAnalysis,
    ConfigureParams,
    ContextItem,
    DecideParams,
    Decision,
    DetachParams,
    ErrorData,
    Export,
    ExportParams,
    Fact,
    Health,
    ListParams,
    NewParams,
    NoParams,
    Problem,
    QueueParams,
    RunParams,
    SessionList,
    SessionParams,
    StepParams,
    StreamParams,
    Transcript,
    TranscriptParams,
    TrustParams,
    WaitParams,
)
from server.protocol.session import (
    Analysis,
    Call,
    CommandResult,
    ProposedRule,
    QueuedPrompt,
    Retry,
    Said,
    Segment,
    SessionError,
    SessionInfo,
    Snapshot,
    Step,
    Usage,
    Verdict,
)
from server.protocol.settings import (
    CommandSettings,
    Limits,
    Rule,
    RuleExamples,
    Settings,
    Templates,
)
from server.protocol.words import (
    CallStatus,
    Channel,
    ErrorCode,
    JudgedAs,
    Mode,
    Origin,
    Reason,
    State,
    StopReason,
    Words,
)

__all__ = [
    "METHODS",
    "PREFIX",
    "PROTOCOL_VERSION",
    "Analysis",
    "AnalyzeParams",
    "Announcement",
    "Call",
    "CallStatus",
    "CancelParams",
    "Channel",
    "Check",
    "CommandAnalysis",
    "CommandResult",
    "CommandSettings",
    "ConfigureParams",
    "ContextItem",
    "DecideParams",
    "Decision",
    "DetachParams",
    "ErrorCode",
    "ErrorData",
    "Export",
    "ExportParams",
    "Fact",
    "Health",
    "JudgedAs",
    "Limits",
    "ListParams",
    "Method",
    "Mode",
    "NewParams",
    "NoParams",
    "Origin",
    "Params",
    "Problem",
    "ProposedRule",
    "QueueParams",
    "QueuedPrompt",
    "Reason",
    "Retry",
    "Rule",
    "RuleExamples",
    "RunParams",
    "Said",
    "Segment",
    "SessionError",
    "SessionInfo",
    "SessionList",
    "SessionParams",
    "Settings",
    "Snapshot",
    "State",
    "Step",
    "StepParams",
    "StopReason",
    "StreamParams",
    "StrictParams",
    "Templates",
    "Transcript",
    "TranscriptParams",
    "TrustParams",
    "Usage",
    "Verdict",
    "WaitParams",
    "Wire",
    "Words",
]

PREFIX = "handrail/"
"""What every method of ours begins with."""


@dataclass(frozen=True, slots=True)
class Method:
    """One message: its params, its answer (None: a notification), who sends it, and what it does."""

    params: type[Wire]
    result: type[Wire] | None
    direction: Literal["client_to_server", "server_to_client"]
    doc: str


def _asked(params: type[Params], result: type[Wire], doc: str) -> Method:
    return Method(params, result, "client_to_server", doc)


METHODS: Mapping[str, Method] = {
    "handrail/session/new": _asked(NewParams, Snapshot, "Open a session in a folder."),
    "handrail/session/list": _asked(ListParams, SessionList, "List the sessions, newest first."),
    "handrail/session/load": _asked(
        SessionParams, Snapshot, "Open a stored session; pending approvals are there again."
    ),
    "handrail/session/step": _asked(
        StepParams, Snapshot, "Start steps and answer at once; refused while working (1001)."
    ),
    "handrail/session/decide": _asked(DecideParams, Snapshot, "Decide calls that wait, all or none; answers at once."),
    "handrail/session/cancel": _asked(CancelParams, Snapshot, "Cancel the turn or one command; harmless to repeat."),
    "handrail/session/wait": _asked(WaitParams, Snapshot, "Answer when the session is at rest; a pure read."),
    "handrail/session/get": _asked(SessionParams, Snapshot, "Answer what the session looks like now."),
    "handrail/session/close": _asked(SessionParams, Snapshot, "End the session's work and let go of it."),
    "handrail/session/delete": _asked(SessionParams, Snapshot, "Close the session and remove its record."),
    "handrail/session/configure": _asked(ConfigureParams, Snapshot, "Change settings; judges anew what is pending."),
    "handrail/session/queue": _asked(QueueParams, Snapshot, "Queue a prompt for the next query, or take one back."),
    "handrail/session/compact": _asked(SessionParams, Snapshot, "Shorten what is sent to the model; the record stays."),
    "handrail/session/run": _asked(RunParams, Snapshot, "Run the person's own command at once; the model is told."),
    "handrail/session/detach": _asked(DetachParams, Snapshot, "Leave a running command running and go on."),
    "handrail/session/transcript": _asked(TranscriptParams, Transcript, "Answer a page of the session's steps."),
    "handrail/session/export": _asked(ExportParams, Export, "Answer the whole session as JSON text."),
    "handrail/command/analyze": _asked(AnalyzeParams, CommandAnalysis, "Say what would be shown about a command."),
    "handrail/server/health": _asked(NoParams, Health, "Check what the server needs, with ways out."),
    "handrail/workspace/didChangeTrust": Method(
        TrustParams, None, "client_to_server", "Tell whether the person trusts a folder; folders are trusted otherwise."
    ),
    "handrail/session/didUpdate": Method(
        Snapshot, None, "server_to_client", "Tell what a session looks like; superseded ones may be left out."
    ),
    "handrail/session/didStream": Method(
        StreamParams, None, "server_to_client", "Tell a piece of text as it comes; may be left out."
    ),
}
"""Every message of Handrail, by its method name."""
