"""Writes what follows from the definition of the wire: `python -P -m server.schema [--check]`.

Invariants: everything is generated from `METHODS`, the models and `SAMPLES` alone, and the README's table of settings
from the core's, so that no client and no page can disagree with the server. `--check` changes nothing and fails if a
file differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from server.schema.samples import SAMPLES
from server.schema.settings_table import with_settings
from server.schema.shapes import shapes, vocabularies
from server.schema.targets import json_schema, lua, page, pretty, typescript

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/wire/golden"


def golden() -> dict[str, str]:
    """Give the golden file of each message: its file name and its text."""
    files = {}
    for method, sample in SAMPLES.items():
        told: dict[str, Any] = {"method": method, "params": sample.params.to_wire()}
        if sample.result is not None:
            told["result"] = sample.result.to_wire()
        files[method.removeprefix("handrail/").replace("/", ".") + ".json"] = pretty(told)
    return files


def generated() -> dict[Path, str]:
    """Give every file that is generated, with its text."""
    known, told = shapes(), vocabularies()
    files = {
        ROOT / "server/protocol.schema.json": json_schema(known, told),
        ROOT / "server/PROTOCOL.md": page(known, told),
        ROOT / "editors/vscode/src/protocol.ts": typescript(known, told),
        ROOT / "editors/nvim/lua/handrail/protocol.lua": lua(known, told),
    }
    readme = ROOT / "README.md"
    if readme.exists():
        files[readme] = with_settings(readme.read_text("utf-8"))
    return files | {GOLDEN / name: text for name, text in golden().items()}


def stale(files: dict[Path, str]) -> list[Path]:
    """Give the files on disk that differ from these, and golden files of messages that are no more."""
    differing = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    return differing + sorted(set(GOLDEN.glob("*")) - set(files))


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or check them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -P -m server.schema", description="Write what the wire defines.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    checking = parser.parse_args(arguments).check
    files = generated()
    differing = stale(files)
    for path in differing:
        print(f"{'differs' if checking else 'written'}: {path.relative_to(ROOT)}")
        if not checking:
            _write(path, files.get(path))
    if checking and differing:
        print("run `python -P -m server.schema` and commit what it writes")
    return 1 if checking and differing else 0


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
