"""What the editor has open, and which of it differs from the disk.

Invariants: the documents are pygls' own, synchronised in increments; a file is unsaved if what the editor shows is not
what the disk holds, looked up when it is asked for, so that undoing, saving and reloading are all seen. Only the
documents that a command touches are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from agent_core.regular_files import read_regular

_MOST_BYTES = 4 << 20  # what is larger is not compared: it is unsaved from a change until it is saved


class Documents:
    """The open documents of one client; `on_save` is called when one was saved or closed."""

    def __init__(self, server: LanguageServer) -> None:
        self.on_save: Callable[[], object] = lambda: None
        self._server = server
        self._changed: set[str] = set()  # URIs
        self._places: dict[str, tuple[str, str]] = {}
        self._listen(server)

    def unsaved(self, cwd: str, command: str) -> tuple[str, ...]:
        """Return the paths of files with unsaved changes that the command reads or writes when it runs in `cwd`."""
        from agent_core.touching import touched  # the core comes after `initialize`

        files: dict[str, str] = {}
        uris: dict[str, str] = {}
        for uri in self._server.workspace.text_documents:
            path, place = self._place_of(uri)
            if path:
                files[path], uris[path] = place, uri
        named = touched(command, cwd, files, os.path.realpath)
        return tuple(path for path in named if self._differs(uris[path], path))

    def _place_of(self, uri: str) -> tuple[str, str]:
        """Return the document's path, and the path with its links resolved, looked up once; "" if it is no file."""
        if uri not in self._places:
            path = _path_of(uri)
            self._places[uri] = path, os.path.realpath(path) if path else ""
        return self._places[uri]

    def _differs(self, uri: str, path: str) -> bool:
        on_disk = _read(path)
        if on_disk is None:
            return uri in self._changed
        return _lines(self._server.workspace.text_documents[uri].source) != _lines(on_disk)

    def _listen(self, server: LanguageServer) -> None:
        @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
        def edited(params: types.DidChangeTextDocumentParams) -> None:
            self._changed.add(unquote(params.text_document.uri))

        @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
        def saved(params: types.DidSaveTextDocumentParams) -> None:
            self._settle(params.text_document.uri)

        @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
        def closed(params: types.DidCloseTextDocumentParams) -> None:
            self._places.pop(unquote(params.text_document.uri), None)
            self._settle(params.text_document.uri)

    def _settle(self, uri: str) -> None:
        self._changed.discard(unquote(uri))
        self.on_save()


def _path_of(uri: str) -> str:
    """Return the path of a file's URI, which pygls has unquoted; "" for anything else."""
    return uri.removeprefix("file://") if uri.startswith("file:///") else ""


def _read(path: str) -> str | None:
    """Return the text on disk, "" if there is none; None if it cannot be compared."""
    try:
        data = read_regular(Path(path), _MOST_BYTES + 1)
        return data.decode("utf-8-sig") if len(data) <= _MOST_BYTES else None
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None


def _lines(text: str) -> str:
    """Return the text as editors agree on it: some leave out the last line's end, or write the other kind of ends."""
    return text.replace("\r\n", "\n").removesuffix("\n")
