"""From parsed options to the command that they name, with settings read and every fault told as a sentence.

Invariants: settings are checked before a server is started; relative paths of the command line mean the caller's
folder, since the server runs in another one; an interrupt never shows a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from editors.terminal import commands
from editors.terminal.client import ConnectionLost, RequestFailed, ServerGone
from editors.terminal.exits import Exit
from editors.terminal.problems import Problem, problem_of
from editors.terminal.refreshing import refresh
from editors.terminal.running import Task, run
from editors.terminal.turn import Left, OutputLost
from server.protocol import Settings


def dispatch(options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    try:
        code = asyncio.run(_named(options))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        return int(Exit.UNREAD if options.command in ("run", "demo") else Exit.DONE)
    except (Problem, RequestFailed, ServerGone, ConnectionLost, OutputLost, OSError) as fault:
        problem = fault if isinstance(fault, Problem) else problem_of(fault)
        with contextlib.suppress(OSError):
            print(f"handrail: {problem}", file=sys.stderr, flush=True)
        return int(problem.code)
    except (Left, KeyboardInterrupt, asyncio.CancelledError):
        return int(Exit.CANCELLED)
    return int(code)


def _named(options: argparse.Namespace) -> Coroutine[Any, Any, Exit]:
    match options.command:
        case "run" if options.refresh is not None:
            return refresh(options.refresh, _task(options))
        case "run":
            return run(_task(options))
        case "demo" if options.prepare is not None:
            return commands.prepare_demo(options.prepare)
        case "demo":
            return commands.demo()
        case "sessions" if options.audit is not None:
            return commands.audit(options.audit)
        case "sessions" if options.delete is not None:
            return commands.delete(options.delete)
        case "sessions":
            return commands.sessions(None if options.cwd is None else options.cwd.resolve())
        case "export":
            return commands.export(options.session, options.format, options.output)
        case "settings" if options.schema:
            return commands.settings_schema()
        case "settings" if options.show:
            return commands.settings_in_force(_settings(options))
        case "settings":
            return commands.settings()
        case _:
            return commands.doctor(_settings(options))


def _task(options: argparse.Namespace) -> Task:
    if options.refresh is not None and (options.resume or options.replay or options.record):
        raise Problem("--refresh records by itself: leave out --resume, --replay and --record.", Exit.USAGE)
    if options.task is None and options.resume is None and options.refresh is None:
        raise Problem('There is no task. Give one: handrail run "TASK" --model NAME', Exit.USAGE)
    if options.task is not None and not options.task.strip():
        raise Problem('The task is empty. Say what to do: handrail run "TASK" --model NAME', Exit.USAGE)
    if not options.cwd.is_dir():
        fault = "is not a folder" if options.cwd.exists() else "does not exist"
        raise Problem(f"{options.cwd} {fault}. Give the project's folder by --cwd.", Exit.USAGE)
    return Task(
        prompt=options.task,
        cwd=options.cwd.resolve(),
        settings=_settings(options),
        resume=options.resume,
        on_ask=options.on_ask,
        show_log=options.log,
    )


def _settings(options: argparse.Namespace) -> Settings:
    values: dict[str, Any] = {}
    for given in options.set:
        _put(values, given)
    if options.model is not None:
        values["model"] = options.model
    for name in ("replay", "record"):
        path: Path | None = getattr(options, name)
        if path is not None:
            values[name] = str(path.resolve())
    try:
        return Settings.model_validate(values)
    except ValidationError as fault:
        from server.settings_text import refused  # it imports much

        raise Problem(f"{refused(fault)}\n  `handrail settings` lists all of them.", Exit.USAGE) from None


def _put(values: dict[str, Any], given: str) -> None:
    """Put one `name=value` into nested `values`; a value that is not JSON is taken as text."""
    path, separator, text = given.partition("=")
    *outer, name = path.strip().split(".")
    if not separator or not name:
        raise Problem(f"--set {given} is not of the form name=value, such as limits.maxSteps=20.", Exit.USAGE)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    place = values
    for part in outer:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise Problem(f"--set {given}: {part} was already given a value of its own.", Exit.USAGE)
    place[name] = value
