"""Cases of a live provider, the server being a process of its own: no look-ups of names, and answers meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

import pytest

from tests.core.replies import chat_body
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import ROOT, RawClient
from tests.wire.double import Answer, ProviderDouble

SPY = """
import os, socket

def _refused(function):
    def ask(host, *args, **options):
        if isinstance(host, str) and not host.replace(".", "").isdecimal():
            with open(os.environ["SPY_LOG"], "a") as log:
                log.write(f"{host}\\n")
            raise socket.gaierror(f"no look-up of {host}")
        return function(host, *args, **options)
    return ask

socket.getaddrinfo = _refused(socket.getaddrinfo)
socket.gethostbyname = _refused(socket.gethostbyname)
with open(os.environ["SPY_LOG"] + ".watched", "a") as watched:
    watched.write("one process\\n")
"""


@pytest.mark.timeout(180)
async def test_pf_04_no_name_is_looked_up_and_pf_01_status_is_answered_while_a_model_thinks(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = environment / "spy"
    spy.mkdir()
    (spy / "sitecustomize.py").write_text(SPY)
    log = environment / "looked-up"
    monkeypatch.delenv("HANDRAIL_OFFLINE")
    given = {"PYTHONPATH": f"{spy}:{ROOT}", "SPY_LOG": str(log), "OPENAI_API_KEY": "sk-test-abcdefghijklmnop0123"}
    async with ProviderDouble() as double:
        client = await RawClient.start(sys.executable, "-P", "-m", "server", env=given)
        await client.initialize(handrail=ANNOUNCED)
        desk = Desk(client, environment)
        settings = {"model": "openai/gpt-4o-mini", "apiBase": f"{double.url}/v1", "stream": False}
        opened = await client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
        double.script = [Answer(chat_body("Hello."))]
        assert (await desk.step(opened, "Say hello."))["step"]["text"] == "Hello."
        assert len((environment / "looked-up.watched").read_text().splitlines()) >= 2, "server and worker are watched"
        assert not log.exists(), "a name was looked up"
        double.script = [Answer(chat_body("Again."), delay=1.0)]
        params = {"sessionId": opened["sessionId"], "prompt": "Again.", "maxSteps": None}
        begun = await client.ask("handrail/session/step", params)
        times: list[float] = []
        while (await timed(desk, begun, times))["state"] == "querying":
            await asyncio.sleep(0.02)
        assert len(times) > 10
        assert statistics.quantiles(times, n=20)[18] < 0.2
        assert max(times) < 1
        await client.ask("shutdown")
        await client.notify("exit")
        assert (await client.ended())[0] == 0


async def timed(desk: Desk, snapshot: dict[str, object], times: list[float]) -> dict[str, object]:
    start = time.monotonic()
    now = await desk.get(snapshot)
    times.append(time.monotonic() - start)
    return now
