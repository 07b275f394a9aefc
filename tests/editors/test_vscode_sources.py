"""The VS Code extension's sources: in order, its pure modules right, its package without a warning."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.editors import vscode_install

ROOT = Path(__file__).parents[2]


def npm(*words: str) -> str:
    folder = vscode_install.tools()
    with vscode_install.locked("package"):
        done = subprocess.run(
            ["npm", "run", "--silent", *words], cwd=folder, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_format_and_lint() -> None:
    npm("lint")


@pytest.mark.timeout(300)
def test_types() -> None:
    npm("types")


@pytest.mark.timeout(300)
def test_pure_modules() -> None:
    told = npm("test")
    counted = re.search(r"^# pass (\d+)$", told, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) >= 40, told


def test_settings_are_those_of_the_server() -> None:
    npm("settings", "--", "--check")


def test_every_setting_that_loosens_or_spends_is_the_persons_own() -> None:
    manifest = json.loads((vscode_install.EXTENSION / "package.json").read_text())
    properties = manifest["contributes"]["configuration"]["properties"]
    assert {name for name, each in properties.items() if each["scope"] != "machine"} == {"handrail.trace.server"}
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] is False


def test_no_command_about_an_approval_takes_part_in_a_menu_without_one_on_screen() -> None:
    contributes = json.loads((vscode_install.EXTENSION / "package.json").read_text())["contributes"]
    for word in ("approve", "edit", "reject", "stop", "remember"):
        name = f"handrail.{word}"
        command = next(each for each in contributes["commands"] if each["command"] == name)
        assert command["enablement"] == "handrail.approvalOnScreen"
        for key in (each for each in contributes["keybindings"] if each["command"] == name):
            assert "handrail.viewFocused" in key["when"]
            assert key["key"] != "enter"


@pytest.mark.timeout(300)
def test_package_holds_what_it_needs_and_nothing_else() -> None:
    with zipfile.ZipFile(vscode_install.package()) as package:
        names = {name.removeprefix("extension/") for name in package.namelist() if name.startswith("extension/")}
    folders = {name.split("/")[0] for name in names}
    assert folders == {"package.json", "readme.md", "changelog.md", "LICENSE.txt", "dist", "media"}
    assert {name for name in names if name.startswith("dist/")} == {"dist/extension.js", "dist/page.js"}


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((vscode_install.EXTENSION / "package-lock.json").read_text())
    assert [name for name, each in lock["packages"].items() if "resolved" in each] == []
    assert all("integrity" in each for name, each in lock["packages"].items() if name)
