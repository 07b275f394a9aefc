"""What the tests of the VS Code extension need on this machine: installed once into a cache, or missing by name."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
OLDEST, NEWEST = "4.100.3", "4.139.1"
"""Versions of code-server: VS Code 1.100.3, the oldest that the extension promises, and 1.139.1."""

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handrail-tests"
_INSTALL = Path(__file__).parent / "vscode" / "install_vscode.sh"
_PATIENCE = 400  # seconds for a download


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold a lock of the cache, since several test processes may want the same thing."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _CACHE / name


def node() -> str:
    """Return the path of Node, or skip."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip("Node and npm are missing: install Debian's nodejs and npm, version 20 or newer")
    major = subprocess.run([found, "-p", "process.versions.node"], capture_output=True, text=True, check=True).stdout
    if int(major.partition(".")[0]) < 20:
        pytest.skip(f"Node is {major.strip()}: the extension's tools need 20 or newer")
    return found


@functools.cache
def tools() -> Path:
    """Return the extension's folder with its tools installed from the lock file, or skip."""
    node()
    lock_file = EXTENSION / "package-lock.json"
    with locked("tools"):
        installed = EXTENSION / "node_modules" / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < lock_file.stat().st_mtime:
            _run_or_skip(["npm", "ci"], EXTENSION, "the extension's tools could not be installed with `npm ci`")
    return EXTENSION


@functools.cache
def browser() -> str:
    """Return the path of Chromium, installed from Debian if we may, or skip."""
    with locked("chromium"):
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        if found is None and os.getuid() == 0 and shutil.which("apt-get"):
            environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(["apt-get", *words], env=environ, capture_output=True, timeout=_PATIENCE, check=False)
            found = shutil.which("chromium")
    if found is None:
        pytest.skip("Chromium is missing: install Debian's chromium")
    return found


@functools.cache
def vscode(version: str) -> Path:
    """Return a folder with a real VS Code, installed from npm, or skip."""
    node()
    if os.uname().machine != "x86_64":
        pytest.skip(
            f"code-server {version} is installed by these tests on x86_64 only, and this is {os.uname().machine}"
        )
    with locked(f"vscode-{version}") as folder:
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            words = ["bash", str(_INSTALL), str(folder), version]
            _run_or_skip(words, _INSTALL.parent, f"VS Code (npm's code-server {version}) could not be installed")
    return folder


def built_tests() -> Path:
    """Return the extension's folder with the extension and its tests bundled."""
    folder = tools()
    with locked("package"):
        words = ["npm", "run", "--silent", "build:tests"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder


@functools.cache
def package() -> Path:
    """Return the packaged extension, built from the sources of now."""
    folder = tools()
    with locked("package"):
        target = folder / "dist" / f"handrail-{os.getpid()}.vsix"
        done = subprocess.run(
            ["npm", "run", "--silent", "package", "--", "--out", str(target)],
            cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr, done.stdout + done.stderr
    return target


def _run_or_skip(words: list[str], folder: Path, what: str) -> None:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what}: it took longer than {_PATIENCE} s")
    if done.returncode != 0:
        pytest.skip(f"{what}: {(done.stderr or done.stdout)[-300:]}")
