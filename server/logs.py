"""Logging to standard error: masked, and never in the way of the server.

Invariants: every record passes the mask as a whole, its traceback included (R10). A client that does not read standard
error costs log lines, which are counted, and nothing else.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable

_PIECE = 4096  # a pipe that polls as writable takes this much without blocking


class StderrHandler(logging.Handler):
    """Writes to descriptor 2 what fits. `mask` may be replaced once there is something to mask."""

    def __init__(self, mask: Callable[[str], str] = str, descriptor: int = 2) -> None:
        super().__init__()
        self.mask = mask
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            text = self.mask(self.format(record))
            if self._lost:
                text = f"({self._lost} log lines were lost, since nobody read them)\n{text}"
            if self._write(text.encode(errors="replace") + b"\n"):
                self._lost = 0
            else:
                self._lost += 1
        except Exception:
            self._lost += 1  # there is no other place to complain to

    def _write(self, data: bytes) -> bool:
        for start in range(0, len(data), _PIECE):
            if not any(events & select.POLLOUT for _, events in self._poll.poll(0)):
                return False
            os.write(self._descriptor, data[start : start + _PIECE])
        return True


def log_to_stderr(level: int = logging.INFO, mask: Callable[[str], str] = str) -> StderrHandler:
    """Make standard error the one place where logs go; return the handler, whose `mask` can be set later."""
    handler = StderrHandler(mask)
    handler.setLevel(level)  # loggers may let more pass for the client's own log
    logging.basicConfig(level=level, handlers=[handler], force=True)
    return handler
