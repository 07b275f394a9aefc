"""The open sessions of this server: made, loaded from the journal, found by id, closed together.

Invariants: a session is open at most once, here and among all servers of this person (the journal's hold); provider
keys are read once from the environment, go to the masker and the model worker, and are then gone from our own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from agent_core.errors import SettingsError, UnknownSession
from agent_core.journal import Journal, SessionSummary
from agent_core.keys import KEY_VARIABLES
from agent_core.opening import Opener
from agent_core.session import Session
from agent_core.settings import Settings, build, read_toml

STATE_VARIABLE = "HANDRAIL_STATE_DIR"
CONFIG_VARIABLE = "HANDRAIL_CONFIG"


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return where the journal is, as an absolute path."""
    return _absolute(environ.get(STATE_VARIABLE) or platformdirs.user_state_dir("handrail"))


def config_file(environ: Mapping[str, str]) -> Path:
    """Return the user's settings file, as an absolute path."""
    return _absolute(
        environ.get(CONFIG_VARIABLE) or os.path.join(platformdirs.user_config_dir("handrail"), "config.toml")
    )


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))


def layered_settings(environ: Mapping[str, str], client: Mapping[str, Any], session: Mapping[str, Any]) -> Settings:
    """Return defaults, the user's file, the client's and a session's settings, each over the one before.

    Raises `SettingsError`, also for a file that is named and not there: its rules would be lost in silence.
    """
    path = config_file(environ)
    values = read_toml(path)
    if environ.get(CONFIG_VARIABLE) and not os.path.exists(path):
        raise SettingsError(
            f"There is no settings file {path}, which {CONFIG_VARIABLE} names. Make it, or unset {CONFIG_VARIABLE}."
        )
    base = build({}, "The defaults").over(values, f"The settings file {path}")
    return base.over(client, "The client's settings").over(session, "The session's settings")


class Registry:
    """All sessions that are open here. `can_ask` says whether the client shows approvals."""

    def __init__(self, environ: MutableMapping[str, str], *, can_ask: bool, defaults: Mapping[str, Any]) -> None:
        self._environ = dict(environ)
        for names in KEY_VARIABLES.values():
            for name in names:
                environ.pop(name, None)
        self._defaults = defaults
        self._journal = Journal(state_folder(self._environ))
        self._opener = Opener(self._journal, self._environ, can_ask=can_ask)
        self._sessions: dict[str, Session] = {}
        self._loading: dict[str, asyncio.Lock] = {}

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that the server was started with, provider keys included; it never leaves this process."""
        return self._environ

    @property
    def opener(self) -> Opener:
        """What sessions are made with."""
        return self._opener

    def settings(self, changes: Mapping[str, Any]) -> Settings:
        """Return the settings of a new session: defaults, the user's file, the client's, and these over them."""
        return layered_settings(self._environ, self._defaults, changes)

    async def new(self, cwd: str, changes: Mapping[str, Any]) -> Session:
        """Open a new session in a folder."""
        if not await asyncio.to_thread(os.path.isdir, cwd):
            raise SettingsError(f"There is no folder {cwd}; open the session in one that exists.")
        settings = self.settings(changes)
        now = time.time()
        summary = SessionSummary(secrets.token_hex(8), cwd, "", now, now, "idle", None, 0, 0.0)
        session = await self._opener.open(summary, settings)
        self._sessions[session.id] = session
        return session

    async def load(self, session_id: str) -> Session:
        """Return an open session, or open a stored one, or one that can only be read, where its record ends."""
        async with self._loading.setdefault(session_id, asyncio.Lock()):
            if session_id in self._sessions and self._sessions[session_id].read_only:
                await self.close_session(session_id)
            if session_id not in self._sessions:
                summary = await self._journal.summary(session_id)
                self._sessions[session_id] = await self._opener.resume(summary)
        return self._sessions[session_id]

    def get(self, session_id: str) -> Session:
        """Return an open session; raises `UnknownSession`."""
        try:
            return self._sessions[session_id]
        except KeyError:
            raise UnknownSession(f"No session {session_id!r} is open here; load it first.") from None

    async def configure(self, session: Session, changes: Mapping[str, Any]) -> None:
        """Change an open session's settings."""
        await self._opener.configure(session, session.settings.over(changes, "The session's settings"))

    async def summaries(self, cwd: str | None) -> list[SessionSummary]:
        """Return all sessions, newest first; those that are open here name no holder, since they can be used."""
        found = await self._journal.summaries(cwd)
        return [replace(each, holder="") if each.id in self._sessions else each for each in found]

    async def close_session(self, session_id: str) -> Session:
        """Close an open session."""
        session = self.get(session_id)
        await session.close()
        self._sessions.pop(session_id, None)
        return session

    async def delete(self, session_id: str) -> SessionSummary:
        """Close a session if it is open here and remove its record, also of one that can no longer be loaded."""
        async with self._loading.setdefault(session_id, asyncio.Lock()):
            if session_id in self._sessions:
                await self.close_session(session_id)
            summary = await self._journal.summary(session_id)
            await self._journal.delete(session_id)
        return summary

    def all(self) -> list[Session]:
        """Return the open sessions."""
        return list(self._sessions.values())

    async def close(self) -> None:
        """Close everything, all sessions at once."""
        await asyncio.gather(*(session.close() for session in self.all()), return_exceptions=True)
        self._sessions.clear()
        await self._opener.close()
        await self._journal.close()
