"""What the server does for each method: params to an event, and the snapshot back.

Invariants: a handler holds no work of its own, so cancelling its request never cancels a session's work; every error of
the core becomes an error answer with its own code and sentence.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from agent_core.errors import (
    HandrailError,
    IllegalEvent,
    JournalError,
    SessionHeld,
    SettingsError,
    StaleDecision,
    UnknownSession,
    UsageError,
)
from agent_core.export import export as export_text
from agent_core.record import Record
from agent_core.session import Session
from agent_core.types import CallStatus, Decision
from server import convert
from server import protocol as wire
from server.health import health
from server.registry import Registry
from server.wire import WireError

_CODES: tuple[tuple[type[HandrailError], wire.ErrorCode], ...] = (
    (IllegalEvent, wire.ErrorCode.ILLEGAL_STATE),
    (UnknownSession, wire.ErrorCode.UNKNOWN_SESSION),
    (StaleDecision, wire.ErrorCode.DECISION_REFUSED),
    (SettingsError, wire.ErrorCode.SETTINGS_REFUSED),
    (SessionHeld, wire.ErrorCode.SESSION_HELD),
    (UsageError, wire.ErrorCode.INVALID_PARAMS),
    (JournalError, wire.ErrorCode.REQUEST_FAILED),
)

Answer = TypeVar("Answer")
Handler = Callable[[Registry, Any], Awaitable[Any]]


def answering(handler: Callable[[Registry, Any], Awaitable[Answer]]) -> Callable[[Registry, Any], Awaitable[Answer]]:
    """Turn the core's errors into error answers."""

    @functools.wraps(handler)
    async def answer(registry: Registry, params: Any) -> Answer:
        try:
            return await handler(registry, params)
        except HandrailError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), wire.ErrorCode.INTERNAL_ERROR)
            raise WireError(code, str(error), _data(registry, params, error)) from error

    return answer


def _data(registry: Registry, params: Any, error: HandrailError) -> wire.ErrorData | None:
    if isinstance(error, SessionHeld):
        return wire.ErrorData(holder=error.holder)
    session_id = getattr(params, "session_id", None)
    session = next((each for each in registry.all() if each.id == session_id), None)
    if session is None:
        return None
    state = convert.state_word(session.state)
    if not isinstance(error, StaleDecision):
        return wire.ErrorData(state=state)
    for each in getattr(params, "decisions", ()):
        call = session.machine.record.find(each.call_id)
        if call is None:
            return wire.ErrorData(state=state, call_id=each.call_id)
        if call.status is not CallStatus.AWAITING_APPROVAL or call.to_run.digest != each.digest:
            return wire.ErrorData(state=state, call_id=call.key, status=call.status.value)
    return wire.ErrorData(state=state)


async def _shown(session: Session) -> wire.Snapshot:
    """Return a session's snapshot, of nothing that a crash could still undo."""
    await session.settled()
    return convert.snapshot(session)


async def new(registry: Registry, params: wire.NewParams) -> wire.Snapshot:
    """Open a session."""
    session = await registry.new(convert.path_of(params.cwd), convert.settings_of(params.settings))
    return await _shown(session)


async def list_sessions(registry: Registry, params: wire.ListParams) -> wire.SessionList:
    """List the sessions."""
    cwd = convert.path_of(params.cwd) if params.cwd is not None else None
    return wire.SessionList(sessions=[convert.summary(each) for each in await registry.summaries(cwd)])


async def load(registry: Registry, params: wire.SessionParams) -> wire.Snapshot:
    """Open a stored session."""
    return await _shown(await registry.load(params.session_id))


async def step(registry: Registry, params: wire.StepParams) -> wire.Snapshot:
    """Start steps."""
    session = registry.get(params.session_id)
    await session.step(params.prompt, params.max_steps, convert.context_items(params.context))
    return await _shown(session)


async def decide(registry: Registry, params: wire.DecideParams) -> wire.Snapshot:
    """Take decisions."""
    session = registry.get(params.session_id)
    await session.decide([_decision(session, each) for each in params.decisions])
    return await _shown(session)


def _decision(session: Session, each: wire.Decision) -> Decision:
    decided = Decision(
        each.call_id,
        each.decision,
        each.digest,
        each.reason or "",
        remember=each.remember or "",
        by="person" if each.unattended is None else f"client {each.unattended}",
    )
    if each.command is None:
        return decided
    return replace(decided, edited=session.edited(each.call_id, each.command).edited)


async def cancel(registry: Registry, params: wire.CancelParams) -> wire.Snapshot:
    """Cancel the turn or one command."""
    session = registry.get(params.session_id)
    await session.cancel(params.call_id)
    return await _shown(session)


async def wait(registry: Registry, params: wire.WaitParams) -> wire.Snapshot:
    """Answer at rest."""
    session = registry.get(params.session_id)
    await session.rested(params.after)
    return await _shown(session)


async def get(registry: Registry, params: wire.SessionParams) -> wire.Snapshot:
    """Answer now."""
    return await _shown(registry.get(params.session_id))


async def close(registry: Registry, params: wire.SessionParams) -> wire.Snapshot:
    """Close a session."""
    return await _shown(await registry.close_session(params.session_id))


async def delete(registry: Registry, params: wire.SessionParams) -> wire.Snapshot:
    """Close a session and remove its record."""
    return convert.deleted(await registry.delete(params.session_id))


async def configure(registry: Registry, params: wire.ConfigureParams) -> wire.Snapshot:
    """Change settings."""
    session = registry.get(params.session_id)
    await registry.configure(session, convert.settings_of(params.settings))
    return await _shown(session)


async def queue(registry: Registry, params: wire.QueueParams) -> wire.Snapshot:
    """Queue a prompt, or take the queued ones back."""
    session = registry.get(params.session_id)
    if params.prompt is not None:
        await session.queue(params.prompt)
    else:
        await session.unqueue(params.withdraw or "")
    return await _shown(session)


async def compact(registry: Registry, params: wire.SessionParams) -> wire.Snapshot:
    """Send less of the conversation from now on."""
    session = registry.get(params.session_id)
    await session.compact()
    return await _shown(session)


async def run(registry: Registry, params: wire.RunParams) -> wire.Snapshot:
    """Run the person's own command."""
    session = registry.get(params.session_id)
    await session.run(params.command)
    return await _shown(session)


async def detach(registry: Registry, params: wire.DetachParams) -> wire.Snapshot:
    """Leave a running command running."""
    session = registry.get(params.session_id)
    await session.detach(params.call_id)
    return await _shown(session)


async def transcript(registry: Registry, params: wire.TranscriptParams) -> wire.Transcript:
    """Answer a page of steps."""
    return convert.transcript(registry.get(params.session_id), params.from_step, params.limit)


async def export(registry: Registry, params: wire.ExportParams) -> wire.Export:
    """Answer the whole session as JSON text."""
    session = registry.get(params.session_id)
    text = export_text(session.machine.record, session.summary, session.model.name, params.format)
    return wire.Export(text=text)


async def analyze(registry: Registry, params: wire.AnalyzeParams) -> wire.CommandAnalysis:
    """Say what would be shown about a command."""
    cwd = convert.path_of(params.cwd)
    if params.session_id is not None:
        session = registry.get(params.session_id)
        return convert.analysis(params.command, session.proposer, session.machine.record)
    settings = registry.settings(convert.settings_of(params.settings))
    return convert.analysis(params.command, registry.opener.proposer(cwd, settings), Record())


async def check_health(registry: Registry, _: wire.NoParams) -> wire.Health:
    """Check what the server needs."""
    try:
        settings, refused = registry.settings({}), ""
    except SettingsError as error:
        settings, refused = None, str(error)
    return await health(settings, refused, registry.environ)


async def change_trust(registry: Registry, params: wire.TrustParams) -> None:
    """Take the person's trust in a folder, or its end."""
    folder = convert.path_of(params.folder)
    registry.opener.trust(folder, trusted=params.trusted)
    for session in registry.all():
        await session.judge_again()


HANDLERS: dict[str, Handler] = {
    "handrail/session/new": new,
    "handrail/session/list": list_sessions,
    "handrail/session/load": load,
    "handrail/session/step": step,
    "handrail/session/decide": decide,
    "handrail/session/cancel": cancel,
    "handrail/session/wait": wait,
    "handrail/session/get": get,
    "handrail/session/close": close,
    "handrail/session/delete": delete,
    "handrail/session/configure": configure,
    "handrail/session/queue": queue,
    "handrail/session/compact": compact,
    "handrail/session/run": run,
    "handrail/session/detach": detach,
    "handrail/session/transcript": transcript,
    "handrail/session/export": export,
    "handrail/command/analyze": analyze,
    "handrail/server/health": check_health,
    "handrail/workspace/didChangeTrust": change_trust,
}
"""What is served; a method of the protocol that is not here is answered as not found."""
