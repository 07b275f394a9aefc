"""Whole turns in the real VS Code, with the real server, a tape and real commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.editors import vscode_install

pytest.importorskip("playwright", reason="Playwright is missing: install the group `dev`")

from playwright.sync_api import expect

from tests.editors.vscode_workbench import Workbench, workbench

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=[vscode_install.OLDEST], ids=["oldest"])
def window(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with workbench(tmp_path_factory.mktemp("code"), request.param) as made:
        made.ready()
        made.show()
        yield made


def test_a_turn_with_approvals_runs_exactly_what_was_shown(window: Workbench) -> None:
    window.ask("printf 'one\\ntwo\\n' > made.txt", "cat made.txt")
    expect(window.approval).to_contain_text("Run command 1 of 2?")
    expect(window.approval.locator("#approval-command")).to_have_text("printf 'one\\ntwo\\n' > made.txt")
    assert not (window.workspace / "made.txt").exists()
    window.approve()
    expect(window.approval).to_contain_text("Run command 2 of 2?")
    window.approve()
    window.closing("The model ended its turn")
    assert (window.workspace / "made.txt").read_text() == "one\ntwo\n"
    expect(window.view.locator("article").nth(1).locator(".output")).to_have_text("one\ntwo\n")
    expect(window.view.locator("footer")).to_contain_text("2 steps")
    expect(window.approval).to_have_count(0)
