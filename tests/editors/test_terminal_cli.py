"""The `handrail` command: its line, its errors, and its commands against a scripted server."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel

from editors.terminal import cli, commands, dispatch, running
from editors.terminal.client import Client, ServerGone
from editors.terminal.exits import Exit
from server.protocol import Check, Export, Fact, Health, SessionError, SessionInfo, SessionList, Settings, Transcript
from tests.editors.terminal_stub import Refusal, Stub, call, snapshot, step


def options(*given: str) -> Any:
    return cli._parser().parse_args(given)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Put a scripted server in the place of a real one."""
    stub = Stub()

    @contextlib.asynccontextmanager
    async def server(**given: Any) -> AsyncIterator[Client]:
        yield stub.client

    monkeypatch.setattr(commands, "server", server)
    monkeypatch.setattr(running, "server", server)
    return stub


def test_serve_and_help_import_nothing_heavy() -> None:
    heavy = ("rich", "prompt_toolkit", "pydantic", "asyncio", "server.protocol", "agent_core", "litellm")
    code = f"import sys, editors.terminal.cli as c; c._parser(); print([m for m in {heavy} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_running_without_a_terminal_imports_no_user_interface() -> None:
    code = "import sys, editors.terminal.dispatch; print([m for m in ('rich', 'prompt_toolkit') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_serve_hands_its_options_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    import server.__main__
    import server.lifecycle

    def leave(code: int) -> None:
        raise SystemExit(code)

    given: list[Any] = []

    def serve(arguments: list[str]) -> int:
        given.append(arguments)
        return 3

    monkeypatch.setattr(server.__main__, "main", serve)
    monkeypatch.setattr(server.lifecycle, "leave", leave)
    with pytest.raises(SystemExit) as left:
        cli.main(["serve", "--log", "info"])
    assert (given, left.value.code) == ([["--log", "info"]], 3)


def test_the_help_tells_every_exit_code() -> None:
    told = cli._run_epilog()
    for code in Exit:
        assert f"{code.value:>3}  {code.meaning}" in told


def test_settings_come_from_the_line_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = options(
        *("run", "go", "--model", "m", "--replay", "t.json"),
        *("--set", "limits.maxSteps=3", "--set", "stream=false", "--set", "apiBase=http://127.0.0.1:1/v1"),
        *("--set", "limits.maxCost=1", "--set", 'rules=["read-only"]', "--set", 'modelOptions={"seed": 1}'),
    )
    settings = dispatch._settings(given)
    assert json.loads(settings.model_options or "") == {"seed": 1}
    told = settings.to_wire()
    del told["modelOptions"]
    assert told == {
        "limits": {"maxSteps": 3, "maxCost": 1.0},
        "stream": False,
        "apiBase": "http://127.0.0.1:1/v1",
        "rules": ["read-only"],
        "model": "m",
        "replay": str(tmp_path / "t.json"),
    }


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["run", "go", "--set", "modle=x"], "did you mean 'mode' or 'model'?"),
        (["run", "go", "--set", "limits.maxStep=3"], "did you mean 'maxSteps' or"),
        (["run", "go", "--set", "stream=perhaps"], "stream: "),
        (["run", "go", "--set", "stream"], "name=value"),
        (["run", "go", "--set", "limits=3", "--set", "limits.maxSteps=3"], "already given"),
        (["run"], 'handrail run "TASK" --model NAME'),
        (["run", "go", "--cwd", "/nowhere/at/all"], "does not exist"),
        (["run", "go"], "--on-ask deny, --on-ask fail or --on-ask approve"),
    ],
)
def test_wrong_usage_is_a_sentence_and_starts_nothing(
    line: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "start", None)  # would be a TypeError
    assert cli.main(line) == Exit.USAGE
    assert told in capsys.readouterr().err


def test_a_task_runs_and_its_exit_code_tells_how_it_ended(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.on("session/new", snapshot(0, "idle"))
    stub.on("session/step", snapshot(1, "awaiting_approval", step(call())))
    stub.on("session/decide", snapshot(2, "idle", step(call(status="completed"), text="ok"), stop_reason="max_steps"))
    assert cli.main(["run", "go", "--model", "m", "--on-ask", "approve"]) == Exit.LIMIT
    assert stub.params("session/new") == [{"cwd": Path.cwd().as_uri(), "settings": {"model": "m"}}]
    out = capsys.readouterr().out
    assert "$ ls" in out
    assert "■ the limit of steps" in out
    assert "go on: handrail run --resume one" in out


def test_a_command_that_waits_is_left_waiting_and_resumed(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = snapshot(1, "awaiting_approval", step(call()))
    stub.on("session/load", waiting)
    assert cli.main(["run", "--resume", "one", "--on-ask", "fail"]) == Exit.UNDECIDED
    stub.on("session/decide", snapshot(2, "idle", step(call(status="completed")), stop_reason="end_turn"))
    assert cli.main(["run", "--resume", "one", "--on-ask", "approve"]) == Exit.DONE
    assert stub.methods() == ["load", "load", "decide"]
    assert "the command keeps waiting" in capsys.readouterr().out


def test_resuming_takes_new_settings_and_a_new_task(stub: Stub) -> None:
    stub.on("session/load", snapshot(1, "idle", stop_reason="end_turn"))
    stub.on("session/configure", snapshot(2, "idle", stop_reason="end_turn"))
    stub.on("session/step", snapshot(3, "idle", stop_reason="end_turn"))
    assert cli.main(["run", "more", "--resume", "one", "--model", "other", "--on-ask", "deny"]) == Exit.DONE
    assert stub.params("session/configure") == [{"sessionId": "one", "settings": {"model": "other"}}]
    assert stub.params("session/step")[0]["prompt"] == "more"


def test_resuming_a_finished_turn_asks_for_a_task(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.on("session/load", snapshot(1, "idle", stop_reason="end_turn"))
    assert cli.main(["run", "--resume", "one", "--on-ask", "deny"]) == Exit.USAGE
    assert 'handrail run "TASK" --resume one' in capsys.readouterr().err


def test_what_the_server_refuses_is_told_with_its_details(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(params: dict[str, Any]) -> Any:
        problems = [{"field": "settings.model", "problem": "is unknown"}]
        raise Refusal(1004, "The settings are refused.", {"problems": problems})

    stub.on("session/new", refuse)
    assert cli.main(["run", "go", "--on-ask", "deny"]) == Exit.USAGE
    assert capsys.readouterr().err == "handrail: The settings are refused.\n  settings.model: is unknown\n"


def test_sessions_are_listed_with_what_they_wait_for(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    info = SessionInfo(
        session_id="one",
        cwd="file:///w",
        title="Fix\x1b it",
        state="awaiting_approval",
        pending=2,
        steps=1,
        created_at_ms=0,
        updated_at_ms=0,
    )
    listed = SessionList(sessions=[info]).to_wire()
    stub.on("session/list", lambda params: listed)
    assert cli.main(["sessions"]) == Exit.DONE
    out = capsys.readouterr().out
    assert out.startswith("one  19")
    assert "Fix<U+001B> it\n    2 commands waiting · 1 step · cost unknown · /w\n" in out
    stub.on("session/list", lambda params: {"sessions": []})
    cli.main(["sessions", "--cwd", "/w"])
    assert "There is no session yet" in capsys.readouterr().out
    assert stub.params("session/list")[1] == {"cwd": "file:///w"}


def test_no_cost_is_listed_of_a_session_that_spent_nothing(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """R13: a list does not know whether a query succeeded."""
    members = {"sessionId": "one", "cwd": "file:///w", "title": "x", "state": "idle", "steps": 1}
    spent = {"cost": 0.0, "costKnown": True, "createdAtMs": 0, "updatedAtMs": 0}
    stub.on("session/list", lambda params: {"sessions": [members | spent]})
    cli.main(["sessions"])
    assert capsys.readouterr().out.endswith("    idle · 1 step · /w\n")


def test_the_demo_has_a_place_of_its_own_whatever_names_the_persons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its sessions are not listed among the person's."""
    from server import registry

    for variable in (registry.STATE_VARIABLE, registry.CONFIG_VARIABLE, "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, "/home/me/handrail")
    apart = commands._apart(tmp_path)
    assert all("/home/me/handrail" not in value for value in apart.values())


def test_an_audit_names_who_when_where_and_the_digest(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    edited = call(command="ls .", status="completed", edited_from="ls /", decision_reason="not there")
    pages = iter([[step(edited)], [step(call(2, status="rejected", count=2), index=2)]])
    stub.on("session/load", snapshot(1, "idle"))
    stub.on("session/transcript", lambda params: Transcript(steps=next(pages), total=2).to_wire())
    assert cli.main(["sessions", "--audit", "one"]) == Exit.DONE
    out = capsys.readouterr().out
    for part in (
        "step 1, call 1 of 1 · completed · 1970-01-0",
        "decided by person · rule mode: nothing allows it",
        "in /w · sha256 d1",
        "reason: not there",
        "the model's text: ls /",
        "  $ ls .",
        "step 2, call 2 of 2 · rejected · not run",
        "decided by nobody",
    ):
        assert part in out


def test_an_audit_tells_what_had_started_from_what_never_did(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """SS-01: an interrupted command had started, whether or not its time is known."""
    calls = [
        call(1, status="interrupted", reason="interrupted", started_at_ms=1, count=3),
        call(2, status="interrupted", reason="interrupted", count=3),
        call(3, status="cancelled", reason="not_started", count=3),
    ]
    stub.on("session/load", snapshot(1, "idle"))
    stub.on("session/transcript", lambda params: Transcript(steps=[step(*calls)], total=1).to_wire())
    cli.main(["sessions", "--audit", "one"])
    out = capsys.readouterr().out
    assert "call 1 of 3 · interrupted · 1970-01-0" in out
    assert "call 2 of 3 · interrupted · it had started" in out
    assert "call 3 of 3 · cancelled · not run" in out
    assert out.count("  a crash or shutdown came in between; it may have had effects, and was not run again\n") == 2
    assert "  an earlier call of the batch was cancelled or interrupted\n" in out


@pytest.mark.parametrize("line", [["run", "--resume", "one"], ["run", "more", "--resume", "one", "--model", "m"]])
def test_a_session_that_can_only_be_read_is_not_taken_up(
    stub: Stub, capsys: pytest.CaptureFixture[str], line: list[str]
) -> None:
    full = SessionError(kind="read_only", message="The journal cannot be used: disk is full.")
    stub.on("session/load", snapshot(1, "idle", stop_reason="end_turn", error=full))
    assert cli.main([*line, "--on-ask", "approve"]) == Exit.SERVER
    assert stub.methods() == ["load"]
    out = capsys.readouterr().out
    assert "disk is full" in out
    assert out.endswith("go on: handrail run --resume one --on-ask approve\n")


def test_a_lost_server_is_told_with_the_whole_line_that_goes_on(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """LS-10."""

    def lose(params: dict[str, Any]) -> Any:
        stub.client.connection.lose(ServerGone(-9, []))
        return None

    stub.on("session/new", snapshot(0, "idle"))
    stub.on("session/step", lose)
    assert cli.main(["run", "go", "--on-ask", "deny"]) == Exit.SERVER
    told = capsys.readouterr()
    assert told.out.endswith("■ the server ended\n  go on: handrail run --resume one --on-ask deny\n")
    assert "SIGKILL" in told.err


def test_export_writes_text_or_a_file(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stub.on("session/load", snapshot(1, "idle"))
    stub.on("session/export", lambda params: Export(text='{"a": 1}').to_wire())
    assert cli.main(["export", "one"]) == Exit.DONE
    assert capsys.readouterr().out == '{"a": 1}\n'
    cli.main(["export", "one", "--format", "mini-swe-agent-1.1", "--output", str(tmp_path / "x.json")])
    assert (tmp_path / "x.json").read_text() == '{"a": 1}'
    assert stub.params("session/export")[1]["format"] == "mini-swe-agent-1.1"


def test_an_export_that_cannot_be_written_says_why(
    stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.on("session/load", snapshot(1, "idle"))
    stub.on("session/export", lambda params: Export(text="{}").to_wire())
    for output, why in (
        (tmp_path / "nope/x", f"the folder {tmp_path / 'nope'} does not exist"),
        (tmp_path, "Is a dir"),
    ):
        assert cli.main(["export", "one", "--output", str(output)]) == Exit.USAGE
        assert f"The export cannot be written to {output}: {why}" in capsys.readouterr().err


def test_a_fault_of_a_file_is_not_one_of_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["demo", "--prepare", str(tmp_path / "file")]) == Exit.USAGE
    assert capsys.readouterr().err == f"handrail: {tmp_path / 'file'} cannot be used: File exists.\n"


def test_a_server_that_cannot_be_started_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(**given: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/nowhere/python")

    monkeypatch.setattr(Client, "start", missing)
    assert cli.main(["sessions"]) == Exit.SERVER
    assert "The server could not be started: [Errno 2]" in capsys.readouterr().err


def test_doctor_says_what_to_do_and_fails_if_something_is_missing(
    stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = [Check(name="bash", ok=True, detail="5.2"), Check(name="key", ok=False, detail="none", way_out="Set one.")]
    health = Health(checks=checks, versions=[Fact(name="handrail", value="0.1")], key_names=["OPENAI_API_KEY"])
    stub.on("server/health", lambda params: health.to_wire())
    assert cli.main(["doctor"]) == Exit.FAILED
    out = capsys.readouterr().out
    assert "✓ bash: 5.2\n✗ key: none\n    Set one.\n" in out
    assert "keys in the environment: OPENAI_API_KEY" in out


def test_settings_are_told_with_their_meaning(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    health = Health(checks=[], paths=[Fact(name="settings", value="/home/me/config.toml")])
    stub.on("server/health", lambda params: health.to_wire())
    assert cli.main(["settings"]) == Exit.DONE
    out = capsys.readouterr().out
    nested = {"limits", "command", "templates"}
    assert all(f"{to_camel(name)}\n" in out for name in Settings.model_fields if name not in nested)
    assert "limits.maxSteps\n    Steps in a turn.\n" in out
    assert "settings: /home/me/config.toml" in out


def test_settings_in_force_are_shown_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HANDRAIL_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text('model = "openai/m"\n[model_options]\napi_key = "sk-Zx81hQpL0vN3kR7tYw2B"\n')
    assert dispatch.dispatch(options("settings", "--show", "--set", "limits.maxSteps=5")) == Exit.DONE
    shown = capsys.readouterr().out
    assert json.loads(shown)["model"] == "openai/m"
    assert json.loads(shown)["limits"]["maxSteps"] == 5
    assert "sk-Zx81hQpL0vN3kR7tYw2B" not in shown
    (tmp_path / "config.toml").write_text('mdoel = "openai/m"\n')
    assert dispatch.dispatch(options("settings", "--show")) == Exit.USAGE
    assert "did you mean `model`?" in capsys.readouterr().err


def test_the_schema_of_the_settings_file_is_a_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.dispatch(options("settings", "--schema")) == Exit.DONE
    assert json.loads(capsys.readouterr().out)["properties"]["mode"]["default"] == "ask"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = "import sys; from editors.terminal.cli import main; sys.exit(main(['settings', '--schema']))"
    program = f'{sys.executable} -P -c "{code}" | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
