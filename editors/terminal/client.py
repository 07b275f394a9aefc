"""A typed client of Handrail's protocol, over the stdio of a server that it starts; for the terminal and for tests.

Invariants: what goes out and what comes in are the models of `server.protocol`; an answer that does not fit its model
loses the connection instead of being guessed at. Nothing is ever decided here. When the server dies, every waiting
request fails at once with `ServerGone` (LS-10, LS-17).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from editors.terminal.connection import Connection, ConnectionLost, RequestFailed
from editors.terminal.process import SERVER_COMMAND, ServerGone, ServerProcess
from server.protocol import (
    AnalyzeParams,
    Announcement,
    CancelParams,
    CommandAnalysis,
    ConfigureParams,
    DecideParams,
    Decision,
    DetachParams,
    Export,
    ExportParams,
    Health,
    ListParams,
    NewParams,
    NoParams,
    Params,
    QueueParams,
    RunParams,
    SessionList,
    SessionParams,
    Settings,
    Snapshot,
    StepParams,
    StreamParams,
    Transcript,
    TranscriptParams,
    TrustParams,
    WaitParams,
    Wire,
)

__all__ = ["Client", "ConnectionLost", "RequestFailed", "ServerGone"]

_SHUTDOWN_PATIENCE = 2.5  # seconds; the server bounds its own clean-up to 1.5

Answer = TypeVar("Answer", bound=Wire)


class Client:
    """One connection to one server. Callbacks run on the event loop, in the order of the messages."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.connection = Connection(write, self._notified)
        self.process: ServerProcess | None = None
        self.on_update: Callable[[Snapshot], None] = lambda snapshot: None
        self.on_stream: Callable[[StreamParams], None] = lambda piece: None
        self.on_message: Callable[[str], None] = lambda text: None
        self.on_other: Callable[[str, Any], None] = lambda method, params: None

    @classmethod
    async def start(
        cls, command: Sequence[str] = SERVER_COMMAND, *, environment: Mapping[str, str] | None = None
    ) -> Client:
        """Start a server with `environment` (None: this process') and connect to it; raise OSError if it cannot be."""
        process = ServerProcess()
        client = cls(process.write)
        client.process = process
        process.on_bytes, process.on_gone = client.connection.feed, client.connection.lose
        await process.start(command, environment)
        return client

    async def initialize(self, *, approvals: bool = True, settings: Settings | None = None) -> dict[str, Any]:
        """Shake hands and return the server's answer as JSON values.

        `approvals` says whether this client's user can decide; `settings` are for all sessions of this server.
        """
        announcement = Announcement(approvals=approvals).to_wire()
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": "handrail-terminal"},
            "rootUri": None,
            "capabilities": {"experimental": {"handrail": announcement}},
            "initializationOptions": None if settings is None else settings.to_wire(),
        }
        answer: dict[str, Any] = await self.connection.request("initialize", params)
        self.connection.notify("initialized", {})
        return answer

    async def close(self) -> int | None:
        """Shut the server down in order and return its exit code; afterwards no process is left (F3)."""
        with contextlib.suppress(Exception):  # whatever was lost, the process is to end
            await asyncio.wait_for(self.connection.request("shutdown", None), _SHUTDOWN_PATIENCE)
        self.connection.notify("exit", None)
        return await self._end(at_once=False)

    def depend_on(self, work: asyncio.Future[Any]) -> None:
        """Lose the connection if `work` fails, which nobody may be waiting for."""

        def ended(done: asyncio.Future[Any]) -> None:
            fault = None if done.cancelled() else done.exception()
            if isinstance(fault, Exception):
                self.connection.lose(fault)

        work.add_done_callback(ended)

    async def kill(self) -> int | None:
        """End the server without waiting for an answer of it; its commands end with it."""
        return await self._end(at_once=True)

    async def new(self, cwd: str, settings: Settings | None = None) -> Snapshot:
        """Open a session in the folder `cwd` (a URI)."""
        params = NewParams(cwd=cwd) if settings is None else NewParams(cwd=cwd, settings=settings)
        return await self.ask("handrail/session/new", params, Snapshot)

    async def load(self, session_id: str) -> Snapshot:
        """Open a stored session."""
        return await self._about(session_id, "handrail/session/load")

    async def list(self, cwd: str | None = None) -> SessionList:
        """List the stored sessions, those of the folder `cwd` (a URI) or all."""
        return await self.ask("handrail/session/list", ListParams(cwd=cwd), SessionList)

    async def step(self, session_id: str, prompt: str | None = None, *, max_steps: int | None = 1) -> Snapshot:
        """Start a turn, or go on with an unfinished one; `max_steps` None means until the turn ends."""
        params = StepParams(session_id=session_id, max_steps=max_steps)
        if prompt is not None:
            params = StepParams(session_id=session_id, prompt=prompt, max_steps=max_steps)
        return await self.ask("handrail/session/step", params, Snapshot)

    async def decide(self, session_id: str, *decisions: Decision) -> Snapshot:
        """Decide pending calls, all or none."""
        params = DecideParams(session_id=session_id, decisions=list(decisions))
        return await self.ask("handrail/session/decide", params, Snapshot)

    async def cancel(self, session_id: str, call_id: str | None = None) -> Snapshot:
        """Cancel the turn, or one running command."""
        params = CancelParams(session_id=session_id)
        if call_id is not None:
            params = CancelParams(session_id=session_id, call_id=call_id)
        return await self.ask("handrail/session/cancel", params, Snapshot)

    async def wait(self, session_id: str, after: int) -> Snapshot:
        """Return the snapshot as soon as the session rests at a revision beyond `after`."""
        return await self.ask("handrail/session/wait", WaitParams(session_id=session_id, after=after), Snapshot)

    async def get(self, session_id: str) -> Snapshot:
        """Return the snapshot of now."""
        return await self._about(session_id, "handrail/session/get")

    async def close_session(self, session_id: str) -> Snapshot:
        """End the session's work and let go of it."""
        return await self._about(session_id, "handrail/session/close")

    async def delete(self, session_id: str) -> Snapshot:
        """Close the session and remove its record."""
        return await self._about(session_id, "handrail/session/delete")

    async def configure(self, session_id: str, settings: Settings) -> Snapshot:
        """Change settings of a session."""
        params = ConfigureParams(session_id=session_id, settings=settings)
        return await self.ask("handrail/session/configure", params, Snapshot)

    async def queue(self, session_id: str, prompt: str) -> Snapshot:
        """Queue a prompt for the next query."""
        return await self.ask("handrail/session/queue", QueueParams(session_id=session_id, prompt=prompt), Snapshot)

    async def withdraw(self, session_id: str, prompt_id: str) -> Snapshot:
        """Take a queued prompt back."""
        params = QueueParams(session_id=session_id, withdraw=prompt_id)
        return await self.ask("handrail/session/queue", params, Snapshot)

    async def compact(self, session_id: str) -> Snapshot:
        """Shorten what is sent to the model."""
        return await self._about(session_id, "handrail/session/compact")

    async def run(self, session_id: str, command: str) -> Snapshot:
        """Run the person's own command."""
        return await self.ask("handrail/session/run", RunParams(session_id=session_id, command=command), Snapshot)

    async def detach(self, session_id: str, call_id: str) -> Snapshot:
        """Leave a running command running."""
        return await self.ask("handrail/session/detach", DetachParams(session_id=session_id, call_id=call_id), Snapshot)

    async def transcript(self, session_id: str, from_step: int = 1, limit: int = 50) -> Transcript:
        """Return a page of the session's steps."""
        params = TranscriptParams(session_id=session_id, from_step=from_step, limit=limit)
        return await self.ask("handrail/session/transcript", params, Transcript)

    async def export(self, params: ExportParams) -> Export:
        """Return the whole session as JSON text."""
        return await self.ask("handrail/session/export", params, Export)

    async def analyze(self, params: AnalyzeParams) -> CommandAnalysis:
        """Return what a person would be shown about a command."""
        return await self.ask("handrail/command/analyze", params, CommandAnalysis)

    async def health(self) -> Health:
        """Return what the server found about itself."""
        return await self.ask("handrail/server/health", NoParams(), Health)

    def trust(self, folder: str, *, trusted: bool) -> None:
        """Tell the server whether the person trusts `folder` (a URI)."""
        params = TrustParams(folder=folder, trusted=trusted)
        self.connection.notify("handrail/workspace/didChangeTrust", params.to_wire())

    async def ask(self, method: str, params: Params, answer: type[Answer]) -> Answer:
        """Send any request of the protocol and read its answer as `answer`."""
        try:
            return answer.model_validate(await self.connection.request(method, params.to_wire()))
        except ValidationError as fault:
            raise self._misread(method, fault) from None

    async def _about(self, session_id: str, method: str) -> Snapshot:
        return await self.ask(method, SessionParams(session_id=session_id), Snapshot)

    async def _end(self, *, at_once: bool) -> int | None:
        if self.process is None:
            return None
        await self.process.end(at_once=at_once)
        return self.process.exit_code

    def _notified(self, method: str, params: Any) -> None:
        try:
            match method:
                case "handrail/session/didUpdate":
                    self.on_update(Snapshot.model_validate(params))
                case "handrail/session/didStream":
                    self.on_stream(StreamParams.model_validate(params))
                case "window/showMessage":
                    self.on_message(params["message"])
                case _:
                    self.on_other(method, params)
        except ValidationError as fault:
            self._misread(method, fault)

    def _misread(self, method: str, fault: ValidationError) -> ConnectionLost:
        """Lose the connection: two sides that read the protocol differently must not go on (approvals depend on it)."""
        first = fault.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        lost = ConnectionLost(
            f"The server's {method} cannot be read: {where}: {first['msg']}. "
            "Client and server are of different versions; install Handrail again."
        )
        self.connection.lose(lost)
        return lost
