"""Runs one task in the terminal or without one: server, session, face, signals, and the exit code.

Invariants: whatever ends it, the server that was started here is gone afterwards, and its commands with it; a task is
never started without somebody or something that can decide about its commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from editors.terminal.client import Client, ConnectionLost, ServerGone
from editors.terminal.exits import Exit
from editors.terminal.headless import HeadlessFace, OnAsk
from editors.terminal.problems import Problem
from editors.terminal.text import inline
from editors.terminal.turn import Analyze, Face, Left, OutputLost, Turn, Undecided
from editors.terminal.view import (
    BLANK,
    DONE_WELL,
    UNFINISHED,
    Line,
    closing_lines,
    header_lines,
    interrupted_lines,
    read_only,
)
from server.protocol import PROTOCOL_VERSION, AnalyzeParams, Call, CommandAnalysis, Settings, Snapshot

_BY_STOP_REASON = {
    **dict.fromkeys(DONE_WELL, Exit.DONE),
    **dict.fromkeys(
        ("max_steps", "cost_limit", "time_limit", "max_repeats", "max_rejections", "step_done"), Exit.LIMIT
    ),
    "interrupted": Exit.SERVER,
    "rejected_and_stopped": Exit.STOPPED,
    "cancelled": Exit.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Task:
    """What `handrail run` was asked for."""

    prompt: str | None
    cwd: Path
    settings: Settings
    resume: str | None = None
    then: tuple[str, ...] = ()  # further prompts, each after a turn that was done
    on_ask: OnAsk | None = None
    show_log: bool = False


def has_terminal() -> bool:
    """Whether a person can be shown things and asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _shows_all(encoding: str) -> bool:
    try:
        return bool("\u28ff\U0001f6e0".encode(encoding))
    except UnicodeEncodeError:
        return False


@contextlib.asynccontextmanager
async def server(
    *, environment: Mapping[str, str] | None = None, settings: Settings | None = None, show_log: bool = False
) -> AsyncIterator[Client]:
    """Give a client of a fresh server, and end the server in order, or at once if the person left."""
    try:
        client = await Client.start(environment=environment)
    except OSError as fault:
        raise Problem(f"The server could not be started: {fault}. Install Handrail again.", Exit.SERVER) from fault
    if show_log and client.process is not None:
        client.process.on_log = _print_log
    try:
        _check_version(await client.initialize(settings=settings))
        yield client
    except (Left, asyncio.CancelledError):
        await client.kill()
        raise
    except BaseException:
        await client.close()
        raise
    await client.close()


async def run(task: Task, *, environment: Mapping[str, str] | None = None) -> Exit:
    """Do `task` and return the exit code; raise what the client raises."""
    if task.on_ask is None and not has_terminal():
        raise Problem(
            "There is no terminal to ask on. Say what happens to commands that need a decision: "
            "--on-ask deny, --on-ask fail or --on-ask approve.",
            Exit.USAGE,
        )
    if task.on_ask is None and not _shows_all(sys.stdout.encoding):
        raise Problem(
            f"The encoding {sys.stdout.encoding} of this terminal cannot show every command. "
            "Set LANG=C.UTF-8 and use a terminal that takes UTF-8.",
            Exit.USAGE,
        )
    face = _face(task)
    async with _attended(face) as pulse, server(environment=environment, show_log=task.show_log) as client:
        client.depend_on(pulse)
        client.on_message = lambda text: face.show([Line("! ", inline(text), "warning", "warning")])
        snapshot = await _opened(client, task)
        face.analyze = _analyze_by(client, snapshot.session_id)
        try:
            return await _follow(Turn(client, face, snapshot), face, task, snapshot)
        except OutputLost as lost:
            told = f"{lost} The session was left.\n  {_way_back(task, snapshot).text}"
            raise Problem(told, Exit.UNREAD) from lost


async def _opened(client: Client, task: Task) -> Snapshot:
    changes = task.settings.model_fields_set
    if task.resume is None:
        return await client.new(task.cwd.as_uri(), task.settings if changes else None)
    snapshot = await client.load(task.resume)
    if read_only(snapshot):
        return snapshot
    if changes:
        snapshot = await client.configure(task.resume, task.settings)
    waits = bool(snapshot.pending)
    if task.prompt is None and not waits and snapshot.stop_reason not in UNFINISHED:
        raise Problem(
            f"The last turn of session {task.resume} is over. Give it a new task: "
            f'handrail run "TASK" --resume {task.resume}',
            Exit.USAGE,
        )
    return await client.queue(task.resume, task.prompt) if waits and task.prompt is not None else snapshot


def _face(task: Task) -> Face:
    if task.on_ask is not None:
        return HeadlessFace(sys.stdout, task.on_ask)
    from editors.terminal.ui import TerminalFace  # rich and prompt_toolkit are for people only

    return TerminalFace()


def _analyze_by(client: Client, session_id: str) -> Analyze:
    async def analyze(call: Call, command: str) -> CommandAnalysis:
        return await client.analyze(AnalyzeParams(session_id=session_id, command=command, cwd=call.cwd))

    return analyze


@contextlib.asynccontextmanager
async def _attended(face: Face) -> AsyncIterator[asyncio.Task[None]]:
    """Keep the face alive while the session works, and leave the terminal as it was."""
    pulse = asyncio.ensure_future(face.pulse())
    face.doing("starting", None)
    try:
        yield pulse
    finally:
        pulse.cancel()
        with contextlib.suppress(OutputLost):  # whatever ended it is told
            face.rest()


async def _follow(turn: Turn, face: Face, task: Task, snapshot: Snapshot) -> Exit:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, turn.interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, turn.leave)
    try:
        face.show(header_lines(snapshot))
        if task.resume is not None:
            face.show(interrupted_lines(snapshot))
        final = await (turn.follow() if snapshot.pending or read_only(snapshot) else turn.step(task.prompt))
        for prompt in task.then:
            if exit_of(final) is Exit.DONE:
                final = await turn.step(prompt)
    except Undecided:
        _show_way_back(face, task, snapshot, "left; the command keeps waiting")
        return Exit.UNDECIDED
    except (ServerGone, ConnectionLost):
        face.rest()
        _show_way_back(face, task, snapshot, "the server ended")
        raise
    except Left:
        face.rest()
        _show_way_back(face, task, snapshot, "left at once")
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
    face.rest()
    face.show(closing_lines(final))
    if final.stop_reason in UNFINISHED or exit_of(final) is Exit.SERVER:
        face.show([_way_back(task, final)])
    return exit_of(final)


def exit_of(snapshot: Snapshot) -> Exit:
    """Return the exit code for a session at rest."""
    if read_only(snapshot) or snapshot.state == "closed":
        return Exit.SERVER
    if snapshot.pending:
        return Exit.UNDECIDED
    return _BY_STOP_REASON.get(snapshot.stop_reason or "", Exit.FAILED)


def _show_way_back(face: Face, task: Task, snapshot: Snapshot, what: str) -> None:
    face.show([BLANK, Line("■ ", what, "plain", "warning"), _way_back(task, snapshot)])


def _way_back(task: Task, snapshot: Snapshot) -> Line:
    on_ask = f" --on-ask {task.on_ask}" if task.on_ask is not None else ""
    return Line("  ", f"go on: handrail run --resume {snapshot.session_id}{on_ask}", "quiet")


def _check_version(answer: Mapping[str, object]) -> None:
    capabilities = answer.get("capabilities")
    experimental = capabilities.get("experimental") if isinstance(capabilities, Mapping) else None
    ours = experimental.get("handrail") if isinstance(experimental, Mapping) else None
    version = str(ours.get("protocolVersion")) if isinstance(ours, Mapping) else "none"
    if version.partition(".")[0] != PROTOCOL_VERSION.partition(".")[0]:
        raise Problem(
            f"The server speaks version {version} of the protocol, this client {PROTOCOL_VERSION}. "
            "Install Handrail again so that both are of one version.",
            Exit.SERVER,
        )


def _print_log(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
