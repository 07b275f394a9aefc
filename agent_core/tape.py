"""Replays recorded raw replies through the same dialect as a live provider's.

A tape is a JSON file of the format `handrail.recording/1`: `model`, `recorded_at`, `dialect`, and `frames`, one per
call. A frame is the provider's body as it came, or `{"$frame": {…}, "body": {…}}` where `$frame` tells what else is
known of it: `kind` (`body`, `sse`, `raise`), `status`, `headers`, `error`, and the marks of the `request` that it
answered (`tape_marks`). Streamed frames hold `events`, or the stream's text as `body_text`.

Invariants: a frame is given once, in order; a frame recorded for another conversation is never given; asking costs the
same at step 1,000 as at step 1, for only the newest turn is looked at; nothing is called and nothing is written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent_core.dialects import Delta, Dialect, Query
from agent_core.errors import ProviderFailure, SettingsError
from agent_core.failures import failure_from_report
from agent_core.regular_files import read_regular, why_unread
from agent_core.remarks import remark
from agent_core.tape_marks import answered_ids, differences, request_marks, shape_digest
from agent_core.types import AssistantTurn, FailureKind, Message, ModelReply

FORMAT = "handrail.recording/1"
_OLD_DAYS = 90
_DIALECTS_BY_NAME = {
    "openai.chat": "chat",
    "openai.responses": "responses",
    "anthropic.messages": "anthropic",
}


log = logging.getLogger(__name__)

_FAULTS = {"timeout": "TimeoutError: recorded", "connection": "ConnectError: recorded"}


@dataclass(frozen=True, slots=True)
class Frame:
    """One recorded call: `about` is its `$frame` member, {} for a bare body."""

    about: Mapping[str, Any]
    body: Any = None
    events: tuple[Mapping[str, Any], ...] | None = None

    @property
    def is_report(self) -> bool:
        """Whether it tells of a failure, instead of holding what came."""
        return self.about.get("kind") == "raise" or int(self.about.get("status", 200)) >= 400

    @property
    def is_failure(self) -> bool:
        """Whether the call gave no reply: it failed, or what came could not be read as one."""
        return self.is_report or ("shape" in self.about and "expect" not in self.about)


@dataclass(frozen=True, slots=True)
class Tape:
    """A recording in memory."""

    name: str
    model: str
    dialect: str
    recorded_at: str
    frames: tuple[Frame, ...]
    origin: str = ""  # "live", "edited" or "synthetic"; "" if it does not tell

    @property
    def prompts(self) -> tuple[str, ...]:
        """What the person asked for while it was recorded, in order, to ask it again."""
        # Several attempts at one query have the same turn.
        requests = {request.get("turn"): request for frame in self.frames if (request := frame.about.get("request"))}
        return tuple(text for request in requests.values() for text in request.get("prompts", []))

    def age_remark(self, now: datetime) -> str:
        """Return a sentence if the tape is old or does not tell its age, else ""; what no model said does not age."""
        if self.origin == "synthetic":
            return ""
        try:
            recorded = datetime.fromisoformat(self.recorded_at)
        except ValueError:
            return f"The tape {self.name} does not tell when it was recorded."
        days = (now - (recorded if recorded.tzinfo else recorded.replace(tzinfo=UTC))).days
        old = f"The tape {self.name} is {days} days old; {self.model} may answer otherwise today. Record it again."
        return old if days > _OLD_DAYS else ""

    @classmethod
    def load(cls, path: Path) -> Tape:
        """Read a tape from a file; raise `SettingsError` if it cannot be read or is none."""
        try:
            text = read_regular(path).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"The tape {path} cannot be read: {why_unread(error)}. Check its path.") from error
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str) -> Tape:
        """Read a tape from its JSON text; raise `SettingsError` with the place of what is wrong."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"The tape {name} is not JSON: {error}. Record it again.") from error
        except RecursionError:
            raise SettingsError(f"The tape {name} is nested too deeply to be read. Record it again.") from None
        frames = value.get("frames") if isinstance(value, dict) else None
        if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
            raise SettingsError(f"The tape {name} has no list `frames` of objects. Record it again.")
        if value.get("format", FORMAT) != FORMAT:
            raise SettingsError(f"The tape {name} is of the format {value['format']}; this version reads {FORMAT}.")
        dialect = str(value.get("dialect") or _dialect_by_shape(frames))
        return cls(
            name=name,
            model=str(value.get("model", "")),
            dialect=_DIALECTS_BY_NAME.get(dialect, dialect),
            recorded_at=str(value.get("recorded_at", "")),
            frames=tuple(_frame(frame, f"{name}, frame {number}") for number, frame in enumerate(frames, 1)),
            origin=str(value.get("origin", "")),
        )


class TapeSource:
    """A source that gives a tape's frames, one per call."""

    context_window: int | None = None

    def __init__(self, tape: Tape, *, strict: bool = False, workspace: str = "") -> None:
        """Replay `tape`; `strict` refuses a conversation that says anything else than the recorded one.

        `workspace` is the session's folder, which may be another than when the tape was recorded.
        """
        self.tape = tape
        self.notes: list[str] = []  # sentences about frames that are not read as they were
        self._strict = strict
        self._workspace = workspace
        self._next: int | None = None  # None: nothing was asked yet
        self._turn = 1
        self._offered: tuple[str, ...] = ()  # the ids of the calls of the newest reply

    @property
    def left_over(self) -> int:
        """How many frames were not given."""
        return len(self.tape.frames) - (self._next or 0)

    def remarks(self) -> tuple[str, ...]:
        """Return, for the end of a run, sentences on what of the tape was not used or not as recorded."""
        return (*self.notes, *filter(None, [self._unused()]))

    def _unused(self) -> str:
        used = f"{self.left_over} of the {len(self.tape.frames)} frames of {self.tape.name} were not used."
        return used if self.left_over else ""

    async def ask(
        self,
        dialect: Dialect,
        query: Query,
        *,
        stream: bool,
        on_delta: Callable[[Delta], None],
    ) -> ModelReply:
        """Give the next frame's reply (see `Source.ask`); a frame that does not fit is a failure of kind `tape`."""
        if dialect.name != self.tape.dialect:
            raise self._failure(f"is recorded in the dialect {self.tape.dialect}, but {dialect.name} is set")
        if self._next is None:
            self._find_place(dialect, query.history)
        frame = self._fitting_frame(query)
        self._next = (self._next or 0) + 1
        if frame.is_report:
            raise failure_from_report(_report(frame), query.model)
        try:
            reply = _reply(frame, dialect, on_delta)
        except ProviderFailure as fault:
            where = f"Frame {self._next} of the tape {self.tape.name}: {fault}"
            raise ProviderFailure(fault.kind, where, raw=fault.raw, usage=fault.usage) from fault
        self._note_drift(frame, reply)
        self._turn += 1
        self._offered = tuple(call.id for call in reply.calls)
        usage = replace(reply.usage, cost=_cost(frame, reply))
        return replace(reply, usage=usage)

    async def close(self) -> None:
        """Tell what was not used; nothing is held."""
        if unused := self._unused():
            log.warning("%s", unused)

    def _find_place(self, dialect: Dialect, history: Sequence[Message]) -> None:
        """Go to the frame that follows the replies a resumed conversation holds already."""
        replies = [message.reply for message in history if isinstance(message, AssistantTurn)]
        self._next, self._turn = 0, len(replies) + 1
        passed = 0
        while passed < len(replies) and self._next < len(self.tape.frames):
            frame = self.tape.frames[self._next]
            self._next += 1
            if not frame.is_failure:
                passed += 1
                if passed == len(replies):
                    reply = _reply(frame, dialect, lambda _: None)
                    self._offered = tuple(call.id for call in reply.calls)

    def _fitting_frame(self, query: Query) -> Frame:
        index = self._next or 0
        if index >= len(self.tape.frames):
            raise self._failure(f"ended after {len(self.tape.frames)} frames, but the conversation went on")
        frame = self.tape.frames[index]
        request = frame.about.get("request", {})
        answered = answered_ids(query.history)
        expected = tuple(request["answers"]) if "answers" in request else self._offered
        if answered != expected:
            raise self._failure(
                f"does not fit at frame {index + 1}: it was recorded after answers to {_ids(expected)}, "
                f"but this conversation answers {_ids(answered)}",
            )
        if request.get("turn", self._turn) != self._turn:
            raise self._failure(
                f"does not fit at frame {index + 1}: it was recorded for turn {request['turn']}, "
                f"but this is turn {self._turn}",
            )
        if self._strict:
            self._compare(query, request, index)
        return frame

    def _compare(self, query: Query, request: Mapping[str, Any], index: int) -> None:
        if "sent" not in request:
            raise self._failure(f"cannot be replayed strictly: frame {index + 1} does not tell what was sent")
        now = request_marks(query.system, query.history, self._turn, self._workspace)
        if changed := differences(request, now):
            raise self._failure(f"does not fit at frame {index + 1}: not as recorded: {', '.join(changed)}")

    def _note_drift(self, frame: Frame, reply: ModelReply) -> None:
        received = [frame.body] if frame.events is None else list(frame.events)
        if frame.about.get("shape", digest := shape_digest(received)) != digest:
            self._note("was edited after it was recorded")
        expected = frame.about.get("expect", {})
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls]
        if expected.get("stop", reply.finish) != reply.finish or expected.get("calls", calls) != calls:
            self._note("is read otherwise than when it was recorded")

    def _note(self, what: str) -> None:
        self.notes.append(f"Frame {self._next} of {self.tape.name} {what}.")
        remark(self.notes[-1])

    def _failure(self, what: str) -> ProviderFailure:
        return ProviderFailure(
            FailureKind.TAPE, f"The tape {self.tape.name} {what}. Record it again, or ask a live model."
        )


def _reply(frame: Frame, dialect: Dialect, on_delta: Callable[[Delta], None]) -> ModelReply:
    if frame.events is None:
        return dialect.decode(frame.body)
    assembler = dialect.assembler()
    for event in frame.events:
        for delta in assembler.feed(event):
            on_delta(delta)
    return assembler.finish()


def _cost(frame: Frame, reply: ModelReply) -> float | None:
    """Return what the reply cost when it was recorded; None if that was not known."""
    recorded = frame.about.get("expect", {}).get("usage", {}).get("cost")
    return reply.usage.cost if recorded is None else float(recorded)


def _report(frame: Frame) -> dict[str, Any]:
    """Return the frame's failure in the form of the worker's report (see `provider_worker`)."""
    body = frame.body if isinstance(frame.body, str) or frame.body is None else json.dumps(frame.body)
    headers = frame.about.get("headers", {})
    error = str(frame.about.get("error", ""))
    return {
        "status": frame.about.get("status"),
        "retry_after": headers.get("retry-after"),
        "body": body or "",
        "fault": _FAULTS.get(error, error),
        "message": error,
    }


def _frame(value: Mapping[str, Any], place: str) -> Frame:
    if "$frame" not in value:
        return Frame({}, body=value)
    about = value["$frame"]
    if not isinstance(about, dict):
        raise SettingsError(f"The tape {place}: `$frame` is not an object. Record it again.")
    if "events" in value:
        return Frame(about, events=tuple(value["events"]))
    if "body_text" in value and about.get("kind") == "sse":
        return Frame(about, events=_events(value["body_text"], place))
    return Frame(about, body=value.get("body", value.get("body_text")))


def _events(text: str, place: str) -> tuple[Mapping[str, Any], ...]:
    data = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    try:
        return tuple(json.loads(item) for item in data if item != "[DONE]")
    except ValueError as error:
        raise SettingsError(
            f"The tape {place}: an event of `body_text` is not JSON: {error}. Record it again."
        ) from error


def _dialect_by_shape(frames: Sequence[Mapping[str, Any]]) -> str:
    for frame in frames:
        body = frame.get("body", frame)
        if isinstance(body, dict) and body.get("type") == "message":
            return "anthropic"
        if isinstance(body, dict) and body.get("object") == "response":
            return "responses"
    return "chat"


def _ids(ids: Sequence[str]) -> str:
    return ", ".join(ids) or "no call"
