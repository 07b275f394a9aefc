"""One sample of every message, all from one story: the golden files and the reference page are written from it.

Invariants: every method of `METHODS` has a sample; each is valid, shows the members that matter, and holds nothing of a
real machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from server.protocol import (
    Analysis,
    AnalyzeParams,
    Call,
    CancelParams,
    Check,
    CommandAnalysis,
    CommandResult,
    CommandSettings,
    ConfigureParams,
    ContextItem,
    DecideParams,
    Decision,
    DetachParams,
    Export,
    ExportParams,
    Fact,
    Health,
    Limits,
    ListParams,
    NewParams,
    NoParams,
    ProposedRule,
    QueuedPrompt,
    QueueParams,
    Retry,
    Rule,
    RunParams,
    Said,
    Segment,
    SessionError,
    SessionInfo,
    SessionList,
    SessionParams,
    Settings,
    Snapshot,
    Step,
    StepParams,
    StreamParams,
    Transcript,
    TranscriptParams,
    TrustParams,
    Usage,
    Verdict,
    WaitParams,
    Wire,
)

_SESSION = "7f3a09c1d2e4b586"
_CWD = "file:///home/ada/project"
_DIGEST = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
_ASKED = Verdict(decision="ask", rule="mode ask", why="nothing allows it yet")
_PYTEST = ProposedRule(
    words="python -m pytest", match=["python", "-m", "pytest"], why="every run of the tests in this session"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Params, and what they are answered with (None: a notification)."""

    params: Wire
    result: Wire | None = None


_PENDING = Call(  # noqa: S604 - `shell` is a member of the call
    call_id="1.1",
    tool_call_id="call_0",
    position=1,
    count=2,
    command="python -m pytest -q",
    display="python -m pytest -q",
    line_count=1,
    character_count=19,
    long=False,
    warnings=["runs the workspace's own code"],
    cwd=_CWD,
    shell="/bin/bash",
    added_environment=["PYTHONDONTWRITEBYTECODE"],
    analysis=Analysis(
        understood=True, segments=[Segment(text="python -m pytest -q", words=["python", "-m", "pytest", "-q"])]
    ),
    verdict=_ASKED,
    digest=_DIGEST,
    timeout=120.0,
    proposed_rules=[_PYTEST],
    unsaved_files=[f"{_CWD}/calc.py"],
    status="awaiting_approval",
)

_REJECTED = Call(  # noqa: S604 - `shell` is a member of the call
    call_id="1.2",
    tool_call_id="call_1",
    position=2,
    count=2,
    command="git push\u202e",
    display="git push<U+202E>",
    line_count=1,
    character_count=9,
    long=False,
    warnings=["holds invisible characters", "talks to the network"],
    cwd=_CWD,
    shell="/bin/bash",
    analysis=Analysis(understood=False, not_understood="invisible character U+202E"),
    verdict=_ASKED,
    digest=_DIGEST[::-1],
    timeout=120.0,
    status="rejected",
    reason="rejected_by_person",
    decided_by="person",
    decided_at_ms=1767225598000,
    decision_reason="not before the tests pass",
)

_DONE = _PENDING.model_copy(
    update={
        "status": "completed",
        "decided_by": "person",
        "decided_at_ms": 1767225599000,
        "started_at_ms": 1767225600000,
        "result": CommandResult(
            exit_code=1,
            duration_ms=842,
            output_tail="1 failed in 0.12s\n",
            output_offset=4096,
            omitted_bytes=1024,
            output_uri="file:///home/ada/.local/state/handrail/spool/7f3a09c1d2e4b586/1.1",
            leftovers=["sleep 60"],
            changed_files=[f"{_CWD}/.coverage"],
        ),
    }
)

_USAGE = Usage(
    input_tokens=1200,
    output_tokens=80,
    cache_read_tokens=900,
    cost=0.0042,
    cost_known=True,
    context_tokens=1280,
    context_window=200000,
)

_STEP = Step(
    step_id="1",
    index=1,
    said=[Said(origin="prompt", text="Repair the failing test.")],
    text="Let me run the tests.",
    calls=[_PENDING, _REJECTED],
)

_WAITING = Snapshot(
    session_id=_SESSION,
    revision=12,
    state="awaiting_approval",
    title="Repair the failing test",
    cwd=_CWD,
    mode="ask",
    model="openai/some-model",
    steps=1,
    step=_STEP,
    pending=["1.1"],
    usage=_USAGE,
    instructions=[f"{_CWD}/AGENTS.md"],
)

_FRESH = Snapshot(session_id=_SESSION, revision=1, state="idle", cwd=_CWD, mode="ask", model="openai/some-model")

_QUERYING = _FRESH.model_copy(
    update={
        "revision": 3,
        "state": "querying",
        "title": "Repair the failing test",
        "retry": Retry(attempt=2, in_seconds=4.0, reason="the provider is overloaded"),
        "queued": [QueuedPrompt(prompt_id="7", prompt="Leave the tests as they are.")],
    }
)

_RESTED = _WAITING.model_copy(
    update={
        "revision": 17,
        "state": "idle",
        "step": _STEP.model_copy(update={"calls": [_DONE, _REJECTED]}),
        "pending": [],
        "stop_reason": "step_done",
    }
)

_FAILED = _FRESH.model_copy(
    update={
        "revision": 5,
        "stop_reason": "model_error",
        "error": SessionError(kind="authentication", message="The provider refused the key; set OPENAI_API_KEY."),
    }
)

_SETTINGS = Settings(
    model="openai/some-model",
    model_options='{"temperature": 0}',
    mode="rules",
    rules=["read-only", Rule(match=["make", "*"], decision="ask", why="runs the workspace's own code")],
    limits=Limits(max_steps=40, max_cost=1.5),
    command=CommandSettings(timeout=300.0, inherit=["JAVA_HOME"]),
)

_INFO = SessionInfo(
    session_id=_SESSION,
    cwd=_CWD,
    title="Repair the failing test",
    state="awaiting_approval",
    model="openai/some-model",
    steps=1,
    pending=1,
    cost=0.0042,
    cost_known=True,
    created_at_ms=1767225600000,
    updated_at_ms=1767225660000,
    holder="handrail (process 4711)",
)

_THIS = SessionParams(session_id=_SESSION)
_DECISIONS = [
    Decision(call_id="1.1", decision="approve_edited", digest=_DIGEST, command="python -m pytest -q -x"),
    Decision(call_id="1.2", decision="reject", digest=_DIGEST[::-1], reason="not before the tests pass"),
    Decision(call_id="1.3", decision="approve", digest=_DIGEST, remember="exact"),
    Decision(call_id="1.4", decision="reject", digest=_DIGEST, unattended="--on-ask deny"),
]
_CONTEXT = [ContextItem(kind="selection", uri=f"{_CWD}/calc.py", first_line=3, last_line=4, text="return a - b")]
_STEP_PARAMS = StepParams(session_id=_SESSION, prompt="Repair the failing test.", context=_CONTEXT, max_steps=None)

SAMPLES: dict[str, Sample] = {
    "handrail/session/new": Sample(NewParams(cwd=_CWD, settings=_SETTINGS), _FRESH),
    "handrail/session/list": Sample(ListParams(cwd=_CWD), SessionList(sessions=[_INFO])),
    "handrail/session/load": Sample(_THIS, _WAITING),
    "handrail/session/step": Sample(_STEP_PARAMS, _QUERYING),
    "handrail/session/decide": Sample(
        DecideParams(session_id=_SESSION, decisions=_DECISIONS), _WAITING.model_copy(update={"pending": []})
    ),
    "handrail/session/cancel": Sample(CancelParams(session_id=_SESSION, call_id="1.1"), _RESTED),
    "handrail/session/wait": Sample(WaitParams(session_id=_SESSION, after=12), _RESTED),
    "handrail/session/get": Sample(_THIS, _FAILED),
    "handrail/session/close": Sample(_THIS, _RESTED.model_copy(update={"state": "closed"})),
    "handrail/session/delete": Sample(_THIS, _RESTED.model_copy(update={"state": "closed"})),
    "handrail/session/configure": Sample(ConfigureParams(session_id=_SESSION, settings=Settings(mode="plan")), _FRESH),
    "handrail/session/queue": Sample(
        QueueParams(session_id=_SESSION, prompt="Leave the tests as they are."), _QUERYING
    ),
    "handrail/session/compact": Sample(_THIS, _RESTED),
    "handrail/session/run": Sample(
        RunParams(session_id=_SESSION, command="python -m pytest -q"),
        _FRESH.model_copy(update={"person_command": _DONE}),
    ),
    "handrail/session/detach": Sample(
        DetachParams(session_id=_SESSION, call_id="1.1"),
        _RESTED.model_copy(update={"detached": [_PENDING.model_copy(update={"status": "running"})]}),
    ),
    "handrail/session/transcript": Sample(
        TranscriptParams(session_id=_SESSION, from_step=1, limit=50), Transcript(steps=[_STEP], total=1)
    ),
    "handrail/session/export": Sample(ExportParams(session_id=_SESSION, format="handrail"), Export(text="{}")),
    "handrail/command/analyze": Sample(
        AnalyzeParams(session_id=_SESSION, command="git status > out", cwd=_CWD),
        CommandAnalysis(
            understood=False,
            not_understood="redirect to a file",
            segments=[Segment(text="git status", words=["git", "status"], verdict=_ASKED)],
            writes=["out"],
            display="git status > out",
            warnings=["writes out"],
            verdict=_ASKED,
        ),
    ),
    "handrail/server/health": Sample(
        NoParams(),
        Health(
            checks=[
                Check(name="bash", ok=True, detail="/bin/bash 5.2"),
                Check(name="model", ok=False, detail="no model is set", way_out="set handrail.model"),
            ],
            versions=[Fact(name="handrail", value="0.1.0")],
            paths=[Fact(name="state", value="/home/ada/.local/state/handrail")],
            key_names=["OPENAI_API_KEY"],
        ),
    ),
    "handrail/workspace/didChangeTrust": Sample(TrustParams(folder=_CWD, trusted=False)),
    "handrail/session/didUpdate": Sample(_WAITING),
    "handrail/session/didStream": Sample(
        StreamParams(
            session_id=_SESSION,
            step_id="1",
            attempt=1,
            call_id="1.1",
            channel="output",
            offset=4096,
            text="1 failed in 0.12s\n",
        )
    ),
}
"""A sample of every message, by its method name."""
