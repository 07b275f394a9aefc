"""What the model is told of a step: one observation per call, in order, in fixed sentences.

Invariants: pure; the sentence for a reason is always the same one, so that a model can learn it; a call that did not
run says so and why, and says nothing that did not happen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_core.rendering import Output, Templates
from agent_core.steps import Call, Step
from agent_core.types import CallStatus, CommandResult, Observation, Reason, UserMessage

WHY_NOT_RUN: Mapping[Reason, str] = {
    Reason.FORMAT_ERROR: "The call was malformed and was not run.",
    Reason.BATCH_REFUSED: "The call was not run, because another call of the same reply was malformed.",
    Reason.REJECTED_BY_PERSON: "The user rejected this command; it was not run.",
    Reason.REJECTED_UNATTENDED: "No person saw this command; it was rejected and not run.",
    Reason.STOPPED_BY_PERSON: "The user stopped the turn; this command was not run.",
    Reason.DENIED_BY_RULE: "A rule of the user denies this command; it was not run.",
    Reason.NO_APPROVAL_POSSIBLE: "The command was not run: the user's editor cannot show approvals.",
    Reason.APPROVAL_EXPIRED: "Nobody answered in time whether this command may run; it was not run and not rejected.",
    Reason.WORKSPACE_UNTRUSTED: "The command was not run: the user has not marked this folder as trusted.",
    Reason.PLAN_MODE: "The command was not run: the session only plans, so only commands that read may run.",
    Reason.SANDBOX_UNAVAILABLE: "The command was not run: the sandbox that the user asks for cannot be had.",
    Reason.CANCELLED: "The user cancelled; this command was not run.",
    Reason.NOT_STARTED: "The command was not started, because the work ended before its turn came.",
    Reason.INTERRUPTED: "Handrail was interrupted while this command ran; whether it had an effect is not known.",
}

HOW_IT_ENDED: Mapping[Reason, str] = {
    Reason.CANCELLED: "The user cancelled the command while it ran; what it printed until then follows.",
    Reason.OUTPUT_LIMIT: "The command was stopped, because it printed more than it may.",
    Reason.MEMORY_LIMIT: "The command was stopped, because it used more memory than it may.",
    Reason.PROCESS_LIMIT: "The command was stopped, because it started more processes than it may.",
    Reason.DETACHED: "The user left the command running in the background; what it printed until then follows.",
}


def observe(step: Step, templates: Templates, values: Mapping[str, Any]) -> tuple[Observation, ...]:
    """Return the observation of each call of the model."""
    return tuple(Observation(call.key, _text(call, step, templates, values), _is_error(call)) for call in step.calls)


def corrections(step: Step, templates: Templates, values: Mapping[str, Any]) -> tuple[UserMessage, ...]:
    """Return what a reply is told that was malformed and had no call to answer."""
    if not step.error or step.calls:
        return ()
    return (UserMessage(_format_error(step.error, step, templates, values), "correction"),)


def report(call: Call, templates: Templates, values: Mapping[str, Any]) -> UserMessage:
    """Return what the model is told of a command that the person ran."""
    text = templates.observation.render(values, output=_output(call), command=call.to_run.command)
    return UserMessage(f"The user ran a command of their own:\n{call.to_run.command}\n\n{text}", "person_ran")


def not_run(call: Call) -> str:
    """Return the one sentence, for model and person alike, on why a call was not run; "" if it was."""
    if call.status in (CallStatus.COMPLETED, CallStatus.TIMED_OUT) or call.reason is None:
        return ""
    sentence = WHY_NOT_RUN.get(call.reason, "")
    if call.reason is Reason.DENIED_BY_RULE and call.verdict is not None:
        return f"{sentence} {call.verdict.why}".rstrip()
    if call.reason in (Reason.REJECTED_BY_PERSON, Reason.STOPPED_BY_PERSON) and call.note:
        return f"{sentence} Their reason: {call.note}"
    if call.reason is Reason.REJECTED_UNATTENDED and call.note:
        return f"{sentence} Why: {call.note}"
    return sentence


def _text(call: Call, step: Step, templates: Templates, values: Mapping[str, Any]) -> str:
    if call.reason in (Reason.FORMAT_ERROR, Reason.BATCH_REFUSED):
        return _format_error(call.note, step, templates, values)
    command = call.proposal.command if call.proposal else ""
    return templates.observation.render(values, output=_output(call), command=command)


def _format_error(error: str, step: Step, templates: Templates, values: Mapping[str, Any]) -> str:
    finish = step.reply.finish_raw if step.reply else ""
    return templates.format_error.render(
        values, error=error, actions=[], has_tool_calls=bool(step.calls), finish_reason=finish
    )


def _output(call: Call) -> Output:
    result = call.result
    if result is None:
        return Output("", -1, not_run(call), _edited(call))
    code = result.exit_code if result.exit_code is not None else -1
    notes = (_edited(call), _leftovers(result))
    return Output(result.output, code, _exception(call, result), " ".join(note for note in notes if note))


def _exception(call: Call, result: CommandResult) -> str:
    if result.error:
        return result.error
    if call.status is CallStatus.TIMED_OUT:
        return f"The command was stopped after {call.to_run.timeout:g} s; what it printed until then follows."
    if result.signal:
        return f"The command was ended by {result.signal}."
    return HOW_IT_ENDED.get(result.reason, "") if result.reason else ""


def _edited(call: Call) -> str:
    if call.shown is None or call.proposal is None or call.shown.command == call.proposal.command:
        return ""
    told = (
        f"The user changed the command before it ran. What ran: {json.dumps(call.proposal.command, ensure_ascii=False)}"
    )
    return f"{told}. Their reason: {call.note}" if call.note else told


def _leftovers(result: CommandResult) -> str:
    return f"Still running in the background: {', '.join(result.leftovers)}." if result.leftovers else ""


def _is_error(call: Call) -> bool:
    """Whether the provider is told that the call failed: it did not run, or not to an exit code of 0."""
    return call.result is None or call.result.exit_code != 0
