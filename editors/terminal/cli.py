"""The `handrail` command: reads the command line and starts what it names.

Invariants: `serve` imports nothing but the server; every error is a sentence with its way out, on stderr; the exit
codes are those of `exits`.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from editors.terminal.exits import exit_table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    if given[:1] == ["serve"]:
        from server.__main__ import main as serve

        ended = serve(given[1:])  # before the next import, which is large, while `serve` is to fork
        from server.lifecycle import leave

        leave(ended)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options = _parser().parse_args(given)
        from editors.terminal.dispatch import dispatch

        return dispatch(options)
    finally:
        _let_go_of_output()


def _open_what_is_closed() -> None:
    """Let no file take the place of a closed standard stream: input is empty, output fails, messages go nowhere."""
    for number, (name, way) in enumerate((("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, way)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _let_go_of_output() -> None:
    """Write what is left; what nobody reads any more goes nowhere, instead of failing once more at the exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="handrail",
        description="An AI agent works in your project; you see every command it wants to run, and you decide.",
        epilog="`handrail demo` shows it without a key and without a network. `handrail COMMAND --help` tells more.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("serve", help="serve an editor on standard input and output", add_help=False)
    _add_run(commands)
    demo = commands.add_parser("demo", help="watch a recorded model repair a small project; you decide each command")
    demo.add_argument(
        "--prepare", type=Path, metavar="DIR", help="only write its project into DIR, and print as JSON how to run it"
    )
    _add_sessions(commands)
    _add_export(commands)
    settings = commands.add_parser("settings", help="tell every setting, and where the settings file is")
    kind = settings.add_mutually_exclusive_group()
    kind.add_argument("--show", action="store_true", help="print what a new session would have, secrets masked")
    kind.add_argument("--schema", action="store_true", help="print the JSON Schema of the settings file")
    _add_settings(settings)
    doctor = commands.add_parser("doctor", help="check what is needed, and say what to do")
    _add_settings(doctor)
    return parser


_Commands = argparse._SubParsersAction  # the only name that argparse has for it


def _add_run(commands: _Commands[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="give a task to a model, or go on with a session",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_run_epilog(),
    )
    run.add_argument("task", nargs="?", metavar="TASK", help="what to do, in your words")
    run.add_argument("--cwd", type=Path, default=Path(), metavar="DIR", help="the project's folder (this one)")
    run.add_argument("--resume", metavar="ID", help="go on with this session (see `handrail sessions`)")
    run.add_argument(
        "--on-ask",
        choices=["deny", "fail", "approve"],
        help="do not ask, and record that: reject what needs a decision (the model is told, and may still "
        "end its turn well, with exit code 0), leave it waiting and end, or approve it unseen",
    )
    run.add_argument("--log", action="store_true", help="print the server's log to stderr")
    run.add_argument(
        "--refresh", type=Path, metavar="TAPE", help="ask what was asked for this tape, record it anew, and compare"
    )
    _add_settings(run)


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", metavar="NAME", help="the model, as litellm names it, such as openai/gpt-5")
    command.add_argument("--replay", type=Path, metavar="FILE", help="a tape instead of a live model")
    command.add_argument("--record", type=Path, metavar="FILE", help="record the model's replies to this tape")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting (see `handrail settings`), such as limits.maxSteps=20",
    )


def _add_sessions(commands: _Commands[argparse.ArgumentParser]) -> None:
    sessions = commands.add_parser("sessions", help="list the sessions, or look into one")
    sessions.add_argument("--cwd", type=Path, metavar="DIR", help="only those of this folder")
    about = sessions.add_mutually_exclusive_group()
    about.add_argument("--audit", metavar="ID", help="print every command of a session and who decided about it")
    about.add_argument("--delete", metavar="ID", help="remove a session and its record")


def _add_export(commands: _Commands[argparse.ArgumentParser]) -> None:
    export = commands.add_parser("export", help="write a whole session as JSON")
    export.add_argument("session", metavar="ID")
    export.add_argument("--format", choices=["handrail", "mini-swe-agent-1.1"], default="handrail")
    export.add_argument("--output", type=Path, metavar="FILE", help="the file to write (standard output)")


def _run_epilog() -> str:
    return f"""\
Keys of providers come from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, ...).
Ctrl-C cancels the turn, a second one leaves at once; a session can always be resumed.

exit codes:
{exit_table()}"""


if __name__ == "__main__":
    sys.exit(main())
