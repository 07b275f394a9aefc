"""The plugin's Lua by itself: pure modules inside Neovim, format, lint, and files that are quick however long."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.nvim_driver import PLUGIN, ROOT, Editor, environment, find_nvim, opened

pytestmark = pytest.mark.timeout(45)
GOLDEN = ROOT / "tests" / "wire" / "golden"
LUA = Path(__file__).parent / "lua"
OURS = [path for path in sorted(PLUGIN.rglob("*.lua")) if path.name != "protocol.lua"] + [LUA / "pure.lua"]


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    yield from opened(tmp_path)


def test_pure_modules(tmp_path: Path) -> None:
    sample = tmp_path / "snapshot.json"
    sample.write_text(json.dumps(json.loads((GOLDEN / "session.didUpdate.json").read_text("utf-8"))["params"]))
    done = subprocess.run(
        [find_nvim(), "--clean", "--headless", "--cmd", f"set rtp^={PLUGIN}", "-l", str(LUA / "pure.lua")],
        env={**environment(tmp_path), "HANDRAIL_SNAPSHOT": str(sample)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") >= 15


def test_luacheck() -> None:
    if shutil.which("luacheck") is None:
        pytest.skip("luacheck is missing: apt-get install lua-check")
    done = subprocess.run(
        ["luacheck", "-q", "--no-color", "."], cwd=PLUGIN, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_stylua() -> None:
    if not (LUA / "node_modules").exists() or shutil.which("node") is None:
        pytest.skip(
            "StyLua is missing: npm install --no-save --no-package-lock --prefix tests/editors/lua"
            " @johnnymorganz/stylua@2.5.2 (node stylua.mjs --fix FILE formats)"
        )
    done = subprocess.run(
        ["node", str(LUA / "stylua.mjs"), *map(str, OURS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"not formatted: {done.stdout}{done.stderr}"


def test_every_module_says_what_it_is_for_and_stays_small() -> None:
    for path in OURS:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("--"), path
        assert text.count("\n") <= 400, path
        if path.parent.name == "handrail":
            assert re.match(r"---", text), path


def test_a_session_of_5000_lines_grows_by_appending(editor: Editor) -> None:
    """A piece of text costs the same at the end of a long session as at its beginning; nothing is redrawn whole."""
    written = editor.lua(
        """
        require("handrail")
        local Transcript = require("handrail.transcript")
        local buffer = vim.api.nvim_create_buf(false, true)
        local transcript = Transcript.new(buffer)
        local lines = {}
        for at = 1, 5000 do lines[at] = "row " .. at end
        local step = { stepId = "1", index = 1, attempt = 1, said = {}, text = "", textOffset = 0, calls = {} }
        step.text = table.concat(lines, "\\n")
        transcript:take_step(step, false)
        local touched = 0
        vim.api.nvim_buf_attach(buffer, false, { on_lines = function(_, _, _, first, last, new_last)
          touched = touched + math.max(last, new_last) - first
        end })
        local offset = #step.text
        for at = 1, 200 do
          local piece = ("more %d\\n"):format(at)
          transcript:stream({ channel = "text", stepId = "1", attempt = 1, offset = offset, text = piece })
          offset = offset + #piece
        end
        return { touched, vim.api.nvim_buf_line_count(buffer) }
        """
    )
    touched, count = written
    assert count > 5190
    assert touched <= 600
