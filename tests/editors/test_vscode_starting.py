"""How the extension starts in the real VS Code, and when it must not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.editors import vscode_install

pytest.importorskip("playwright", reason="Playwright is missing: install the group `dev`")

from playwright.sync_api import expect

from tests.editors.vscode_workbench import PATIENCE, run_in_host, workbench

pytestmark = pytest.mark.timeout(600)


def test_nothing_starts_in_restricted_mode(tmp_path_factory: pytest.TempPathFactory) -> None:
    with workbench(tmp_path_factory.mktemp("code"), vscode_install.OLDEST, trusted=False) as window:
        box = window.page.locator(".monaco-dialog-box")
        expect(box).to_be_visible(timeout=60_000)
        box.get_by_role("button", name=re.compile("No, I don")).click()
        expect(window.page.locator(".statusbar-item", has_text="Restricted Mode")).to_be_visible()
        window.page.wait_for_timeout(1500)
        expect(window.status).to_have_count(0)
        assert window.server_pids() == []


def test_a_missing_server_is_told_with_the_way_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    missing = {"handrail.server.command": ["/nowhere/handrail", "serve"]}
    with workbench(tmp_path_factory.mktemp("code"), vscode_install.OLDEST, settings=missing) as window:
        window.ready()
        toast = window.page.locator(".notification-toast", has_text="There is no /nowhere/handrail")
        expect(toast.get_by_role("button", name="Open Setting")).to_be_visible(timeout=PATIENCE)
        window.command("Handrail: Give a Task")
        expect(window.view.locator(".empty")).to_contain_text("Set the server")


@pytest.mark.parametrize("version", [vscode_install.OLDEST, vscode_install.NEWEST], ids=["oldest", "newest"])
def test_in_the_extension_host(tmp_path: Path, version: str) -> None:
    code, told = run_in_host(tmp_path, version)
    assert code == 0, told
    assert sum(each.startswith("TEST pass") for each in told) == 5, told
