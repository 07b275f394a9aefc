"""The tap: takes a provider's HTTP response out of litellm's hands, as it came.

litellm's objects are not the provider's body: ids and arguments are changed, a null finish is rewritten, some replies
crash its readers, and a streamed Messages call needs packages of its proxy. So litellm makes the request, and when a
good response comes from an address of the dialect that was asked for, the call takes it from here and litellm's part
is over. Seen with litellm 1.110.2: the OpenAI, Anthropic and OpenAI-compatible paths all go through
`httpx.AsyncClient.send`, which hands a streamed response back unread.

Invariants: a tap changes neither request nor response; calls that run at once never see each other's responses; what
is not taken goes to litellm as if there were no tap.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from typing import Any

import httpx

_current: ContextVar[Tap | None] = ContextVar("tap", default=None)
_STRAY_LIMIT = 4096  # characters kept of lines that belong to no event, to tell what came instead
_KEPT_BODY = 65536  # characters of a failed call's body that are told
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")


class NoReplyError(Exception):
    """What came with a good status is not the shape of any reply; the text is what came."""


class Tap:
    """What one call received: the last response, or the fault of the transport instead of one."""

    def __init__(self, path_end: str) -> None:
        """Open the tap for the running task and those it starts; good responses of such addresses are taken."""
        self._path_end = path_end
        self.response: httpx.Response | None = None
        self.fault: Exception | None = None
        self.taken: asyncio.Future[httpx.Response] = asyncio.get_running_loop().create_future()
        _current.set(self)

    def takes(self, response: httpx.Response) -> bool:
        """Whether this response is the provider's own answer to the call."""
        return response.is_success and response.url.path.endswith(self._path_end) and not self.taken.done()

    async def text(self) -> str:
        """Return the whole body; "" if another reader has used it up."""
        if self.response is None:
            return ""
        try:
            await self.response.aread()
        except httpx.StreamError:
            return ""
        return self.response.text

    async def report(self, error: Exception) -> dict[str, Any]:
        """Return what went wrong with the call, for `failures.failure_from_report`."""
        response = self.response
        body = ""
        with contextlib.suppress(Exception):  # a body that breaks off is told by the fault
            body = str(error) if isinstance(error, NoReplyError) else await self.text()
        return {
            "status": response.status_code if response is not None else None,
            "retry_after": response.headers.get("retry-after") if response is not None else None,
            "body": body[:_KEPT_BODY],
            "error": type(error).__name__,
            "fault": _fault(self.fault or error),
            "message": str(error)[:_KEPT_BODY],
        }

    async def close(self) -> None:
        """Close the response, and its connection if the response was not read to its end."""
        if self.response is not None:
            await self.response.aclose()


def is_event_stream(response: httpx.Response) -> bool:
    """Whether the response is one of server-sent events, read by nobody yet."""
    return not response.is_stream_consumed and "json" not in str(response.headers.get("content-type", "")).lower()


class Events:
    """The server-sent events in a stream of bytes; lines that belong to no event are kept in `stray`."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self.stray = ""

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the data of each event up to the end of the stream."""
        data: list[bytes] = []
        async for line in self._lines():
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line:
                if data:
                    yield b" ".join(data)
                    data.clear()
            elif not line.startswith(_OTHER_FIELDS) and len(self.stray) < _STRAY_LIMIT:
                self.stray += line[:_STRAY_LIMIT].decode(errors="replace")
        if data:
            yield b" ".join(data)

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        # Not httpx' own line reader: it also splits at U+2028 and its kind, which JSON text may hold as it is.
        rest = b""
        async for chunk in self._chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.removesuffix(b"\r")
        if rest:
            yield rest


def _fault(error: BaseException) -> str:
    """Return `Class: text` of the transport's own error, "" if it was none."""
    if isinstance(error, TimeoutError):
        return "TimeoutError: the time limit was reached"
    return f"{type(error).__name__}: {error}" if type(error).__module__.startswith("httpx") else ""


def install() -> None:
    """Put the tap into every `httpx.AsyncClient` of this process; once, before any call."""
    send = httpx.AsyncClient.send

    async def tapped(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        tap = _current.get()
        try:
            response = await send(self, request, **options)
        except Exception as fault:
            if tap is not None:
                tap.fault = fault
            raise
        if tap is not None:
            tap.response = response
            if tap.takes(response):
                tap.taken.set_result(response)
                await asyncio.Event().wait()  # until whoever took the response cancels litellm's part
        return response

    httpx.AsyncClient.send = tapped  # type: ignore[method-assign]
