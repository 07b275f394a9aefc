"""Between the core's values and the wire's, explicitly, one small function per noun.

Invariants: nothing is decided here; folders and files are URIs on the wire and absolute paths in the core; what is
shown is bounded and comes from the session as it is now.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_core.display import about_unsaved, display_text
from agent_core.errors import SettingsError, UsageError
from agent_core.journal import EVENTS_VERSION, SessionSummary
from agent_core.live import TAIL_BYTES, Piece
from agent_core.machine import State
from agent_core.observing import not_run
from agent_core.policy import describe_rule
from agent_core.prompt_context import ContextItem
from agent_core.proposing import Proposer
from agent_core.record import Record
from agent_core.session import Session
from agent_core.shell_syntax import analyse
from agent_core.steps import Call, Step
from agent_core.types import CallStatus, CommandResult, StopReason, Usage
from server import protocol as wire

_LAST_REVISION = 2**31 - 1
LONG_LINES = 20
LONG_CHARACTERS = 1_000
"""A command beyond either is marked as long: it cannot be seen at a glance."""


def path_of(uri: str) -> str:
    """Return the absolute path of a file URI; raises `UsageError` for anything else."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise UsageError(f"The folder must be a file URI such as file:///home/me/project, not {uri[:200]!r}.")
    return path.rstrip("/") or "/"


def uri_of(path: str) -> str:
    """Return the file URI of an absolute path."""
    return Path(path).as_uri()


def settings_of(settings: wire.Settings | None) -> dict[str, Any]:
    """Return the given settings as the core's nested values; raises `SettingsError` for options that are no object."""
    if settings is None:
        return {}
    values = _given(settings.model_dump(exclude_unset=True))
    if "model_options" in values:
        try:
            values["model_options"] = json.loads(values["model_options"])
        except json.JSONDecodeError as error:
            raise SettingsError(f"`modelOptions` is not JSON: {error}.") from None
    return values


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: _given(value) if isinstance(value, dict) else value for name, value in values.items()}
    return {name: value for name, value in named.items() if value is not None}


def context_items(items: Sequence[wire.ContextItem] | None) -> list[ContextItem]:
    """Return what the editor gives with a prompt; a URI that is no file's is told as it is."""
    return [
        ContextItem(each.kind, _place_of(each.uri), each.first_line, each.last_line, each.text) for each in items or ()
    ]


def _place_of(uri: str | None) -> str:
    try:
        return path_of(uri) if uri else ""
    except UsageError:
        return uri or ""


def snapshot(session: Session) -> wire.Snapshot:
    """Return what a client draws."""
    record = session.machine.record
    step = next((each for each in reversed(record.steps) if not each.by_person), None)
    own = record.step if record.step is not None and record.step.by_person else None
    return wire.Snapshot(
        session_id=session.id,
        revision=record.revision,
        state=_state(session),
        title=session.summary.title,
        cwd=uri_of(session.cwd),
        mode=session.settings.mode,
        model=session.model.name,
        steps=len(record.steps),
        step=_current_step(session, step) if step else None,
        pending=[call.key for call in record.with_status(CallStatus.AWAITING_APPROVAL)],
        stop_reason=record.stop.value if record.stop else None,
        error=_error(session, step),
        usage=_usage(session, record),
        queued=[wire.QueuedPrompt(prompt_id=key, prompt=each.prompt) for key, each in record.queue.items()],
        instructions=[uri_of(path) for path in record.instructions],
        retry=_retry(session),
        person_command=_call(own.calls[0], session, 1) if own else None,
        detached=[_call(call, session, 1) for call in session.detached],
    )


def _state(session: Session) -> str:
    """Return the word for what goes on; rendering observations goes on as what came before it."""
    if session.state is State.OBSERVING:
        step = session.machine.record.steps[-1]
        if step.stop is StopReason.CANCELLED:
            return State.CANCELLING.value
        return State.EXECUTING.value if step.calls else State.QUERYING.value
    return session.state.value


def state_word(state: State) -> str:
    """Return the wire's word for a state; rendering observations is the end of executing."""
    return State.EXECUTING.value if state is State.OBSERVING else state.value


def summary(each: SessionSummary) -> wire.SessionInfo:
    """Return one line of the list of sessions."""
    return wire.SessionInfo(
        session_id=each.id,
        cwd=uri_of(each.cwd),
        title=each.title,
        state=state_word(State(each.state)),
        stop_reason=each.stop,
        model=each.model,
        steps=each.steps,
        pending=each.pending,
        cost=each.cost,
        cost_known=each.cost is not None,
        created_at_ms=round(each.created_at * 1000),
        updated_at_ms=round(each.updated_at * 1000),
        holder=each.holder or None,
        read_only=each.version > EVENTS_VERSION,
    )


def deleted(each: SessionSummary) -> wire.Snapshot:
    """Return the last that is seen of a session; its revision is beyond all that were."""
    return wire.Snapshot(
        session_id=each.id,
        revision=_LAST_REVISION,
        state=State.CLOSED.value,
        title=each.title,
        cwd=uri_of(each.cwd),
        mode="ask",
        model=each.model,
        steps=each.steps,
    )


def transcript(session: Session, first: int, limit: int) -> wire.Transcript:
    """Return a page of steps, from index `first` on."""
    steps = session.machine.record.steps
    page = steps[first - 1 : first - 1 + limit]
    return wire.Transcript(steps=[_step(step, session) for step in page], total=len(steps))


def analysis(command: str, proposer: Proposer, record: Record) -> wire.CommandAnalysis:
    """Return what a person would be shown about a command, were it asked for now."""
    seen = _analysis(command)
    verdict = proposer.judge(record, command)
    return wire.CommandAnalysis(
        understood=seen.understood,
        not_understood=seen.not_understood,
        segments=seen.segments,
        writes=seen.writes,
        display=display_text(command),
        warnings=list(proposer.warnings(record, command)),
        verdict=wire.Verdict(decision=verdict.decision, rule=verdict.rule, why=verdict.why),
        proposed_rules=_proposed_rules(proposer, record, command),
    )


def _analysis(command: str) -> wire.Analysis:
    found = analyse(command)
    return wire.Analysis(
        understood=found.understood,
        not_understood=", ".join(found.doubts) or None,
        segments=[wire.Segment(text=each.text, words=list(each.argv)) for each in found.commands],
        writes=list(found.writes),
    )


def _proposed_rules(proposer: Proposer, record: Record, command: str) -> list[wire.ProposedRule]:
    return [
        wire.ProposedRule(words=shlex.join(words), match=list(words), why=describe_rule(words))
        for words in proposer.rules_to_remember(record, command)
    ]


def piece(session: Session, each: Piece) -> wire.StreamParams:
    """Return a piece of streamed text."""
    return wire.StreamParams(
        session_id=session.id,
        step_id=str(each.step),
        attempt=each.attempt,
        call_id=each.call,
        channel=each.channel,
        offset=each.offset,
        text=each.text,
    )


def _current_step(session: Session, step: Step) -> wire.Step:
    shown = _step(step, session)
    if step.reply is not None or session.state is not State.QUERYING or session.live.step != step.index:
        return shown
    text_offset, text = session.live.tail("text")
    reasoning_offset, reasoning = session.live.tail("reasoning")
    return shown.model_copy(
        update={
            "attempt": session.live.attempt,
            "text": text,
            "text_offset": text_offset,
            "reasoning": reasoning,
            "reasoning_offset": reasoning_offset,
        },
    )


def _step(step: Step, session: Session) -> wire.Step:
    text_offset, text = _end(step.reply.text if step.reply else "")
    reasoning_offset, reasoning = _end(step.reply.reasoning if step.reply else "")
    return wire.Step(
        step_id=str(step.index),
        index=step.index,
        said=[wire.Said(origin="prompt", text=_end(prompt)[1]) for prompt in step.prompts],
        text=text,
        text_offset=text_offset,
        reasoning=reasoning,
        reasoning_offset=reasoning_offset,
        calls=[_call(call, session, len(step.calls)) for call in step.calls],
    )


def _call(call: Call, session: Session, count: int) -> wire.Call:
    proposal, shown = call.proposal, call.shown
    command = proposal.command if proposal else call.tool.arguments
    edited = shown is not None and proposal is not None and shown.command != proposal.command
    waiting = call.status is CallStatus.AWAITING_APPROVAL
    unsaved = session.proposer.unsaved(command) if waiting else ()
    return wire.Call(
        call_id=call.key,
        tool_call_id=call.tool.id,
        position=int(call.key.partition(".")[2]),
        count=count,
        command=command,
        display=display_text(command),
        line_count=command.count("\n") + 1,
        character_count=len(command),
        long=command.count("\n") >= LONG_LINES or len(command) > LONG_CHARACTERS,
        warnings=[*call.warnings, *([about_unsaved(unsaved)] if unsaved else [])],
        cwd=uri_of(proposal.cwd if proposal else session.cwd),
        shell=proposal.shell if proposal else session.proposer.bash,
        added_environment=list(proposal.added_variables) if proposal else [],
        analysis=_analysis(command) if waiting else None,
        verdict=_verdict(call),
        digest=shown.digest if shown else "",
        timeout=proposal.timeout if proposal else 0.0,
        sandbox=proposal.sandbox if proposal else "off",
        proposed_rules=_proposed_rules(session.proposer, session.machine.record, command) if waiting else [],
        may_remember_exact=waiting and session.proposer.may_remember(session.machine.record, command, "exact"),
        unsaved_files=[uri_of(path) for path in unsaved],
        status=call.status.value,
        reason=call.reason.value if call.reason else None,
        decided_by=call.decided_by or None,
        decided_at_ms=round(call.decided_at * 1000) if call.decided_at else None,
        decision_reason=call.note or None,
        edited_from=shown.command if edited and shown else None,
        related_rejection=call.related or None,
        started_at_ms=round(call.started_at * 1000) if call.started_at else None,
        result=_result(call, session),
    )


def _verdict(call: Call) -> wire.Verdict | None:
    verdict = call.verdict
    return wire.Verdict(decision=verdict.decision, rule=verdict.rule, why=verdict.why) if verdict else None


def _result(call: Call, session: Session) -> wire.CommandResult | None:
    if call.status is CallStatus.RUNNING or call.key in {each.key for each in session.detached}:
        offset, tail = session.live.tail("output", call.key)
        return wire.CommandResult(output_tail=tail, output_offset=offset)
    if call.result is not None:
        return _finished(call.result)
    sentence = not_run(call)
    return wire.CommandResult(error=sentence) if sentence else None


def _finished(result: CommandResult) -> wire.CommandResult:
    offset, tail = _end(result.output)
    return wire.CommandResult(
        exit_code=result.exit_code,
        signal=result.signal or None,
        duration_ms=result.duration_ms,
        output_tail=tail,
        output_offset=offset,
        omitted_bytes=result.omitted_bytes,
        output_uri=uri_of(result.spool) if result.spool else None,
        error=result.error or None,
        leftovers=list(result.leftovers),
        changed_files=[uri_of(path) for path in result.changed_files],
    )


def _end(text: str) -> tuple[int, str]:
    """Return the end of a text, bounded, and the number of bytes before it."""
    data = text.encode(errors="replace")
    if len(data) <= TAIL_BYTES:
        return 0, text
    tail = data[-TAIL_BYTES:].decode(errors="ignore")
    return len(data) - len(tail.encode()), tail


def _error(session: Session, step: Step | None) -> wire.SessionError | None:
    if session.read_only:
        return wire.SessionError(kind="read_only", message=session.read_only)
    if step is None or step.failure is None or not session.state.resting:
        return None
    kind, message = step.failure
    return wire.SessionError(kind=kind.value, message=message)


def _usage(session: Session, record: Record) -> wire.Usage:
    total: Usage = record.usage
    last = next((step.reply.usage for step in reversed(record.steps[-20:]) if step.reply), None)
    return wire.Usage(
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cache_read_tokens=total.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens,
        reasoning_tokens=total.reasoning_tokens,
        cost=total.cost,
        cost_known=total.cost is not None,
        context_tokens=last.input_tokens + last.output_tokens if last else None,
        context_window=session.model.context_window,
    )


def _retry(session: Session) -> wire.Retry | None:
    if session.live.retry is None:
        return None
    attempt, at, reason = session.live.retry
    return wire.Retry(attempt=attempt, in_seconds=max(0.0, at - asyncio.get_running_loop().time()), reason=reason)
