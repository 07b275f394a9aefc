"""What the editor knows of its files: unsaved ones are named where a command touches them, as of now."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Desk, pending


class Buffer:
    """A file that is open in the editor."""

    def __init__(self, desk: Desk, name: str, on_disk: str | None) -> None:
        self.desk = desk
        self.path = desk.workspace / name
        self.uri = self.path.as_uri()
        self.version = 1
        if on_disk is not None:
            self.path.write_bytes(on_disk.encode())

    async def open(self, text: str) -> None:
        item = {"uri": self.uri, "languageId": "python", "version": 1, "text": text}
        await self.desk.client.notify("textDocument/didOpen", {"textDocument": item})

    async def insert(self, line: int, text: str) -> None:
        """Insert at a line's beginning: an incremental change."""
        self.version += 1
        here = {"line": line, "character": 0}
        change = {"range": {"start": here, "end": here}, "text": text}
        document = {"uri": self.uri, "version": self.version}
        await self.desk.client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})

    async def save(self) -> None:
        await self.desk.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})

    async def close(self) -> None:
        await self.desk.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})


def unsaved(snapshot: dict[str, Any]) -> list[list[str]]:
    return [call.get("unsavedFiles", []) for call in pending(snapshot)]


async def test_an_approval_names_the_unsaved_files_that_its_command_touches_as_of_now(desk: Desk) -> None:
    buffer = Buffer(desk, "a.py", "one\ntwo\n")
    await buffer.open("one\ntwo\n")
    shown = await desk.waiting("cat a.py", "echo hello")
    assert unsaved(shown) == [[], []]
    await buffer.insert(1, "between\n")
    shown = await desk.get(shown)
    assert unsaved(shown) == [[buffer.uri], []]
    assert any("not saved" in each and "a.py" in each for each in pending(shown)[0]["warnings"])
    buffer.path.write_text("one\nbetween\ntwo\n")
    await buffer.save()
    shown = await desk.get(shown)
    assert unsaved(shown) == [[], []]
    assert not any("not saved" in each for each in pending(shown)[0].get("warnings", []))


async def test_a_save_shows_the_approval_again(desk: Desk) -> None:
    buffer = Buffer(desk, "a.py", "one\n")
    await buffer.open("other\n")
    shown = await desk.waiting("cat a.py")
    assert unsaved(shown) == [[buffer.uri]]
    desk.client.received.clear()
    buffer.path.write_text("other\n")
    await buffer.save()
    await desk.get(shown)
    updates = [m["params"] for m in desk.client.received if m.get("method") == "handrail/session/didUpdate"]
    assert unsaved(updates[-1]) == [[]]


async def test_what_is_undone_reloaded_or_closed_is_not_unsaved(desk: Desk) -> None:
    buffer = Buffer(desk, "a.py", "one\r\n")
    await buffer.open("one")
    shown = await desk.waiting("cat a.py")
    await buffer.insert(0, "two\n")
    assert unsaved(await desk.get(shown)) == [[buffer.uri]]
    buffer.path.write_text("two\none\n")  # a command wrote it, and the editor took it over without a save
    assert unsaved(await desk.get(shown)) == [[]]
    await buffer.insert(0, "three\n")
    await buffer.close()
    assert unsaved(await desk.get(shown)) == [[]]


@pytest.mark.parametrize("on_disk", [b"\xff\xfe\x00", b"x" * (5 << 20)], ids=["not UTF-8", "large"])
async def test_what_cannot_be_compared_is_unsaved_from_a_change_to_a_save(desk: Desk, on_disk: bytes) -> None:
    buffer = Buffer(desk, "a.py", None)
    buffer.path.write_bytes(on_disk)
    await buffer.open("?")
    shown = await desk.waiting("cat a.py")
    assert unsaved(shown) == [[]]
    await buffer.insert(0, "two\n")
    assert unsaved(await desk.get(shown)) == [[buffer.uri]]
    await buffer.save()
    assert unsaved(await desk.get(shown)) == [[]]


async def test_a_new_file_and_odd_documents(desk: Desk) -> None:
    new = Buffer(desk, "new file.py", None)
    await new.open("text")
    for uri in ("untitled:Untitled-1", "git:/x/a.py", "file://host/a.py"):
        item = {"uri": uri, "languageId": "python", "version": 1, "text": "x"}
        await desk.client.notify("textDocument/didOpen", {"textDocument": item})
    assert unsaved(await desk.waiting("pytest")) == [[new.uri]]


async def test_a_name_full_of_signs_is_that_file(desk: Desk) -> None:
    buffer = Buffer(desk, "a #1?%41.py", "one\n")
    await buffer.open("one\n")
    shown = await desk.waiting("cat 'a #1?%41.py'")
    assert unsaved(shown) == [[]]
    await buffer.insert(0, "two\n")
    assert unsaved(await desk.get(shown)) == [[buffer.uri]]


async def test_a_change_of_a_document_that_is_not_open_harms_nothing(desk: Desk) -> None:
    await Buffer(desk, "a.py", "one\n").insert(0, "x")
    await Buffer(desk, "b.py", "one\n").close()
    assert (await desk.waiting("cat a.py"))["state"] == "awaiting_approval"


async def test_analyze_warns_of_unsaved_files(desk: Desk) -> None:
    await Buffer(desk, "a.py", "one\n").open("other\n")
    shown = await desk.waiting("true")
    params = {"sessionId": shown["sessionId"], "command": "cat a.py", "cwd": desk.cwd}
    found = await desk.client.ask("handrail/command/analyze", params)
    assert any("not saved" in each for each in found["warnings"])


async def test_px_11_a_session_runs_in_its_own_folder_whatever_folders_come_and_go(desk: Desk) -> None:
    a, b = desk.workspace / "a", desk.workspace / "b"
    for folder in (a, b):
        folder.mkdir()
    event = {"added": [{"uri": each.as_uri(), "name": each.name} for each in (a, b)], "removed": []}
    await desk.client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    for folder in (b, a):
        desk.workspace = folder
        shown = await desk.waiting("pwd")
        assert pending(shown)[0]["cwd"] == folder.as_uri()
        removed = {"added": [], "removed": [{"uri": folder.as_uri(), "name": folder.name}]}
        await desk.client.notify("workspace/didChangeWorkspaceFolders", {"event": removed})
        ended = await desk.decide(shown)
        page = await desk.client.ask("handrail/session/transcript", {"sessionId": ended["sessionId"]})
        assert page["steps"][0]["calls"][0]["result"]["outputTail"] == f"{folder}\n"
