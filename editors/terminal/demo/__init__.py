"""The demo's project and tape: a small real project with a failing test, and the recorded model that repairs it.

Invariants: the project is copied before anything touches it; whether its tests fail or pass is found out by running
them, never taken from what the session said; nothing but this Python is needed, and no network.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

TASK = "A test of this project fails. Find out why and repair it."
TAPE = Path(__file__).with_name("tape.json")
_PROJECT = Path(__file__).with_name("project")
_STORED_ENDING = ".txt"  # keeps our own tools from taking the project's files for ours


@dataclass(frozen=True, slots=True)
class Outcome:
    """What running the project's tests gave."""

    passed: bool
    summary: str


def copy_project(folder: Path) -> Path:
    """Write the project into a new folder `bill` of `folder` and return that."""
    project = folder.resolve() / "bill"
    project.mkdir()
    for source in sorted(_PROJECT.iterdir()):
        (project / source.name.removesuffix(_STORED_ENDING)).write_bytes(source.read_bytes())
    return project


async def run_tests(project: Path) -> Outcome:
    """Run the tests of `project` in a process of their own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", "-P", "-m", "unittest", "discover", "--start-directory", "."),
        cwd=project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return Outcome(process.returncode == 0, output.decode("utf-8", "replace").strip().rpartition("\n")[2])
