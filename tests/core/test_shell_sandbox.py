"""The sandbox holds what it says, with real bubblewrap; where it cannot be had, nothing runs."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_core.redaction import Masker
from agent_core.shell import Shell, offers, runner, sandbox
from agent_core.shell.sandbox import Bubblewrap
from agent_core.types import Reason
from tests.core.shell_support import BASH, Workbench, living

needs_bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap") is None or bool(asyncio.run(sandbox.BUBBLEWRAP.unavailable())),
    reason="bubblewrap is not installed or may not make namespaces here",
)

OUTER_TEMPORARY = Path("/tmp/handrail-test-of-the-sandbox")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    made = Workbench(tmp_path)
    yield made
    await made.shell.close()


@needs_bubblewrap
async def test_workspace_mode_writes_in_the_folder_and_nowhere_else(bench: Workbench) -> None:
    outside = bench.folder.parent / "outside"
    result = await bench.run(
        f"echo in > f; echo out > {outside}; echo t > $TMPDIR/{OUTER_TEMPORARY.name} && pwd", sandbox="workspace"
    )
    assert (bench.folder / "f").read_text() == "in\n"
    assert not outside.exists()
    assert OUTER_TEMPORARY.name not in os.listdir("/tmp")
    assert result.output.endswith(f"{bench.folder}\n")
    assert (await bench.run("touch /usr/handrail-was-here", sandbox="workspace")).exit_code == 1


@needs_bubblewrap
async def test_read_only_mode_writes_nowhere_but_in_its_own_temporary_folder(bench: Workbench) -> None:
    result = await bench.run("touch f; touch /tmp/x && echo ok", sandbox="read-only")
    assert not (bench.folder / "f").exists()
    assert result.output.endswith("ok\n")


@needs_bubblewrap
async def test_no_network_unless_it_is_allowed(bench: Workbench) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    command = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
    async with server:
        assert (await bench.run(command, sandbox="workspace+network")).exit_code == 0
        assert (await bench.run(command, sandbox="workspace")).exit_code == 1


@needs_bubblewrap
async def test_keys_and_sockets_are_out_of_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    for name in (".ssh", ".config/handrail"):
        (home / name).mkdir(parents=True)
        (home / name / "secret").write_text("private")
    (home / ".netrc").write_text("private")
    state = home / "state"
    (state / "spools").mkdir(parents=True)
    (state / "journal").write_text("private")
    (state / "spools" / "x").write_text("readable")
    monkeypatch.setenv("HOME", str(home))
    bench = Workbench(tmp_path)
    bench.folder = home  # a workspace that holds the keys' places itself
    bench.shell = Shell(bash=BASH, session_id="s", masker=Masker({}), spool_dir=state / "spools", hidden=[state])
    result = await bench.run(
        'cat .ssh/* .config/handrail/* .netrc state/journal; echo "RUN($(ls /run))"', sandbox="workspace"
    )
    assert "private" not in result.output
    assert "RUN()" in result.output
    assert (await bench.run("cat state/spools/x", sandbox="workspace")).output == "readable"
    await bench.shell.close()


@needs_bubblewrap
async def test_root_inside_cannot_undo_it(bench: Workbench) -> None:
    result = await bench.run("mount -o remount,rw / || mount -t tmpfs none /mnt || echo held", sandbox="workspace")
    assert result.output.endswith("held\n")


@needs_bubblewrap
async def test_nothing_outlives_a_command_in_the_sandbox(bench: Workbench) -> None:
    result = await bench.run("env -i setsid sleep 30401 > /dev/null 2>&1 & sleep 0.1; echo done", sandbox="workspace")
    assert (result.exit_code, result.output, result.leftovers) == (0, "done\n", ())
    assert not living("sleep", "30401")


@needs_bubblewrap
async def test_a_timeout_ends_all_of_it(bench: Workbench) -> None:
    result = await bench.run("env -i setsid sleep 30402 & trap '' TERM; sleep 30402", timeout=0.3, sandbox="workspace")
    assert (result.ending, result.leftovers) == ("timed_out", ())
    assert not living("sleep", "30402")


async def test_without_bubblewrap_it_is_refused_and_nothing_runs(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_program", lambda name, environ: None)
    monkeypatch.setattr(runner, "BUBBLEWRAP", Bubblewrap())
    result = await bench.run("touch f", sandbox="workspace")
    assert (result.ending, result.reason) == ("refused", Reason.SANDBOX_UNAVAILABLE)
    assert "Install the package bubblewrap" in result.error
    assert not (bench.folder / "f").exists()


async def test_a_bubblewrap_that_fails_is_tried_once_and_told(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "bwrap"
    failing.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/tries\necho No permissions to create namespaces\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(sandbox, "find_program", lambda name, environ: str(failing))
    monkeypatch.setattr(runner, "BUBBLEWRAP", Bubblewrap())
    for _ in range(2):
        result = await bench.run("touch f", sandbox="read-only")
        assert result.ending == "refused"
        assert "No permissions to create namespaces" in result.error
    assert (tmp_path / "tries").read_text() == "tried\n"
    assert not (bench.folder / "f").exists()


@pytest.mark.parametrize("mode", ["", "on", "workspace+", "Workspace", "off+network", "network"])
async def test_an_unknown_mode_is_refused(bench: Workbench, mode: str) -> None:
    result = await bench.run("touch f", sandbox=mode)
    assert (result.ending, result.reason) == ("refused", Reason.SANDBOX_UNAVAILABLE)
    assert not (bench.folder / "f").exists()


async def test_the_whole_file_system_is_no_workspace(bench: Workbench) -> None:
    bench.folder = Path("/")
    assert (await bench.run("true", sandbox="workspace")).ending == "refused"


async def test_what_the_machine_offers_is_told() -> None:
    offered = {offer.name: offer for offer in await offers()}
    assert list(offered) == ["bash", "subreaper", "sandbox"]
    assert (offered["bash"].ok, offered["bash"].detail) == (True, BASH)
    assert all(offer.detail for offer in offered.values())
