"""The example client runs a whole turn, and the page for authors of clients shows exactly it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.replies import bash, chat_body
from tests.editors.example_client import Client, turn

ROOT = Path(__file__).parents[2]


def test_the_page_for_authors_shows_the_example() -> None:
    page = (ROOT / "editors/README.md").read_text(encoding="utf-8")
    shown = page.partition("<!-- example -->\n```python\n")[2].partition("```\n<!-- /example -->")[0]
    assert shown == (ROOT / "tests/editors/example_client.py").read_text(encoding="utf-8")


def test_the_example_runs_a_turn_with_an_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HANDRAIL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANDRAIL_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("HANDRAIL_OFFLINE", "1")
    calls = [bash("c1", "echo hi > made; echo done; sleep 0.2"), bash("c2", "touch refused")]
    frames = [chat_body("I look.", calls), chat_body("It is made.")]
    tape = {"model": "m", "recorded_at": "2026-01-01", "dialect": "chat", "frames": frames}
    (tmp_path / "tape.json").write_text(json.dumps(tape))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    asked: list[str] = []

    def decide(call: dict[str, Any]) -> dict[str, Any]:
        asked.append(call["display"])
        return {"decision": "approve"} if "made" in call["command"] else {"decision": "reject", "reason": "no"}

    client = Client(sys.executable, "-P", "-m", "server")
    try:
        ended = turn(client, workspace, "Make it.", {"replay": str(tmp_path / "tape.json")}, decide)
        assert (ended["state"], ended["stopReason"], ended["step"]["text"]) == ("idle", "end_turn", "It is made.")
        with pytest.raises(RuntimeError, match="load it first"):
            client.ask("handrail/session/get", sessionId="nope")
    finally:
        client.output.close()
        assert client.server.wait(timeout=5) == 1
        client.input.close()
    assert asked == ["echo hi > made; echo done; sleep 0.2", "touch refused"]
    assert (workspace / "made").read_text() == "hi\n"
    assert not (workspace / "refused").exists()
    assert "done" in capsys.readouterr().out
