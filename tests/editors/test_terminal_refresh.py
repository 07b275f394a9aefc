"""`handrail run --refresh`: the whole command, against a provider's double on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.core.replies import bash, chat_body
from tests.wire.double import Answer, ProviderDouble


async def handrail(folder: Path, *arguments: str) -> tuple[int, str, str]:
    (folder / "config.toml").touch()
    environment = {
        **os.environ,
        "HANDRAIL_STATE_DIR": str(folder / "state"),
        "HANDRAIL_CONFIG": str(folder / "config.toml"),
        "HANDRAIL_OFFLINE": "0",
        "OPENAI_API_KEY": "sk-test-abcdefghijklmnop0123",
    }
    command = [sys.executable, "-P", "-m", "editors.terminal.cli", "run", "--cwd", str(folder), *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.timeout(180)
async def test_a_tape_is_recorded_anew_and_the_differences_are_told(tmp_path: Path) -> None:
    tape, fresh = tmp_path / "tape.json", tmp_path / "tape.json.new"
    first = chat_body("I look.", [bash("c1", "echo one")])
    second = {**chat_body("I look.", [bash("other", "echo two")]), "service_tier": "default"}
    async with ProviderDouble() as double:
        live = ["--set", f"apiBase={double.url}/v1", "--set", "stream=false", "--on-ask", "approve"]
        model = ["--model", "openai/gpt-4o-mini"]
        double.script = [Answer(first), Answer(chat_body("Done."))]
        code, _, err = await handrail(tmp_path, "Say one.", *model, "--record", str(tape), *live)
        assert code == 0, err
        before = tape.read_text()
        double.script = [Answer(second), Answer(chat_body("Done, in other words."))]
        code, out, err = await handrail(tmp_path, "--refresh", str(tape), *live)
        assert code == 0, err
        assert double.bodies[2]["messages"][1] == double.bodies[0]["messages"][1], "the same was asked"
        assert double.bodies[2]["model"] == "gpt-4o-mini", "of the same model"
        told = out.partition("Recorded to ")[2].splitlines()
        assert told == [
            f"{fresh}.",
            'frame 1: called {"command": "echo one"} then, {"command": "echo two"} now',
            "frame 1: now sends service_tier:string",
        ]
        assert tape.read_text() == before
        assert len(json.loads(fresh.read_text())["frames"]) == 2
        code, _, err = await handrail(tmp_path, "--refresh", str(tape), *live)
        assert code == 2
        assert f"{fresh} is there already" in err


async def test_a_tape_that_tells_no_prompt_needs_the_task(tmp_path: Path) -> None:
    tape = tmp_path / "tape.json"
    tape.write_text(json.dumps({"model": "m", "recorded_at": "2026-01-01", "frames": [chat_body("Done.")]}))
    code, _, err = await handrail(tmp_path, "--refresh", str(tape), "--on-ask", "deny")
    assert code == 2
    assert "does not tell what was asked" in err
    code, _, err = await handrail(tmp_path, "--refresh", str(tmp_path / "none"), "--on-ask", "deny")
    assert code == 2
    assert "cannot be read" in err
    code, _, err = await handrail(tmp_path, "--refresh", str(tape), "--record", "x")
    assert code == 2
    assert "leave out" in err
