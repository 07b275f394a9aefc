"""Records a tape again with the live model, and tells in words what the provider does otherwise today.

Invariants: the old tape is never touched; the new one stands beside it, for the person to look at and to move.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from editors.terminal.exits import Exit
from editors.terminal.problems import Problem
from editors.terminal.running import Task, run
from editors.terminal.text import escape
from server.protocol import Settings


async def refresh(tape: Path, task: Task) -> Exit:
    """Ask what was asked when `tape` was recorded, or the task's own prompt, and print the differences."""
    from server import tapes

    new = tape.with_name(f"{tape.name}.new")
    if new.exists():
        raise Problem(f"{new} is there already. Look at it, then move it or remove it.", Exit.USAGE)
    try:
        recorded = tapes.recorded(tape)
        prompts = recorded.prompts if task.prompt is None else (task.prompt,)
        if not prompts:
            raise Problem(f"The tape {tape} does not tell what was asked. Give the task as well.", Exit.USAGE)
        settings = Settings.model_validate(
            {"model": recorded.model, "dialect": recorded.dialect, **task.settings.model_dump(exclude_unset=True)}
            | {"record": str(new)}
        )
        code = await run(replace(task, prompt=prompts[0], then=prompts[1:], settings=settings))
        told = tapes.differences(tape, new)
    except ValueError as fault:
        raise Problem(escape(str(fault)), Exit.USAGE) from fault
    print(f"\nRecorded to {new}.")
    print("\n".join(escape(line) for line in told) or f"It could stand in the place of {tape}.")
    return code
