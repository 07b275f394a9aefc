"""What a session looks like: the snapshot and everything in it.

Invariants: a snapshot is bounded in size and complete, so that a client draws from it alone. Folders and files are
URIs, members that end in `Ms` milliseconds, offsets of text UTF-8 bytes. A call's `command` is exact, `display` is for
eyes.
"""

from __future__ import annotations

from pydantic import Field

from server.protocol.base import Wire
from server.protocol.words import CallStatus, JudgedAs, Origin, Reason, State, StopReason


class Verdict(Wire):
    """What the policy says about a command."""

    decision: JudgedAs = Field(description="What happens to the command.")
    rule: str = Field(description="The rule or setting that says so.")
    why: str = Field(description="Why, in words for the person.")


class Segment(Wire):
    """One simple command of a text."""

    text: str = Field(description="As written.")
    words: list[str] = Field(description="Its words with plain quoting removed.")
    verdict: Verdict | None = Field(default=None, description="What the policy says about this part.")


class Analysis(Wire):
    """What a command text is made of, as far as it is understood."""

    understood: bool = Field(description="Whether every part is understood; what is not is always asked.")
    not_understood: str | None = Field(default=None, description="The construct that is not understood.")
    segments: list[Segment] = Field(default=[], description="The simple commands, in order.")
    writes: list[str] = Field(default=[], description="Files that the text visibly writes (paths as written).")


class ProposedRule(Wire):
    """A rule that a decision can remember for this session."""

    words: str = Field(description="The rule in words; given back as a decision's `remember`.")
    match: list[str] = Field(description='The words a command begins with; "*" is any one word.')
    why: str | None = Field(default=None, description="What remembering it would mean.")


class CommandResult(Wire):
    """What the shell did; while the command runs, what it did so far."""

    exit_code: int | None = Field(default=None, description="Only if the shell ended by itself.")
    signal: str | None = Field(default=None, description="Only if a signal ended it, for example SIGKILL.")
    duration_ms: int = Field(default=0, description="How long it ran.")
    output_tail: str = Field(default="", description="The end of its output.")
    output_offset: int = Field(default=0, description="Bytes of output before `outputTail`.")
    omitted_bytes: int = Field(default=0, description="Bytes that the model was not shown.")
    output_uri: str | None = Field(default=None, description="File with the whole output.")
    error: str | None = Field(default=None, description="Why it could not be run.")
    leftovers: list[str] = Field(default=[], description="Processes that outlived the shell.")
    changed_files: list[str] = Field(default=[], description="Files that changed while it ran.")


class Call(Wire):
    """One tool call: a command that the model asks for, and what became of it."""

    call_id: str = Field(description="The server's key of the call; decisions name it.")
    tool_call_id: str = Field(description="The provider's id of the call, as received.")
    position: int = Field(description="Which call of its reply, from 1.")
    count: int = Field(description="How many calls its reply has.")
    command: str = Field(description="The exact text that runs.")
    display: str = Field(description="The text with control, bidirectional and invisible characters as code points.")
    line_count: int = Field(description="Lines of the command.")
    character_count: int = Field(description="Characters of the command.")
    long: bool = Field(description="Too long to be seen at a glance: a client offers a scrollable view of all of it.")
    warnings: list[str] = Field(default=[], description="What a person should know before deciding.")
    cwd: str = Field(description="The folder it runs in.")
    shell: str = Field(description="The shell that runs it (path).")
    added_environment: list[str] = Field(default=[], description="Names of variables added to its environment.")
    analysis: Analysis | None = Field(default=None, description="What the text is made of.")
    verdict: Verdict | None = Field(default=None, description="What the policy says.")
    digest: str = Field(description="What a decision repeats; a change of anything that matters makes a new digest.")
    timeout: float = Field(description="Seconds it may run.")
    sandbox: str = Field(default="off", description="The sandbox it runs in.")
    proposed_rules: list[ProposedRule] = Field(default=[], description="Rules that a decision can remember.")
    may_remember_exact: bool = Field(
        default=True, description='Whether "exact" can be remembered: not what holds a secret or reaches outside.'
    )
    unsaved_files: list[str] = Field(
        default=[], description="Files it touches that have unsaved changes in the editor."
    )
    status: CallStatus = Field(description="Where the call stands.")
    reason: Reason | None = Field(default=None, description="Why it was not run, or not to its end.")
    decided_by: str | None = Field(
        default=None, description="`person`, `rule` and its words, or `client` and what answered in a person's place."
    )
    decided_at_ms: int | None = Field(default=None, description="When it was decided (since the epoch).")
    decision_reason: str | None = Field(default=None, description="What the person said with the decision.")
    edited_from: str | None = Field(default=None, description="The model's text, if the person edited it.")
    started_at_ms: int | None = Field(default=None, description="When it started (since the epoch).")
    result: CommandResult | None = Field(default=None, description="What the shell did.")
    related_rejection: str | None = Field(
        default=None, description="An earlier call of this turn, like it and rejected."
    )


class Said(Wire):
    """Something told to the model in the user's place."""

    origin: Origin = Field(description="Who said it.")
    text: str = Field(description="The words.")


class Step(Wire):
    """One query of the model with its calls."""

    step_id: str = Field(description="The step's key; streamed text names it.")
    index: int = Field(description="Which step of the session, from 1.")
    attempt: int = Field(default=1, description="Which attempt to ask the model, from 1; a new one discards the last.")
    said: list[Said] = Field(default=[], description="What the model was told before this step.")
    text: str = Field(default="", description="The end of what the model said.")
    text_offset: int = Field(default=0, description="Bytes before `text`.")
    reasoning: str = Field(default="", description="The end of the model's reasoning.")
    reasoning_offset: int = Field(default=0, description="Bytes before `reasoning`.")
    calls: list[Call] = Field(default=[], description="The calls, in the model's order.")


class Usage(Wire):
    """What the session used so far, failed and cancelled replies included."""

    input_tokens: int = Field(default=0, description="Tokens sent, cached ones included.")
    output_tokens: int = Field(default=0, description="Tokens received.")
    cache_read_tokens: int = Field(default=0, description="Tokens that the provider read from its cache.")
    cache_write_tokens: int = Field(default=0, description="Tokens that the provider wrote to its cache.")
    reasoning_tokens: int = Field(default=0, description="Tokens of reasoning.")
    cost: float | None = Field(default=None, description="US dollars; left out if unknown.")
    cost_known: bool = Field(default=False, description="Whether every price is known; an unknown one is not 0.")
    context_tokens: int | None = Field(default=None, description="Tokens of the last query.")
    context_window: int | None = Field(default=None, description="Tokens that the model takes.")


class SessionError(Wire):
    """Why the last turn failed."""

    kind: str = Field(description="The kind of failure, for example `rate_limit`.")
    message: str = Field(description="What happened and the way out.")


class Retry(Wire):
    """A failed query that will be tried again."""

    attempt: int = Field(description="The attempt that comes.")
    in_seconds: float = Field(description="Seconds until then, counted from this snapshot.")
    reason: str = Field(description="Why the last attempt failed.")


class QueuedPrompt(Wire):
    """A prompt that waits for the next query."""

    prompt_id: str = Field(description="Its key, for withdrawing it.")
    prompt: str = Field(description="The words.")


class Snapshot(Wire):
    """Everything a client needs to draw a session now; bounded in size. Drop one that is older than what you have."""

    session_id: str = Field(description="The session's key.")
    revision: int = Field(description="Number of the session's last event; only ever grows.")
    state: State = Field(description="What the session does now.")
    title: str = Field(default="", description="A few words about the task.")
    cwd: str = Field(description="The session's folder.")
    mode: str = Field(description="How commands are judged; `trusted` must be shown.")
    model: str = Field(default="", description="The model's name.")
    steps: int = Field(default=0, description="Steps so far.")
    step: Step | None = Field(default=None, description="The current or last step.")
    pending: list[str] = Field(default=[], description="Calls (of `step`) that wait for a decision, in order.")
    stop_reason: StopReason | None = Field(default=None, description="Why the last turn came to rest.")
    error: SessionError | None = Field(default=None, description="Why the last turn failed.")
    usage: Usage = Field(default_factory=Usage, description="What was used.")
    queued: list[QueuedPrompt] = Field(default=[], description="Prompts that wait for the next query.")
    instructions: list[str] = Field(default=[], description="Instruction files that the model was given.")
    retry: Retry | None = Field(default=None, description="Present while a retry is counted down.")
    person_command: Call | None = Field(default=None, description="The person's own command, running or last.")
    detached: list[Call] = Field(
        default=[], description="Calls whose commands were left running and still run; their output goes on."
    )


class SessionInfo(Wire):
    """One line of the list of sessions."""

    session_id: str = Field(description="The session's key.")
    cwd: str = Field(description="Its folder.")
    title: str = Field(default="", description="A few words about the task.")
    state: State = Field(description="What it does now, or did last.")
    stop_reason: StopReason | None = Field(default=None, description="Why its last turn came to rest.")
    model: str = Field(default="", description="The model's name.")
    steps: int = Field(default=0, description="Steps so far.")
    pending: int = Field(default=0, description="Calls that wait for a decision.")
    cost: float | None = Field(default=None, description="US dollars; left out if unknown.")
    cost_known: bool = Field(default=False, description="Whether every price is known.")
    created_at_ms: int = Field(description="When it was made (since the epoch).")
    updated_at_ms: int = Field(description="When its last event was.")
    holder: str | None = Field(default=None, description="The other live process that has it open.")
    read_only: bool = Field(default=False, description="Written by a newer version: can be read and exported only.")
