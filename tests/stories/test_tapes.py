"""Tapes through the whole server: what is recorded, what is told about a tape, and what a refreshed one shows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from tests.core.replies import chat_body
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import RawClient, loopback
from tests.wire.chat_bodies import USAGE, chunk
from tests.wire.double import Answer, EventStream, ProviderDouble

DOTENV = "zz_9Yb3Wn7Xe5Mc1Ks4Dg6Lt"


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A client of a whole server that may call a model."""
    monkeypatch.setenv("HANDRAIL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANDRAIL_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("HANDRAIL_OFFLINE", "0")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-abcdefghijklmnop0123")
    async with loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        yield Desk(client, tmp_path)


async def live(desk: Desk, double: ProviderDouble, **settings: Any) -> dict[str, Any]:
    """Open a session with a live model."""
    given = {"model": "openai/gpt-4o-mini", "apiBase": f"{double.url}/v1", "stream": False, **settings}
    opened = await desk.client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": given})
    assert isinstance(opened, dict)
    return opened


@pytest.mark.timeout(180)
async def test_a_secret_of_the_workspace_is_masked_on_a_tape_too(desk: Desk, tmp_path: Path) -> None:
    """SE-03: the recorder knows what the session's masker knows."""
    (desk.workspace / ".env").write_text(f"STRIPE_SECRET={DOTENV}\n")
    tape = tmp_path / "tape.json"
    async with ProviderDouble([Answer(chat_body(f"It is {DOTENV}."))]) as double:
        session = await live(desk, double, record=str(tape))
        ended = await desk.step(session, "What is it?")
    assert ended["stopReason"] == "end_turn"
    assert len(json.loads(tape.read_text())["frames"]) == 1
    assert DOTENV not in tape.read_text()
    assert "<masked:STRIPE_SECRET>" in tape.read_text()


def told(client: RawClient, method: str) -> list[str]:
    return [each["params"]["message"] for each in client.received if each.get("method") == method]


@pytest.mark.timeout(180)
async def test_a_recording_that_ends_early_is_told_to_the_person(desk: Desk, tmp_path: Path) -> None:
    """A secret whose parts come in two events is on no tape, and nobody has to find that out from the file."""
    (desk.workspace / ".env").write_text(f"STRIPE_SECRET={DOTENV}\n")
    pieces = [chunk({"role": "assistant", "content": part}) for part in (DOTENV[:9], DOTENV[9:])]
    stream = EventStream([*pieces, chunk({}, "stop"), {**chunk({}), "choices": [], "usage": USAGE}, "[DONE]"])
    tape = tmp_path / "tape.json"
    async with ProviderDouble([stream]) as double:
        session = await live(desk, double, record=str(tape), stream=True)
        ended = await desk.step(session, "What is it?")
    assert ended["stopReason"] == "end_turn", "the session goes on"
    assert json.loads(tape.read_text())["frames"] == []
    (message,) = told(desk.client, "window/showMessage")
    assert message.startswith(f"The recording to {tape} ended after 0 frames")
    assert "STRIPE_SECRET" in message


async def test_age_drift_and_left_over_frames_are_told_in_words(desk: Desk, tmp_path: Path) -> None:
    body = chat_body("Done.")
    frames = [{"$frame": {"shape": "sha256:other", "expect": {"stop": "tool_calls"}}, "body": body}, body]
    tape = tmp_path / "tape.json"
    tape.write_text(json.dumps({"model": "m", "recorded_at": "2020-01-01", "dialect": "chat", "frames": frames}))
    params = {"cwd": desk.cwd, "settings": {"replay": str(tape)}}
    session = await desk.client.ask("handrail/session/new", params)
    ended = await desk.step(session, "Go.")
    assert ended["stopReason"] == "end_turn"
    await desk.client.ask("handrail/session/close", {"sessionId": session["sessionId"]})
    await desk.client.ask("handrail/session/list")
    edited, read_anew = told(desk.client, "window/showMessage")
    assert edited == f"Frame 1 of {tape} was edited after it was recorded."
    assert read_anew == f"Frame 1 of {tape} is read otherwise than when it was recorded."
    logged = "\n".join(told(desk.client, "window/logMessage"))
    assert "days old; m may answer otherwise today" in logged
    assert f"1 of the 2 frames of {tape} were not used." in logged


async def test_what_no_model_said_does_not_age(desk: Desk, tmp_path: Path) -> None:
    tape = tmp_path / "tape.json"
    tape.write_text(json.dumps({"model": "m", "recorded_at": "2020-01-01", "origin": "synthetic", "frames": []}))
    await desk.client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": {"replay": str(tape)}})
    assert told(desk.client, "window/logMessage") == []


async def test_one_tape_records_one_model(desk: Desk, tmp_path: Path) -> None:
    settings = {"models": ["openai/a", "openai/b"], "record": str(tmp_path / "tape.json")}
    refused = await desk.client.fail("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
    assert "`models` names several" in refused["message"]
