"""The worker process before litellm: what it does to its descriptors and with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", code, *arguments]


def test_stray_prints_never_reach_the_parents_lines() -> None:
    """LS-01: not from Python, not from a child process, not through the descriptor."""
    code = """
import os, sys
from agent_core.worker_guards import guard_descriptors
requests, replies = guard_descriptors()
print("stray"); sys.stdout.flush(); os.system("echo stray"); os.write(1, b"stray\\n")
assert sys.stdin.read() == "" and os.read(requests, 3) == b"yes"
os.write(replies, b"line\\n")
"""
    done = subprocess.run(python(code), input=b"yes", capture_output=True, check=False)
    assert (done.stdout, done.stderr.count(b"stray")) == (b"line\n", 3), done.stderr


def test_a_worker_whose_parent_is_gone_ends_before_the_import() -> None:
    code = "from agent_core.worker_guards import end_with_parent; import sys; end_with_parent(int(sys.argv[1]))"
    assert subprocess.run(python(code, str(os.getpid())), check=False).returncode == 0
    assert subprocess.run(python(code, "1" if os.getpid() != 1 else "2"), check=False).returncode == 1


def test_a_worker_dies_with_its_parent() -> None:
    """Whatever ends the parent: the kernel ends the worker, also in the middle of its import."""
    worker = (
        "import os, time; from agent_core.worker_guards import end_with_parent; end_with_parent(os.getppid());"
        "print(os.getpid(), flush=True); time.sleep(60)"
    )
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-P', '-c', {worker!r}]); time.sleep(60)"
    with subprocess.Popen(python(code), stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 5
        while _alive(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
