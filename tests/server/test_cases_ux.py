"""Cases of what a person sees, as far as the server is answerable: reasons, positions, and what an answer never is."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from server.app import create
from server.protocol import PROTOCOL_VERSION, words
from tests.core.replies import bash, chat_body, chat_call
from tests.server.conftest import Desk, decision, pending
from tests.server.raw_client import loopback

DONE = chat_body("Done.")
ONE = chat_body("x", [bash("c1", "touch made")])


async def reject(desk: Desk) -> dict[str, Any]:
    return await desk.decide(await desk.step(await desk.new(ONE, DONE), "Go.", 1), "reject")


async def stop(desk: Desk) -> dict[str, Any]:
    return await desk.decide(await desk.step(await desk.new(ONE, DONE), "Go.", 1), "stop")


async def deny_rule(desk: Desk) -> dict[str, Any]:
    rules = [{"match": ["touch"], "decision": "deny", "why": "Touch nothing."}]
    return await desk.step(await desk.new(ONE, DONE, rules=rules), "Go.", 1)


async def plan(desk: Desk) -> dict[str, Any]:
    return await desk.step(await desk.new(ONE, DONE, mode="plan"), "Go.", 1)


async def expire(desk: Desk) -> dict[str, Any]:
    shown = await desk.step(await desk.new(ONE, DONE, approvalTimeout=0.2), "Go.", 1)
    params = {"sessionId": shown["sessionId"], "after": shown["revision"]}
    return dict(await desk.client.ask("handrail/session/wait", params))


async def distrust(desk: Desk) -> dict[str, Any]:
    await desk.client.notify("handrail/workspace/didChangeTrust", {"folder": desk.cwd, "trusted": False})
    return await desk.step(await desk.new(ONE, DONE), "Go.", 1)


async def cancel(desk: Desk) -> dict[str, Any]:
    shown = await desk.step(await desk.new(ONE, DONE), "Go.", 1)
    return await desk.rest(await desk.client.ask("handrail/session/cancel", {"sessionId": shown["sessionId"]}))


async def malformed(desk: Desk) -> dict[str, Any]:
    body = chat_body("x", [chat_call("c1", "{"), bash("c2", "touch made")])
    return await desk.step(await desk.new(body, DONE), "Go.", 1)


WAYS: dict[str, tuple[Callable[[Desk], Awaitable[dict[str, Any]]], list[str]]] = {
    "reject": (reject, ["rejected_by_person"]),
    "stop": (stop, ["stopped_by_person"]),
    "deny rule": (deny_rule, ["denied_by_rule"]),
    "plan": (plan, ["plan_mode"]),
    "expiry": (expire, ["approval_expired"]),
    "distrust": (distrust, ["workspace_untrusted"]),
    "cancel": (cancel, ["cancelled"]),
    "malformed": (malformed, ["format_error", "batch_refused"]),
}
DOCUMENTED = {word for each in words.Reason.__metadata__ for word in getattr(each, "meanings", {})}  # type: ignore[attr-defined]


async def told(desk: Desk, snapshot: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return for each call its reason, the person's line, and what the model is told."""
    session = {"sessionId": snapshot["sessionId"]}
    page = await desk.client.ask("handrail/session/transcript", session)
    text = (await desk.client.ask("handrail/session/export", {**session, "format": "mini-swe-agent-1.1"}))["text"]
    observed = [each["content"] for each in json.loads(text)["messages"] if each["role"] == "tool"]
    calls = page["steps"][0]["calls"]
    lines = [call.get("result", {}).get("error", "") for call in calls]
    return list(zip([call["reason"] for call in calls], lines, observed, strict=True))


@pytest.mark.parametrize("way", WAYS)
async def test_ux_07_whatever_is_not_run_has_one_line_with_its_reason_for_person_and_model(
    desk: Desk, way: str
) -> None:
    act, reasons = WAYS[way]
    seen = await told(desk, await act(desk))
    assert [reason for reason, _, _ in seen] == reasons
    for reason, line, observed in seen:
        assert reason in DOCUMENTED
        assert line
        assert "\n" not in line
        assert reason in ("format_error", "batch_refused") or line in observed
        assert observed
    assert not (desk.workspace / "made").exists()


async def test_ux_07_a_client_that_cannot_show_approvals_is_told_why_nothing_runs(environment: Path) -> None:
    async with loopback(create("test")) as client:
        await client.initialize(handrail={"protocolVersion": PROTOCOL_VERSION, "approvals": False})
        desk = Desk(client, environment)
        ((reason, line, observed),) = await told(desk, await desk.step(await desk.new(ONE, DONE), "Go.", 1))
    assert reason == "no_approval_possible"
    assert line in observed
    assert not (desk.workspace / "made").exists()


async def test_ux_04_each_call_of_a_batch_has_its_place_and_its_own_result(desk: Desk) -> None:
    shown = await desk.waiting("echo one", "echo two", "echo three")
    assert [(call["position"], call["count"]) for call in pending(shown)] == [(1, 3), (2, 3), (3, 3)]
    ended = await desk.decide(shown)
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    seen = [(call["command"], call["result"]["outputTail"]) for call in page["steps"][0]["calls"]]
    assert seen == [("echo one", "one\n"), ("echo two", "two\n"), ("echo three", "three\n")]


@pytest.mark.parametrize("answer", ["dismissed", "", "yes", "deny", True, None])
async def test_ux_01_what_is_no_decision_decides_nothing_and_the_call_waits_on(desk: Desk, answer: object) -> None:
    shown = await desk.waiting("touch made")
    (call,) = pending(shown)
    decided = {"callId": call["callId"], "digest": call["digest"], "decision": answer}
    error = await desk.client.fail("handrail/session/decide", {"sessionId": shown["sessionId"], "decisions": [decided]})
    assert error["code"] == -32602
    assert error["data"]["problems"][0]["field"].startswith("decisions.0.decision")
    now = await desk.get(shown)
    assert (now["revision"], now["pending"]) == (shown["revision"], shown["pending"])
    assert not (desk.workspace / "made").exists()


@pytest.mark.parametrize("how", ["reject", "stop", "cancel"])
async def test_ux_02_ls_15_an_approval_that_is_over_is_withdrawn_by_an_update(desk: Desk, how: str) -> None:
    shown = await desk.waiting("touch made")
    if how == "cancel":
        await desk.rest(await desk.client.ask("handrail/session/cancel", {"sessionId": shown["sessionId"]}))
    else:
        (call,) = pending(shown)
        params = {"sessionId": shown["sessionId"], "decisions": [decision(call, how, reason="not now")]}
        await desk.rest(await desk.client.ask("handrail/session/decide", params))
    await desk.get(shown)
    updates = [m["params"] for m in desk.client.received if m.get("method") == "handrail/session/didUpdate"]
    later = [each for each in updates if each["revision"] > shown["revision"]]
    assert later
    assert all(shown["pending"][0] not in each.get("pending", []) for each in later)


async def test_ux_05_all_of_a_long_command_is_there_to_be_shown(desk: Desk) -> None:
    command = "\n".join(f"echo {n}" for n in range(400))
    (call,) = pending(await desk.waiting(command))
    assert (call["command"], call["display"], call["lineCount"], call["long"]) == (command, command, 400, True)
