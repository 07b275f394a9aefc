"""Settings over the whole way: what a client sends with `session/new` is what the provider and the turn see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from tests.core.replies import bash, chat_body
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import loopback
from tests.wire.double import Answer, ProviderDouble

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
PIXEL = "iVBORw0KGgo="
MARKED = f"<MSWEA_MULTIMODAL_CONTENT><CONTENT_TYPE>image_url</CONTENT_TYPE>data:image/png;base64,{PIXEL}"


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


async def opened(desk: Desk, **settings: Any) -> dict[str, Any]:
    session = await desk.client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
    assert isinstance(session, dict)
    return session


async def refusal(desk: Desk, **settings: Any) -> str:
    error = await desk.client.fail("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
    assert error["code"] == 1004
    return str(error["message"])


@pytest.mark.timeout(180)
async def test_what_is_set_reaches_the_provider(desk: Desk, tmp_path: Path) -> None:
    """`modelOptions` as given, `models` in turn, images where they are switched on, and a price of one's own."""
    prices = tmp_path / "prices.json"
    price = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.002, "max_input_tokens": 4321}
    prices.write_text(json.dumps({"openai/small": price, "openai/large": price}))
    options = {
        "temperature": 0.25,
        "reasoning_effort": "low",
        "num_ctx": 2048,
        "extra_headers": {"X-Team": "rails"},
    }
    shown = f"printf '%s' 'see {MARKED}</MSWEA_MULTIMODAL_CONTENT>'"
    async with ProviderDouble([Answer(chat_body(None, [bash("c1", shown)])), Answer(chat_body("A dot."))]) as double:
        session = await opened(
            desk,
            models=["openai/small", "openai/large"],
            apiBase=f"{double.url}/v1",
            modelOptions=json.dumps(options),
            priceFile=str(prices),
            images=True,
            stream=False,
            mode="trusted",
            maxTokens=77,
        )
        ended = await desk.step(session, "Look at it.")
        first, second = double.requests
    assert ended["stopReason"] == "end_turn", ended
    assert [first.body["model"], second.body["model"]] == ["small", "large"]
    sent = {name: first.body[name] for name in ("temperature", "reasoning_effort", "num_ctx")}
    assert sent == {name: options[name] for name in sent}
    assert first.headers["x-team"] == "rails"
    assert 77 in (first.body.get("max_tokens"), first.body.get("max_completion_tokens"))
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    assert image in second.body["messages"][-1]["content"], "in a user message after the result"
    assert ended["usage"]["cost"] == pytest.approx(2 * (11 * 0.001 + 7 * 0.002))
    assert ended["usage"]["contextWindow"] == 4321


@pytest.mark.timeout(180)
async def test_attempts_are_counted_and_offline_is_an_error_of_its_own(desk: Desk) -> None:
    async with ProviderDouble([Answer({"error": {"message": "busy"}}, 529, {"retry-after": "0"})] * 9) as double:
        settings = {"model": "openai/small", "apiBase": f"{double.url}/v1", "stream": False}
        session = await opened(desk, **settings, limits={"maxAttempts": 2})
        ended = await desk.step(session, "Go.")
        assert (ended["stopReason"], ended["error"]["kind"]) == ("model_error", "overloaded")
        assert len(double.requests) == 2


async def test_offline_forbids_every_live_call(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_OFFLINE", "1")
    async with loopback(create("test")) as client, ProviderDouble() as double:
        await client.initialize(handrail=ANNOUNCED)
        offline = Desk(client, desk.folder)
        session = await opened(offline, model="openai/small", apiBase=f"{double.url}/v1")
        ended = await offline.step(session, "Go.")
        assert double.requests == []
    assert (ended["stopReason"], ended["error"]["kind"]) == ("model_error", "offline")
    assert "HANDRAIL_OFFLINE is set" in ended["error"]["message"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ('{\n "m": {\n  "input_cost_per_token": 1,\n }\n}', "line 4"),
        ('{\n "m": {},\n "n": {"input_cost_per_token": "1$"}\n}', "line 3: n: input_cost_per_token"),
    ],
)
async def test_a_price_file_is_refused_with_its_path_and_line(
    desk: Desk, tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "prices.json"
    if text is not None:
        path.write_text(text)
    told = await refusal(desk, model="openai/small", priceFile=str(path))
    assert str(path) in told
    assert words in told


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modelOptions": "{"}, "modelOptions"),
        ({"modelOptions": "[1]"}, "model_options"),
        ({"caBundle": "/nowhere.pem"}, "caBundle: /nowhere.pem cannot be used"),
        ({"replay": "/nowhere.json"}, "The tape /nowhere.json cannot be read"),
        ({"record": "/nowhere/tape.json"}, "The tape /nowhere/tape.json cannot be written"),
        ({"model": ""}, "No model is chosen"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_refused_when_the_session_opens(
    desk: Desk, settings: dict[str, Any], words: str
) -> None:
    assert words in await refusal(desk, **{"model": "openai/small", **settings})


def steps(count: int, command: str = "echo {}") -> list[dict[str, Any]]:
    return [chat_body(None, [bash(f"c{number}", command.format(number))]) for number in range(count)]


def priced(count: int) -> list[dict[str, Any]]:
    return [{"$frame": {"expect": {"usage": {"cost": 0.5}}}, "body": body} for body in steps(count)]


@pytest.mark.parametrize(
    ("limits", "frames", "stop", "count"),
    [
        ({"maxSteps": 3}, steps(9), "max_steps", 3),
        ({"maxCost": 1.0}, priced(9), "cost_limit", 2),
        ({"maxSeconds": 0.05}, steps(9, "sleep 0.1; echo {}"), "time_limit", 1),
        ({"maxFormatErrors": 2}, [chat_body(None, [bash(f"c{n}", "")]) for n in range(9)], "format_errors", 2),
        ({"maxRepeats": 4}, steps(9, "echo same"), "max_repeats", 4),
        ({"maxTurnTokens": 50}, steps(9), "max_tokens", 3),
    ],
)
async def test_each_limit_is_a_setting_and_has_its_stop_reason(
    desk: Desk, limits: dict[str, Any], frames: list[dict[str, Any]], stop: str, count: int
) -> None:
    session = await desk.new(*frames, limits=limits, mode="trusted")
    ended = await desk.step(session, "Go.")
    assert (ended["stopReason"], ended["steps"]) == (stop, count)


async def test_rejections_without_a_reason_are_a_limit_too(desk: Desk) -> None:
    session = await desk.new(*steps(9, "touch {}"), limits={"maxRejections": 2})
    shown = await desk.step(session, "Go.")
    again = await desk.decide(shown, "reject")
    ended = await desk.decide(again, "reject")
    assert (ended["stopReason"], ended["steps"]) == ("max_rejections", 2)


async def test_a_submission_ends_the_turn_and_is_exported(desk: Desk) -> None:
    frames = [chat_body("I am done."), chat_body(None, [bash("c1", f"{SUBMIT}; echo the patch")])]
    session = await desk.new(*frames, completion="submit", mode="trusted")
    ended = await desk.step(session, "Go.")
    assert (ended["stopReason"], ended["steps"]) == ("submitted", 2)
    params = {"sessionId": ended["sessionId"], "format": "mini-swe-agent-1.1"}
    trajectory = json.loads((await desk.client.ask("handrail/session/export", params))["text"])
    assert (trajectory["info"]["exit_status"], trajectory["info"]["submission"]) == ("submitted", "the patch\n")


async def test_the_text_dialect_is_spoken_where_it_is_set(desk: Desk) -> None:
    block = "I look.\n```bash-run\necho seen\n```"
    tape = desk.folder / "text.json"
    frames = [chat_body(block), chat_body("Done.")]
    tape.write_text(json.dumps({"model": "m", "recorded_at": "2026-01-01", "dialect": "text", "frames": frames}))
    session = await opened(desk, replay=str(tape), dialect="text", mode="trusted")
    ended = await desk.step(session, "Go.")
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    assert page["steps"][0]["calls"][0]["result"]["outputTail"] == "seen\n"
