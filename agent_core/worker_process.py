"""One running model worker, seen from the parent: starts it, tells its calls apart, and notices when it dies.

Invariants: every call gets a last message or a `ProviderFailure`, also when the worker dies; leaving a call early
cancels it in the worker; the worker's standard error goes to the log, masked; the workspace is neither its folder nor
on its import path.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from agent_core.errors import ProviderFailure
from agent_core.types import FailureKind

_log = logging.getLogger("handrail.worker")
_LINE_LIMIT = 1 << 28
_LAST = ("body", "end", "failure", "facts")


class WorkerProcess:
    """A worker from its start to its death; never started twice."""

    def __init__(self, process: asyncio.subprocess.Process, mask: Callable[[str], str]) -> None:
        self._process = process
        self._mask = mask
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Queue[dict[str, Any] | None]] = {}
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._last_words = ""
        self.is_dead = False
        self._logging = asyncio.create_task(self._log_errors())
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, environment: Mapping[str, str], mask: Callable[[str], str]) -> WorkerProcess:
        """Start a worker; it can be called at once, and answers when its imports are done (seconds later)."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "agent_core.provider_worker", str(os.getpid())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environment),
            cwd="/",
            start_new_session=True,  # Ctrl-C in a terminal is for the server to handle
            limit=_LINE_LIMIT,
        )
        return cls(process, mask)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def was_ready(self) -> bool:
        """Whether its imports were done, now or before it died."""
        return self._ready.done() and not self._ready.cancelled() and self._ready.exception() is None

    async def died(self) -> None:
        """Return when the process is gone and all its calls are told."""
        await asyncio.shield(self._reading)

    async def ready(self) -> str:
        """Return litellm's version when the imports are done; raise `ProviderFailure` if the worker died of them."""
        return await asyncio.shield(self._ready)

    async def exchange(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Send a request at once and yield its messages up to the last; to be used with `contextlib.aclosing`."""
        number = next(self._numbers)
        messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._calls[number] = messages
        if self.is_dead:
            messages.put_nowait(None)
        over = False
        try:
            self.tell({"id": number, **request})
            while not over:
                message = await messages.get()
                if message is None:
                    over = True
                    raise self._death()
                over = any(name in message for name in _LAST)
                yield message
        finally:
            del self._calls[number]
            if not over:
                self.tell({"cancel": number})

    async def close(self) -> None:
        """End the worker at once; its calls end with a failure."""
        if self._process.returncode is None:
            self._process.kill()
        await self.died()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send one line; to a worker that is gone, nothing."""
        stdin = self._process.stdin
        if stdin is not None and self._process.returncode is None and not stdin.is_closing():
            stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        try:
            await self._read_messages()
        except ValueError:
            # A worker that cannot be understood would keep its calls waiting; nothing it says is worth more.
            self._process.kill()
        finally:
            await self._process.wait()
            await self._logging
            self.is_dead = True
            if not self._ready.done():
                self._ready.set_exception(self._death())
                self._ready.exception()  # nobody may be waiting; that is no fault
            for messages in self._calls.values():
                messages.put_nowait(None)

    async def _read_messages(self) -> None:
        stdout = self._process.stdout
        while stdout is not None and (line := await stdout.readline()):
            message = json.loads(line)
            if "ready" in message:
                self._ready.set_result(message["ready"]["litellm"])
            elif calls := self._calls.get(message["id"]):
                calls.put_nowait(message)

    async def _log_errors(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (line := await stderr.readline()):
            text = self._mask(line.decode(errors="replace").rstrip())
            self._last_words = text or self._last_words
            _log.info("%s", text)

    def _death(self) -> ProviderFailure:
        code = self._process.returncode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        words = f" Its last words: {self._last_words[:300]}" if self._last_words else ""
        return ProviderFailure(
            FailureKind.WORKER_DIED,
            f"The process that talks to model providers ended {how} before the reply came.{words} Go on to ask again.",
        )
