"""Records what a provider sends to a tape while a session runs.

Invariants: after every frame the file is whole; it is readable by its owner alone; every text is masked before it is
written, and a frame in which a secret is found all the same is not written, nor any after it; no header but
`retry-after` is kept; an existing file is continued if it is a tape of the same model, and never overwritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_core.dialects import Query
from agent_core.errors import SettingsError
from agent_core.redaction import Masker
from agent_core.regular_files import read_regular
from agent_core.remarks import remark
from agent_core.source import Exchange
from agent_core.tape import FORMAT, Tape
from agent_core.tape_marks import request_marks, shape_digest
from agent_core.types import AssistantTurn, ModelReply

_TAIL = "\n  ]\n}\n"


class Recorder:
    """Writes one tape; give `take` to a source as its `on_exchange`."""

    def __init__(self, path: Path, *, model: str, dialect: str, masker: Masker, workspace: str = "") -> None:
        """Prepare to record to `path`; raise `SettingsError` if it cannot be written or is something else."""
        self.path = path
        self.problem = ""  # a sentence once the recording has ended early
        self._masker = masker
        self._workspace = workspace
        self._turn: int | None = None
        self._frames = _frames_so_far(path, model, dialect)
        if not self._frames:
            self._create(
                {"format": FORMAT, "model": model, "recorded_at": _now(), "dialect": dialect, "origin": "live"}
            )

    def take(self, query: Query, exchange: Exchange) -> None:
        """Write the frame of one call; what stands in the way ends the recording, not the session."""
        if self.problem:
            return
        if self._turn is None:
            self._turn = 1 + sum(isinstance(message, AssistantTurn) for message in query.history)
        frame = self._masker.mask(_written(self._frame(query, exchange, self._turn)))
        if exchange.reply is not None:
            self._turn += 1
        try:
            if names := self._secrets_in(frame):
                self._stop(f"frame {self._frames + 1} still held {', '.join(names)}")
                return
            self._append(frame)
        except (OSError, ValueError) as error:
            self._stop(str(error))

    def _frame(self, query: Query, exchange: Exchange, turn: int) -> dict[str, Any]:
        about: dict[str, Any] = {
            "dialect": exchange.dialect,
            "request": request_marks(query.system, query.history, turn, self._workspace),
            "latency_ms": exchange.latency_ms,
        }
        if exchange.failure is not None:
            about |= {"kind": "raise", **_failure_marks(exchange.failure)}
            return {"$frame": about, "body": exchange.failure.get("body", "")}
        received = [exchange.body] if exchange.events is None else list(exchange.events)
        about["shape"] = shape_digest(received)
        if exchange.reply is not None:
            about["expect"] = expectation(exchange.reply)
        if exchange.events is None:
            return {"$frame": about | {"kind": "body"}, "body": exchange.body}
        return {"$frame": about | {"kind": "sse"}, "events": received}

    def _secrets_in(self, frame: str) -> tuple[str, ...]:
        """Look once more, also for a secret whose parts came in several events."""
        joined: dict[str, list[str]] = {}
        for event in json.loads(frame).get("events", ()):
            _collect(event, "", joined)
        return self._masker.secrets_in("\n".join([frame, *("".join(pieces) for pieces in joined.values())]))

    def _create(self, head: Mapping[str, Any]) -> None:
        text = json.dumps(head, indent=2, ensure_ascii=False).removesuffix("\n}") + ',\n  "frames": [' + _TAIL
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            raise SettingsError(f"The tape {self.path} cannot be written: {error.strerror}. Check `record`.") from error

    def _append(self, frame: str) -> None:
        comma = "," if self._frames else ""
        frame = "    " + frame.replace("\n", "\n    ")  # JSON text holds line feeds between its members only
        # A lone half of a surrogate pair cannot be written as UTF-8; its JSON escape says the same.
        data = f"{comma}\n{frame}{_TAIL}".encode("utf-8", "backslashreplace")
        with self.path.open("r+b") as file:
            file.seek(-len(_TAIL), os.SEEK_END)
            file.write(data)
        self._frames += 1

    def _stop(self, why: str) -> None:
        self.problem = f"The recording to {self.path} ended after {self._frames} frames: {why}."
        remark(self.problem)


def expectation(reply: ModelReply) -> dict[str, Any]:
    """Return what a reply was read as: its finish, its calls and its usage."""
    used = reply.usage
    return {
        "stop": str(reply.finish),
        "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls],
        "usage": {"input": used.input_tokens, "output": used.output_tokens, "cost": used.cost},
    }


def _failure_marks(failure: Mapping[str, Any]) -> dict[str, Any]:
    marks: dict[str, Any] = {"error": failure.get("fault") or failure.get("error") or ""}
    if failure.get("status") is not None:
        marks["status"] = failure["status"]
    if failure.get("retry_after"):
        marks["headers"] = {"retry-after": failure["retry_after"]}
    return marks


def _written(frame: Mapping[str, Any]) -> str:
    """Return the frame as JSON text in which each event has a line of its own."""
    events: Sequence[Any] | None = frame.get("events")
    if events is None:
        return json.dumps(frame, indent=2, ensure_ascii=False)
    lines = ",\n".join("    " + json.dumps(event, ensure_ascii=False) for event in events)
    about = json.dumps({"$frame": frame["$frame"]}, indent=2, ensure_ascii=False).removesuffix("\n}")
    return f'{about},\n  "events": [\n{lines}\n  ]\n}}'


def _collect(value: Any, path: str, into: dict[str, list[str]]) -> None:
    match value:
        case str():
            into.setdefault(path, []).append(value)
        case dict():
            for name, member in value.items():
                _collect(member, f"{path}.{name}", into)
        case list():
            for item in value:
                _collect(item, f"{path}[]", into)


def _frames_so_far(path: Path, model: str, dialect: str) -> int:
    """Return how many frames a tape has that is to be continued, 0 if there is no file yet."""
    if not path.exists():
        return 0
    if not path.is_file():
        raise SettingsError(f"{path} is no regular file, so nothing can be recorded to it. Name a file in `record`.")
    tape = Tape.load(path)
    fits = (tape.model, tape.dialect) == (model, dialect) and read_regular(path).endswith(_TAIL.encode())
    if not fits:
        raise SettingsError(f"The file {path} is not a tape that can be continued. Name another file in `record`.")
    return len(tape.frames)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
