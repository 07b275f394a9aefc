"""One whole run over every floor with a live model: the server, the worker, litellm, HTTP, and back.

The provider is a double on loopback that speaks Chat Completions; a strict checker reads what it receives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from tests.core.replies import bash, chat_body
from tests.server.conftest import ANNOUNCED, Desk, decision, pending
from tests.server.raw_client import RawClient, loopback
from tests.wire import strict
from tests.wire.chat_bodies import USAGE, chunk
from tests.wire.double import Answer, EventStream, ProviderDouble


@pytest.fixture
async def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[RawClient, ProviderDouble]]:
    """A whole server that may call a model, and the double that it calls."""
    monkeypatch.setenv("HANDRAIL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HANDRAIL_OFFLINE", "0")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-abcdefghijklmnop0123")
    async with ProviderDouble() as double, loopback(create("test")) as client:
        await client.initialize(handrail=ANNOUNCED)
        yield client, double


def results(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["tool_call_id"], each["content"]) for each in body["messages"] if each["role"] == "tool"]


@pytest.mark.timeout(180)
async def test_two_parallel_calls_one_rejected_then_a_streamed_end(
    live: tuple[RawClient, ProviderDouble], tmp_path: Path
) -> None:
    client, double = live
    desk = Desk(client, tmp_path)
    double.script = [
        Answer(chat_body("I look.", [bash("call_A", "echo a"), bash("call_B", "touch b")])),
        Answer({"error": {"message": "slow down", "type": "rate_limit_error"}}, 429, {"retry-after": "0"}),
        Answer(chat_body("Done.")),
    ]
    settings = {"model": "openai/gpt-4o-mini", "apiBase": f"{double.url}/v1", "stream": False}
    opened = await client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
    shown = await desk.step(opened, "Look around.")
    first, second = pending(shown)
    assert (first["toolCallId"], second["toolCallId"]) == ("call_A", "call_B")
    params = {
        "sessionId": shown["sessionId"],
        "decisions": [decision(first), decision(second, "reject", reason="not in this folder")],
    }
    ended = await desk.rest(await client.ask("handrail/session/decide", params))
    assert (ended["stopReason"], ended["step"]["text"]) == ("end_turn", "Done.")
    assert not (desk.workspace / "b").exists()
    assert len(double.requests) == 3, "one retry, and litellm's own retries are off"
    body = double.bodies[-1]
    strict.check("chat", body)
    (id_a, told_a), (id_b, told_b) = results(body)
    assert (id_a, id_b) == ("call_A", "call_B")
    assert told_a.endswith("<output>\na\n</output>")
    assert "not in this folder" in told_b
    assert ended["usage"]["costKnown"]
    assert ended["usage"]["cost"] > 0
    assert ended["usage"]["contextWindow"] > 0
    double.script = [
        EventStream(
            [
                chunk({"role": "assistant", "content": ""}),
                *(chunk({"content": piece}) for piece in ("Still ", "here.")),
                chunk({}, "stop"),
                {**chunk({}), "choices": [], "usage": USAGE},
                "[DONE]",
            ],
        ),
    ]
    await client.ask("handrail/session/configure", {"sessionId": ended["sessionId"], "settings": {"stream": True}})
    again = await desk.step(ended, "Still there?")
    assert again["step"]["text"] == "Still here."
