"""The whole server over the wire, in one process: every method, and every refusal with its code and sentence."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_core.settings import RuleSettings
from server.app import create
from server.registry import layered_settings
from tests.core.replies import bash, chat_body, chat_call
from tests.server.conftest import ANNOUNCED, Desk, decision, pending
from tests.server.raw_client import loopback
from tests.wire.chat_bodies import USAGE, chunk

DONE = chat_body("Done.")


async def test_a_turn_over_the_wire(desk: Desk) -> None:
    shown = await desk.waiting("echo hi > made; cat made")
    assert shown["state"] == "awaiting_approval"
    (call,) = pending(shown)
    assert call["command"] == call["display"] == "echo hi > made; cat made"
    assert (call["toolCallId"], call["position"], call["count"]) == ("c0", 1, 1)
    assert call["cwd"] == desk.cwd
    assert call["shell"].endswith("bash")
    assert call["verdict"]["decision"] == "ask"
    assert call["analysis"]["writes"] == ["made"]
    ended = await desk.decide(shown)
    assert (ended["state"], ended["stopReason"]) == ("idle", "end_turn")
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    assert page["total"] == 2
    first, last = page["steps"]
    assert first["calls"][0]["status"] == "completed"
    assert first["calls"][0]["result"]["outputTail"] == "hi\n"
    assert first["calls"][0]["decidedBy"] == "person"
    assert last["text"] == "Done."
    assert first["said"] == [{"origin": "prompt", "text": "Go."}]


async def test_ap_31_the_pending_call_shows_what_would_run(desk: Desk) -> None:
    shown = await desk.waiting("true", command={"env": {"EXTRA": "1"}, "timeout": 7})
    (call,) = pending(shown)
    assert (call["addedEnvironment"], call["timeout"], call["sandbox"]) == (["EXTRA"], 7, "off")
    assert len(call["digest"]) == 64


async def test_ap_28_ap_29_hostile_and_long_texts_are_shown_and_counted(desk: Desk) -> None:
    hostile = "echo a\u202etxt.exe\u202c \u200b \x1b[2K\U000e0100"
    long = "ls" + "\n" * 300 + "touch pwned"
    first, second = pending(await desk.waiting(hostile, long))
    assert first["command"] == hostile
    assert "<U+202E>" in first["display"]
    assert "\u202e" not in first["display"]
    assert any("U+202E" in warning for warning in first["warnings"])
    assert (second["lineCount"], second["characterCount"], second["long"]) == (301, len(long), True)
    assert second["command"] == long


async def test_updates_carry_every_state_of_a_call(desk: Desk) -> None:
    """CX-10: whatever was announced gets one final state."""
    await desk.decide(await desk.waiting("true", "false"))
    seen: dict[str, list[str]] = {}
    for message in desk.client.received:
        if message.get("method") == "handrail/session/didUpdate":
            for call in message["params"].get("step", {}).get("calls", []):
                seen.setdefault(call["callId"], []).append(call["status"])
    assert [statuses[-1] for statuses in seen.values()] == ["completed", "completed"]


async def test_output_is_streamed_with_offsets(desk: Desk) -> None:
    shown = await desk.waiting("printf 'one '; sleep 0.2; printf 'two'")
    await desk.decide(shown)
    pieces = [m["params"] for m in desk.client.received if m.get("method") == "handrail/session/didStream"]
    output = [each for each in pieces if each["channel"] == "output"]
    assert "".join(each["text"] for each in output).startswith("one ")
    assert output[0]["offset"] == 0
    assert {each["callId"] for each in output} == {pending(shown)[0]["callId"]}


REFUSALS: list[tuple[str, dict[str, Any], int, str]] = [
    ("session/get", {"sessionId": "nope"}, 1002, "load it first"),
    ("session/load", {"sessionId": "nope"}, 1002, "no session 'nope'"),
    ("session/get", {}, -32602, "sessionId"),
    ("session/get", {"sessionId": 7}, -32602, "sessionId"),
    ("session/new", {"cwd": "relative"}, -32602, "file URI"),
    ("session/new", {"cwd": "file:///nowhere/at/all"}, 1004, "no folder"),
    ("session/new", {"cwd": "CWD", "settings": {"modle": "x"}}, 1004, "or 'model'?"),
    ("session/new", {"cwd": "CWD"}, 1004, "No model is chosen"),
    ("session/new", {"cwd": "CWD", "settings": {"replay": "/nowhere.json"}}, 1004, "/nowhere.json"),
    ("session/new", {"cwd": "CWD", "settings": {"model": "m", "dialect": "morse"}}, 1004, "dialect"),
]


@pytest.mark.parametrize(("method", "params", "code", "told"), REFUSALS)
async def test_ls_04_refusals_name_the_thing(desk: Desk, method: str, params: Any, code: int, told: str) -> None:
    params = {name: desk.cwd if value == "CWD" else value for name, value in params.items()}
    error = await desk.client.fail(f"handrail/{method}", params)
    assert error["code"] == code
    assert told in json.dumps(error, ensure_ascii=False)


async def test_a_bad_template_is_refused_when_the_session_opens(desk: Desk) -> None:
    settings = {"replay": desk.tape(DONE), "templates": {"observation": "{{ outptu }}"}}
    error = await desk.client.fail("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
    assert error["code"] == 1004
    assert "`observation`" in error["message"]
    assert "outptu" in error["message"]


async def test_a_step_while_working_is_illegal_and_names_the_state(desk: Desk) -> None:
    shown = await desk.waiting("sleep 5")
    params = {"sessionId": shown["sessionId"], "decisions": [decision(call) for call in pending(shown)]}
    await desk.client.ask("handrail/session/decide", params)
    error = await desk.client.fail("handrail/session/step", {"sessionId": shown["sessionId"], "prompt": "More."})
    assert (error["code"], error["data"]["state"]) == (1001, "executing")
    await desk.client.ask("handrail/session/cancel", {"sessionId": shown["sessionId"]})


@pytest.mark.parametrize(
    "decision_params",
    [None, False, {}, {"decision": "yes"}, {"callId": "1.1", "decision": "approve"}],
)
async def test_ap_22_an_answer_that_is_none_runs_nothing(desk: Desk, decision_params: Any) -> None:
    shown = await desk.waiting("touch f")
    params = {"sessionId": shown["sessionId"], "decisions": [decision_params]}
    assert (await desk.client.fail("handrail/session/decide", params))["code"] == -32602
    assert (await desk.get(shown))["pending"] == shown["pending"]
    assert not (desk.workspace / "f").exists()


async def test_ap_19_ap_20_stale_decisions_are_refused_by_name(desk: Desk) -> None:
    shown = await desk.waiting("echo x >> log")
    (call,) = pending(shown)
    stale = [decision({**call, "callId": "0.0"}), decision({**call, "digest": "0" * 64})]
    for each in stale:
        params = {"sessionId": shown["sessionId"], "decisions": [each]}
        assert (await desk.client.fail("handrail/session/decide", params))["code"] == 1003
    await desk.decide(shown)
    params = {"sessionId": shown["sessionId"], "decisions": [decision(call)]}
    error = await desk.client.fail("handrail/session/decide", params)
    assert error["code"] == 1003
    assert "completed" in error["message"]
    assert (desk.workspace / "log").read_text() == "x\n"


async def test_an_edit_is_judged_and_a_denied_one_decides_nothing(desk: Desk) -> None:
    rules = [{"match": ["rm"], "decision": "deny", "why": "never here"}]
    shown = await desk.waiting("ls", rules=rules)
    (call,) = pending(shown)
    params = {
        "sessionId": shown["sessionId"],
        "decisions": [decision(call, "approve_edited", command="rm -r x")],
    }
    error = await desk.client.fail("handrail/session/decide", params)
    assert (error["code"], "never here" in error["message"]) == (1003, True)
    assert (await desk.get(shown))["pending"] == shown["pending"]


async def test_ap_21_a_client_without_approvals_gets_a_refusal_and_no_hang(environment: Path) -> None:
    async with loopback(create("test")) as client:
        await client.initialize()
        desk = Desk(client, environment)
        ended = await desk.waiting("touch f")
        assert ended["stopReason"] == "end_turn"
        page = await client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
        assert page["steps"][0]["calls"][0]["reason"] == "no_approval_possible"
        assert not (desk.workspace / "f").exists()


async def test_waiting_is_a_read_and_its_cancel_changes_nothing(desk: Desk) -> None:
    """CX-08."""
    shown = await desk.waiting("true")
    identity = await desk.client.request(
        "handrail/session/wait", {"sessionId": shown["sessionId"], "after": shown["revision"]}
    )
    await desk.client.notify("$/cancelRequest", {"id": identity})
    assert (await desk.client.answer(identity))["error"]["code"] == -32800
    assert (await desk.decide(shown))["stopReason"] == "end_turn"


async def test_cx_07_cancelling_what_is_over_is_no_error(desk: Desk) -> None:
    ended = await desk.decide(await desk.waiting("true"))
    for _ in range(2):
        again = await desk.client.ask("handrail/session/cancel", {"sessionId": ended["sessionId"]})
        assert (again["state"], again["stopReason"]) == ("idle", "end_turn")
    await desk.client.ask("handrail/session/cancel", {"sessionId": ended["sessionId"], "callId": "9.9"})


async def test_a_session_survives_its_server(desk: Desk, environment: Path) -> None:
    shown = await desk.waiting("echo later")
    listed = await desk.client.ask("handrail/session/list", {"cwd": desk.cwd})
    assert [each["title"] for each in listed["sessions"]] == ["Go."]
    line = listed["sessions"][0]
    assert (line["state"], line["model"], line["pending"]) == ("awaiting_approval", "m", 1)
    async with loopback(create("test")) as other:
        await other.initialize(handrail=ANNOUNCED)
        held = await other.fail("handrail/session/load", {"sessionId": shown["sessionId"]})
        assert held["code"] == 1005
        assert "process" in held["message"]
        await desk.client.ask("handrail/session/close", {"sessionId": shown["sessionId"]})
        loaded = await other.ask("handrail/session/load", {"sessionId": shown["sessionId"]})
        assert [call["digest"] for call in pending(loaded)] == [call["digest"] for call in pending(shown)]
        ended = await Desk(other, environment).decide(loaded)
        assert ended["stopReason"] == "end_turn"


async def test_analyze_export_health_delete(desk: Desk) -> None:
    ended = await desk.decide(await desk.waiting("true"))
    session = {"sessionId": ended["sessionId"]}
    analysis = await desk.client.ask("handrail/command/analyze", {**session, "command": "cat a > b", "cwd": desk.cwd})
    assert (analysis["understood"], analysis["writes"]) == (False, ["b"])
    alone = await desk.client.ask("handrail/command/analyze", {"command": "ls", "cwd": desk.cwd})
    assert alone["verdict"]["decision"] == "ask"
    for form in ("handrail", "mini-swe-agent-1.1"):
        exported = json.loads((await desk.client.ask("handrail/session/export", {**session, "format": form}))["text"])
        assert exported
    assert [each["role"] for each in exported["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "exit",
    ]
    health = await desk.client.ask("handrail/server/health", {})
    assert {"bash", "state folder", "model"} <= {each["name"] for each in health["checks"]}
    await desk.client.ask("handrail/session/delete", session)
    assert (await desk.client.ask("handrail/session/list", {}))["sessions"] == []
    assert (await desk.client.fail("handrail/session/load", session))["code"] == 1002


async def test_a_prompt_is_queued_and_can_be_taken_back(desk: Desk) -> None:
    shown = await desk.waiting("true")
    session = {"sessionId": shown["sessionId"]}
    await desk.client.ask("handrail/session/queue", {**session, "prompt": "and this"})
    queued = (await desk.client.ask("handrail/session/queue", {**session, "prompt": "and that"}))["queued"]
    assert [each["prompt"] for each in queued] == ["and this", "and that"]
    left = await desk.client.ask("handrail/session/queue", {**session, "withdraw": queued[0]["promptId"]})
    assert [each["prompt"] for each in left["queued"]] == ["and that"]
    again = await desk.client.fail("handrail/session/queue", {**session, "withdraw": queued[0]["promptId"]})
    assert again["code"] == 1001
    await desk.decide(shown)
    page = await desk.client.ask("handrail/session/transcript", session)
    assert page["steps"][1]["said"] == [{"origin": "prompt", "text": "and that"}]


async def test_a_persons_own_command_is_shown_apart_from_the_models_step(desk: Desk) -> None:
    ended = await desk.decide(await desk.waiting("true"))
    ran = await desk.client.ask("handrail/session/run", {"sessionId": ended["sessionId"], "command": "echo mine"})
    shown = await desk.rest(ran)
    assert shown["personCommand"]["result"]["outputTail"] == "mine\n"
    assert shown["personCommand"]["decidedBy"] == "person"
    assert shown["step"]["text"] == "Done."
    assert shown["stopReason"] == "end_turn"


async def test_an_untrusted_folder_runs_nothing(desk: Desk) -> None:
    shown = await desk.waiting("touch f")
    await desk.client.notify("handrail/workspace/didChangeTrust", {"folder": desk.cwd, "trusted": False})
    async with asyncio.timeout(5):
        while (now := await desk.get(shown))["state"] != "idle":
            await asyncio.sleep(0.01)
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": now["sessionId"]})
    assert page["steps"][0]["calls"][0]["reason"] == "workspace_untrusted"


async def test_unknown_initialization_options_are_refused_with_the_nearest_name(environment: Path) -> None:
    async with loopback(create("test")) as client:
        params = {"processId": None, "rootUri": None, "capabilities": {}, "initializationOptions": {"mdoel": "x"}}
        error = await client.fail("initialize", params)
        assert error["code"] == 1004
        assert "did you mean 'model'" in error["message"]


async def test_the_users_file_and_the_clients_options_are_layered(environment: Path) -> None:
    (environment / "config.toml").write_text('mode = "rules"\n[limits]\nmax_steps = 3\n')
    async with loopback(create("test")) as client:
        params = {
            "processId": None,
            "rootUri": None,
            "capabilities": {"experimental": {"handrail": ANNOUNCED}},
            "initializationOptions": {"rules": [{"match": ["true"], "decision": "allow"}], "limits": {"maxRepeats": 2}},
        }
        await client.ask("initialize", params)
        await client.notify("initialized")
        desk = Desk(client, environment)
        ended = await desk.step(await desk.new(chat_body("x", [bash("c", "true")]), DONE), "Go.")
        assert (ended["mode"], ended["stopReason"]) == ("rules", "end_turn")


async def test_the_users_file_takes_names_as_the_table_shows_them_and_as_toml_files_write_them(desk: Desk) -> None:
    text = '[limits]\n{} = 3\n[command]\nenv = {{ maxSteps = "kept" }}\n[[rules]]\nmatch = ["ls"]\n'
    text += 'decision = "allow"\nexamples = {{ {} = ["cat"] }}\n'
    for names in (("maxSteps", "noMatch"), ("max_steps", "no_match")):
        (desk.folder / "config.toml").write_text(text.format(*names))
        settings = layered_settings({"HANDRAIL_CONFIG": str(desk.folder / "config.toml")}, {}, {})
        assert (settings.limits.max_steps, settings.command.env) == (3, {"maxSteps": "kept"})
        assert isinstance(settings.rules[0], RuleSettings)
        assert settings.rules[0].examples.no_match == ["cat"]
    (desk.folder / "config.toml").write_text("[limits]\nmax_steps = 3\nmaxSteps = 4\n")
    error = await desk.client.fail("handrail/session/new", {"cwd": desk.cwd})
    assert "`maxSteps` is set twice" in error["message"]


async def test_a_broken_settings_file_is_named_with_its_line(desk: Desk) -> None:
    (desk.folder / "config.toml").write_text('mode = "ask"\nmodel =\n')
    error = await desk.client.fail("handrail/session/new", {"cwd": desk.cwd})
    assert error["code"] == 1004
    assert "config.toml" in error["message"]
    assert "line 2" in error["message"]


async def test_malformed_replies_end_in_words_not_tracebacks(desk: Desk) -> None:
    bad = chat_body(None, [chat_call("c1", "{", name="python")])
    ended = await desk.step(await desk.new(bad, bad, bad), "Go.")
    assert ended["stopReason"] == "format_errors"
    assert "Traceback" not in json.dumps(ended)
    assert {call["status"] for call in ended["step"]["calls"]} == {"failed"}


async def test_a_tape_that_ends_says_so(desk: Desk) -> None:
    ended = await desk.step(await desk.new(), "Go.")
    assert ended["stopReason"] == "model_error"
    assert ended["error"]["kind"] == "tape"


async def test_what_the_editor_gives_with_a_prompt_is_told_to_the_model_and_not_shown_as_said(desk: Desk) -> None:
    session = await desk.new(DONE)
    params = {
        "sessionId": session["sessionId"],
        "prompt": "Repair it.",
        "context": [
            {"kind": "selection", "uri": f"{desk.cwd}/a.py", "firstLine": 2, "lastLine": 3, "text": "x = 1"},
            {"kind": "file", "uri": "untitled:One"},
        ],
    }
    await desk.rest(await desk.client.ask("handrail/session/step", params))
    export = {"sessionId": session["sessionId"], "format": "mini-swe-agent-1.1"}
    text = (await desk.client.ask("handrail/session/export", export))["text"]
    assert "Selected in a.py, lines 2 to 3:" in text
    assert "Open in untitled:One." in text
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": session["sessionId"]})
    assert page["steps"][0]["said"] == [{"origin": "prompt", "text": "Repair it."}]


async def test_malformed_context_is_refused_by_name(desk: Desk) -> None:
    session = await desk.new(DONE)
    params = {"sessionId": session["sessionId"], "prompt": "Go.", "context": [{"kind": "clipboard"}]}
    error = await desk.client.fail("handrail/session/step", params)
    assert error["code"] == -32602
    assert "context.0.kind" in error["message"]


async def test_files_that_a_command_changed_are_listed_with_its_result(desk: Desk) -> None:
    (desk.workspace / "a").write_text("one")
    (desk.workspace / "b").write_text("one")
    ended = await desk.decide(await desk.waiting("echo two > a; rm b; mkdir d; echo 'x' > 'd/new file'", "true"))
    page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
    changed, nothing = [call["result"].get("changedFiles", []) for call in page["steps"][0]["calls"]]
    assert changed == [f"{desk.cwd}/a", f"{desk.cwd}/b", f"{desk.cwd}/d/new%20file"]
    assert nothing == []


def streamed(text: str, command: str) -> dict[str, Any]:
    """Return a frame of a tape whose reply was streamed."""
    call = {**bash("c", command), "index": 0} if command else None
    delta = {"role": "assistant", "content": text, **({"tool_calls": [call]} if call else {})}
    events = [chunk(delta), chunk({}, "tool_calls" if call else "stop"), {**chunk({}), "choices": [], "usage": USAGE}]
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"
    return {"$frame": {"kind": "sse"}, "body_text": body}


async def test_a_new_step_never_shows_the_text_of_the_one_before(desk: Desk) -> None:
    frames = [streamed(f"This is the long text of reply {i}.", f"echo {i}") for i in range(3)]
    settings = {"mode": "rules", "rules": [{"match": ["echo"], "decision": "allow"}]}
    await desk.step(await desk.new(*frames, streamed("End.", ""), **settings), "Go.")
    updates = [m["params"] for m in desk.client.received if m.get("method") == "handrail/session/didUpdate"]
    texts = {1: "reply 0", 2: "reply 1", 3: "reply 2", 4: "End."}
    shown = [(each["step"]["index"], each["step"].get("text", "")) for each in updates if "step" in each]
    assert {index for index, _ in shown} == set(texts)
    assert [(index, text) for index, text in shown if text and texts[index] not in text] == []
