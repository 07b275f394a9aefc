"""A face without a person: plain lines on a stream, and a fixed policy for commands that wait.

Invariants: it never waits for anybody; `approve` is only ever the word that the caller gave by `--on-ask`; under `fail`
nothing is decided and the session can be resumed. The exit codes are those of `exits`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal, TextIO

from editors.terminal.text import seconds
from editors.terminal.turn import Analyze, writing
from editors.terminal.view import Line
from server.protocol import Call, Decision

OnAsk = Literal["deny", "fail", "approve"]
DENIED = "Handrail runs without a terminal, with --on-ask deny"
_HEARTBEAT = 5.0  # seconds


class HeadlessFace:
    """Prints lines and decides by `on_ask`."""

    def __init__(self, out: TextIO, on_ask: OnAsk) -> None:
        self.analyze: Analyze | None = None
        self._out = out
        self._on_ask = on_ask
        self._activity = ""
        self._since = 0.0

    def show(self, lines: Sequence[Line]) -> None:
        """Print lines at once, so that a log can be followed."""
        if not lines:
            return
        with writing():
            self._out.write("".join(f"{line.gutter}{line.text}".rstrip() + "\n" for line in lines))
            self._out.flush()

    def doing(self, activity: str, tail: Line | None) -> None:
        """Remember what goes on, for the heartbeat."""
        if activity != self._activity:
            self._activity, self._since = activity, time.monotonic()

    async def ask(self, call: Call) -> Decision | None:
        """Decide as the caller said."""
        if self._on_ask == "fail":
            self.show([Line("  ! ", "nobody is there to decide (--on-ask fail); it keeps waiting", "warning")])
            return None
        by = f"--on-ask {self._on_ask}"
        if self._on_ask == "approve":
            self.show([Line("    ", f"approved by {by}", "quiet")])
            return Decision(call_id=call.call_id, decision="approve", digest=call.digest, unattended=by)
        return Decision(call_id=call.call_id, decision="reject", digest=call.digest, reason=DENIED, unattended=by)

    def rest(self) -> None:
        """Nothing to take away."""

    async def pulse(self) -> None:
        """Say every few seconds that work goes on (UX-08); runs until it is cancelled."""
        while True:
            await asyncio.sleep(_HEARTBEAT)
            elapsed = time.monotonic() - self._since
            if self._activity and elapsed >= _HEARTBEAT:
                self.show([Line("    ", f"… {self._activity}, {seconds(elapsed)}", "quiet")])
