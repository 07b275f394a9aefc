"""Secrets planted everywhere, a session with a failing provider, then every file, log and message searched."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.replies import bash, chat_body
from tests.server.conftest import ANNOUNCED, Desk
from tests.server.raw_client import RawClient
from tests.wire.double import Answer, ProviderDouble

KEY = "sk-test-Kq7Zr2Vx9Lm4Nt8Bw3Yc"
TOKEN = "ghx-Hj5Pd1Sg6Fk0Ae8Rv2Qu"
PASSWORD = "glacier-walnut-Tq81-orbit"
DOTENV = "zz_9Yb3Wn7Xe5Mc1Ks4Dg6Lt"
CANARIES = (KEY, TOKEN, PASSWORD, DOTENV)


def found_in(text: str) -> list[str]:
    return [canary for canary in CANARIES if canary in text]


def found_in_files(folder: Path) -> dict[str, list[str]]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".env"]
    assert {"tape.json", "journal.db"} <= {path.name for path in files}
    kept = {str(path): found_in(path.read_bytes().decode(errors="replace")) for path in files}
    return {path: names for path, names in kept.items() if names}


@pytest.mark.timeout(180)
async def test_no_canary_leaves_the_process(tmp_path: Path) -> None:
    """SE-01, SE-02, SE-03, SE-05, SE-07."""
    environment = {
        "HANDRAIL_STATE_DIR": str(tmp_path / "state"),
        "HANDRAIL_OFFLINE": "0",
        "OPENAI_API_KEY": KEY,
        "SERVICE_TOKEN": TOKEN,
        "DB_PASSWORD": PASSWORD,
    }
    client = await RawClient.start(sys.executable, "-P", "-m", "server", "--log", "debug", env=environment)
    async with ProviderDouble() as double:
        await client.initialize(handrail=ANNOUNCED)
        desk = Desk(client, tmp_path)
        (desk.workspace / ".env").write_text(f"STRIPE_SECRET={DOTENV}\n")
        looks = "cat .env; tr '\\0' '\\n' < /proc/$PPID/environ; ps eww -e || true; env; echo $DB_PASSWORD"
        double.script = [
            Answer({"error": {"message": f"request had Authorization: Bearer {KEY} at /v1?key={TOKEN}"}}, 422),
            Answer(chat_body(f"Your key is {KEY}.", [bash("c1", looks)])),
            Answer({"error": {"message": f"bad key {KEY}"}}, 401),
        ]
        settings: dict[str, Any] = {
            "model": "openai/gpt-4o-mini",
            "apiBase": f"{double.url}/v1",
            "stream": False,
            "record": str(tmp_path / "tape.json"),
            "modelOptions": json.dumps({"extra_headers": {"Authorization": f"Bearer {KEY}", "X-Token": TOKEN}}),
        }
        opened = await client.ask("handrail/session/new", {"cwd": desk.cwd, "settings": settings})
        first = await desk.step(opened, f"My password is {PASSWORD}.")
        assert first["stopReason"] == "model_error"
        shown = await desk.step(first, "Again.")
        last = await desk.decide(shown)
        assert (last["stopReason"], last["error"]["kind"]) == ("model_error", "authentication")
        page = await client.ask("handrail/session/transcript", {"sessionId": last["sessionId"]})
        output = page["steps"][1]["calls"][0]["result"]["outputTail"]
        assert "<masked:STRIPE_SECRET>" in output
        assert "PATH=" in output
        exports = [
            await client.ask("handrail/session/export", {"sessionId": last["sessionId"], "format": form})
            for form in ("handrail", "mini-swe-agent-1.1")
        ]
        await client.ask("shutdown")
        await client.notify("exit")
        sent_to_model = json.dumps([each.body for each in double.requests])
    code, log = await client.ended()
    assert code == 0
    traffic = json.dumps([*client.received, opened, first, shown, last, page, exports])
    assert found_in(traffic) == []
    assert found_in(log) == []
    assert found_in(sent_to_model) == []
    assert found_in_files(tmp_path) == {}
