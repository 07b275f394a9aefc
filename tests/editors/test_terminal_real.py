"""The `handrail` command with the real server, on a real terminal and without one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.editors.terminal_pty import CTRL_C, CTRL_D, Terminal, environment, gone, processes_of, tape

Open = Callable[..., Terminal]


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Open]:
    opened: list[Terminal] = []

    def open_(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments, environment=environment(tmp_path)))
        return opened[-1]

    yield open_
    for terminal in opened:
        terminal.close()
    assert gone(str(tmp_path / "XDG_STATE_HOME")) == []


def without_terminal(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "editors.terminal.cli", *arguments],
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def run_with(the_tape: Path, project: Path) -> list[str]:
    return ["run", "do it", "--cwd", str(project), "--replay", str(the_tape), "--model", "m"]


def test_the_demo_without_a_terminal_approves_and_says_so(tmp_path: Path) -> None:
    ended = without_terminal(tmp_path, "demo")
    assert ended.returncode == 0, ended.stderr
    before, _, after = ended.stdout.partition("There is no terminal to ask on, so the demo approves each command")
    assert "Its tests now: FAILED (failures=1)" in before
    assert after.count("approved by --on-ask approve") == 5
    assert after.rstrip().endswith("Its tests now: OK")
    assert list((tmp_path / "HOME").iterdir()) == []


def test_the_demo_on_a_terminal_asks_for_each_command(open_terminal: Open) -> None:
    demo = open_terminal("demo")
    for command in ("ls", "cat bill.py test_bill.py", "python3 -m unittest", "cat > bill.py", "python3 -m unittest"):
        demo.expect(f"$ {command}")
        demo.answer("y")
    demo.expect("✓ the model ended its turn")
    demo.expect("Its tests now: OK")
    assert demo.exit_code() == 0


def test_the_demo_says_when_the_repair_was_rejected(open_terminal: Open) -> None:
    demo = open_terminal("demo")
    for answer in ("y", "y", "y", "n not like this", "y"):
        demo.answer(answer)
    demo.expect("Its tests now: FAILED (failures=1)")
    demo.expect("as you decided")
    assert demo.exit_code() == 1
    assert "✗ not run: a person rejected it: not like this" in demo.shown


def test_stray_keys_run_nothing(open_terminal: Open, tmp_path: Path, project: Path) -> None:
    """UX-01, with a real terminal and a real server."""
    session = open_terminal(*run_with(tape(tmp_path / "t.json", ("", ["touch ran"]), ("ok", [])), project))
    session.question()
    for keys in ("\r", "\x1b", " \r", "x\r", "yy\r", "\x1b[A\r"):
        time.sleep(0.1)
        session.type(keys)
    session.expect("not understood, nothing was decided")
    time.sleep(0.2)
    assert not (project / "ran").exists()
    session.type("stop\r")
    assert session.exit_code() == 6
    assert not (project / "ran").exists()


def test_keys_pressed_before_the_question_do_not_answer_it(open_terminal: Open, tmp_path: Path, project: Path) -> None:
    """UX-01: `y` typed ahead of the second command."""
    the_tape = tape(tmp_path / "t.json", ("", ["sleep 0.6"]), ("", ["touch ran"]), ("ok", []))
    session = open_terminal(*run_with(the_tape, project))
    session.answer("y")
    session.expect("running")
    session.type("y\ry\r")
    session.expect("$ touch ran")
    session.question()
    time.sleep(0.3)
    assert not (project / "ran").exists()
    session.enter("y")
    assert session.exit_code() == 0
    assert (project / "ran").exists()


def test_an_edited_command_runs_instead(open_terminal: Open, tmp_path: Path, project: Path) -> None:
    """AP-18."""
    the_tape = tape(tmp_path / "t.json", ("", ["touch wrong"]), ("ok", []))
    session = open_terminal(*run_with(the_tape, project))
    session.answer("e")
    session.expect("Ctrl-C: go back")
    session.type("\x7f" * 5 + "right\r")
    session.question("goes back >")
    session.enter("y")
    assert session.exit_code() == 0
    assert sorted(path.name for path in project.iterdir()) == ["right"]


def test_ctrl_c_cancels_a_running_command_and_leaves_nothing(
    open_terminal: Open, tmp_path: Path, project: Path
) -> None:
    the_tape = tape(tmp_path / "t.json", ("", ["echo begun; sleep 300", "touch ran"]), ("ok", []))
    session = open_terminal(*run_with(the_tape, project))
    session.answer("y")
    session.answer("y")
    session.expect("│ begun")
    session.type(CTRL_C)
    session.expect("a person cancelled the turn")
    assert session.exit_code() == 130
    assert not (project / "ran").exists()
    assert gone(str(tmp_path / "XDG_STATE_HOME"), 2) == []


@pytest.mark.parametrize("how", ["twice", "hangup", "terminated", "killed"])
def test_leaving_in_any_way_leaves_no_process_and_a_session_to_resume(
    open_terminal: Open, tmp_path: Path, project: Path, how: str
) -> None:
    """LS-08: also when the client is killed."""
    stubborn = "trap '' TERM INT; echo begun; while true; do sleep 0.2; done"
    session = open_terminal(*run_with(tape(tmp_path / "t.json", ("", [stubborn]), ("ok", [])), project))
    session.answer("y")
    session.expect("│ begun")
    if how == "twice":
        session.type(CTRL_C)
        session.expect("cancelling the turn")
        session.type(CTRL_C)
        session.expect("left at once")
    else:
        number = {"hangup": signal.SIGHUP, "terminated": signal.SIGTERM, "killed": signal.SIGKILL}[how]
        os.kill(session.process.pid, number)
    code = session.exit_code()
    assert code == (-9 if how == "killed" else 130)
    assert gone(str(tmp_path / "XDG_STATE_HOME"), 5) == []
    assert "do it" in without_terminal(tmp_path, "sessions").stdout


def test_a_command_that_waits_is_there_again_after_leaving(open_terminal: Open, tmp_path: Path, project: Path) -> None:
    """Left with Ctrl-D in the middle of an approval, and killed in the middle of one."""
    the_tape = tape(tmp_path / "t.json", ("Once.", ["echo x >> log"]), ("ok", []))
    session = open_terminal(*run_with(the_tape, project))
    session.question()
    session.type(CTRL_D)
    session.expect("--resume ")
    session_id = session.expect("\n").strip()
    assert session.exit_code() == 3
    killed = open_terminal("run", "--resume", session_id)
    killed.question()
    killed.process.kill()
    assert gone(str(tmp_path / "XDG_STATE_HOME"), 5) == []
    again = open_terminal("run", "--resume", session_id)
    again.expect("● Once.")
    again.answer("y")
    assert again.exit_code() == 0
    assert (project / "log").read_text() == "x\n"
    audit = without_terminal(tmp_path, "sessions", "--audit", session_id).stdout
    assert "step 1, call 1 of 1 · completed" in audit
    assert re.search(r"decided by person at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", audit)


def test_without_a_terminal_nothing_hangs(tmp_path: Path, project: Path) -> None:
    """AP-21."""
    the_tape = tape(tmp_path / "t.json", ("", ["touch ran"]), ("ok", []))
    line = run_with(the_tape, project)
    refused = without_terminal(tmp_path, *line)
    assert (refused.returncode, refused.stdout) == (2, "")
    failed = without_terminal(tmp_path, *line, "--on-ask", "fail")
    assert failed.returncode == 3
    denied = without_terminal(tmp_path, *line, "--on-ask", "deny")
    assert denied.returncode == 0
    assert "not run: the client rejected it by itself, no person looked" in denied.stdout
    assert not (project / "ran").exists()
    approved = without_terminal(tmp_path, *line, "--on-ask", "approve")
    assert (approved.returncode, approved.stderr) == (0, "")
    assert (project / "ran").exists()
    ids = re.findall(r"\b[0-9a-f]{16}\b", without_terminal(tmp_path, "sessions").stdout)
    audits = "".join(without_terminal(tmp_path, "sessions", "--audit", each).stdout for each in ids)
    for by in ("approve", "deny"):
        assert f"decided by client --on-ask {by} at " in audits
    assert "decided by person" not in audits


def test_a_server_that_dies_is_told_with_a_way_out(open_terminal: Open, tmp_path: Path, project: Path) -> None:
    """LS-10, LS-17: the question closes, and nothing was executed."""
    session = open_terminal(*run_with(tape(tmp_path / "t.json", ("", ["touch ran"]), ("ok", [])), project))
    session.question()
    server = subprocess.run(["pgrep", "-P", str(session.process.pid)], capture_output=True, text=True, check=True)
    os.kill(int(server.stdout), signal.SIGKILL)
    session.expect("go on: handrail run --resume ")
    session.expect("handrail: The server ended by the signal SIGKILL", within=3)
    assert session.exit_code() == 5
    assert not (project / "ran").exists()


def test_a_workspace_cannot_run_as_us(tmp_path: Path, project: Path) -> None:
    """F21."""
    for name in ("server/__main__.py", "server/__init__.py", "agent_core/__init__.py", "pydantic.py", "litellm.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    line = run_with(tape(tmp_path / "t.json", ("ok", [])), project)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "editors.terminal.cli", *line, "--on-ask", "deny"],
        env=environment(tmp_path),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "pwned").exists()
    assert processes_of(str(tmp_path / "XDG_STATE_HOME")) == []


@pytest.mark.parametrize("rows", [10, 16, 24, 40])
def test_one_answer_approves_only_what_is_on_the_screen(tmp_path: Path, project: Path, rows: int) -> None:
    """AP-29: whatever the terminal's height, and with all that is told about a command below it."""
    commands = ["\n".join(f": row {at} of {count}" for at in range(count)) for count in range(rows - 9, rows, 2)]
    the_tape = tape(tmp_path / "tape.json", *(("", [command]) for command in commands), ("done", []))
    # Many shells export the size that their window once had.
    misled = {**environment(tmp_path), "LINES": "90", "COLUMNS": "200"}
    terminal = Terminal(*run_with(the_tape, project), environment=misled, rows=rows)
    approved = []
    try:
        for command in commands:
            terminal.question()
            whole = all(line in terminal.screen for line in command.split("\n"))
            terminal.enter("y")
            if not whole:
                terminal.expect("did not fit on the screen; v shows all of it")
                terminal.answer("v")
                while terminal.question("? >", "goes back >").endswith("goes back >"):
                    terminal.enter("")
                terminal.enter("y")
            terminal.expect("exit 0")
            approved.append(whole)
        terminal.expect("the model ended its turn")
    finally:
        terminal.close()
    assert approved[0]
    assert not approved[-1]


@pytest.mark.parametrize(("term", "rows"), [("xterm", 12), ("xterm", 5), ("dumb", 12), ("unknown", 12)])
def test_a_small_terminal_of_any_kind_approves_only_what_it_shows(
    tmp_path: Path, project: Path, term: str, rows: int
) -> None:
    """AP-29."""
    command = "\n".join(f": row {at}" for at in range(rows)) + "\ntouch ran"
    the_tape = tape(tmp_path / "tape.json", ("", [command]), ("done", []))
    terminal = Terminal(*run_with(the_tape, project), environment={**environment(tmp_path), "TERM": term}, rows=rows)
    try:
        terminal.question()
        terminal.enter("y")
        terminal.expect("did not fit on the screen; v shows all of it", "exit 0")
        assert not (project / "ran").exists()
    finally:
        terminal.close()


def test_a_terminal_that_is_made_smaller_approves_only_what_it_shows(tmp_path: Path, project: Path) -> None:
    """AP-29: the question stands while the window changes; after `v` the size that was seen counts."""
    command = "\n".join(f": row {at}" for at in range(12)) + "\ntouch ran"
    the_tape = tape(tmp_path / "tape.json", ("", [command]), ("done", []))
    terminal = Terminal(*run_with(the_tape, project), environment=environment(tmp_path), rows=24)
    try:
        terminal.question("stop · ? >")
        terminal.resize(10)
        terminal.enter("y")
        terminal.expect("did not fit on the screen; v shows all of it", "exit 0")
        assert not (project / "ran").exists()
        terminal.answer("v")
        while terminal.question("? >", "goes back >").endswith("goes back >"):
            terminal.enter("")
        terminal.resize(8)
        terminal.enter("y")
        terminal.expect("exit 0")
        assert (project / "ran").exists()
    finally:
        terminal.close()
