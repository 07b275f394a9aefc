"""JSON-RPC between bytes and handlers: our messages typed by pydantic both ways, an answer to every bad request.

Invariants: every request gets exactly one answer, whatever is wrong with it or its handler; a notification never gets
one. Messages are handled in the order they came, each when the one before has started. A request that is cancelled
before it started never starts. What a client sends about ids that are not its own is ignored. No params are logged.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import uuid
from collections.abc import Callable, Generator, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol, cast

from cattrs import Converter, transform_error
from lsprotocol import types
from pydantic import BaseModel, ValidationError
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from server.protocol import (
    METHODS,
    PREFIX,
    PROTOCOL_VERSION,
    Announcement,
    ErrorCode,
    ErrorData,
    Problem,
    Snapshot,
    Wire,
)

MessageId = str | int

log = logging.getLogger(__name__)


class WireError(JsonRpcException):
    """An error answer; a handler raises it. The message is one or two sentences with the reason and the way out."""

    def __init__(self, code: ErrorCode, message: str, data: ErrorData | None = None) -> None:
        super().__init__(message, int(code), data)


class Sink(Protocol):
    """Where bodies go (`stream.Outbox`)."""

    def put(self, body: bytes, *, supersedes: Hashable | None = None, droppable: bool = False) -> None:
        """Send a body."""


class Life(Protocol):
    """What the messages of LSP's lifecycle need of the server (`lifecycle.WireServer`)."""

    announcement: Announcement
    client: Announcement | None

    async def stop(self) -> None:
        """End all work, within a bounded time."""

    def end(self, code: int) -> None:
        """Leave the process with this exit code."""

    def watch_parent(self, pid: int | None) -> None:
        """End when that process is gone."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message from the client: a request (`id` and `method`), a notification (`method`) or an answer (`id`)."""

    id: MessageId | None
    method: str
    body: dict[str, Any]

    @property
    def is_request(self) -> bool:
        """Whether it needs an answer."""
        return self.id is not None and bool(self.method)


class WireProtocol(LanguageServerProtocol):
    """The protocol of one connection: `parse` each body as it comes, then `handle` the messages one after the other."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.sink: Sink | None = None
        self._life = cast("Life", server)
        self._waiting: set[MessageId] = set()  # requests that are parsed and not yet handled
        self._withdrawn: set[MessageId] = set()  # those of them that the client cancelled
        self._asked: dict[MessageId, tuple[str, Future[Any]]] = {}  # our own requests, until they are answered

    @property
    def shutdown_requested(self) -> bool:
        """Whether the client has sent `shutdown`."""
        return self._shutdown

    # From the client.

    def parse(self, body: bytes) -> Message | None:
        """Read one body. What is no message is answered here, and gives None, as does a cancel that is thereby done."""
        asked_by: MessageId | None = None
        try:
            data = _loads(body)
            identity = _identity(data)
            asked_by = identity if identity is not None and "method" in data else None  # an answer is never answered
            message = _message(data, identity)
            _refuse_half_characters(body, data)
            if message.method == types.CANCEL_REQUEST and self._withdraw(data):
                return None
            if message.is_request:
                self._admit(cast("MessageId", identity))
        except WireError as error:
            log.warning("refused a message: %s", error.message)
            self.refuse(asked_by, error)
            return None
        return message

    def handle(self, message: Message) -> None:
        """Start the handler of a message, or settle it otherwise. Never raises."""
        try:
            if not message.method:
                self._take_answer(message.body)
            elif message.is_request:
                self._waiting.discard(cast("MessageId", message.id))
                self._serve(message)
            else:
                self._notice(message)
        except Exception as error:
            self._fail(message.id if message.is_request else None, message.method, error)

    def refuse(self, identity: MessageId | None, error: JsonRpcException) -> None:
        """Answer with an error; the id is None where it could not be read."""
        answer: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            answer["data"] = error.data
        self._send({"jsonrpc": "2.0", "id": identity, "error": answer})

    def running(self) -> list[asyncio.Future[Any]]:
        """Give the handlers that have started and are not done."""
        tasks: Iterable[object] = self._request_futures.values()
        return [task for task in tasks if isinstance(task, asyncio.Future) and not task.done()]

    def _admit(self, identity: MessageId) -> None:
        if identity in self._waiting or identity in self._request_futures:
            raise WireError(ErrorCode.INVALID_REQUEST, f"a request with the id {identity!r} is still running")
        self._waiting.add(identity)

    def _withdraw(self, data: dict[str, Any]) -> bool:
        """Whether this cancels a request that has not started; it will be answered when its turn comes."""
        params = data.get("params")
        identity = params.get("id") if isinstance(params, dict) else None
        if not isinstance(identity, str | int) or identity not in self._waiting:
            return False
        self._withdrawn.add(identity)
        return True

    def _serve(self, message: Message) -> None:
        identity = cast("MessageId", message.id)
        if identity in self._withdrawn:
            self._withdrawn.discard(identity)
            raise WireError(ErrorCode.REQUEST_CANCELLED, "cancelled before it started")
        self._check_order(message.method)
        handler = self._handler(message.method)
        params = self._params(message)
        context = contextvars.copy_context()
        context.run(self._ctx_msg_id.set, identity)
        answer = partial(self._send_handler_result, msg_id=identity)
        context.run(self._execute_handler, identity, handler, answer, (params,))

    def _check_order(self, method: str) -> None:
        if self._shutdown:
            raise WireError(ErrorCode.INVALID_REQUEST, "the server is shutting down; send `exit`")
        if self._workspace is None and method != types.INITIALIZE:
            raise WireError(ErrorCode.NOT_INITIALIZED, f"send `initialize` before {method}")
        if self._workspace is not None and method == types.INITIALIZE:
            raise WireError(ErrorCode.INVALID_REQUEST, "the server is initialized already")

    def _notice(self, message: Message) -> None:
        if message.method == types.EXIT:
            self._life.end(0 if self._shutdown else 1)
        elif self._shutdown or self._workspace is None:
            log.warning("ignored %s: it came before `initialize` or after `shutdown`", message.method)
        elif message.method == types.CANCEL_REQUEST:
            self._cancel(message.body)
        else:
            handler = self._handler(message.method)
            args = (self._params(message),)
            self._execute_handler(str(uuid.uuid4()), handler, self._check_handler_result, args)

    def _cancel(self, data: dict[str, Any]) -> None:
        params = data.get("params")
        identity = params.get("id") if isinstance(params, dict) else None
        task = self._request_futures.get(identity) if isinstance(identity, str | int) else None
        if task is not None:
            task.cancel()

    def _handler(self, method: str) -> Callable[..., Any]:
        handler = self.fm.builtin_features.get(method) or self.fm.features.get(method)
        if handler is None:
            meant = f"; did you mean {PREFIX}{method}?" if PREFIX + method in METHODS else ""
            raise WireError(ErrorCode.METHOD_NOT_FOUND, f"there is no method {method[:100]}{meant}")
        return cast("Callable[..., Any]", handler)

    def _params(self, message: Message) -> Any:
        params = message.body.get("params")
        if message.method.startswith(PREFIX):
            return _ours(message.method, params)
        kind = self.get_message_type(message.method)
        if kind is None:
            return params
        if params is None and message.method not in (types.SHUTDOWN, types.EXIT):
            params = {}  # some clients leave out an empty object
        try:
            return self._converter.structure({**message.body, "params": params}, kind).params
        except Exception as error:
            problems = [str(line) for line in transform_error(error)[:5]]
            raise WireError(ErrorCode.INVALID_PARAMS, f"malformed {message.method}: {'; '.join(problems)}") from None

    def _take_answer(self, data: dict[str, Any]) -> None:
        method, future = self._asked.pop(data["id"], ("", None))
        if future is None:
            log.warning("ignored an answer to %r, which was not asked or is over", data["id"])
        elif "error" in data:
            error = data["error"] if isinstance(data["error"], dict) else {}
            code, text = error.get("code"), error.get("message")
            future.set_exception(JsonRpcException(str(text), code if isinstance(code, int) else None))
        else:
            kind = self.get_result_type(method)
            try:
                result = data.get("result")
                answer = {"jsonrpc": "2.0", "id": data["id"], "result": result}
                future.set_result(self._converter.structure(answer, kind).result if kind else result)
            except Exception as malformed:
                log.warning("the client's answer to %s is malformed", method)
                future.set_exception(malformed)

    # Handlers and their results.

    def _execute_handler(
        self,
        msg_id: MessageId,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Start a handler, and forget it when it is done (pygls keeps those of notifications for ever)."""
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        if (future := self._request_futures.get(msg_id)) is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))

    def _send_handler_result(self, future: Any, *, msg_id: MessageId) -> None:
        if future.cancelled():
            self.refuse(msg_id, WireError(ErrorCode.REQUEST_CANCELLED, "cancelled"))
        elif (error := future.exception()) is not None:
            self._fail(msg_id, "a request", error)
        else:
            try:
                self._send({"jsonrpc": "2.0", "id": msg_id, "result": future.result()})
            except Exception as unsendable:
                self._fail(msg_id, "a result", unsendable)

    def _check_handler_result(self, future: Any) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self._fail(None, "a notification", error)

    def _fail(self, identity: MessageId | None, what: str, error: BaseException) -> None:
        """Log an error, and answer the request (if it was one) with it; only errors made for it are told in full."""
        if isinstance(error, JsonRpcException):
            log.log(logging.WARNING if identity is None else logging.INFO, "refused %s: %s", what, error.message)
        else:
            log.error("%s failed", what, exc_info=error)
            error = WireError(ErrorCode.INTERNAL_ERROR, f"{what} failed ({type(error).__name__}); see the server's log")
        if identity is not None:
            self.refuse(identity, error)

    # The lifecycle.

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Agree on the version of the protocol, then initialize; from then on watch the client's process."""
        self._life.client = _client_announcement(params)
        result = yield from super().lsp_initialize(params)
        result.capabilities.experimental = {"handrail": self._life.announcement.to_wire()}
        self._life.watch_parent(params.process_id)
        return result

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, *_: Any) -> None:  # type: ignore[override]
        """Refuse new requests, end the work, and only then answer; what still runs is answered as cancelled."""
        self._shutdown = True
        await self._life.stop()
        for task in self.running():
            if task is not asyncio.current_task():
                task.cancel()

    # To the client.

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification. Updates are superseded by newer ones, and streamed pieces and log lines droppable."""
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self._send(message, **_delivery(method, params))

    def send_request(
        self,
        method: str,
        params: Any = None,
        callback: Callable[[Any], None] | None = None,
        msg_id: MessageId | None = None,
    ) -> Future[Any]:
        """Send a request of our own; cancelling the future withdraws it."""
        identity = str(uuid.uuid4()) if msg_id is None else msg_id
        future: Future[Any] = Future()
        self._asked[identity] = (method, future)
        future.add_done_callback(lambda done: self._withdraw_own(identity) if done.cancelled() else None)
        if callback is not None:
            future.add_done_callback(lambda done: callback(done.result()))
        self._send({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
        return future

    def _withdraw_own(self, identity: MessageId) -> None:
        if self._asked.pop(identity, None) is not None:
            self.notify(types.CANCEL_REQUEST, types.CancelParams(id=identity))

    def _send(self, message: dict[str, Any], **delivery: Any) -> None:
        if self.sink is not None:
            self.sink.put(_dumps(message, self._serialize_message), **delivery)

    def _send_data(self, data: Any) -> None:
        self._send(self._serialize_message(data))

    def _serialize_message(self, data: Any) -> Any:
        if isinstance(data, Wire):
            return data.to_wire()
        if isinstance(data, BaseModel):
            return data.model_dump(mode="json", by_alias=True)
        return self._converter.unstructure(data)


def problems_in(error: ValidationError) -> list[Problem]:
    """Tell what is wrong with which member, without telling its value."""
    from agent_core.wrong_values import wrong_values  # nothing of the core before it is needed

    return [Problem(field=place, problem=why) for place, why in wrong_values(error)]


def _ours(method: str, params: Any) -> Wire:
    try:
        return METHODS[method].params.model_validate({} if params is None else params)
    except ValidationError as error:
        problems = problems_in(error)
        about_settings = all(fault["loc"][:1] == ("settings",) for fault in error.errors())
        code = ErrorCode.SETTINGS_REFUSED if about_settings else ErrorCode.INVALID_PARAMS
        told = "; ".join(f"{problem.field or 'params'}: {problem.problem}" for problem in problems[:3])
        raise WireError(code, f"malformed {method}: {told}", ErrorData(problems=problems)) from None


def _client_announcement(params: types.InitializeParams) -> Announcement | None:
    """Read what the client says of itself; None if it does not know Handrail."""
    experimental = params.capabilities.experimental
    raw = experimental.get("handrail") if isinstance(experimental, dict) else None
    if raw is None:
        return None
    try:
        client = Announcement.model_validate(raw)
    except ValidationError as error:
        problems = problems_in(error)
        message = f"malformed capabilities.experimental.handrail: {problems[0].field}: {problems[0].problem}"
        raise WireError(ErrorCode.INVALID_PARAMS, message, ErrorData(problems=problems)) from None
    if client.protocol_version.split(".")[0] != PROTOCOL_VERSION.split(".")[0]:
        raise WireError(
            ErrorCode.REQUEST_FAILED,
            f"this server speaks version {PROTOCOL_VERSION} of Handrail's protocol and the client version "
            f"{client.protocol_version[:20]}; update the older of the two",
        )
    return client


def _delivery(method: str, params: Any) -> dict[str, Any]:
    """Say how a notification may be left out while the client does not keep up."""
    if isinstance(params, Snapshot):
        return {"supersedes": (method, params.session_id)}
    if isinstance(params, types.ProgressParams) and isinstance(params.value, types.WorkDoneProgressReport):
        return {"supersedes": (method, params.token)}
    return {"droppable": method in _DROPPABLE}


_DROPPABLE = frozenset({"handrail/session/didStream", types.WINDOW_LOG_MESSAGE, types.LOG_TRACE})


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(ErrorCode.PARSE_ERROR, f"not JSON in UTF-8: {str(error)[:100]}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _refuse_half_characters(body: bytes, data: dict[str, Any]) -> None:
    """JSON can spell half of a surrogate pair, which no file, command or journal can hold."""
    if b"\\ud" in body or b"\\uD" in body:
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise WireError(ErrorCode.INVALID_REQUEST, "the message holds half of a surrogate pair") from None


def _identity(data: Any) -> MessageId | None:
    """Read the id as far as it can be used in an answer."""
    identity = data.get("id") if isinstance(data, dict) else None
    return identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None


def _message(data: Any, identity: MessageId | None) -> Message:
    if not isinstance(data, dict):
        raise WireError(ErrorCode.INVALID_REQUEST, "a message is one JSON object; batches are not taken")
    if data.get("jsonrpc") != "2.0":
        raise WireError(ErrorCode.INVALID_REQUEST, 'the member "jsonrpc" must be "2.0"')
    if "id" in data and identity is None:
        raise WireError(ErrorCode.INVALID_REQUEST, "an id is text or a whole number")
    method = data.get("method", "")
    if not isinstance(method, str) or not (method or identity is not None):
        raise WireError(ErrorCode.INVALID_REQUEST, 'the member "method" must be text')
    if "method" in data and not method:
        raise WireError(ErrorCode.INVALID_REQUEST, 'the member "method" is empty')
    return Message(identity, method, data)


def _dumps(message: dict[str, Any], default: Callable[[Any], Any]) -> bytes:
    """Write JSON in UTF-8; halves of surrogate pairs, which UTF-8 cannot hold, become question marks."""
    text = json.dumps(message, default=default, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="replace")
