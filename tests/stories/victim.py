"""A process that runs a whole turn and kills itself, for real, right after a given journalled event.

Used by `test_crash.py`: `python -P -m tests.stories.victim FOLDER NUMBER`; without a kill it exits 0.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.core.replies import bash, chat_body
from tests.stories.conftest import Story, decide, decision, go, waiting

REPLIES = (
    chat_body("I look.", [bash("c1", "echo one >> log"), bash("c2", "echo two >> log"), bash("c3", "touch no")]),
    chat_body("Half.", [bash("c4", "echo four >> log"), bash("c5", "")]),
    chat_body("Done."),
)


async def main(folder: Path, kill_after: int) -> None:
    story = Story(folder)
    append = story.journal.append

    async def fatal(session: Any, number: int, event: Any, *, durable: bool) -> None:
        await append(session, number, event, durable=durable)
        if number == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    story.journal.append = fatal  # type: ignore[method-assign]
    session = await story.open(*REPLIES)
    await go(session)
    first, second, third = waiting(session)
    await decide(session, decision(first), decision(second))
    await decide(session, decision(third, "reject", reason="not now"))
    assert session.machine.record.stop is not None, session.state
    print(session.machine.record.revision)
    await story.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
