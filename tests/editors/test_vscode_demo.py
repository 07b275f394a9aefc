"""The embedded demo in the real VS Code, to the repaired test, with a reload in the middle; and the two screenshots.

With HANDRAIL_SCREENSHOTS set, the screenshots of the README are written anew into the extension's `media` folder.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.editors import vscode_install

pytest.importorskip("playwright", reason="Playwright is missing: install the group `dev`")

from playwright.sync_api import expect

from editors.terminal.demo import TAPE, TASK, Outcome, run_tests
from tests.editors.vscode_workbench import PATIENCE, Workbench, copy_demo, workbench

pytestmark = pytest.mark.timeout(600)
_MOST_BYTES = 150_000


def test_the_demo_is_run_to_the_repaired_test(tmp_path: Path) -> None:
    with workbench(tmp_path, vscode_install.OLDEST, settings={"handrail.replay": str(TAPE)}) as window:
        copy_demo(window.workspace)
        window.ready()
        window.show()
        window.prompt(TASK)
        approvals = 0
        while True:
            expect(window.view.locator("#approval, .closing").first).to_be_visible(timeout=PATIENCE)
            if not window.approval.count():
                break
            approvals += 1
            picture(window, approvals, tmp_path)
            if approvals == 3:
                window.reload()
                expect(window.approval).to_be_visible(timeout=60_000)
                widen(window)
                window.open("bill.py")
                window.show()
            digest = window.approval.get_attribute("data-digest")
            if window.approval.locator("button", has_text="Show the end").count():
                window.approval.locator("button", has_text="Show the end").click()
            window.approve()
            expect(window.view.locator(f'[data-digest="{digest}"]')).to_have_count(0)
        window.closing("The model ended its turn")
        outcome = run_tests_of(window.workspace)
        assert outcome.passed, outcome.summary
        assert approvals >= 4


def run_tests_of(project: Path) -> Outcome:
    """Run the project's tests in a thread: Playwright's own loop runs in this one."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(run_tests(project))).result(60)


def widen(window: Workbench) -> None:
    """Give the side bar more room, by its edge, as a person would."""
    box = window.page.locator(".part.sidebar").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"], box["y"] + 200
    window.page.mouse.move(x, y)
    window.page.mouse.down()
    window.page.mouse.move(x + 110, y, steps=4)
    window.page.mouse.up()


def picture(window: Workbench, approvals: int, folder: Path) -> None:
    """Take the pictures at the approval of the repair: light, then dark."""
    if approvals != 4:
        return
    wanted = os.environ.get("HANDRAIL_SCREENSHOTS")
    for name in ("light", "dark"):
        expect(window.view.locator(f"body.vscode-{name}")).to_be_visible()
        file = (vscode_install.EXTENSION / "media" if wanted else folder) / f"session-{name}.png"
        window.page.mouse.move(900, 500)
        window.page.screenshot(path=str(file), animations="disabled")
        assert file.stat().st_size < _MOST_BYTES, file
        window.other_theme()
        window.show()
