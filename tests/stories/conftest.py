"""Sessions for stories: the real core with a scripted model, a real bash and a journal of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_core.dialects import dialect_for
from agent_core.journal import Journal, SessionSummary
from agent_core.model import Model
from agent_core.opening import Opener
from agent_core.redaction import Masker
from agent_core.session import Session
from agent_core.settings import Settings, build
from agent_core.steps import Call
from agent_core.types import CallStatus, Decision
from tests.stories.scripted import Script


class Story:
    """One workspace, one journal, and sessions in it."""

    def __init__(self, folder: Path, *, can_ask: bool = True, more: Mapping[str, str] | None = None) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.state = folder / "state"
        self.script = Script()
        self.journal = Journal(self.state)
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8", **(more or {})}
        self.opener = _ScriptedOpener(self.journal, self.environ, can_ask=can_ask, story=self)
        self.sessions: list[Session] = []

    def settings(self, **values: Any) -> Settings:
        return build({"model": "openai/scripted", "stream": False, **values}, "The test")

    async def open(self, *replies: Any, **settings: Any) -> Session:
        self.script.replies += replies
        now = time.time()
        summary = SessionSummary(secrets.token_hex(8), str(self.workspace), "", now, now, "idle", None, 0, 0.0)
        session = await self.opener.open(summary, self.settings(**settings))
        self.sessions.append(session)
        return session

    async def resume(self, session_id: str) -> Session:
        session = await self.opener.resume(await self.journal.summary(session_id))
        self.sessions.append(session)
        return session

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()
        await self.opener.close()
        await self.journal.close()


class _ScriptedOpener(Opener):
    def __init__(self, *args: Any, story: Story, **more: Any) -> None:
        super().__init__(*args, **more)
        self._story = story

    async def _model(self, settings: Settings, cwd: str, masker: Masker) -> Model:
        dialect = dialect_for(settings.model, settings.dialect)
        return Model(settings.model, dialect, self._story.script, stream=settings.stream, max_attempts=1)


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    """A story whose client shows approvals."""
    story = Story(tmp_path)
    yield story
    await story.close()


async def rest(session: Session, seconds: float = 20.0) -> None:
    """Wait until the session rests."""
    async with asyncio.timeout(seconds):
        while not session.resting:
            await session.rested(session.machine.record.revision - 1)


async def go(session: Session, prompt: str | None = "Do it.", max_steps: int | None = None) -> None:
    """Start steps and wait for rest."""
    await session.step(prompt, max_steps)
    await rest(session)


def waiting(session: Session) -> list[Call]:
    """Return the calls that wait for a decision."""
    return session.machine.record.with_status(CallStatus.AWAITING_APPROVAL)


def decision(call: Call, kind: Any = "approve", **more: Any) -> Decision:
    """Return a decision about what was shown."""
    assert call.shown is not None
    return Decision(call.key, kind, call.shown.digest, by="person", **more)


async def decide(session: Session, *decisions: Decision) -> None:
    """Take decisions and wait for rest."""
    await session.decide(decisions)
    await rest(session)


async def approve_all(session: Session) -> None:
    """Approve whatever waits until nothing does."""
    while waiting(session):
        await decide(session, *(decision(call) for call in waiting(session)))
