"""A whole session as JSON text: Handrail's own form with everything, and the `mini-swe-agent-1.1` trajectory.

Invariants: pure; nothing leaves here that is not in the record, which holds no secrets; the trajectory has the members
that its readers need: an assistant message with its `extra.actions`, one tool message per call, an `exit` at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

from agent_core.journal import SessionSummary
from agent_core.record import Record
from agent_core.steps import Call, Step
from agent_core.types import AssistantTurn, Observation, UserMessage

TRAJECTORY = "mini-swe-agent-1.1"
HANDRAIL = "handrail"


def export(record: Record, summary: SessionSummary, model: str, form: Literal["handrail", "mini-swe-agent-1.1"]) -> str:
    """Return the session in a form, as indented JSON text."""
    value = _trajectory(record, model) if form == TRAJECTORY else _handrail(record, summary, model)
    return json.dumps(value, ensure_ascii=False, indent=2)


def _handrail(record: Record, summary: SessionSummary, model: str) -> dict[str, Any]:
    return {
        "format": "handrail.session/1",
        "session": {**asdict(summary), "holder": ""},
        "model": model,
        "system": record.system,
        "usage": asdict(record.usage),
        "steps": [asdict(step) for step in record.steps],
    }


def _trajectory(record: Record, model: str) -> dict[str, Any]:
    last = record.steps[-1] if record.steps else None
    status = record.stop.value if record.stop else ""
    submission = last.submission if last else ""
    result = {"exit_status": status, "submission": submission}
    ending = {"role": "exit", "content": submission or status, "extra": result}
    return {
        "info": {
            "model_stats": {"instance_cost": record.usage.cost, "api_calls": record.replies},
            "config": {"agent": {}, "agent_type": "handrail", "model": {"model_name": model}, "model_type": "handrail"},
            **result,
        },
        "messages": [{"role": "system", "content": record.system}, *_messages(record), ending],
        "trajectory_format": TRAJECTORY,
    }


def _messages(record: Record) -> Iterator[dict[str, Any]]:
    steps = {step.calls[0].key: step for step in record.steps if step.calls}
    for message in record.history:
        match message:
            case UserMessage(text=text):
                yield {"role": "user", "content": text}
            case AssistantTurn():
                step = steps.get(message.call_keys[0]) if message.call_keys else None
                yield _assistant(message, step)
            case Observation(call_key=key, text=text):
                call = record.known(key)
                yield {"role": "tool", "tool_call_id": call.tool.id, "content": text, "extra": _output(call)}


def _assistant(turn: AssistantTurn, step: Step | None) -> dict[str, Any]:
    calls = step.calls if step else []
    message: dict[str, Any] = {"role": "assistant", "content": turn.reply.text}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.tool.id,
                "type": "function",
                "function": {"name": call.tool.name, "arguments": call.tool.arguments},
            }
            for call in calls
        ]
    actions = [{"command": call.shown.command, "tool_call_id": call.tool.id} for call in calls if call.shown]
    timestamp = step.started_at if step else None
    message["extra"] = {"actions": actions, "cost": turn.reply.usage.cost, "timestamp": timestamp}
    return message


def _output(call: Call) -> dict[str, Any]:
    result = call.result
    if result is None:
        return {"raw_output": "", "returncode": -1, "exception_info": "action was not executed"}
    code = -1 if result.exit_code is None else result.exit_code
    return {
        "raw_output": result.output,
        "returncode": code,
        "exception_info": result.error,
        "timestamp": result.started_at,
    }
