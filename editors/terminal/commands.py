"""The commands of `handrail` beside `serve` and `run`: demo, sessions, export, settings, doctor.

Invariants: each prints plain lines that can be piped, and returns an exit code; nothing is read or changed but through
the server's protocol, the demo's own folder excepted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from editors.terminal.demo import TAPE, TASK, copy_project, run_tests
from editors.terminal.exits import Exit
from editors.terminal.headless import OnAsk
from editors.terminal.problems import Problem
from editors.terminal.process import PLACES
from editors.terminal.running import Task, has_terminal, run, server
from editors.terminal.text import count, escape, folder, inline, money
from editors.terminal.view import command_lines, meaning
from server.protocol import Call, ExportParams, Reason, SessionInfo, Settings

DEMO_SETTINGS = Settings(model="recorded-demo", dialect="chat", replay=str(TAPE), mode="ask")
_PAGE = 200


async def demo() -> Exit:
    """Let the recorded model repair the demo's project, and find out whether it did."""
    on_ask: OnAsk | None = None if has_terminal() else "approve"
    with tempfile.TemporaryDirectory(prefix="handrail-demo-") as scratch:
        project = copy_project(Path(scratch))
        print("A recorded model repairs a small project. The server is real, the commands really run in a")
        print(f"temporary folder, and nothing leaves this machine: {project}\n")
        before = await run_tests(project)
        print(f"Its tests now: {before.summary}\n")
        if on_ask is not None:
            print("There is no terminal to ask on, so the demo approves each command by itself.\n")
        sys.stdout.flush()
        code = await run(Task(TASK, project, DEMO_SETTINGS, on_ask=on_ask), environment=_apart(Path(scratch)))
        after = await run_tests(project)
    print(f"\nIts tests now: {after.summary}")
    if before.passed or not after.passed:
        print("The demo did not repair the project" + (", as you decided." if code is not Exit.FAILED else "."))
        return Exit.FAILED
    return code


async def prepare_demo(folder: Path) -> Exit:
    """Write the demo's project into `folder` and print as JSON what an editor needs to run it."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    project = await asyncio.to_thread(copy_project, folder)
    print(json.dumps({"cwd": project.as_uri(), "task": TASK, "settings": DEMO_SETTINGS.to_wire()}))
    return Exit.DONE


def _apart(scratch: Path) -> dict[str, str]:
    """Return an environment in which the demo neither sees the person's settings nor keeps its session."""
    (scratch / "handrail_config").touch()
    return {**os.environ, **{name: str(scratch / name.lower()) for name in PLACES}}


async def sessions(cwd: Path | None) -> Exit:
    """List the sessions, newest first."""
    async with server() as client:
        listed = (await client.list(None if cwd is None else cwd.as_uri())).sessions
    if not listed:
        print('There is no session yet. Begin one: handrail run "TASK" --model NAME')
    for info in listed:
        print(_session_line(info))
    return Exit.DONE


def _session_line(info: SessionInfo) -> str:
    when = _time(info.updated_at_ms)
    state = f"{count(info.pending, 'command')} waiting" if info.pending else info.stop_reason or info.state
    held = f" · open in {inline(info.holder)}" if info.holder else ""
    spent = money(info.cost, known=info.cost_known) if info.cost or not info.cost_known else ""
    facts = " · ".join(filter(None, [inline(state), count(info.steps, "step"), spent, folder(info.cwd)]))
    return f"{info.session_id}  {when}  {inline(info.title)}\n    {facts}{held}"


async def audit(session_id: str) -> Exit:
    """Print every call of a session with who decided, when it ran, where, and over which digest."""
    async with server() as client:
        await client.load(session_id)
        start = 1
        while True:
            page = await client.transcript(session_id, start, _PAGE)
            for step in page.steps:
                for call in step.calls:
                    print(_audit_entry(step.index, call))
            start += len(page.steps)
            if start > page.total or not page.steps:
                return Exit.DONE


def _audit_entry(step: int, call: Call) -> str:
    rule = f" · rule {inline(call.verdict.rule)}: {inline(call.verdict.why)}" if call.verdict else ""
    decided = f" at {_time(call.decided_at_ms)}" if call.decided_at_ms is not None else ""
    lines = [
        f"step {step}, call {call.position} of {call.count} · {inline(call.status)} · {_started(call)}",
        f"  decided by {inline(call.decided_by or 'nobody')}{decided}{rule}",
        f"  in {folder(call.cwd)} · sha256 {call.digest}",
    ]
    if call.reason:
        effects = "; it may have had effects, and was not run again" if call.status == "interrupted" else ""
        lines.append(f"  {meaning(Reason, call.reason)}{effects}")
    if call.decision_reason:
        lines.append(f"  reason: {inline(call.decision_reason)}")
    if call.edited_from is not None:
        lines += [f"  the model's text: {escape(row)}" for row in call.edited_from.split("\n")]
    return "\n".join([*lines, *(line.gutter + line.text for line in command_lines(call.display)), ""])


def _started(call: Call) -> str:
    if call.started_at_ms is not None:
        return _time(call.started_at_ms)
    return "it had started" if call.status == "interrupted" else "not run"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


async def delete(session_id: str) -> Exit:
    """Remove a session and its record."""
    async with server() as client:
        await client.delete(session_id)
    print(f"Session {session_id} and its record are gone.")
    return Exit.DONE


async def export(session_id: str, shape: str, output: Path | None) -> Exit:
    """Write a whole session as JSON text to `output`, or to stdout."""
    async with server() as client:
        await client.load(session_id)
        params = ExportParams.model_validate({"session_id": session_id, "format": shape})
        text = (await client.export(params)).text
    if output is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        try:
            await asyncio.to_thread(output.write_text, text, encoding="utf-8")
        except OSError as fault:
            why = fault.strerror if output.parent.exists() else f"the folder {output.parent} does not exist"
            told = f"The export cannot be written to {output}: {why}. Name another file by --output."
            raise Problem(escape(told), Exit.USAGE) from fault
        print(f"Written to {output}.")
    return Exit.DONE


async def settings() -> Exit:
    """Print every setting with its meaning, and where the settings file is."""
    for name, told in _told(Settings):
        print(f"{name}\n    {told}")
    async with server() as client:
        paths = (await client.health()).paths
    print()
    for path in paths:
        print(f"{escape(path.name)}: {escape(path.value)}")
    print("\nThe settings file is TOML with these names; on the command line: --set name=value.")
    return Exit.DONE


async def settings_schema() -> Exit:
    """Print the JSON Schema of the settings file."""
    from server.settings_text import schema

    print(schema())
    return Exit.DONE


async def settings_in_force(given: Settings) -> Exit:
    """Print the settings that a new session would have, secrets masked."""
    from server.settings_text import in_force

    try:
        print(in_force(os.environ, given))
    except ValueError as refused:
        raise Problem(escape(str(refused)), Exit.USAGE) from refused
    return Exit.DONE


def _told(model: type[BaseModel], outer: str = "") -> Iterator[tuple[str, str]]:
    """Give each setting by its dotted name, members of a group instead of the group."""
    for name, field in model.model_fields.items():
        groups = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if groups:
            yield from _told(groups[0], f"{outer}{to_camel(name)}.")
        else:
            yield outer + to_camel(name), field.description or ""


async def doctor(given: Settings) -> Exit:
    """Check what Handrail needs, and say what to do about what is missing."""
    async with server(settings=given) as client:
        health = await client.health()
    for check in health.checks:
        print(f"{'✓' if check.ok else '✗'} {escape(check.name)}: {escape(check.detail)}")
        if not check.ok and check.way_out:
            print(f"    {escape(check.way_out)}")
    print()
    for fact in [*health.versions, *health.paths]:
        print(f"  {escape(fact.name)}: {escape(fact.value)}")
    print(f"  keys in the environment: {escape(', '.join(health.key_names)) or 'none'}")
    return Exit.DONE if all(check.ok for check in health.checks) else Exit.FAILED
