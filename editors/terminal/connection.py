"""JSON-RPC over the framing of LSP, for the client's side and independent of how the bytes travel.

Invariants: every request ends: with its answer, with `RequestFailed`, or, as soon as the peer is lost, with the reason
of the loss; nothing waits for a peer that is gone (LS-10). Bytes that are no message of the protocol lose the
connection instead of being skipped, and so does a fault of the owner's own in taking a notification. Nothing here
blocks, and a message costs time in proportion to its own length.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

_METHOD_NOT_FOUND = -32601
_LONGEST_HEADER = 4096


class RequestFailed(Exception):
    """The server refused a request: its error `code`, its `message` for people, and `data` (None if it sent none)."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ConnectionLost(Exception):
    """The peer is gone, or sent what is no message of the protocol; the text says which."""


class Connection:
    """One peer. The owner writes what `write` is given, and calls `feed` with what arrives and `lose` when it ends."""

    def __init__(self, write: Callable[[bytes], object], on_notification: Callable[[str, Any], None]) -> None:
        self._write = write
        self._on_notification = on_notification
        self._received = bytearray()
        self._body_length: int | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._lost: Exception | None = None

    async def request(self, method: str, params: Any) -> Any:
        """Return the result as JSON values; raise `RequestFailed` or the reason of the loss.

        A cancelled caller withdraws the request.
        """
        number, answer = self._expect()
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            return await answer
        except asyncio.CancelledError:
            self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._waiting.pop(number, None)

    async def until_lost(self) -> None:
        """Wait until the peer is lost and raise the reason; for who waits for something else than an answer."""
        number, never_answered = self._expect()
        try:
            await never_answered
        finally:
            self._waiting.pop(number, None)

    def _expect(self) -> tuple[int, asyncio.Future[Any]]:
        if self._lost is not None:
            raise self._lost
        self._last_id += 1
        answer = self._waiting[self._last_id] = asyncio.get_running_loop().create_future()
        return self._last_id, answer

    def notify(self, method: str, params: Any) -> None:
        """Send a notification; a lost peer gets none."""
        if self._lost is None:
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def lose(self, reason: Exception) -> None:
        """Fail every request that waits, and every later one, with `reason`. The first reason stays."""
        if self._lost is not None:
            return
        self._lost = reason
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(reason)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the peer and deliver every message that they complete."""
        self._received += data
        try:
            while self._lost is None and (body := self._next_body()) is not None:
                self._deliver(json.loads(body))
        except (ValueError, TypeError, KeyError, RecursionError) as fault:
            self.lose(ConnectionLost(f"The server sent bytes that are no message of the protocol ({fault})."))

    def _next_body(self) -> bytes | None:
        if self._body_length is None:
            end = self._received.find(b"\r\n\r\n", 0, _LONGEST_HEADER)
            if end < 0:
                if len(self._received) >= _LONGEST_HEADER:
                    raise ValueError("a header without end")
                return None
            self._body_length = _content_length(bytes(self._received[:end]))
            del self._received[: end + 4]
        if len(self._received) < self._body_length:
            return None
        body = bytes(self._received[: self._body_length])
        del self._received[: self._body_length]
        self._body_length = None
        return body

    def _deliver(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise TypeError("not a JSON object")
        method = message.get("method")
        if method is None:
            self._settle(message)
        elif "id" in message:
            error = {"code": _METHOD_NOT_FOUND, "message": f"The terminal client does not answer {method}."}
            self._send({"jsonrpc": "2.0", "id": message["id"], "error": error})
        else:
            self._notified(method, message.get("params"))

    def _notified(self, method: str, params: Any) -> None:
        try:
            self._on_notification(method, params)
        except Exception as fault:  # else all who wait for the peer would wait for ever
            self.lose(fault)

    def _settle(self, message: dict[str, Any]) -> None:
        answer = self._waiting.get(message["id"]) if message["id"] is not None else None
        if answer is None or answer.done():
            return  # an answer to a request that was withdrawn
        error = message.get("error")
        if error is None:
            answer.set_result(message["result"])
        else:
            answer.set_exception(RequestFailed(error["code"], error["message"], error.get("data")))

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message, separators=(",", ":")).encode("ascii")
        self._write(b"Content-Length: %d\r\n\r\n" % len(body) + body)


def _content_length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    raise ValueError("a header without Content-Length")
