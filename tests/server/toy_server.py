"""A toy server on our wire: enough methods to try every way of a message, and a way to be noisy and slow."""

from __future__ import annotations

import asyncio
import os
import time

from pygls.exceptions import JsonRpcException

from server.lifecycle import WireServer, leave
from server.logs import log_to_stderr
from server.protocol import (
    AnalyzeParams,
    CommandAnalysis,
    ErrorCode,
    ErrorData,
    Health,
    NewParams,
    NoParams,
    SessionParams,
    Snapshot,
    StepParams,
    StreamParams,
    TrustParams,
    Verdict,
    WaitParams,
)
from server.wire import WireError


def snapshot(identity: str, revision: int = 1, title: str = "") -> Snapshot:
    return Snapshot(session_id=identity, revision=revision, state="idle", cwd="file:///w", mode="ask", title=title)


class ToyServer(WireServer):
    """`handled` lists what was started, `cancelled` what ended by a cancel, `stopped` counts runs of `on_stop`."""

    def __init__(self) -> None:
        super().__init__("toy", "1")
        self.handled: list[str] = []
        self.cancelled: list[str] = []
        self.stopped = 0
        self.stop_seconds = 0.0
        self.released = asyncio.Event()
        self.method("handrail/session/new")(self.new)
        self.method("handrail/session/step")(self.step)
        self.method("handrail/session/wait")(self.wait)
        self.method("handrail/session/get")(self.get)
        self.method("handrail/session/close")(self.close)
        self.method("handrail/command/analyze")(self.analyze)
        self.method("handrail/server/health")(self.health)
        self.method("handrail/workspace/didChangeTrust")(self.trust)

    async def on_stop(self) -> None:
        self.stopped += 1
        await asyncio.sleep(self.stop_seconds)

    async def new(self, params: NewParams) -> Snapshot:
        self.handled.append("new")
        return snapshot(params.cwd)

    def step(self, params: StepParams) -> Snapshot:
        self.handled.append(params.session_id)
        if params.prompt == "block":
            time.sleep(0.2)
        return snapshot(params.session_id)

    async def wait(self, params: WaitParams) -> Snapshot:
        self.handled.append(f"wait {params.after}")
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled.append(params.session_id)
            raise
        return snapshot(params.session_id, params.after + 1)

    async def get(self, params: SessionParams) -> Snapshot:
        raise WireError(ErrorCode.UNKNOWN_SESSION, f"no session {params.session_id}", ErrorData(state="closed"))

    async def close(self, params: SessionParams) -> Snapshot:
        raise ValueError("a fault with secret detail")

    def analyze(self, params: AnalyzeParams) -> CommandAnalysis:
        print("a print")
        os.system("echo a child; cat")  # noqa: S605
        verdict = Verdict(decision="ask", rule="none", why="\ud800 half a character")
        return CommandAnalysis(understood=True, display=params.command, verdict=verdict)

    async def health(self, params: NoParams) -> Health:
        for number in range(int(os.environ.get("TOY_FLOOD", "0"))):
            self.tell("handrail/session/didUpdate", snapshot("s", number, "x" * 10_000))
            piece = StreamParams(
                session_id="s", step_id="1", attempt=1, channel="text", offset=number, text="y" * 9_000
            )
            self.tell("handrail/session/didStream", piece)
        return Health(checks=[])

    def trust(self, params: TrustParams) -> None:
        self.handled.append(f"trust {params.trusted}")
        if not params.trusted:
            raise JsonRpcException("a notification that fails")


def main() -> None:
    log_to_stderr()
    server = ToyServer()
    server.stop_seconds = float(os.environ.get("TOY_STOP", "0"))
    port = os.environ.get("TOY_PORT")
    leave(server.run_stdio() if port is None else server.run_tcp(int(port)))


if __name__ == "__main__":
    main()
