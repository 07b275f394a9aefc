"""A proxy on loopback that is asked to connect to a host and connects to a server of the test's instead."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from types import TracebackType
from typing import Self


class ConnectProxy:
    """Takes `CONNECT host:port`, over TLS if given a context, and remembers who was asked for."""

    def __init__(self, target_port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._target_port = target_port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self.asked: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{port}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.asked.append(head.split(" ")[1])
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
