"""The house in order: format, lint, types, import floors, and nothing generated or private in the tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


def run(*words: str) -> None:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "words",
    [("ruff", "format", "--check", "."), ("ruff", "check", "."), ("lint-imports",)],
    ids=["format", "lint", "floors"],
)
def test_tools_are_content(words: tuple[str, ...]) -> None:
    run(str(BIN / words[0]), *words[1:])


@pytest.mark.timeout(300)
def test_types() -> None:
    run(str(BIN / "mypy"))


def test_only_one_file_imports_litellm() -> None:
    importing = [
        path.relative_to(ROOT).as_posix()
        for path in tracked("agent_core/**/*.py", "agent_core/*.py", "server/*.py", "server/**/*.py", "editors/**/*.py")
        if re.search(r"^\s*(import|from) litellm\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert importing == ["agent_core/provider_worker.py"]


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in tracked("agent_core/**/*.py", "agent_core/*.py", "server/**/*.py", "server/*.py", "editors/**/*.py")
        if not path.read_text(encoding="utf-8").startswith('"""')
    ]
    assert silent == []


def test_no_paths_of_a_machine_and_no_package_hosts() -> None:
    hosts = "|".join(["registry" + r"\.npmjs\.org", "files" + r"\.pythonhosted\.org", "pypi" + r"\.org"])
    forbidden = re.compile(rf"(^|[^\w./-])/(work|root)/|{hosts}", re.MULTILINE)
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match.group()!r}" for match in forbidden.finditer(text)]
    assert found == []


def test_the_map_of_the_core_names_every_file() -> None:
    readme = (ROOT / "agent_core" / "README.md").read_text(encoding="utf-8")
    core = ROOT / "agent_core"
    files = [path.name for path in tracked("agent_core/*.py") if path.parent == core and path.name != "__init__.py"]
    assert [name for name in files if f"`{name}`" not in readme] == []
    named = re.findall(r"`(\w+\.py)`", readme.split("## The step machine")[0])
    assert [name for name in named if not (core / name).exists()] == []
