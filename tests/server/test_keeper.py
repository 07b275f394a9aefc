"""A keeper between the editor's process and the server: exits and signals pass through, and nobody is left unreaped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from agent_core import sweep
from tests.server.raw_client import ROOT

KEPT = "from server.keeper import KEPT\nKEPT.begin()\nimport os, signal, subprocess, sys, time\n"


def start(body: str, before: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    """Start a kept process, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", KEPT + body],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        preexec_fn=before,
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [("sys.exit(0)", 0), ("sys.exit(7)", 7), *((f"os.kill(os.getpid(), {n})", -n) for n in (9, 15))],
)
def test_the_front_ends_as_the_server_did(body: str, code: int) -> None:
    with start(body) as front:
        assert front.wait(20) == code


def test_an_editor_that_ignores_its_children_can_start_a_server() -> None:
    """Who has SIGCHLD ignored hands that on, and the system then forgets how a child ended."""
    ignored = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # noqa: E731
    with start("sys.exit(3)", ignored) as front:
        assert front.wait(20) == 3


def test_the_keeper_reaps_what_is_given_to_it() -> None:
    body = (
        "subprocess.run(['sh', '-c', 'sleep 0.1 & sleep 0.1 & exit 0'])\n"
        "time.sleep(0.4)\n"
        "print(open(f'/proc/{KEPT.keeper}/task/{KEPT.keeper}/children').read().split() == [str(os.getpid())])\n"
    )
    with start(body) as front:
        assert front.communicate(timeout=20)[0] == "True\n"


@pytest.mark.parametrize("busy", ["time.sleep(60)", "os.kill(os.getpid(), signal.SIGSTOP)"])
def test_a_server_whose_front_is_killed_is_killed_at_once(busy: str) -> None:
    """What it might still say, such as that a session is closed, would hide from the client that it was killed."""
    said = "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\nprint('up', flush=True)\n"
    with start(f"{said}{busy}\n") as front:
        assert front.stdout is not None
        assert front.stdout.readline() == "up\n"
        began = time.monotonic()
        front.kill()
        assert front.stdout.read() == ""
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_group_reaches_the_server_once(number: signal.Signals) -> None:
    """As Ctrl-C does at a terminal."""
    body = (
        "heard = []\n"
        "for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):\n"
        "    signal.signal(each, lambda number, _: heard.append(number))\n"
        "print('up', flush=True)\n"
        "while not heard: time.sleep(0.01)\n"
        "time.sleep(0.1)\n"
        "print(heard)\n"
    )
    with start(body) as front:
        assert front.stdout is not None
        assert front.stdout.readline() == "up\n"
        os.killpg(front.pid, number)
        assert front.stdout.read() == f"[{int(number)}]\n"
        assert front.wait(20) == 0


def test_a_server_that_is_killed_over_many_processes_leaves_none() -> None:
    """They end all at once, each with a signal to the keeper while it is still busy with the last."""
    body = (
        "many = [subprocess.Popen(['sleep', '300'], stdin=subprocess.DEVNULL).pid for _ in range(300)]\n"
        "print(*many, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with start(body) as front:
        assert front.stdout is not None
        many = front.stdout.readline().split()
        assert front.wait(20) == -9
        left = sweep.with_descendants(map(int, many))
        sweep.send(left, signal.SIGKILL)
        assert (len(many), len(left)) == (300, 0)


@pytest.mark.parametrize(("module", "arguments"), [("server", []), ("editors.terminal.cli", ["serve"])])
def test_nothing_large_is_imported_before_the_forks(module: str, arguments: list[str]) -> None:
    """PF-03: a large process forks slowly, and the front and the keeper would hold for ever what they never use."""
    body = (
        "import os, runpy, sys\n"
        "from server.keeper import Kept\n"
        "large = {'asyncio', 'pydantic', 'pygls', 'logging', 'agent_core.shell', 'server.lifecycle'}\n"
        "Kept.begin = lambda self: (print(*sorted(large & set(sys.modules)), flush=True), os._exit(0))\n"
        f"sys.argv[1:] = {arguments!r}\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", body], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "\n"
