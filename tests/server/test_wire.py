"""The wire in one process: typed messages both ways, and exactly one answer to every request, however bad."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from server.protocol import METHODS, PROTOCOL_VERSION
from server.stream import Outbox
from tests.server.raw_client import RawClient, frame, loopback
from tests.server.toy_server import ToyServer, snapshot

STEP = "handrail/session/step"
WAIT = "handrail/session/wait"


@pytest.fixture
def server() -> ToyServer:
    return ToyServer()


@pytest.fixture
async def raw(server: ToyServer) -> AsyncIterator[RawClient]:
    """Give a client before `initialize`."""
    async with loopback(server) as connected:
        yield connected


@pytest.fixture
async def client(raw: RawClient) -> RawClient:
    await raw.initialize(handrail={"protocolVersion": PROTOCOL_VERSION, "approvals": True})
    return raw


async def _error(client: RawClient, message: object, identity: object = None) -> dict[str, Any]:
    data = message if isinstance(message, bytes) else frame(message)
    await client.send(data)
    answer = await client.answer(identity)
    assert isinstance(answer["error"]["message"], str)
    error = answer["error"]
    assert isinstance(error, dict)
    return error


def _request(method: str, identity: object = 7, **members: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identity, "method": method, **members}


# Typed both ways.


async def test_params_and_results_are_models_here_and_camel_case_objects_there(client: RawClient) -> None:
    """LS-03."""
    result = await client.ask("handrail/session/new", {"cwd": "file:///w", "settings": {"limits": {"maxSteps": 3}}})
    assert result["sessionId"] == "file:///w"
    assert result["usage"] == {
        "inputTokens": 0,
        "outputTokens": 0,
        "cacheReadTokens": 0,
        "cacheWriteTokens": 0,
        "reasoningTokens": 0,
        "costKnown": False,
    }
    assert "stopReason" not in result


async def test_initialize_announces_us_and_reads_what_the_client_announces(server: ToyServer, raw: RawClient) -> None:
    result = await raw.initialize(handrail={"protocolVersion": "1.9", "approvals": True, "later": 1})
    assert result["capabilities"]["experimental"] == {
        "handrail": {"protocolVersion": PROTOCOL_VERSION, "approvals": True}
    }
    assert result["serverInfo"] == {"name": "toy", "version": "1"}
    assert server.client is not None
    assert server.client.approvals


async def test_a_client_that_does_not_know_handrail_is_served_without_approvals(
    server: ToyServer, raw: RawClient
) -> None:
    await raw.initialize()
    assert server.client is None
    assert (await raw.ask(STEP, {"sessionId": "s"}))["sessionId"] == "s"


async def test_another_major_version_is_refused_in_words_and_can_try_again(raw: RawClient) -> None:
    announced: dict[str, object] = {"protocolVersion": "2.0"}
    params = {"processId": None, "rootUri": None, "capabilities": {"experimental": {"handrail": announced}}}
    error = await raw.fail("initialize", params)
    assert error["code"] == -32803
    assert "2.0" in error["message"]
    announced["protocolVersion"] = 1
    assert (await raw.fail("initialize", params))["code"] == -32602
    await raw.initialize()


async def test_text_that_utf8_cannot_hold_does_not_break_the_answer(client: RawClient) -> None:
    params = {"command": "écho ✓ \u2028", "cwd": "file:///w"}
    result = await client.ask("handrail/command/analyze", params)
    assert result["display"] == "écho ✓ \u2028"
    assert result["verdict"]["why"] == "? half a character"


async def test_documents_are_synchronised_by_pygls(server: ToyServer, client: RawClient) -> None:
    document = {"uri": "file:///w/a.py", "languageId": "python", "version": 1, "text": "one"}
    await client.notify("textDocument/didOpen", {"textDocument": document})
    change = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}, "text": "two"}
    changed = {"textDocument": {"uri": "file:///w/a.py", "version": 2}, "contentChanges": [change]}
    await client.notify("textDocument/didChange", changed)
    await client.ask(STEP, {"sessionId": "s"})
    assert server.workspace.get_text_document("file:///w/a.py").source == "two"
    assert not server.protocol._request_futures, "pygls keeps what is done"


# Bad requests.


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "sessionId"),
        ({"sessionId": 7}, "sessionId"),
        ({"sessionId": None}, "sessionId"),
        ({"sessionId": "s", "maxSteps": "1"}, "maxSteps"),
        ({"sessionId": "s", "maxSteps": True}, "maxSteps"),
        ({"sessionId": "s", "context": [{"kind": "file"}, {"kind": "screen"}]}, "context.1.kind"),
        ([], ""),
        ("text", ""),
    ],
)
async def test_malformed_params_are_named(server: ToyServer, client: RawClient, params: object, field: str) -> None:
    """LS-04."""
    error = await _error(client, _request(STEP, params=params), 7)
    assert error["code"] == -32602
    assert [problem["field"] for problem in error["data"]["problems"]] == [field]
    assert server.handled == []


async def test_a_request_without_params_is_answered(server: ToyServer, client: RawClient) -> None:
    """LS-04."""
    assert (await _error(client, _request(STEP), 7))["code"] == -32602
    await client.send(frame(_request("handrail/server/health")))
    assert (await client.answer(7))["result"] == {"checks": [], "versions": [], "paths": [], "keyNames": []}


async def test_unknown_members_and_nested_jsonrpc_keys_are_ignored(client: RawClient) -> None:
    """LS-04; a nested `jsonrpc` key loses the whole message in pygls."""
    params = {"sessionId": "s", "later": {"jsonrpc": "2.0", "id": 1, "method": "exit"}, "type_name": "x", "class": 1}
    assert (await client.ask(STEP, params))["sessionId"] == "s"


async def test_a_method_without_our_prefix_is_told_its_name(client: RawClient) -> None:
    error = await client.fail("session/new", {"cwd": "file:///w"})
    assert (error["code"], error["message"]) == (
        -32601,
        "there is no method session/new; did you mean handrail/session/new?",
    )
    assert (await client.fail("session/nonsense", {}))["message"] == "there is no method session/nonsense"


async def test_wrong_settings_have_a_code_of_their_own(client: RawClient) -> None:
    error = await client.fail("handrail/session/new", {"cwd": "file:///w", "settings": {"maxToken": 1}})
    assert error["code"] == 1004
    assert "'maxTokens'" in error["message"]
    error = await client.fail("handrail/session/new", {"cwd": 1, "settings": {"maxToken": 1}})
    assert error["code"] == -32602


@pytest.mark.parametrize(
    ("message", "identity", "code"),
    [
        (b"Content-Length: 3\r\n\r\n{]}", None, -32700),
        (b"Content-Length: 0\r\n\r\n", None, -32700),
        (b'Content-Length: 9\r\n\r\n{"a":"\xff"}', None, -32700),
        (b"Content-Length: 8\r\n\r\n" + "{}".encode("utf-32-le"), None, -32700),
        (b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000, None, -32700),
        (b'Content-Length: 11\r\n\r\n{"id": NaN}', None, -32700),
        ([_request(STEP, params={"sessionId": "s"})], None, -32600),
        ([], None, -32600),
        (3, None, -32600),
        (None, None, -32600),
        ({}, None, -32600),
        ({"jsonrpc": "2.0"}, None, -32600),
        ({"jsonrpc": "1.0", "id": 7, "method": STEP, "params": {}}, 7, -32600),
        ({"id": 7, "method": STEP, "params": {}}, 7, -32600),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, 7, -32600),
        ({"jsonrpc": "2.0", "id": 7, "method": ""}, 7, -32600),
        (_request(STEP, None, params={"sessionId": "s"}), None, -32600),
        (_request(STEP, True, params={"sessionId": "s"}), None, -32600),
        (_request(STEP, 1.5, params={"sessionId": "s"}), None, -32600),
        (_request(STEP, params={"sessionId": "\ud800"}), 7, -32600),
        (_request("\ud800", params={}), 7, -32600),
        (_request(STEP, [], params={"sessionId": "s"}), None, -32600),
        (_request("handrail/session/nothing", params={}), 7, -32601),
        (_request("handrail/session/didUpdate", params={}), 7, -32601),
        (_request("$/later", params={}), 7, -32601),
        (_request("textDocument/hover", params={}), 7, -32601),
        (_request("workspace/executeCommand", params={"command": 7}), 7, -32602),
        (_request("initialize", params={}), 7, -32600),
    ],
)
async def test_every_bad_message_gets_an_error_answer_and_the_server_goes_on(
    server: ToyServer, client: RawClient, message: object, identity: object, code: int
) -> None:
    assert (await _error(client, message, identity))["code"] == code
    assert server.handled == []
    assert (await client.ask(STEP, {"sessionId": "after"}))["sessionId"] == "after"


async def test_whole_surrogate_pairs_are_taken(client: RawClient) -> None:
    assert (await client.ask(STEP, {"sessionId": "\U0001f600"}))["sessionId"] == "\U0001f600"


async def test_malformed_initialize_is_answered(raw: RawClient) -> None:
    error = await raw.fail("initialize", {"capabilities": 5})
    assert error["code"] == -32602
    assert "capabilities" in error["message"]
    await raw.initialize()


async def test_bad_notifications_are_logged_and_not_answered(
    server: ToyServer, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.notify("handrail/workspace/didChangeTrust", {"folder": "file:///w", "trusted": False})
    await client.notify("handrail/workspace/didChangeTrust", {"folder": "file:///w"})
    await client.notify("handrail/later", {})
    await client.notify("$/later", {})
    await client.notify("textDocument/didOpen", {"textDocument": "no"})
    await client.ask(STEP, {"sessionId": "s"})
    assert client.received == []
    assert server.handled == ["trust False", "s"]
    assert "a notification that fails" in caplog.text
    assert "trusted: it is missing" in caplog.text


async def test_errors_of_handlers_are_told_and_faults_only_named(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    error = await client.fail("handrail/session/get", {"sessionId": "s"})
    assert error == {"code": 1002, "message": "no session s", "data": {"state": "closed"}}
    error = await client.fail("handrail/session/close", {"sessionId": "s"})
    assert error["code"] == -32603
    assert "secret" not in json.dumps(error)
    assert "ValueError" in error["message"]
    assert "a fault with secret detail" in caplog.text


# Order, ids and cancelling.


async def test_before_initialize_and_after_shutdown_nothing_runs(server: ToyServer, raw: RawClient) -> None:
    """LS-14."""
    assert (await raw.fail(STEP, {"sessionId": "early"}))["code"] == -32002
    assert (await raw.fail("shutdown"))["code"] == -32002
    await raw.notify("handrail/workspace/didChangeTrust", {"folder": "file:///w", "trusted": True})
    await raw.initialize()
    assert await raw.ask("shutdown") is None
    assert (await raw.fail(STEP, {"sessionId": "late"}))["code"] == -32600
    await raw.notify("handrail/workspace/didChangeTrust", {"folder": "file:///w", "trusted": True})
    assert (await raw.fail("shutdown"))["code"] == -32600
    assert server.handled == []


async def test_an_id_that_is_still_running_is_refused(server: ToyServer, client: RawClient) -> None:
    params = {"sessionId": "s", "after": 1}
    await client.send(frame(_request(WAIT, params=params)))
    assert (await _error(client, _request(WAIT, params=params), 7))["code"] == -32600
    server.released.set()
    assert (await client.answer(7))["result"]["revision"] == 2
    await client.send(frame(_request(STEP, params={"sessionId": "again"})))
    assert (await client.answer(7))["result"]["sessionId"] == "again"


async def test_messages_start_in_the_order_they_came(server: ToyServer, client: RawClient) -> None:
    server.released.set()
    messages = b""
    for number in range(0, 40, 2):
        messages += frame(_request(WAIT, number, params={"sessionId": "s", "after": number}))
        messages += frame(_request(STEP, number + 1, params={"sessionId": f"wait {number + 1}"}))
    await client.send(messages)
    for number in range(40):
        await client.answer(number)
    assert server.handled == [f"wait {number}" for number in range(40)]


async def test_cancelling_a_running_request_answers_it_once(server: ToyServer, client: RawClient) -> None:
    identity = await client.request(WAIT, {"sessionId": "s", "after": 1})
    await client.ask(STEP, {"sessionId": "between"})
    for _ in range(2):
        await client.notify("$/cancelRequest", {"id": identity})
    assert (await client.answer(identity))["error"]["code"] == -32800
    assert server.cancelled == ["s"]
    await client.ask(STEP, {"sessionId": "after"})
    assert client.received == []


async def test_a_request_cancelled_while_it_waits_is_never_carried_out(server: ToyServer, client: RawClient) -> None:
    """LS-05."""
    await client.send(
        frame(_request(STEP, 1, params={"sessionId": "first", "prompt": "block"}))
        + frame(_request(STEP, 2, params={"sessionId": "second"}))
        + frame(_request(STEP, 3, params={"sessionId": "third"}))
        + frame({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 2}})
    )
    answers = [await client.answer(identity) for identity in (1, 2, 3)]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32800, None]
    assert server.handled == ["first", "third"]


@pytest.mark.parametrize("params", [None, {}, {"id": None}, {"id": []}, {"id": 99}, {"id": "x"}, 5])
async def test_cancels_of_nothing_are_ignored(client: RawClient, params: object) -> None:
    await client.send(frame({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params}))
    await client.ask(STEP, {"sessionId": "s"})
    assert client.received == []


# Our own requests.


async def test_our_own_requests_are_typed_and_late_or_forged_answers_do_nothing(
    server: ToyServer, client: RawClient
) -> None:
    asking = asyncio.create_task(
        server.workspace_configuration_async(types.ConfigurationParams(items=[types.ConfigurationItem(section="x")]))
    )
    request = await client.read()
    assert request is not None
    assert request["params"] == {"items": [{"section": "x"}]}
    await client.notify("$/cancelRequest", {"id": request["id"]})
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": [{"jsonrpc": "2.0"}]}
    await client.send(frame({**answer, "id": "forged"}) + frame(answer) + frame(answer))
    assert list(await asking) == [{"jsonrpc": "2.0"}]
    await client.ask(STEP, {"sessionId": "s"})
    assert client.received == []


@pytest.mark.parametrize(
    "members",
    [{"error": {"code": 5, "message": "no"}}, {"error": None}, {"result": 5}, {}],
)
async def test_a_refused_or_malformed_answer_fails_the_request(
    server: ToyServer, client: RawClient, members: dict[str, object]
) -> None:
    params = types.ApplyWorkspaceEditParams(edit=types.WorkspaceEdit())
    asking = asyncio.create_task(server.workspace_apply_edit_async(params))
    request = await client.read()
    assert request is not None
    await client.send(frame({"jsonrpc": "2.0", "id": request["id"], **members}))
    with pytest.raises(Exception, match=r"."):
        await asyncio.wait_for(asking, 5)
    assert not asking.cancelled()


async def test_a_request_of_ours_that_is_given_up_is_withdrawn_from_the_client(
    server: ToyServer, client: RawClient
) -> None:
    """LS-15."""
    params = types.ApplyWorkspaceEditParams(edit=types.WorkspaceEdit())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(server.workspace_apply_edit_async(params), 0.01)
    request, withdrawal = await client.read(), await client.read()
    assert request is not None
    assert withdrawal == {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": request["id"]}}
    await client.send(frame({"jsonrpc": "2.0", "id": request["id"], "result": {"applied": True}}))
    await client.ask(STEP, {"sessionId": "s"})
    assert client.received == []


# Notifications.


async def test_notifications_reach_the_client_as_objects(server: ToyServer, client: RawClient) -> None:
    """LS-03."""
    server.tell("handrail/session/didUpdate", snapshot("s", 5))
    server.window_log_message(types.LogMessageParams(type=types.MessageType.Info, message="m"))
    update, line = await client.read(), await client.read()
    assert update is not None
    assert update["method"] == "handrail/session/didUpdate"
    assert update["params"]["revision"] == 5
    assert line == {"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 3, "message": "m"}}


async def test_a_client_that_does_not_read_costs_bounded_memory(
    server: ToyServer, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FLOOD", "2000")
    identity = await client.request("handrail/server/health")
    await asyncio.sleep(0.2)  # the client's stream reads ahead only so far
    assert isinstance(server.protocol.sink, Outbox)
    assert 0 < server.protocol.sink.backlog < 1_200_000
    await client.answer(identity)
    updates = [message["params"]["revision"] for message in client.received if "revision" in message["params"]]
    pieces = [message["params"]["offset"] for message in client.received if "offset" in message["params"]]
    assert updates == sorted(updates)
    assert updates[-1] == pieces[-1] == 1999
    assert len(updates) < 1000


async def test_requests_wait_while_a_client_does_not_read_its_answers(server: ToyServer, client: RawClient) -> None:
    params = {"cwd": "x" * 200_000}
    for number in range(150):
        client.writer.write(frame(_request("handrail/session/new", number, params=params)))
    await asyncio.sleep(0.3)
    assert isinstance(server.protocol.sink, Outbox)
    assert server.protocol.sink.backlog < 10_000_000
    assert len(server.handled) < 100
    for number in range(150):
        await client.answer(number)
    assert len(server.handled) == 150


# Registration.


async def test_only_methods_of_the_protocol_can_be_registered(server: ToyServer) -> None:
    for name in ("handrail/session/nothing", "handrail/session/didUpdate"):
        with pytest.raises(KeyError):
            server.method(name)


async def test_no_params_are_logged(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    """F9."""
    with caplog.at_level(logging.DEBUG):
        await client.ask(STEP, {"sessionId": "s", "prompt": "hunter2"})
        await client.fail(STEP, {"sessionId": 7, "prompt": "hunter2"})
        await client.fail("handrail/session/close", {"sessionId": "hunter2"})
        await client.notify("handrail/workspace/didChangeTrust", {"folder": "hunter2"})
        await client.fail("handrail/session/nothing", {"prompt": "hunter2"})
        await client.ask(STEP, {"sessionId": "s"})
    assert caplog.text
    assert "hunter2" not in caplog.text


# Whatever comes.

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_METHODS = st.sampled_from([*METHODS, "initialize", "shutdown", "$/cancelRequest", "textDocument/didOpen", "x"])
_MEMBERS = {
    "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
    "id": st.integers(0, 3) | _VALUES,
    "method": _METHODS | _VALUES,
    "params": st.fixed_dictionaries({}, optional={"sessionId": st.text(max_size=2), "id": st.integers(0, 3)}) | _VALUES,
    "result": _VALUES,
    "error": _VALUES,
}


class _Collector:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def put(self, body: bytes, *, supersedes: Hashable | None = None, droppable: bool = False) -> None:
        self.sent.append(json.loads(body))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=_MEMBERS) | _VALUES, max_size=8), st.booleans())
async def test_whatever_comes_every_request_gets_exactly_one_answer(messages: list[Any], initialized: bool) -> None:
    server, collector = ToyServer(), _Collector()
    server.protocol.sink = collector
    server.released.set()
    if initialized:
        start = {"jsonrpc": "2.0", "id": "start", "method": "initialize", "params": {"capabilities": {}}}
        messages = [start, *messages]
    for message in messages:
        parsed = server.protocol.parse(json.dumps(message).encode())
        if parsed is not None:
            server.protocol.handle(parsed)
            await asyncio.sleep(0)
    while running := server.protocol.running():
        await asyncio.wait(running)
    await asyncio.sleep(0)  # the answer of a handler that is done goes out in the loop's next round
    asked = Counter(_key(message) for message in messages if _is_request(message))
    answered = Counter(
        _key(message) for message in collector.sent if "method" not in message and message["id"] is not None
    )
    assert {key: count for key, count in answered.items() if key in asked} == dict(asked)


def _is_request(message: object) -> bool:
    if not isinstance(message, dict) or "method" not in message:
        return False
    identity = message.get("id")
    return isinstance(identity, int | str) and not isinstance(identity, bool)


def _key(message: dict[str, Any]) -> str:
    return repr(message["id"])


async def test_a_length_that_is_too_small_is_answered_and_ends_the_connection(client: RawClient) -> None:
    data = frame(_request(STEP, params={"sessionId": "s"}))
    await client.send(data.replace(b"Content-Length: ", b"Content-Length: 1\r\nX-Was: ") + data)
    errors = [message["error"]["code"] for message in await client.rest()]
    assert errors == [-32700, -32700]
