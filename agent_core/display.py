"""What a person is shown of a command before they decide: its text made unmistakable, and warnings.

Invariants: pure. The displayed text never holds a control, direction-changing, invisible or look-alike character; it
shortens nothing. Warnings are whole sentences that name what they are about.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from agent_core.characters import code_point, is_deceptive, look_alikes, needs_no_look
from agent_core.masks import holds_mask
from agent_core.policy_context import PolicyContext, paths_in
from agent_core.program_risks import known_name
from agent_core.programs import PRIVILEGE, inner_commands, runs_own_code, uses_network
from agent_core.shell_syntax import Analysis, analyse

_LONG_LINES, _LONG_CHARACTERS, _LONG_LINE = 20, 1500, 300
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)[^}]*\}|([A-Za-z_]\w*))(?=\S*/)")
_MOST_NAMED = 5
_MOST_WORDS = 256  # words whose paths are looked up


def display_text(command: str) -> str:
    """Return the command with every deceptive or look-alike character as its code point, such as `<U+202E>`.

    Line feeds and tabs stay what they are.
    """
    if needs_no_look(command):
        return command
    alike = look_alikes(command)
    return "".join(
        code_point(character) if at in alike or is_deceptive(character) else character
        for at, character in enumerate(command)
    )


def size_of(command: str) -> tuple[int, int]:
    """Return how many lines and characters the command has."""
    return command.count("\n") + 1, len(command)


def warnings_for(command: str, context: PolicyContext) -> tuple[str, ...]:
    """Return what a person should know before they decide, most important first."""
    analysis = analyse(command)
    found = (
        *_about_text(command),
        *_about_secrets(command, context),
        *_about_places(command, analysis, context),
        *_about_programs(analysis, context),
        *_about_turn(analysis, command, context),
    )
    return tuple(dict.fromkeys(found))


def related_rejection(command: str, context: PolicyContext) -> str | None:
    """Return the command that the person rejected in this turn and that this one resembles; None if there is none."""
    analysis = analyse(command)
    return next((each for each in context.rejected if _related(each, command, analysis)), None)


def _about_text(command: str) -> Iterator[str]:
    if not needs_no_look(command):
        alike = look_alikes(command)
        hidden = [c for at, c in enumerate(command) if at in alike or is_deceptive(c)]
        if hidden:
            names = " ".join(dict.fromkeys(map(code_point, hidden)))
            yield f"It holds characters that are invisible or look like others: {names}."
    lines, characters = size_of(command)
    if lines > _LONG_LINES or characters > _LONG_CHARACTERS or max(map(len, command.split("\n"))) > _LONG_LINE:
        yield f"It is long: {lines} line{'' if lines == 1 else 's'}, {characters} characters. Read it to its end."


def _about_secrets(command: str, context: PolicyContext) -> Iterator[str]:
    if context.secrets:
        yield f"It contains a secret: the value of {', '.join(context.secrets)}."
    if holds_mask(command):
        yield "It contains a mask in a secret's place; writing it to a file would overwrite the real secret."


def _about_places(command: str, analysis: Analysis, context: PolicyContext) -> Iterator[str]:
    words = [word.strip("\"'") for simple in analysis.commands for word in simple.argv[1:]]
    outside = (_outside(word, context) for word in [*analysis.writes, *words][:_MOST_WORDS])
    yield from itertools.islice(filter(None, outside), _MOST_NAMED)
    names = {one or other for one, other in _VARIABLE.findall(command)}
    for name in sorted(names - set(context.environment)):
        yield f"The variable {name} in a path is not set here, so the path may begin at the root."
    for target in analysis.writes:
        yield f"It writes to the file `{display_text(target)}`."


def _outside(word: str, context: PolicyContext) -> str | None:
    for path in paths_in(word):
        place = _place(path, context)
        if place:
            return f"`{display_text(path)}` lies outside the workspace: {place}."
    return None


def _place(path: str, context: PolicyContext) -> str | None:
    if path.startswith("~"):
        return "a home folder"
    if "$" in path or context.inside(path, context.cwd):
        return None
    readings = context.readings(path, context.cwd)
    if "/" in readings:
        return "the root of the system"
    if context.home in readings:
        return "your home folder"
    if any(root.startswith(f"{reading.rstrip('/')}/") for root in context.roots for reading in readings):
        return "a folder around it"
    return "elsewhere on this machine"


def _about_programs(analysis: Analysis, context: PolicyContext) -> Iterator[str]:
    for simple in analysis.commands:
        for argv in (simple.argv, *inner_commands(simple.argv)):
            name = display_text(argv[0])
            if known_name(argv[0]) in PRIVILEGE:
                yield f"`{name}` runs something with other rights."
            if uses_network(argv):
                yield f"`{name}` uses the network."
        program = context.find_program(simple.argv[0]) if "/" not in simple.argv[0] else simple.argv[0]
        if program and context.touches(program):
            yield f"`{display_text(simple.argv[0])}` is a program inside the workspace."
        elif runs_own_code(simple.argv):
            yield f"`{display_text(simple.argv[0])}` runs code of the workspace."


def _about_turn(analysis: Analysis, command: str, context: PolicyContext) -> Iterator[str]:
    rejected = related_rejection(command, context)
    if rejected is not None:
        yield f"It is related to a command that you rejected in this turn: `{display_text(rejected)}`."
    if context.unsaved:
        yield about_unsaved(context.unsaved)


def about_unsaved(files: Sequence[str]) -> str:
    """Return the warning about files with changes in the editor that are not saved."""
    named = ", ".join(map(display_text, files[:_MOST_NAMED]))
    more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    return f"These files have changes in the editor that are not saved: {named}{more}."


def _related(rejected: str, command: str, analysis: Analysis) -> bool:
    """Whether the command holds the rejected text, or runs a program with the same first words, also in a wrapper."""
    if rejected.strip() in command:
        return True
    refused = {_key(simple.argv) for simple in analyse(rejected).commands}
    return any(
        _key(argv) in refused for simple in analysis.commands for argv in (simple.argv, *inner_commands(simple.argv))
    )


def _key(argv: tuple[str, ...]) -> tuple[str, ...]:
    return (known_name(argv[0]), *argv[1:2])
