"""A provider for the bench, in a process of its own: answers every request at once, whole or streamed.

Run as `python -m tests.bench.answering DELTAS`: it prints its port, and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.core.replies import chat_body, chat_chunk


def _events(count: int) -> bytes:
    deltas = [chat_chunk({"content": f"word{number} "}) for number in range(count)]
    ends = [chat_chunk({}, "stop"), {"choices": [], "usage": chat_body()["usage"]}]
    told = [*(json.dumps(each) for each in [*deltas, *ends]), "[DONE]"]
    return "".join(f"data: {each}\n\n" for each in told).encode()


async def _serve(count: int) -> None:
    whole, streamed = json.dumps(chat_body("Done.")).encode(), _events(count)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                stream = b'"stream": true' in (body := await reader.readexactly(length)) or b'"stream":true' in body
                content, kind = (streamed, b"text/event-stream") if stream else (whole, b"application/json")
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b"
                    % (kind, len(content), content)
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def provider(deltas: int = 2_000) -> Iterator[str]:
    """Give the address of a provider that lives as long as this."""
    command = [sys.executable, "-P", "-m", "tests.bench.answering", str(deltas)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.kill()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
