"""What the worker holds of one session's conversation, so that each call sends only what is new.

A conversation grows by a few messages a step; sending all of it again would cost more than all the rest of a call.

Invariants: what the worker puts together is equal to the whole body; nothing is assumed of a worker that was not told
by this very conversation; a body is never changed after a dialect gave it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from agent_core.worker_process import WorkerProcess

_numbers = itertools.count(1)


class SharedHistory:
    """One conversation, as one worker was told it."""

    def __init__(self) -> None:
        self._number = next(_numbers)
        self._worker: WorkerProcess | None = None
        self._told: list[Any] = []

    def parts(self, body: Mapping[str, Any], worker: WorkerProcess) -> dict[str, Any]:
        """Return `body` and `history` for an `ask`, which has to be sent before anything else is awaited."""
        member = "input" if "input" in body else "messages"
        items: list[Any] = body[member]
        told = self._told if worker is self._worker else []
        keep = next(
            (place for place, (old, new) in enumerate(zip(told, items, strict=False)) if old != new),
            min(len(told), len(items)),
        )
        self._worker, self._told = worker, items
        rest = {name: value for name, value in body.items() if name != member}
        return {"body": rest, "history": {"of": self._number, "member": member, "keep": keep, "more": items[keep:]}}

    def forget(self) -> None:
        """Let the worker drop the conversation."""
        if self._worker is not None:
            self._worker.tell({"forget": self._number})
        self._worker, self._told = None, []
