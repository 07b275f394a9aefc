"""The whole server in this process, over a pair of sockets, with tapes made by the tests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from server.protocol import PROTOCOL_VERSION
from tests.core.replies import bash, chat_body
from tests.server.raw_client import RawClient, loopback

ANNOUNCED = {"protocolVersion": PROTOCOL_VERSION, "approvals": True}


class Desk:
    """A client of the whole server, a workspace, and ways to write tapes."""

    def __init__(self, client: RawClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self._tapes = 0

    @property
    def cwd(self) -> str:
        return self.workspace.as_uri()

    def tape(self, *bodies: dict[str, Any]) -> str:
        """Write a tape of provider bodies and return its path."""
        self._tapes += 1
        path = self.folder / f"tape-{self._tapes}.json"
        path.write_text(json.dumps({"model": "m", "recorded_at": "2026-01-01", "dialect": "chat", "frames": bodies}))
        return str(path)

    async def new(self, *bodies: dict[str, Any], **settings: Any) -> dict[str, Any]:
        """Open a session that replays these bodies."""
        replay = {"replay": self.tape(*bodies)}
        snapshot = await self.client.ask("handrail/session/new", {"cwd": self.cwd, "settings": {**replay, **settings}})
        assert isinstance(snapshot, dict)
        return snapshot

    async def waiting(self, *commands: str, **settings: Any) -> dict[str, Any]:
        """Return the snapshot of a session in which commands wait for approval."""
        calls = [bash(f"c{i}", each) for i, each in enumerate(commands)]
        session = await self.new(chat_body("I look.", calls), chat_body("Done."), **settings)
        return await self.step(session, "Go.")

    async def step(self, session: dict[str, Any], prompt: str | None, max_steps: int | None = None) -> dict[str, Any]:
        """Start steps and wait for rest."""
        params = {"sessionId": session["sessionId"], "maxSteps": max_steps}
        begun = await self.client.ask(
            "handrail/session/step", params if prompt is None else {**params, "prompt": prompt}
        )
        return await self.rest(begun)

    async def rest(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Wait for rest beyond a snapshot."""
        if snapshot["state"] in ("idle", "awaiting_approval", "closed"):
            return snapshot
        params = {"sessionId": snapshot["sessionId"], "after": snapshot["revision"]}
        rested = await self.client.ask("handrail/session/wait", params)
        assert isinstance(rested, dict)
        return rested

    async def decide(self, snapshot: dict[str, Any], kind: str = "approve", **more: Any) -> dict[str, Any]:
        """Decide everything that waits, in one request, and wait for rest."""
        decisions = [decision(call, kind, **more) for call in pending(snapshot)]
        params = {"sessionId": snapshot["sessionId"], "decisions": decisions}
        return await self.rest(await self.client.ask("handrail/session/decide", params))

    async def get(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Return the snapshot now."""
        now = await self.client.ask("handrail/session/get", {"sessionId": snapshot["sessionId"]})
        assert isinstance(now, dict)
        return now


def pending(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls that wait, in order."""
    return [call for call in snapshot["step"]["calls"] if call["callId"] in snapshot["pending"]]


def decision(call: dict[str, Any], kind: str = "approve", **more: Any) -> dict[str, Any]:
    """Return a decision that repeats the digest shown."""
    return {"callId": call["callId"], "decision": kind, "digest": call["digest"], **more}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder and settings of the test's own, and no live model."""
    monkeypatch.setenv("HANDRAIL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANDRAIL_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("HANDRAIL_OFFLINE", "1")
    return tmp_path


@pytest.fixture
async def desk(environment: Path) -> AsyncIterator[Desk]:
    """A client that announces approvals, after `initialize`."""
    async with loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        yield Desk(client, environment)
