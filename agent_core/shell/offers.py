"""What this machine offers to the runner, for a person who wonders.

Invariants: looking starts nothing but one harmless `bwrap` try, and raises nothing.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from agent_core import sweep
from agent_core.errors import SettingsError
from agent_core.shell.environment import find_bash
from agent_core.shell.sandbox import BUBBLEWRAP


class Offer(NamedTuple):
    """One thing that the runner can use: whether it is here, and what is or why not, in a sentence or a path."""

    name: str
    ok: bool
    detail: str


async def offers() -> tuple[Offer, ...]:
    """Return bash (needed), orphan tracking and the sandbox (both of use, neither needed)."""
    try:
        bash = Offer("bash", True, find_bash())
    except SettingsError as error:
        bash = Offer("bash", False, str(error))
    unavailable = await BUBBLEWRAP.unavailable()
    return bash, _orphans(), Offer("sandbox", not unavailable, unavailable or "bubblewrap works")


def _orphans() -> Offer:
    if not sys.platform.startswith("linux"):
        detail = "Only Linux has it: here, what leaves a command's process group is not found."
        return Offer("subreaper", False, detail)
    if not sweep.lists_children():
        return Offer("subreaper", False, "This kernel does not list children in /proc; all processes are looked at.")
    return Offer(
        "subreaper", True, "what commands leave behind is found by its mark, its output, its session or its parents"
    )
