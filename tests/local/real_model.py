"""A handful of whole turns with a small real model on loopback: plumbing, never answer quality (`make test-local`).

Not collected by `make test`: what the model says is its own affair, and 180 MB are brought for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import loopback

MODEL = Path(__file__).parent / ".model"


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """The model's server, for the length of a test."""
    weights = next(MODEL.rglob("*.gguf"))
    process = await asyncio.create_subprocess_exec(
        "node", str(MODEL / "server.mjs"), str(weights), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = int(await asyncio.wait_for(process.stdout.readline(), 60))
    yield f"http://127.0.0.1:{port}/v1"
    process.kill()
    await process.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["approve", "reject", "edit"])
async def test_a_turn_with_a_real_model(
    address: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAIL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANDRAIL_OFFLINE", "0")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    async with loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        desk = Desk(client, tmp_path)
        settings: dict[str, Any] = {
            "model": "openai/smollm2",
            "apiBase": address,
            "stream": False,
            "templates": {"system": "You answer with shell commands."},
            "limits": {"maxSteps": 4},
        }
        opened = await client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
        params = {"sessionId": opened["sessionId"], "prompt": "List the files.", "maxSteps": None}
        shown = await wait(client, await client.ask("handrail/session/step", params))
        if shown["state"] == "awaiting_approval":  # the model may as well have written something that is refused
            more = {"edit": {"command": "echo edited"}, "reject": {"reason": "not now"}}.get(kind, {})
            word = {"edit": "approve_edited"}.get(kind, kind)
            call = shown["step"]["calls"][0]
            decided = [{"callId": call["callId"], "decision": word, "digest": call["digest"], **more}]
            params = {"sessionId": opened["sessionId"], "decisions": decided}
            shown = await wait(client, await client.ask("handrail/session/decide", params))
        page = await client.ask("handrail/session/transcript", {"sessionId": opened["sessionId"]})
        statuses = [call["status"] for step in page["steps"] for call in step["calls"]]
        assert shown["state"] in ("idle", "awaiting_approval")
        assert statuses, "the model made a call, and it has one status"
        assert page["steps"][0]["calls"][0]["toolCallId"].startswith("call_")


async def wait(client: Any, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Wait for rest; a real model takes its time."""
    params = {"sessionId": snapshot["sessionId"], "after": snapshot["revision"]}
    identity = await client.request("handrail/session/wait", params)
    while True:
        message = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 120)
        body = await client.reader.readexactly(int(message.split(b":")[1]))
        read = json.loads(body)
        if read.get("id") == identity:
            return dict(read["result"])
