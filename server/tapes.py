"""What the command line needs to know of tapes: what was asked when one was recorded, and how two of them differ.

Invariants: files are read, nothing is written; what is wrong with a file is a `ValueError` with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_core.errors import SettingsError
from agent_core.tape import Tape
from agent_core.tape_difference import tape_differences


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a tape tells of how it was recorded: of whom, and the person's prompts in order (none if it has none)."""

    model: str
    dialect: str
    prompts: tuple[str, ...]


def recorded(path: Path) -> Recorded:
    """Return what a tape tells of its recording."""
    tape = _load(path)
    return Recorded(tape.model, tape.dialect, tape.prompts)


def differences(old: Path, new: Path) -> list[str]:
    """Return a line for each thing that a provider did otherwise; [] if `new` could stand in the place of `old`."""
    return tape_differences(_load(old), _load(new))


def _load(path: Path) -> Tape:
    try:
        return Tape.load(path)
    except SettingsError as error:
        raise ValueError(str(error)) from None
