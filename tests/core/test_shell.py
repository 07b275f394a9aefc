"""The runner runs exactly the text, always returns, and says in one value what happened."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_core import sweep
from agent_core.redaction import Masker
from agent_core.shell import CommandLimits, Shell, runner
from agent_core.shell.guard import GUARD, Guard
from agent_core.types import Reason
from tests.core.shell_support import Stopwatch, Workbench, living


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    made = Workbench(tmp_path)
    yield made
    await made.shell.close()


async def test_px_01_standard_input_is_at_its_end(bench: Workbench) -> None:
    clock = Stopwatch()
    assert (await bench.run("cat", timeout=5)).exit_code == 0
    assert (await bench.run("grep foo", timeout=5)).exit_code == 1
    assert clock.seconds < 2


async def test_px_02_no_terminal_and_no_editor(bench: Workbench) -> None:
    clock = Stopwatch()
    asked = await bench.run("read x < /dev/tty; echo rc=$?")
    assert "rc=1" in asked.output
    assert "/dev/tty" in asked.output
    identity = "git init -q && git config user.name n && git config user.email e@e && echo x > f && git add f"
    committed = await bench.run(f"{identity} && git commit")
    assert committed.exit_code == 1
    assert "editor" in committed.output
    assert clock.seconds < 4


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("false", 1), ("exit 3", 3)])
async def test_px_03_ou_08_a_silent_command_ends_with_its_code(bench: Workbench, command: str, code: int) -> None:
    result = await bench.run(command)
    assert (result.ending, result.exit_code, result.output, result.reason) == ("exited", code, "", None)


async def test_px_04_a_timeout_ends_the_whole_group(bench: Workbench) -> None:
    clock = Stopwatch()
    result = await bench.run("sh -c 'sleep 30101 & sleep 30102'", timeout=1)
    assert clock.seconds < 2
    assert (result.ending, result.reason, result.exit_code) == ("timed_out", Reason.TIMEOUT, None)
    assert not living("sleep", "30101")
    assert not living("sleep", "30102")


async def test_px_05_a_descendant_that_ignores_term_is_killed(bench: Workbench) -> None:
    clock = Stopwatch()
    result = await bench.run("(trap '' TERM; sleep 30103; sleep 30103) & wait", timeout=1)
    assert clock.seconds < 3
    assert result.ending == "timed_out"
    assert not living("sleep", "30103")


async def test_px_07_a_background_job_does_not_hold_the_call(bench: Workbench) -> None:
    clock = Stopwatch()
    result = await bench.run("sleep 30107 & echo done", timeout=30)
    assert clock.seconds < 2
    assert (result.ending, result.exit_code, result.output) == ("exited", 0, "done\n")
    assert len(result.leftovers) == 1
    assert result.leftovers[0].startswith("sleep 30107")
    await bench.shell.close()
    assert not living("sleep", "30107")


async def test_px_08_output_before_the_timeout_is_kept(bench: Workbench) -> None:
    result = await bench.run("echo start; sleep 30108", timeout=0.5)
    assert (result.ending, result.output, result.exit_code) == ("timed_out", "start\n", None)
    assert result.duration_ms >= 500


async def test_px_09_a_missing_folder_is_a_result_and_not_the_end(bench: Workbench) -> None:
    shutil.rmtree(bench.folder)
    result = await bench.run("pwd")
    assert (result.ending, result.reason, result.exit_code) == ("unusable", Reason.UNUSABLE, None)
    assert str(bench.folder) in result.error
    bench.folder.mkdir()
    assert (await bench.run("pwd")).output == f"{bench.folder}\n"


async def test_px_10_each_command_starts_fresh(bench: Workbench) -> None:
    (bench.folder / "sub").mkdir()
    assert (await bench.run("cd sub && export X=1")).exit_code == 0
    assert (await bench.run("pwd; echo [$X]")).output == f"{bench.folder}\n[]\n"


async def test_px_12_bash_runs_it(bench: Workbench) -> None:
    (bench.folder / "env.sh").write_text("X=1\n")
    assert (await bench.run("source ./env.sh && [[ $X == 1 ]] && echo ok")).output == "ok\n"


async def test_no_startup_file_runs_before_the_command(bench: Workbench) -> None:
    """Debian's bash reads ~/.bashrc also for a command, when it believes to be started by a remote shell."""
    for name in (".bashrc", ".bash_profile", ".profile"):
        (bench.folder / name).write_text("echo evil\n")
    remote = {"HOME": str(bench.folder), "SSH_CLIENT": "1.2.3.4 5 22", "SHLVL": "0"}
    assert (await bench.run("echo ok", added=remote)).output == "ok\n"


async def test_px_13_unfinished_texts_end_by_themselves(bench: Workbench) -> None:
    heredoc = await bench.run("cat <<EOF\nhello")
    assert "hello\n" in heredoc.output
    assert "here-document" in heredoc.output
    assert (await bench.run('echo "abc')).exit_code == 2
    assert (await bench.run("echo next")).output == "next\n"


async def test_px_14_strict_options_and_exits_stay_in_their_command(bench: Workbench) -> None:
    commands = ["set -euo pipefail; echo $UNSET", "exit 3", "exec true", "echo alive"]
    results = [await bench.run(command) for command in commands]
    assert [result.exit_code for result in results] == [1, 3, 0, 0]
    assert results[-1].output == "alive\n"


async def test_px_15_the_text_is_not_wrapped(bench: Workbench) -> None:
    line = 'it\'s $HOME `x` "q" \\\\'
    assert (await bench.run(f"cat > f <<'EOF'\n{line}\nEOF")).exit_code == 0
    assert (bench.folder / "f").read_text() == line + "\n"


async def test_a_text_that_looks_like_an_option_is_still_the_command(bench: Workbench) -> None:
    result = await bench.run("-x")
    assert result.exit_code == 127
    assert "-x: command not found" in result.output


async def test_px_16_a_signal_is_named_and_is_no_success(bench: Workbench) -> None:
    result = await bench.run("echo partial; kill -9 $$")
    assert (result.ending, result.signal, result.exit_code) == ("signalled", "SIGKILL", None)
    assert (result.reason, result.output) == (Reason.SIGNAL, "partial\n")


async def test_px_17_a_text_of_96_kib_runs_and_a_longer_one_is_told(bench: Workbench) -> None:
    text = "cat > f <<'EOF'\n" + "x" * (96 * 1024 - 20) + "\nEOF"
    assert (await bench.run(text)).exit_code == 0
    assert (bench.folder / "f").stat().st_size == 96 * 1024 - 19
    result = await bench.run("#" + "x" * 200_000)
    assert result.ending == "unusable"
    assert "too long" in result.error


@pytest.mark.parametrize(("command", "word"), [("echo a\0b", "NUL"), ("echo \udc80", "Unicode")])
async def test_unusable_texts_are_results(bench: Workbench, command: str, word: str) -> None:
    result = await bench.run(command)
    assert result.ending == "unusable"
    assert word in result.error


async def test_px_18_a_full_pipe_does_not_block_the_command(bench: Workbench) -> None:
    result = await bench.run("head -c 10000000 /dev/zero | tr '\\0' x >&2; echo ok")
    assert (result.exit_code, result.total_bytes) == (0, 10_000_003)
    assert result.output.endswith("ok\n")


async def test_px_19_no_pager_runs(bench: Workbench) -> None:
    identity = "git init -q && git config user.name n && git config user.email e@e"
    await bench.run(f"{identity} && git commit -q --allow-empty -m one")
    result = await bench.run("git --paginate log; echo $PAGER", environ={"PAGER": "less"})
    assert "one" in result.output
    assert result.output.endswith("cat\n")


async def test_a_shell_that_closes_its_output_is_still_waited_for(bench: Workbench) -> None:
    result = await bench.run("exec >&- 2>&-; sleep 0.3; exit 4")
    assert result.exit_code == 4


async def test_cx_01_a_cancel_ends_everything_and_answers_once(bench: Workbench) -> None:
    command = await bench.start("echo begun; sleep 30110 & sleep 30111")
    await asyncio.sleep(0.2)
    clock = Stopwatch()
    command.cancel()
    command.cancel()
    result = await command.wait()
    assert clock.seconds < 2
    assert (result.ending, result.reason, result.output) == ("cancelled", Reason.CANCELLED, "begun\n")
    assert not living("sleep", "30110")
    assert not living("sleep", "30111")
    command.cancel()
    assert await command.wait() == result


async def test_cx_07_a_cancel_after_the_end_changes_nothing(bench: Workbench) -> None:
    command = await bench.start("echo x")
    result = await command.wait()
    command.cancel()
    assert await command.wait() == result
    assert result.ending == "exited"


async def test_without_a_pidfd_a_thread_waits(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open")
    assert (await bench.run("exit 3")).exit_code == 3
    assert (await bench.run("kill -TERM $$")).signal == "SIGTERM"
    assert (await bench.run("sleep 30113", timeout=0.2)).ending == "timed_out"


async def test_without_a_subreaper_every_process_is_looked_at(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.run("true")
    monkeypatch.setattr(GUARD, "subreaper", False)
    result = await bench.run("setsid sleep 30114 > /dev/null 2>&1 & sleep 0.1")
    assert any("30114" in name for name in result.leftovers)
    await bench.shell.close()
    assert not living("sleep", "30114")


async def test_without_proc_the_group_is_still_ended(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "everything", list)
    monkeypatch.setattr(sweep, "children_of", lambda pid: [])
    assert (await bench.run("echo ok")).output == "ok\n"
    clock = Stopwatch()
    result = await bench.run("(trap '' TERM; sleep 30115) & sleep 30115", timeout=0.3)
    assert (result.ending, clock.seconds < 3) == ("timed_out", True)
    assert not living("sleep", "30115")


async def test_to_stop_waiting_leaves_the_command_alone(bench: Workbench) -> None:
    command = await bench.start("sleep 0.3; echo late")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(command.wait(), 0.05)
    assert (await command.wait()).output == "late\n"


async def test_nothing_starts_once_the_session_is_closed(bench: Workbench) -> None:
    await bench.shell.close()
    result = await bench.run("touch f")
    assert result.ending == "unusable"
    assert not (bench.folder / "f").exists()


async def test_ou_01_bytes_that_are_no_text_become_replacement_characters(bench: Workbench) -> None:
    assert (await bench.run("printf '\\xf0'")).output == "\ufffd"


async def test_commands_of_two_sessions_do_not_wait_for_each_other(tmp_path: Path) -> None:
    first, second = (Workbench(_made(tmp_path / name)) for name in ("a", "b"))
    slow = await first.start("sleep 30112")
    while not living("sleep", "30112"):
        await asyncio.sleep(0.01)
    assert (await second.run("echo b")).output == "b\n"
    assert slow.running
    await second.shell.close()
    assert living("sleep", "30112")
    await first.shell.close()
    assert not living("sleep", "30112")


async def test_a_small_limit_keeps_head_and_tail(bench: Workbench) -> None:
    result = await bench.run("seq 1 200000; echo FAILED test_x; exit 1", limits=CommandLimits(kept_bytes=1000))
    assert result.output.startswith("1\n2\n")
    assert result.output.endswith("FAILED test_x\n")
    assert result.exit_code == 1


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def test_a_pipe_that_a_stranger_holds_is_closed_all_the_same(bench: Workbench) -> None:
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    command = await bench.start("echo $$; sleep 0.3", on_output=pieces.put_nowait)
    held = os.open(f"/proc/{int(await pieces.get())}/fd/1", os.O_WRONLY)
    result = await command.wait()
    assert (result.exit_code, result.leftovers) == (0, ())
    with pytest.raises(BrokenPipeError):
        os.write(held, b"x")
    os.close(held)


async def test_a_server_that_cannot_have_a_supervisor_starts_nothing(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bash"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(runner, "GUARD", Guard())
    bench.shell = Shell(bash=str(broken), session_id="s", masker=Masker({}), spool_dir=None)
    result = await bench.run("touch f")
    assert result.ending == "unusable"
    assert "supervisor" in result.error
    assert not (bench.folder / "f").exists()
