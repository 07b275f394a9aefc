"""The tap: lets a call see the HTTP response that was received on its behalf, as it came.

litellm's objects are not the provider's body: ids and arguments are changed, a null finish is rewritten, and some
replies crash its readers. So every response of every `httpx` client of this process is remembered for the call that
runs, and whoever made the call reads the bytes from here. Seen with litellm 1.110.2: the OpenAI, Anthropic and
OpenAI-compatible paths all go through `httpx.AsyncClient.send`, and a streamed response is handed back unread.

Invariants: a tap changes neither request nor response; calls that run at once never see each other's responses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextvars import ContextVar
from typing import Any

import httpx

_current: ContextVar[Tap | None] = ContextVar("tap", default=None)
_STRAY_LIMIT = 4096  # characters kept of lines that belong to no event, to tell what came instead
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")


class Tap:
    """What one call received: the last response, or the fault of the transport instead of one."""

    def __init__(self) -> None:
        self.response: httpx.Response | None = None
        self.fault: Exception | None = None
        _current.set(self)

    def speaks(self, path_end: str) -> bool:
        """Whether a good response came, from an address with this end."""
        return self.response is not None and self.response.is_success and self.response.url.path.endswith(path_end)

    @property
    def is_event_stream(self) -> bool:
        """Whether the response is one of server-sent events, read by nobody yet."""
        response = self.response
        return response is not None and not response.is_stream_consumed and "json" not in _content_type(response)

    async def text(self) -> str:
        """Return the whole body; "" if another reader has used it up."""
        if self.response is None:
            return ""
        try:
            await self.response.aread()
        except httpx.StreamError:
            return ""
        return self.response.text

    def body_chunks(self) -> AsyncIterator[bytes]:
        """Return the bytes of a response that nobody has read yet, as they come."""
        assert self.response is not None  # noqa: S101 - asked only after `speaks`
        return self.response.aiter_bytes()

    async def close(self) -> None:
        """Close the response, and its connection if the response was not read to its end."""
        if self.response is not None:
            await self.response.aclose()


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
        return response

    httpx.AsyncClient.send = tapped  # type: ignore[method-assign]


def _content_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).lower()
