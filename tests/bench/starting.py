"""How long a client waits for the answer to `initialize`: our server, and a bare pygls server."""

from __future__ import annotations

import json
import subprocess
import sys
import time

_INITIALIZE: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
_BARE = "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()"
OURS = [sys.executable, "-P", "-m", "server"]
BARE = [sys.executable, "-P", "-c", _BARE]


def seconds_to_initialize(command: list[str]) -> float:
    """Start a server and return the seconds until `initialize` is answered."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE}).encode()
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        server.stdin.flush()
        header = server.stdout.readline()
        elapsed = time.perf_counter() - start
        assert header.startswith(b"Content-")
        server.stdin.close()
        server.terminate()
    return elapsed
