"""The peer of a small request: the barest JSON-RPC loop on asyncio pipes that answers with a value it is given.

Invariants: it parses and writes every message, and does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys


async def main(result: object) -> None:
    """Answer every request until the end of input."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", 0))
    pipe = os.fdopen(1, "wb", 0)
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, pipe)
    while header := await reader.readline():
        await reader.readline()
        message = json.loads(await reader.readexactly(int(header.partition(b":")[2])))
        if "id" in message:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            transport.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
