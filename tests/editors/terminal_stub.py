"""A scripted server in the test's own process, and short ways to make what it says.

Invariants: it answers only what a test told it to; every request is kept, in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from editors.terminal.client import Client
from server.protocol import Call, CommandResult, Snapshot, Step, Usage, Verdict

Handler = Callable[[dict[str, Any]], Any]


class Refusal(Exception):
    """Raised by a handler: the error answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


class Stub:
    """The server's side of a `Client`."""

    def __init__(self) -> None:
        self.client = Client(self._received)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.notifications: list[tuple[str, Any]] = []
        self.handlers: dict[str, Handler] = {}

    def on(self, method: str, answer: Handler | Snapshot) -> None:
        """Answer `handrail/<method>` with a snapshot, or with what a function of the params returns."""
        if isinstance(answer, Snapshot):
            wire = answer.to_wire()
            self.handlers[f"handrail/{method}"] = lambda params: wire
        else:
            self.handlers[f"handrail/{method}"] = answer

    def methods(self) -> list[str]:
        """Return the short names of what was asked, in order."""
        return [method.removeprefix("handrail/session/") for method, _ in self.requests]

    def params(self, method: str) -> list[dict[str, Any]]:
        """Return the params of every request of `handrail/<method>`."""
        return [params for name, params in self.requests if name == f"handrail/{method}"]

    def update(self, snapshot: Snapshot) -> None:
        """Notify the client of a snapshot."""
        self.tell("handrail/session/didUpdate", snapshot.to_wire())

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: dict[str, Any]) -> None:
        """Send any message."""
        self.client.connection.feed(framed(message))

    def _received(self, data: bytes) -> None:
        message = json.loads(data.partition(b"\r\n\r\n")[2])
        if "id" not in message or "method" not in message:
            self.notifications.append((message.get("method", "answer"), message.get("params", message)))
            return
        self.requests.append((message["method"], message["params"]))
        handler = self.handlers.get(message["method"])
        if handler is None:
            return  # never answered
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = handler(message["params"])
        except Refusal as refusal:
            answer["error"] = refusal.error
        self.send(answer)


def framed(message: Any) -> bytes:
    """Return a message as bytes of the protocol."""
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def call(number: int = 1, command: str = "ls", status: str = "awaiting_approval", count: int = 1, **more: Any) -> Call:
    """Make a call of step 1."""
    members: dict[str, Any] = {
        "call_id": f"c{number}",
        "tool_call_id": f"t{number}",
        "position": number,
        "count": count,
        "command": command,
        "display": command,
        "line_count": command.count("\n") + 1,
        "character_count": len(command),
        "long": False,
        "cwd": "file:///w",
        "shell": "/bin/bash",
        "verdict": Verdict(decision="ask", rule="mode", why="nothing allows it"),
        "digest": f"d{number}",
        "timeout": 30,
        "status": status,
    }
    if status == "completed":
        members |= {"started_at_ms": 1, "decided_by": "person"}
        members["result"] = CommandResult(exit_code=0, duration_ms=12, output_tail="out\n")
    return Call.model_validate(members | more)


def step(*calls: Call, index: int = 1, text: str = "", **more: Any) -> Step:
    """Make a step."""
    return Step(step_id=f"s{index}", index=index, text=text, calls=list(calls), **more)


def snapshot(revision: int, state: str, the_step: Step | None = None, **more: Any) -> Snapshot:
    """Make a snapshot of the session `one`, with what awaits approval pending."""
    waiting = [each.call_id for each in the_step.calls if each.status == "awaiting_approval"] if the_step else []
    members: dict[str, Any] = {
        "session_id": "one",
        "revision": revision,
        "state": state,
        "cwd": "file:///w",
        "mode": "ask",
        "model": "m",
        "steps": the_step.index if the_step else 0,
        "step": the_step,
        "pending": waiting if state == "awaiting_approval" else [],
        "usage": Usage(input_tokens=10, output_tokens=2),
    }
    return Snapshot.model_validate(members | more)
