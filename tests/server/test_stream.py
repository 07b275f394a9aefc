"""The byte stream: framing, order, and back-pressure towards a client that does not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server import stream
from server.stream import Connection, FramingLost, Oversized, accept_one, connect_socket, read_frame, skip


def _reader(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 16)
    reader.feed_data(data)
    reader.feed_eof()
    return reader


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\n\r\n",
        b"content-length:2\r\n\r\n",
        b"CONTENT-LENGTH:\t 2 \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\nX-Later: a:b\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
        b"Content-Length: 2\n\n",
        b"\r\nContent-Length: 2\r\n\r\n",
    ],
)
async def test_headers_that_are_understood(header: bytes) -> None:
    reader = _reader(header + b"{}" + header + b"[]")
    assert [await read_frame(reader), await read_frame(reader), await read_frame(reader)] == [b"{}", b"[]", None]


@pytest.mark.parametrize(
    "header",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"Content-Length 2\r\n\r\n",
        b"Content-Length: -2\r\n\r\n",
        b"Content-Length: 2.0\r\n\r\n",
        b"Content-Length: 1_0\r\n\r\n",
        "Content-Length: ٢\r\n\r\n".encode(),
        b"Content-Length:\r\n\r\n",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"Content-Type: text/plain\r\n\r\n",
        b'{"jsonrpc":"2.0"}\r\n\r\n',
        b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        b"X: y\r\n" * 5_000,
        b"z" * 200_000,
        b"\x00\xff: 1\r\n\r\n",
    ],
)
async def test_what_is_no_header_ends_the_stream(header: bytes) -> None:
    with pytest.raises(FramingLost):
        await read_frame(_reader(header + b"{}"))


async def test_input_that_ends_in_the_middle_ends_quietly(caplog: pytest.LogCaptureFixture) -> None:
    for data in (b"", b"\r\n", b"Content-Len", b"Content-Length: 5\r\n", b"Content-Length: 5\r\n\r\n{}"):
        assert await read_frame(_reader(data)) is None
    assert caplog.text.count("in the middle of a message") == 2


async def test_an_oversized_message_is_told_before_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_BODY", 10)
    reader = _reader(b"Content-Length: 11\r\n\r\n" + b"x" * 11 + b"Content-Length: 10\r\n\r\n" + b"y" * 10)
    oversized = await read_frame(reader)
    assert oversized == Oversized(11)
    await skip(reader, oversized)
    assert await read_frame(reader) == b"y" * 10


async def test_a_length_beyond_all_memory_is_no_reason_to_die() -> None:
    reader = _reader(b"Content-Length: 100000000000000\r\n\r\nabc")
    oversized = await read_frame(reader)
    assert isinstance(oversized, Oversized)
    await skip(reader, oversized)
    assert await read_frame(reader) is None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"Content-Length: 3\r\n\r\n", b"\r\n", b"{}", b":"])))
)
async def test_no_bytes_make_the_reader_hang_or_raise_anything_else(pieces: list[bytes]) -> None:
    reader = _reader(b"".join(pieces))
    try:
        async with asyncio.timeout(5):
            while (frame := await read_frame(reader)) is not None:
                if isinstance(frame, Oversized):
                    await skip(reader, frame)
    except FramingLost:
        pass


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6), st.integers(1, 50))
async def test_frames_survive_any_way_of_cutting_the_stream(bodies: list[bytes], size: int) -> None:
    data = b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for start in range(0, len(data), size):
            reader.feed_data(data[start : start + size])
            await asyncio.sleep(0)
        reader.feed_eof()

    feeding = asyncio.create_task(feed())
    assert [await read_frame(reader) for _ in bodies] == bodies
    assert await read_frame(reader) is None
    await feeding


# Back-pressure. The other end of `pair` does not read until a test does so.


@pytest.fixture
async def pair() -> AsyncIterator[tuple[Connection, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = await connect_socket(theirs)
    yield connection, ours
    await connection.outbox.finish(0)
    ours.close()


def _bodies(data: bytes) -> list[bytes]:
    bodies = []
    while data:
        header, _, data = data.partition(b"\r\n\r\n")
        length = int(header.removeprefix(b"Content-Length: "))
        bodies.append(data[:length])
        data = data[length:]
    return bodies


async def _read_all(connection: Connection, sock: socket.socket) -> list[bytes]:
    loop = asyncio.get_running_loop()
    finishing = asyncio.create_task(connection.outbox.finish(5))
    data = bytearray()
    while piece := await loop.sock_recv(sock, 1 << 20):
        data += piece
    await finishing
    return _bodies(bytes(data))


def _fill(connection: Connection) -> int:
    """Send answers until frames wait; return how many were sent."""
    for number in range(10_000):
        connection.outbox.put(b"answer %d " % number + b"." * 10_000)
        if connection.outbox.backlog:
            return number + 1
    raise AssertionError("frames never wait")


async def test_a_client_that_does_not_read_gets_every_answer_in_order(pair: tuple[Connection, socket.socket]) -> None:
    connection, sock = pair
    count = _fill(connection)
    for number in range(count, count + 300):
        connection.outbox.put(b"answer %d " % number)
    numbers = [int(body.split()[1]) for body in await _read_all(connection, sock)]
    assert numbers == list(range(count + 300))


async def test_updates_are_superseded_and_keep_their_place_among_answers(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, sock = pair
    _fill(connection)
    for revision in range(1000):
        connection.outbox.put(b"update a %d" % revision, supersedes="a")
        connection.outbox.put(b"update b %d" % revision, supersedes="b")
    connection.outbox.put(b"answer at last")
    connection.outbox.put(b"update a 1000", supersedes="a")
    assert connection.outbox.backlog < 100_000
    assert (await _read_all(connection, sock))[-3:] == [b"update b 999", b"answer at last", b"update a 1000"]


async def test_droppable_pieces_are_bounded_and_the_newest_are_kept(pair: tuple[Connection, socket.socket]) -> None:
    connection, sock = pair
    count = _fill(connection)
    for number in range(1000):
        connection.outbox.put(b"piece %d " % number + b"." * 10_000, droppable=True)
    connection.outbox.put(b"answer at last")
    assert connection.outbox.backlog < (1 << 20) + 50_000
    bodies = await _read_all(connection, sock)
    pieces = [int(body.split()[1]) for body in bodies if body.startswith(b"piece")]
    assert pieces == list(range(1000 - len(pieces), 1000))
    assert 50 < len(pieces) < 150
    assert len(bodies) == count + len(pieces) + 1
    assert bodies[-1] == b"answer at last"


async def test_no_new_requests_are_taken_while_too_much_waits(pair: tuple[Connection, socket.socket]) -> None:
    connection, sock = pair
    await asyncio.wait_for(connection.outbox.room(), 1)
    for _ in range(1200):
        connection.outbox.put(b"." * 10_000)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connection.outbox.room(), 0.02)
    reading = asyncio.create_task(_read_all(connection, sock))
    await asyncio.wait_for(connection.outbox.room(), 5)
    assert len(await reading) == 1200


async def test_a_client_that_is_gone_holds_nothing_up(pair: tuple[Connection, socket.socket]) -> None:
    connection, sock = pair
    for _ in range(1200):
        connection.outbox.put(b"." * 10_000)
    sock.close()
    await asyncio.wait_for(asyncio.shield(connection.outbox.lost), 5)
    await asyncio.wait_for(connection.outbox.room(), 1)
    assert connection.outbox.backlog == 0
    connection.outbox.put(b"too late")
    assert connection.outbox.backlog == 0


async def test_only_one_client_is_taken_and_only_on_loopback() -> None:
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    accepting = asyncio.create_task(accept_one(0, ports.set_result))
    port = await ports
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection = await accepting
    connection.outbox.put(b"hello")
    assert await reader.readexactly(26) == b"Content-Length: 5\r\n\r\nhello"
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await connection.outbox.finish(1)
    writer.close()
