"""Sends the server's log to the client as `window/logMessage`, as much of it as the trace level asks for.

What the core remarks to the person (`remarks.py` there) is sent as `window/showMessage` as well.

Invariants: warnings always, sentences at `messages`, details at `verbose`; every record is masked and bounded; sending
never logs, so no record makes another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lsprotocol import types

_LOGGERS = ("server", "agent_core")
_FOR_THE_PERSON = "agent_core.remarks"  # by its name: the core is not imported before it is needed
_LEVELS = {types.TraceValue.Off: logging.WARNING, types.TraceValue.Messages: logging.INFO}
_MOST_CHARACTERS = 4_000


class ClientLog(logging.Handler):
    """Passes records on to `send`, on the loop it was made in; `mask` may be replaced once there is one."""

    def __init__(
        self,
        send: Callable[[types.LogMessageParams], object],
        show: Callable[[types.ShowMessageParams], object],
        mask: Callable[[str], str] = str,
    ) -> None:
        super().__init__()
        self.mask = mask
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self._send = send
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._before = {name: logging.getLogger(name).level for name in _LOGGERS}
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self)

    def set_trace(self, trace: types.TraceValue) -> None:
        """Send from now on what this level asks for."""
        level = _LEVELS.get(trace, logging.DEBUG)
        self.setLevel(level)
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(min(level, logging.getLogger().level))

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; after the loop's end it is dropped."""
        if self._loop.is_closed():
            return
        text = self.mask(self.format(record))[:_MOST_CHARACTERS]
        self._loop.call_soon_threadsafe(self._send, types.LogMessageParams(type=_type(record.levelno), message=text))
        if record.name == _FOR_THE_PERSON:
            told = self.mask(record.getMessage())[:_MOST_CHARACTERS]
            self._loop.call_soon_threadsafe(
                self._show, types.ShowMessageParams(type=types.MessageType.Warning, message=told)
            )

    def close(self) -> None:
        """Send nothing more, and leave the loggers as they were."""
        for name, level in self._before.items():
            logging.getLogger(name).removeHandler(self)
            logging.getLogger(name).setLevel(level)
        super().close()


def _type(level: int) -> types.MessageType:
    if level >= logging.ERROR:
        return types.MessageType.Error
    if level >= logging.WARNING:
        return types.MessageType.Warning
    return types.MessageType.Info if level >= logging.INFO else types.MessageType.Log
