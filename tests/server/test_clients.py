"""The server through pytest-lsp, posing as the editors that it is made for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

from server.protocol import PROTOCOL_VERSION
from tests.core.replies import bash, chat_body

EDITORS = ("visual-studio-code", "neovim", "emacs", "helix")


def capabilities_of(editor: str) -> types.ClientCapabilities:
    """Return what an editor says of itself; pytest-lsp has no data of Helix, which counts in UTF-8."""
    if editor != "helix":
        return client_capabilities(editor)
    encodings = [types.PositionEncodingKind.Utf8, types.PositionEncodingKind.Utf32, types.PositionEncodingKind.Utf16]
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=encodings),
        window=types.WindowClientCapabilities(work_done_progress=True),
        workspace=types.WorkspaceClientCapabilities(workspace_folders=True, configuration=True, apply_edit=True),
    )


def make_client() -> LanguageClient:
    client = make_test_lsp_client()
    client.updates = []  # type: ignore[attr-defined]

    @client.feature("handrail/session/didUpdate")
    def updated(params: Any) -> None:
        client.updates.append(params)  # type: ignore[attr-defined]

    @client.feature("handrail/session/didStream")
    def streamed(params: Any) -> None:
        """Pieces are droppable, so nothing is asserted of them here."""

    return client


@pytest_lsp.fixture(
    params=EDITORS,
    config=ClientServerConfig(
        server_command=[sys.executable, "-P", "-m", "server"],
        client_factory=make_client,
        server_env={**os.environ, "HANDRAIL_OFFLINE": "1"},
    ),
)
async def editor(request: pytest.FixtureRequest, lsp_client: LanguageClient) -> AsyncIterator[None]:
    capabilities = capabilities_of(request.param)
    capabilities.experimental = {"handrail": {"protocolVersion": PROTOCOL_VERSION, "approvals": True}}
    result = await lsp_client.initialize_session(types.InitializeParams(capabilities=capabilities, root_uri=None))
    assert result.capabilities.experimental is not None
    lsp_client.encoding = result.capabilities.position_encoding or "utf-16"  # type: ignore[attr-defined]
    sync = result.capabilities.text_document_sync
    assert isinstance(sync, types.TextDocumentSyncOptions)
    assert (sync.open_close, sync.change, bool(sync.save)) == (True, types.TextDocumentSyncKind.Incremental, True)
    assert result.capabilities.workspace is not None
    assert result.capabilities.workspace.workspace_folders is not None
    yield
    await lsp_client.shutdown_session()


async def test_a_whole_turn(editor: LanguageClient, tmp_path: Path) -> None:
    bodies = [chat_body("I look.", [bash("c1", "echo hi > made")]), chat_body("Done.")]
    tape = {"model": "m", "recorded_at": "2026-01-01", "dialect": "chat", "frames": bodies}
    (tmp_path / "tape.json").write_text(json.dumps(tape))
    (tmp_path / "ws").mkdir()
    settings = {"replay": str(tmp_path / "tape.json")}
    ask: Callable[..., Awaitable[Any]] = editor.protocol.send_request_async
    opened = await ask("handrail/session/new", {"cwd": (tmp_path / "ws").as_uri(), "settings": settings})
    session = opened.sessionId
    begun = await ask("handrail/session/step", {"sessionId": session, "prompt": "Go.", "maxSteps": None})
    shown = await ask("handrail/session/wait", {"sessionId": session, "after": begun.revision})
    (call,) = shown.step.calls
    decided = {"callId": call.callId, "decision": "approve", "digest": call.digest}
    begun = await ask("handrail/session/decide", {"sessionId": session, "decisions": [decided]})
    ended = await ask("handrail/session/wait", {"sessionId": session, "after": begun.revision})
    assert (ended.state, ended.stopReason) == ("idle", "end_turn")
    assert (tmp_path / "ws" / "made").read_text() == "hi\n"
    assert editor.updates  # type: ignore[attr-defined]
    await ask("handrail/session/delete", {"sessionId": session})


async def test_positions_are_counted_as_the_client_counts(editor: LanguageClient, tmp_path: Path) -> None:
    """An edit after a character that UTF-8, UTF-16 and UTF-32 count differently leaves the text of the disk."""
    (tmp_path / "tape.json").write_text(
        json.dumps(
            {
                "model": "m",
                "recorded_at": "2026-01-01",
                "dialect": "chat",
                "frames": [chat_body("I look.", [bash("c1", "cat a.txt")])],
            }
        )
    )
    (tmp_path / "a.txt").write_text("😀 new\n")
    uri = (tmp_path / "a.txt").as_uri()
    item = types.TextDocumentItem(uri=uri, language_id="text", version=1, text="😀 old\n")
    editor.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    width = {"utf-8": 4, "utf-16": 2, "utf-32": 1}[editor.encoding]  # type: ignore[attr-defined]
    change = types.TextDocumentContentChangePartial(
        range=types.Range(types.Position(0, width + 1), types.Position(0, width + 4)), text="new"
    )
    document = types.VersionedTextDocumentIdentifier(uri=uri, version=2)
    ask = editor.protocol.send_request_async
    opened = await ask(
        "handrail/session/new", {"cwd": tmp_path.as_uri(), "settings": {"replay": str(tmp_path / "tape.json")}}
    )
    begun = await ask("handrail/session/step", {"sessionId": opened.sessionId, "prompt": "Go."})
    shown = await ask("handrail/session/wait", {"sessionId": opened.sessionId, "after": begun.revision})
    assert shown.step.calls[0].unsavedFiles == [uri]
    editor.text_document_did_change(types.DidChangeTextDocumentParams(text_document=document, content_changes=[change]))
    shown = await ask("handrail/session/get", {"sessionId": opened.sessionId})
    assert getattr(shown.step.calls[0], "unsavedFiles", []) == []
    await ask("handrail/session/delete", {"sessionId": opened.sessionId})
