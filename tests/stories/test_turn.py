"""Whole turns through the real core: what the model is sent next, what ran, what a person sees. Names hold case ids."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_core.errors import JournalError, ProviderFailure, StaleDecision, UsageError
from agent_core.machine import State
from agent_core.session import Session
from agent_core.types import CallStatus, FailureKind, Reason, StopReason
from server import convert
from tests.core.replies import bash, chat_body, chat_call
from tests.stories.conftest import Story, approve_all, decide, decision, go, rest, waiting
from tests.stories.scripted import never

DONE = chat_body("Done.")


def results(story: Story) -> list[tuple[str, str]]:
    """Return id and text of the tool messages of the newest request."""
    return [(each["tool_call_id"], each["content"]) for each in story.script.messages if each["role"] == "tool"]


def call_ids(story: Story) -> list[str]:
    """Return the ids of the calls in the newest request."""
    return [call["id"] for each in story.script.messages for call in each.get("tool_calls") or ()]


def stop_of(session: Session) -> str:
    """Return why the session rests."""
    return str(session.machine.record.stop)


def output(text: str) -> str:
    return f"<returncode>0</returncode>\n<output>\n{text}\n</output>"


async def test_prompt_approval_command_result_end(story: Story) -> None:
    session = await story.open(chat_body("I look.", [bash("c1", "echo hi")]), DONE)
    await go(session, "Say hi.")
    assert session.state is State.AWAITING_APPROVAL
    await approve_all(session)
    assert session.machine.record.stop is StopReason.END_TURN
    assert results(story) == [("c1", output("hi"))]
    assert [each["role"] for each in story.script.messages] == ["system", "user", "assistant", "tool"]
    assert story.script.messages[2]["content"] == "I look."


async def test_id_01_empty_ids_become_own_ones(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("", "echo one"), bash(None, "echo two")]), DONE)
    await go(session)
    await approve_all(session)
    ids = call_ids(story)
    assert len(set(ids)) == 2
    assert all(ids)
    assert results(story) == [(ids[0], output("one")), (ids[1], output("two"))]


async def test_id_02_a_repeated_id_keeps_both_results(story: Story) -> None:
    (story.workspace / "a.txt").write_text("AAA\n")
    (story.workspace / "b.txt").write_text("BBB\n")
    calls = [bash("call_a", "cat a.txt"), bash("call_a", "cat b.txt")]
    session = await story.open(chat_body(None, calls), chat_body(None, [bash("c3", "true")]), DONE)
    await go(session)
    await approve_all(session)
    first, second = call_ids(story)[:2]
    assert first != second
    assert results(story)[:2] == [(first, output("AAA")), (second, output("BBB"))]
    ids_before = [call["id"] for call in story.script.requests[1]["messages"][2]["tool_calls"]]
    assert ids_before == [first, second], "the same ids at every rebuild"


async def test_id_13_results_are_in_the_models_order(story: Story) -> None:
    calls = [bash("A", "echo a"), bash("B", "echo b"), bash("C", "echo c")]
    session = await story.open(chat_body(None, calls), DONE)
    await go(session)
    a, b, c = waiting(session)
    for call in (c, a, b):
        await decide(session, decision(call))
    assert results(story) == [("A", output("a")), ("B", output("b")), ("C", output("c"))]


@pytest.mark.parametrize("arguments", ["", "   ", None, "{}"])
async def test_pa_01_empty_arguments(story: Story, arguments: Any) -> None:
    session = await story.open(chat_body(None, [chat_call("c1", arguments)]), DONE)
    await go(session)
    ((call_id, text),) = results(story)
    assert call_id == "c1"
    assert "command" in text
    assert "JSON" not in text


async def test_pa_03_arguments_as_an_object(story: Story) -> None:
    session = await story.open(chat_body(None, [chat_call("c1", {"command": "echo obj"})]), DONE)
    await go(session)
    await approve_all(session)
    assert results(story) == [("c1", output("obj"))]
    arguments = story.script.messages[2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"command": "echo obj"}


@pytest.mark.parametrize("value", [None, 123, True, ["echo", "hi"], {"a": 1}, "", "  \n", "echo a\0b"])
async def test_pa_11_pa_24_commands_that_are_none(story: Story, value: Any) -> None:
    session = await story.open(chat_body(None, [bash("c1", value)]), DONE)
    await go(session)
    assert [call.status for call in session.machine.record.steps[0].calls] == [CallStatus.FAILED]
    assert [call_id for call_id, _ in results(story)] == ["c1"]


async def test_pa_12_pa_14_another_key_and_another_tool(story: Story) -> None:
    calls = [chat_call("c1", '{"cmd": "ls"}'), chat_call("c2", '{"code": "1"}', name="python")]
    session = await story.open(chat_body(None, calls), DONE)
    await go(session)
    (_, first), (_, second) = results(story)
    assert "`cmd`" in first
    assert "'command'" in first
    assert "Unknown tool 'python'" in second
    assert "`bash`" in second


async def test_a_bad_call_refuses_the_whole_batch_and_answers_each(story: Story) -> None:
    """R4."""
    session = await story.open(chat_body(None, [bash("c1", "touch ran"), bash("c2", "")]), DONE)
    await go(session)
    assert [call.reason for call in session.machine.record.steps[0].calls] == [
        Reason.BATCH_REFUSED,
        Reason.FORMAT_ERROR,
    ]
    assert [call_id for call_id, _ in results(story)] == ["c1", "c2"]
    assert not (story.workspace / "ran").exists()


async def test_pa_19_a_cut_reply_runs_nothing(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "touch ran")], finish="length"), DONE)
    await go(session)
    ((_, text),) = results(story)
    assert "cut" in text
    assert not (story.workspace / "ran").exists()


async def test_pa_21_the_faulty_turn_stays_and_counts(story: Story) -> None:
    session = await story.open(chat_body("I try.", [bash("c1", "")]), DONE)
    await go(session)
    assert [each["role"] for each in story.script.messages] == ["system", "user", "assistant", "tool"]
    assert story.script.messages[2]["content"] == "I try."
    assert len(session.machine.record.steps) == 2
    assert session.machine.record.usage.cost == pytest.approx(0.02)


async def test_pa_23_three_malformed_replies_end_the_turn(story: Story) -> None:
    cut = chat_body(None, [bash("c1", "true")], finish="length")
    session = await story.open(*[cut] * 9)
    await go(session)
    assert len(story.script.requests) == 3
    assert session.machine.record.stop is StopReason.FORMAT_ERRORS


async def test_pa_18_pa_22_a_reply_with_nothing_in_it_is_told_so(story: Story) -> None:
    session = await story.open(chat_body("", finish="tool_calls"), DONE)
    await go(session)
    assert story.script.messages[-1]["role"] == "user"
    assert "No tool calls found" in story.script.messages[-1]["content"]


async def test_ap_18_edit_and_explain_in_one_answer(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "ls -l /nope")]), DONE)
    await go(session)
    (call,) = waiting(session)
    edited = session.edited(call.key, "echo edited")
    await decide(session, decision(call, "approve_edited", edited=edited.edited, reason="there is no /nope"))
    ((_, text),) = results(story)
    assert "The user changed the command before it ran" in text
    assert '"echo edited"' in text
    assert "there is no /nope" in text
    assert text.endswith("<output>\nedited\n</output>")
    assert call.shown is not None
    assert (call.shown.command, call.to_run.command) == ("ls -l /nope", "echo edited")


async def test_ap_19_a_second_approval_runs_nothing(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "echo x >> log")]), DONE)
    await go(session)
    (call,) = waiting(session)
    approval = decision(call)
    await session.decide([approval])
    for _ in range(2):
        with pytest.raises(StaleDecision, match="not waiting for a decision: it is"):
            await session.decide([approval])
        await rest(session)
    assert (story.workspace / "log").read_text() == "x\n"


async def test_ap_20_a_decision_about_an_unknown_call(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "echo ok")]), DONE)
    await go(session)
    (call,) = waiting(session)
    from agent_core.types import Decision

    with pytest.raises(StaleDecision, match=r"no call '7\.7'"):
        await session.decide([Decision("7.7", "approve", "0" * 64)])
    await decide(session, decision(call))
    assert results(story) == [("c1", output("ok"))]


async def test_ap_24_the_reason_of_a_rejection_reaches_the_model(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "make deploy")]), DONE)
    await go(session)
    await decide(session, decision(waiting(session)[0], "reject", reason="use make test instead"))
    ((_, text),) = results(story)
    assert "The user rejected this command; it was not run." in text
    assert "use make test instead" in text


async def test_ap_25_a_stop_ends_the_turn(story: Story) -> None:
    calls = [bash(name, f"touch {name}") for name in "abc"]
    session = await story.open(chat_body(None, calls), DONE)
    await go(session)
    await decide(session, decision(waiting(session)[0], "stop"))
    assert session.machine.record.stop is StopReason.REJECTED_AND_STOPPED
    assert len(story.script.requests) == 1
    await go(session, "Then do this.")
    assert [call_id for call_id, _ in results(story)] == ["a", "b", "c"]
    assert list(story.workspace.iterdir()) == []


async def test_ap_21_a_client_without_approvals(tmp_path: Any) -> None:
    story = Story(tmp_path, can_ask=False)
    try:
        session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE)
        await go(session)
        ((_, text),) = results(story)
        assert "cannot show approvals" in text
        assert not (story.workspace / "f").exists()
    finally:
        await story.close()


async def test_px_09_a_missing_folder_is_told_and_comes_back(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "pwd")]), chat_body(None, [bash("c2", "pwd")]), DONE)
    await go(session)
    shutil.rmtree(story.workspace)
    await decide(session, decision(waiting(session)[0]))
    assert str(story.workspace) in results(story)[0][1]
    assert "missing" in results(story)[0][1]
    story.workspace.mkdir()
    await decide(session, decision(waiting(session)[0]))
    assert results(story)[1] == ("c2", output(str(story.workspace)))


async def test_px_03_px_16_ou_01_endings_in_the_models_words(story: Story) -> None:
    commands = ["true", "false", "echo partial; kill -9 $$", r"printf '\xf0'"]
    session = await story.open(chat_body(None, [bash(f"c{i}", c) for i, c in enumerate(commands)]), DONE)
    await go(session)
    await approve_all(session)
    quiet, failed, killed, odd = [text for _, text in results(story)]
    assert quiet == output("(no output)")
    assert failed.startswith("<returncode>1</returncode>")
    assert "SIGKILL" in killed
    assert "partial" in killed
    assert "<returncode>0</returncode>" not in killed
    assert "\ufffd" in odd


async def test_px_08_a_timeout_keeps_what_was_printed(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "echo start; sleep 305")]), DONE, command={"timeout": 0.5})
    await go(session)
    await approve_all(session)
    ((_, text),) = results(story)
    assert "stopped after 0.5 s" in text
    assert "start" in text
    assert session.machine.record.steps[0].calls[0].status is CallStatus.TIMED_OUT


async def test_ou_13_output_is_never_a_template(story: Story) -> None:
    text = "{{ 7*7 }} {% raw %} {# x #} ${y}"
    session = await story.open(chat_body(None, [bash("c1", f"echo '{text}'")]), DONE)
    await go(session)
    await approve_all(session)
    assert results(story) == [("c1", output(text))]


async def test_cx_02_a_cancel_while_approval_is_awaited(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE)
    await go(session)
    await session.cancel()
    await rest(session)
    assert session.machine.record.stop is StopReason.CANCELLED
    await go(session, "Go on.")
    ((_, text),) = results(story)
    assert "cancelled" in text
    assert not (story.workspace / "f").exists()


async def test_cx_01_a_cancel_ends_the_running_command(story: Story) -> None:
    calls = [bash("A", "echo a"), bash("B", "echo x; sleep 300 & sleep 301"), bash("C", "touch c")]
    session = await story.open(chat_body(None, calls), DONE)
    await go(session)
    await session.decide([decision(call) for call in waiting(session)])
    async with asyncio.timeout(10):
        while "x" not in session.live.tail("output", session.machine.record.calls[1].key)[1]:
            await asyncio.sleep(0.01)
    await session.cancel()
    await session.cancel()
    await rest(session, 4)
    a, b, c = session.machine.record.calls
    assert (a.status, b.status, c.status) == (CallStatus.COMPLETED, CallStatus.CANCELLED, CallStatus.CANCELLED)
    assert b.result is not None
    assert b.result.output == "x\n"
    await go(session, "Go on.")
    assert [call_id for call_id, _ in results(story)] == ["A", "B", "C"]


async def test_cx_05_a_cancel_while_the_model_is_asked(story: Story) -> None:
    session = await story.open(never, DONE)
    await session.step("Go.", None)
    async with asyncio.timeout(5):
        while not story.script.requests:
            await asyncio.sleep(0.01)
    await session.cancel()
    await rest(session, 2)
    assert stop_of(session) == "cancelled"
    await go(session, None)
    assert stop_of(session) == "end_turn"


async def test_a_failure_of_the_model_is_told_and_the_turn_can_go_on(story: Story) -> None:
    session = await story.open(ProviderFailure(FailureKind.OVERLOADED, "The provider is overloaded."), DONE)
    await go(session)
    assert stop_of(session) == "model_error"
    assert session.machine.record.steps[-1].failure == (FailureKind.OVERLOADED, "The provider is overloaded.")
    await go(session, None)
    assert stop_of(session) == "end_turn"


async def test_pf_06_two_sessions_do_not_wait_for_each_other(story: Story) -> None:
    first = await story.open(chat_body(None, [bash("c1", "echo a")]))
    await go(first)
    story.script.replies.clear()
    second = await story.open(chat_body(None, [bash("c2", "echo b")]), DONE)
    await go(second)
    await approve_all(second)
    assert second.machine.record.stop is StopReason.END_TURN
    assert first.state is State.AWAITING_APPROVAL


async def test_submit_is_the_end_and_its_rest_the_submission(story: Story) -> None:
    submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the patch"
    calls = [bash("c1", "echo first"), bash("c2", submit), bash("c3", "touch never")]
    session = await story.open(chat_body("No call."), chat_body(None, calls), completion="submit")
    await go(session)
    await approve_all(session)
    step = session.machine.record.steps[-1]
    assert (session.machine.record.stop, step.submission) == (StopReason.SUBMITTED, "the patch\n")
    assert [call.status for call in step.calls] == [CallStatus.COMPLETED, CallStatus.COMPLETED, CallStatus.CANCELLED]
    assert not (story.workspace / "never").exists()


async def test_ap_11_ap_13_what_is_remembered_is_exactly_the_text(story: Story) -> None:
    again = "export P=x && touch made"
    replies = [chat_body(None, [bash(f"c{i}", c)]) for i, c in enumerate([again, again, "export P=x && touch pwned"])]
    session = await story.open(*replies, DONE)
    await go(session)
    await decide(session, decision(waiting(session)[0], remember="exact"))
    assert [call.to_run.command for call in waiting(session)] == ["export P=x && touch pwned"]
    assert session.machine.record.steps[1].calls[0].decided_by == "rule remembered: exactly this text"


async def test_ap_27_a_stricter_mode_refuses_and_a_looser_one_does_not_answer(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE)
    await go(session)
    loose = story.settings(mode="trusted")
    await story.opener.configure(session, loose)
    assert session.state is State.AWAITING_APPROVAL
    await story.opener.configure(session, story.settings(mode="plan"))
    await rest(session)
    ((_, text),) = results(story)
    assert "only plans" in text
    assert not (story.workspace / "f").exists()


async def test_ap_23_an_approval_that_expires_is_no_rejection(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE, approval_timeout=0.2)
    await go(session)
    (call,) = waiting(session)
    async with asyncio.timeout(5):
        while session.machine.record.stop is None:
            await session.rested(session.machine.record.revision)
    assert call.reason is Reason.APPROVAL_EXPIRED
    with pytest.raises(StaleDecision, match="rejected"):
        await session.decide([decision(call)])
    ((_, text),) = results(story)
    assert "Nobody answered in time" in text


async def test_a_persons_own_command_runs_at_once_and_is_told(story: Story) -> None:
    session = await story.open(DONE, DONE)
    await go(session)
    await session.run("echo mine")
    await rest(session)
    await go(session, "What did I run?")
    told = [each["content"] for each in story.script.messages if each["role"] == "user"][1]
    assert told == f"The user ran a command of their own:\necho mine\n\n{output('mine')}"


async def test_a_detached_command_goes_on_and_ends_with_the_session(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "echo started; sleep 300")]), DONE)
    await go(session)
    (call,) = waiting(session)
    await session.decide([decision(call)])
    async with asyncio.timeout(10):
        while "started" not in session.live.tail("output", call.key)[1]:
            await asyncio.sleep(0.01)
    await session.detach(call.key)
    await rest(session)
    assert [each.key for each in session.detached] == [call.key]
    assert "left the command running" in results(story)[0][1]
    await session.cancel(call.key)
    async with asyncio.timeout(5):
        while session.detached:
            await asyncio.sleep(0)
    assert call.result is not None
    assert (call.result.ending, call.result.reason) == ("cancelled", Reason.CANCELLED)


async def test_lone_surrogates_survive_saving_and_sending(story: Story) -> None:
    """SS-08."""
    session = await story.open(chat_body("text \ud83d", [chat_call("c1", '{"command": "echo \\ud83d"}')]), DONE)
    await go(session)
    await session.close()
    again = await story.resume(session.id)
    assert again.machine.record.revision == session.machine.record.revision


async def resume_in(story: Story, session: Session) -> Session:
    await session.close()
    return await story.resume(session.id)


async def test_a_closed_session_waits_for_the_same_approval_when_it_is_loaded(story: Story) -> None:
    """SS-07 as the design has it: the same call is pending again, and its digest is the same."""
    session = await story.open(chat_body(None, [bash("c1", "echo later")]), DONE)
    await go(session)
    (before,) = waiting(session)
    again = await resume_in(story, session)
    (after,) = waiting(again)
    assert after.to_run.digest == before.to_run.digest
    await decide(again, decision(before))
    assert results(story) == [("c1", output("later"))]


async def test_co_04_a_run_that_fails_keeps_what_it_cost(story: Story) -> None:
    replies = [chat_body(None, [bash("c1", "")]), chat_body(None, [bash("c2", "")])]
    session = await story.open(*replies, ProviderFailure(FailureKind.CONNECTION, "The stream broke."))
    await go(session)
    assert stop_of(session) == "model_error"
    assert session.machine.record.usage.cost == pytest.approx(0.02)


@pytest.mark.parametrize("mode", ["ask", "rules"])
async def test_ap_17_what_is_judged_and_shown_is_byte_for_byte_what_runs(story: Story, mode: str) -> None:
    command = f"cd {story.workspace} && printf '%s' \"$BASH_EXECUTION_STRING\" > ran; true  "
    session = await story.open(chat_body(None, [bash("c1", command)]), DONE, mode=mode)
    await go(session)
    (call,) = waiting(session)
    assert call.to_run.command == command
    await approve_all(session)
    assert (story.workspace / "ran").read_text() == command


async def test_nothing_runs_that_could_not_be_written_down(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1 and section 5: the record comes before the effect, so a full disk stops the work."""
    session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE)
    await go(session)

    async def full(*_: Any, **__: Any) -> None:
        raise JournalError("The journal cannot be used: database or disk is full.")

    monkeypatch.setattr(story.journal, "append", full)
    with pytest.raises(JournalError, match="disk is full"):
        await session.decide([decision(waiting(session)[0])])
    assert session.resting
    assert "disk is full" in session.read_only
    assert not (story.workspace / "f").exists()


@pytest.mark.parametrize("kind", ["ModelReplied", "CommandFinished", "Observed", "CancelRequested", "Queued"])
async def test_a_turn_whose_disk_is_full_comes_to_rest_and_shows_what_is_written(
    story: Story, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What could not be written did not happen: the session looks as it will when it is loaded again."""
    session = await story.open(chat_body(None, [bash("c1", "sleep 0.3; echo 1 >> ran")]), DONE, mode="trusted")
    append = story.journal.append

    async def full(summary: Any, number: int, event: Any, **more: Any) -> None:
        if type(event).__name__ == kind:
            raise JournalError("The journal cannot be used: database or disk is full.")
        await append(summary, number, event, **more)

    monkeypatch.setattr(story.journal, "append", full)
    await session.step("Do it.", None)
    if kind in ("CancelRequested", "Queued"):
        while not session.machine.record.with_status(CallStatus.RUNNING):
            await asyncio.sleep(0.01)
        with pytest.raises(JournalError, match="disk is full"):
            await (session.cancel() if kind == "CancelRequested" else session.queue("And this."))
    await asyncio.wait_for(session.rested(1_000), 10)
    shown = convert.snapshot(session)
    assert (shown.state, shown.stop_reason) == ("idle", "interrupted")
    assert shown.error is not None
    assert (shown.error.kind, "disk is full" in shown.error.message) == ("read_only", True)
    monkeypatch.undo()
    await session.close()
    again = await story.resume(session.id)
    stored = convert.snapshot(again)
    told = ("state", "revision", "stop_reason", "steps", "usage")
    assert [getattr(stored, name) for name in told] == [getattr(shown, name) for name in told]
    assert [(call.call_id, call.status, call.reason) for call in _calls(stored)] == [
        (call.call_id, call.status, call.reason) for call in _calls(shown)
    ]
    if kind == "Queued":
        assert not (story.workspace / "ran").exists()


def _calls(shown: Any) -> list[Any]:
    return shown.step.calls if shown.step else []


@pytest.mark.parametrize(
    ("command", "remember"), [("rm -rf build/ ~/", "exact"), ("touch f", "*"), ("touch f", "make")]
)
async def test_ap_34_what_is_not_offered_cannot_be_remembered(story: Story, command: str, remember: str) -> None:
    session = await story.open(chat_body(None, [bash("c1", command)]), DONE)
    await go(session)
    with pytest.raises(StaleDecision, match="cannot be remembered"):
        await session.decide([decision(waiting(session)[0], remember=remember)])
    assert len(waiting(session)) == 1


async def test_a_remembered_rule_runs_what_it_names_and_nothing_more(story: Story) -> None:
    commands = ["touch a.txt", "touch b.txt", "touch ../c.txt"]
    session = await story.open(*[chat_body(None, [bash(f"c{i}", c)]) for i, c in enumerate(commands)], DONE)
    await go(session)
    record, first = session.machine.record, waiting(session)[0]
    (words,) = session.proposer.rules_to_remember(record, commands[0])
    await decide(session, decision(first, remember=" ".join(words)))
    assert [call.to_run.command for call in waiting(session)] == ["touch ../c.txt"]


async def test_a_repository_that_makes_git_run_something_is_asked(story: Story) -> None:
    inner = story.workspace / "inner"
    inner.mkdir()
    (story.workspace / ".git").mkdir()
    (story.workspace / ".git" / "config").write_text('[filter "x"]\n\tclean = touch pwned\n')
    story.workspace = inner
    rules = [{"match": ["git", "status"], "decision": "allow"}]
    session = await story.open(chat_body(None, [bash("c1", "git status")]), DONE, mode="rules", rules=rules)
    await go(session)
    assert len(waiting(session)) == 1


async def test_ap_26_a_rejected_command_that_comes_back_is_marked_and_never_runs_by_itself(story: Story) -> None:
    commands = ["./deploy.sh", "timeout 60 ./deploy.sh", "./deploy.sh"]
    rules = [{"match": ["timeout"], "decision": "allow"}]
    replies = [chat_body(None, [bash(f"c{i}", c)]) for i, c in enumerate(commands)]
    session = await story.open(*replies, DONE, mode="rules", rules=rules)
    await go(session)
    for number in range(3):
        (call,) = waiting(session)
        assert call.related == ("" if number == 0 else "./deploy.sh")
        await decide(session, decision(call, "reject"))
    assert stop_of(session) == "max_rejections"


@pytest.mark.skipif(sys.platform != "linux", reason="the limits of memory and processes need Linux")
@pytest.mark.parametrize(
    ("limits", "command", "reason"),
    [
        (
            {"memory_limit": 50_000_000},
            "python3 -c 'x = bytearray(400_000_000); import time; time.sleep(9)'",
            "memory_limit",
        ),
        ({"process_limit": 5}, "for i in 1 2 3 4 5 6 7 8 9; do sleep 9 & done; wait", "process_limit"),
    ],
)
async def test_each_limit_of_a_command_ends_as_a_status_of_its_own(
    story: Story, limits: dict[str, int], command: str, reason: str
) -> None:
    session = await story.open(chat_body(None, [bash("c1", command)]), DONE, command=limits)
    await go(session)
    await approve_all(session)
    call = session.machine.record.steps[0].calls[0]
    assert (call.status, call.reason) == (CallStatus.FAILED, reason)
    assert "stopped" in results(story)[0][1]


async def test_a_longer_time_that_the_model_asks_for_is_shown(story: Story) -> None:
    session = await story.open(chat_body(None, [bash("c1", "true", timeout=900)]), DONE)
    await go(session)
    (call,) = waiting(session)
    assert call.to_run.timeout == 900
    assert any("900 s" in warning for warning in call.warnings)


async def test_a_sandbox_that_cannot_be_had_refuses_the_command(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable() -> str:
        return "bubblewrap is not installed; install it, or set `sandbox` to off."

    monkeypatch.setattr("agent_core.shell.runner.BUBBLEWRAP.unavailable", unavailable)
    session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE, sandbox="workspace")
    await go(session)
    await approve_all(session)
    call = session.machine.record.steps[0].calls[0]
    assert call.reason is Reason.SANDBOX_UNAVAILABLE
    assert "bubblewrap is not installed" in results(story)[0][1]
    assert not (story.workspace / "f").exists()


async def test_nothing_is_shown_that_is_not_on_disk(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who saw an approval finds it again after a crash: so it is shown only once it is written."""
    session = await story.open(chat_body(None, [bash("c1", "touch f")]), DONE)
    append, disk = story.journal.append, asyncio.Event()

    async def slow(summary: Any, number: int, event: Any, *, durable: bool) -> None:
        if type(event).__name__ == "ModelReplied":
            await disk.wait()
        await append(summary, number, event, durable=durable)

    monkeypatch.setattr(story.journal, "append", slow)
    await session.step("Go.", None)
    async with asyncio.timeout(5):
        while session.state is not State.AWAITING_APPROVAL:
            await asyncio.sleep(0.01)
    rested = asyncio.create_task(session.rested(0))
    settled = asyncio.create_task(session.settled())
    done, _ = await asyncio.wait({rested, settled}, timeout=0.1)
    assert not done
    disk.set()
    await asyncio.wait_for(asyncio.gather(rested, settled), 5)


async def test_what_nobody_decided_is_not_told_as_a_persons_decision(story: Story) -> None:
    """Who decided is in the record: a client that answers by itself says so."""
    session = await story.open(chat_body(None, [bash("c1", "echo 1"), bash("c2", "echo 2")]), DONE)
    await go(session)
    first, second = waiting(session)
    by = "client --on-ask deny"
    refused = replace(decision(second, "reject", reason="Nobody is there."), by=by)
    await decide(session, replace(decision(first), by="client --on-ask approve"), refused)
    assert [call.decided_by for call in (first, second)] == ["client --on-ask approve", by]
    assert second.reason is Reason.REJECTED_UNATTENDED
    told = dict(results(story))["c2"]
    assert "No person saw this command" in told
    assert "Nobody is there." in told
    assert "user rejected" not in told


async def test_a_persons_words_about_a_decision_are_masked_before_they_are_kept(tmp_path: Path) -> None:
    """R10: a reason, and what the model is told of an edit; the edited command itself runs as it is."""
    secret = "glacier-walnut-Tq81-orbit"
    story = Story(tmp_path, more={"DB_PASSWORD": secret})
    session = await story.open(chat_body(None, [bash("c1", "echo 1"), bash("c2", "echo 2")]), DONE)
    await go(session)
    first, second = waiting(session)
    edit = replace(
        session.edited(first.key, f"test {secret} = {secret} && echo same"), reason=f"not {secret}", by="person"
    )
    await decide(session, edit, decision(second, "reject", reason=f"it is {secret}"))
    texts = [text for _, text in results(story)]
    assert "same" in texts[0]
    assert all("<masked:DB_PASSWORD>" in text and secret not in text for text in texts)
    assert secret not in (first.note + second.note)
    await story.close()


@pytest.mark.parametrize("way", ["edit", "run"])
async def test_a_persons_command_that_holds_a_provider_key_is_refused(tmp_path: Path, way: str) -> None:
    key = "sk-test-Kq7Zr2Vx9Lm4Nt8Bw3Yc"
    story = Story(tmp_path, more={"OPENAI_API_KEY": key})
    session = await story.open(chat_body(None, [bash("c1", "echo 1")]), DONE)
    if way == "edit":
        await go(session)
        with pytest.raises(StaleDecision, match="key of a model provider"):
            session.edited(waiting(session)[0].key, f"echo {key}")
    else:
        with pytest.raises(UsageError, match="key of a model provider"):
            await session.run(f"echo {key}")
    await story.close()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert key.encode() not in stored
