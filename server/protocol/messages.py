"""Params and results of every message.

Invariants: no free-form objects; raw JSON travels as text. A result called a snapshot is the bare `Snapshot`.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from server.protocol.base import Params, Wire
from server.protocol.session import Analysis, ProposedRule, SessionInfo, Step, Verdict
from server.protocol.settings import Settings
from server.protocol.words import CallStatus, Channel, State

PROTOCOL_VERSION = "1.0"
"""Major and minor version; sides with the same major version understand each other."""


class NoParams(Params):
    """No params; an empty object is sent."""


class NewParams(Params):
    """Params of `session/new`."""

    cwd: str = Field(description="The folder commands run in.")
    settings: Settings | None = Field(default=None, description="Settings of this session, over the server's.")


class ListParams(Params):
    """Params of `session/list`."""

    cwd: str | None = Field(default=None, description="Only sessions of this folder.")


class SessionList(Wire):
    """The sessions, newest first."""

    sessions: list[SessionInfo] = Field(description="Newest first.")


class SessionParams(Params):
    """Params that name a session."""

    session_id: str = Field(description="The session's key.")


class ContextItem(Params):
    """Something that the editor knows and the person gives along with a prompt."""

    kind: Literal["selection", "file", "diagnostics"] = Field(description="What it is.")
    uri: str | None = Field(default=None, description="The file it is about.")
    first_line: int | None = Field(default=None, ge=1, description="First line, from 1.")
    last_line: int | None = Field(default=None, ge=1, description="Last line, included.")
    text: str | None = Field(
        default=None, description="The text; left out for a file that the model shall read itself."
    )


def _not_blank(text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise ValueError("it is blank: say what to do, or leave it out")
    return text


class StepParams(SessionParams):
    """Params of `session/step`."""

    prompt: str | None = Field(default=None, description="The task; left out only to go on with an unfinished turn.")
    context: list[ContextItem] | None = Field(default=None, description="What the editor knows.")
    max_steps: int | None = Field(default=1, ge=1, description="Steps to make; null: until the turn ends.")

    _said = field_validator("prompt")(_not_blank)


class Decision(Params):
    """What is decided about one call, by a person unless `unattended` says what answered in their place."""

    call_id: str = Field(description="The call.")
    decision: Literal["approve", "approve_edited", "reject", "stop"] = Field(
        description="stop: reject this and all calls that wait, and end the turn."
    )
    digest: str = Field(description="The digest that was shown.")
    command: str | None = Field(default=None, description="The text to run instead; with `approve_edited` only.")
    reason: str | None = Field(default=None, description="Told to the model.")
    remember: str | None = Field(default=None, description='"exact", or the `words` of a proposed rule.')
    unattended: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="What answered where no person looked, such as `--on-ask approve`; recorded in the person's place.",
    )

    @model_validator(mode="after")
    def _command_only_if_edited(self) -> Self:
        if (self.command is not None) != (self.decision == "approve_edited"):
            raise ValueError("'command' goes with approve_edited, and only with it")
        return self


class DecideParams(SessionParams):
    """Params of `session/decide`."""

    decisions: list[Decision] = Field(min_length=1, description="All are taken, or none.")


class CancelParams(SessionParams):
    """Params of `session/cancel`."""

    call_id: str | None = Field(default=None, description="One running or detached command; left out: the turn.")


class WaitParams(SessionParams):
    """Params of `session/wait`."""

    after: int = Field(ge=0, description="The revision that is known; the answer comes at rest beyond it.")


class ConfigureParams(SessionParams):
    """Params of `session/configure`."""

    settings: Settings = Field(description="What changes; takes effect at the next query.")


class QueueParams(SessionParams):
    """Params of `session/queue`."""

    prompt: str | None = Field(default=None, description="The words.")
    withdraw: str | None = Field(default=None, description="Key of a queued prompt to take back.")

    _said = field_validator("prompt")(_not_blank)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.prompt is None) == (self.withdraw is None):
            raise ValueError("give either 'prompt' or 'withdraw'")
        return self


class RunParams(SessionParams):
    """Params of `session/run`."""

    command: str = Field(description="The person's own command.")


class DetachParams(SessionParams):
    """Params of `session/detach`."""

    call_id: str = Field(description="The running command.")


class TrustParams(Params):
    """Params of `workspace/didChangeTrust`."""

    folder: str = Field(description="The folder.")
    trusted: bool = Field(description="Whether the person trusts it; in one that is not trusted nothing runs.")


class TranscriptParams(SessionParams):
    """Params of `session/transcript`."""

    from_step: int = Field(default=1, ge=1, description="Index of the first step.")
    limit: int = Field(default=50, ge=1, le=500, description="How many steps at most.")


class Transcript(Wire):
    """A page of a session's history."""

    steps: list[Step] = Field(description="In order.")
    total: int = Field(description="Steps of the session.")


class ExportParams(SessionParams):
    """Params of `session/export`."""

    format: Literal["handrail", "mini-swe-agent-1.1"] = Field(default="handrail", description="The format.")


class Export(Wire):
    """A whole session as text."""

    text: str = Field(description="JSON text.")


class AnalyzeParams(Params):
    """Params of `command/analyze`."""

    session_id: str | None = Field(default=None, description="Judge by this session's rules and mode.")
    settings: Settings | None = Field(default=None, description="Judge by these; left out both: by the server's.")
    command: str = Field(description="The text.")
    cwd: str = Field(description="The folder it would run in.")


class CommandAnalysis(Analysis):
    """What a person would be shown about a command."""

    display: str = Field(description="The text with control, bidirectional and invisible characters as code points.")
    warnings: list[str] = Field(default=[], description="What a person should know.")
    verdict: Verdict = Field(description="What the policy says.")
    proposed_rules: list[ProposedRule] = Field(default=[], description="Rules that a decision could remember.")


class Check(Wire):
    """One thing that was checked."""

    name: str = Field(description="The thing.")
    ok: bool = Field(description="Whether it is as it should be.")
    detail: str = Field(default="", description="What was found.")
    way_out: str | None = Field(default=None, description="What to do about it.")


class Fact(Wire):
    """A name with a value."""

    name: str = Field(description="The name.")
    value: str = Field(description="The value.")


class Health(Wire):
    """How the server is."""

    checks: list[Check] = Field(description="What was checked.")
    versions: list[Fact] = Field(default=[], description="Versions of what Handrail is made of.")
    paths: list[Fact] = Field(default=[], description="Where things are.")
    key_names: list[str] = Field(default=[], description="Names of provider keys that are present; never values.")


class StreamParams(Wire):
    """Params of `session/didStream`: a piece of text that is also in the next snapshot's tail."""

    session_id: str = Field(description="The session.")
    step_id: str = Field(description="The step; drop pieces of another one than the snapshot's.")
    attempt: int = Field(description="The attempt; drop pieces of an older one.")
    call_id: str | None = Field(default=None, description="The command, on channel `output`.")
    channel: Channel = Field(description="What kind of text.")
    offset: int = Field(description="Bytes before this piece; a gap means that pieces were dropped.")
    text: str = Field(description="The piece.")


class Announcement(Params):
    """What both sides say in `initialize`, as `capabilities.experimental.handrail`."""

    protocol_version: str = Field(default=PROTOCOL_VERSION, description="Major and minor version.")
    approvals: bool = Field(default=False, description="Whether the side can show, or serve, approvals.")

    def to_wire(self) -> dict[str, Any]:
        """Give the whole object, always: both members matter."""
        return self.model_dump(by_alias=True)


class Problem(Wire):
    """What is wrong with one member."""

    field: str = Field(description="The member, for example `decisions.0.digest`.")
    problem: str = Field(description="What is wrong.")


class ErrorData(Wire):
    """The `data` of an error answer."""

    problems: list[Problem] | None = Field(default=None, description="Malformed members.")
    state: State | None = Field(default=None, description="The session's state.")
    call_id: str | None = Field(default=None, description="The call that a decision was refused for.")
    status: CallStatus | None = Field(default=None, description="That call's status.")
    holder: str | None = Field(default=None, description="The process that has the session open.")
