"""The peer nobody here wrote: `@copilotkit/aimock`, a fake of several providers, run as a process on loopback.

Invariants: installed once, into the virtual environment of the tests; where npm cannot have it, tests that need it are
skipped by a sentence that says what to install.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "@copilotkit/aimock@1.43.0"
_FOLDER = Path(sys.prefix) / "aimock"


def installed() -> Path:
    """Return the program, installed if need be; skip the test if that is not possible."""
    program = _FOLDER / "node_modules" / ".bin" / "llmock"
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"{PACKAGE} needs Node.js 20.15 or newer and npm; install them")
    if not program.exists():
        command = ["npm", "install", "--prefix", str(_FOLDER), "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, timeout=60, check=False)
    if not program.exists():
        pytest.skip(f"npm could not install {PACKAGE}; run `npm install --prefix {_FOLDER} {PACKAGE}`")
    return program


@contextlib.contextmanager
def running(fixtures: Sequence[dict[str, Any]], folder: Path) -> Iterator[str]:
    """Run it with these fixtures and yield its address."""
    program = installed()
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = ["node", str(program), "-p", str(port), "-f", str(path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_until_open(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def set_chaos(url: str, **rates: float) -> None:
    """Set how often it misbehaves, such as `dropRate=1.0`; nothing is good behaviour."""
    data = json.dumps(rates).encode()
    request = urllib.request.Request(f"{url}/__aimock/chaos", data, {"content-type": "application/json"})  # noqa: S310
    request.method = "POST" if rates else "DELETE"
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise TimeoutError("aimock did not open its port")
