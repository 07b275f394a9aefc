"""Whole turns in the real VS Code, with the real server, a tape and real commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.editors import vscode_install

pytest.importorskip("playwright", reason="Playwright is missing: install the group `dev`")

from playwright.sync_api import expect

from tests.core.replies import bash, chat_body
from tests.editors.vscode_workbench import PATIENCE, Workbench, axe_source, until, workbench

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=[vscode_install.OLDEST, vscode_install.NEWEST], ids=["oldest", "newest"])
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with workbench(tmp_path_factory.mktemp("code"), request.param) as made:
        made.ready()
        yield made


@pytest.fixture
def window(code: Workbench) -> Iterator[Workbench]:
    """The window with nothing that waits or runs, before and after."""
    code.show()
    yield code
    code.page.keyboard.press("Escape")
    code.settle()


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


def test_an_edited_command_runs_instead(window: Workbench) -> None:
    window.ask("touch theirs")
    window.approval.locator("#edit").click()
    box = window.approval.locator("textarea#edit")
    expect(box).to_have_value("touch theirs")
    box.fill("touch mine\u202e")
    expect(window.approval).to_contain_text("touch mine<U+202E>")
    box.fill("touch mine")
    window.decide("run-edited")
    window.closing("The model ended its turn")
    assert (window.workspace / "mine").exists()
    assert not (window.workspace / "theirs").exists()
    expect(window.view.locator("article")).to_contain_text("You changed this command before it ran.")


def test_ap24_a_rejection_tells_its_reason(window: Workbench) -> None:
    window.ask("touch rejected")
    window.approval.locator("#reject").click()
    window.approval.locator("textarea#reason").fill("use make test instead")
    window.approval.locator("#reject-now").click()
    window.closing("The model ended its turn")
    expect(window.view.locator("article")).to_contain_text("use make test instead")
    assert not (window.workspace / "rejected").exists()


def test_ap25_stop_rejects_all_that_waits(window: Workbench) -> None:
    window.ask("touch a1", "touch b1", "touch c1")
    window.decide("stop")
    window.closing("stopped the turn")
    expect(window.view.locator(".ending", has_text="Not run")).to_have_count(3)
    assert not list(window.workspace.glob("?1"))


def test_ap13_an_exact_text_can_be_remembered(window: Workbench) -> None:
    window.tapes.record(
        chat_body("", [bash("c1", "echo again")]), chat_body("", [bash("c2", "echo again")]), chat_body("Done.")
    )
    window.new_session()
    window.prompt("Go.")
    expect(window.approval).to_be_visible(timeout=PATIENCE)
    window.approval.locator("#remember").select_option("exact")
    window.approve()
    window.closing("The model ended its turn")
    expect(window.view.locator("article").nth(1)).to_contain_text("Runs by itself")


def test_a_running_command_can_be_cancelled(window: Workbench) -> None:
    window.ask("echo started; sleep 300")
    window.approve()
    expect(window.view.locator("article .output")).to_contain_text("started", timeout=PATIENCE)
    window.view.locator("button", has_text="Cancel turn").click()
    window.closing("cancelled the turn")
    expect(window.view.locator("article .ending")).to_contain_text("cancelled")


def test_a_prompt_is_queued_while_the_agent_works(window: Workbench) -> None:
    window.ask("echo started; sleep 300")
    window.prompt("And hurry.")
    expect(window.view.locator(".queued")).to_contain_text("And hurry.")
    window.view.locator(".queued button").click()
    expect(window.view.locator(".queued")).to_have_count(0)


def test_a_reload_in_the_middle_of_an_approval_loses_nothing(window: Workbench) -> None:
    window.ask("touch reloaded")
    digest = window.approval.get_attribute("data-digest")
    window.reload()
    expect(window.approval).to_be_visible(timeout=60_000)
    assert window.approval.get_attribute("data-digest") == digest
    assert not (window.workspace / "reloaded").exists()
    window.approve()
    window.closing("The model ended its turn")
    assert (window.workspace / "reloaded").exists()


def test_ls13_a_killed_server_is_started_again_and_the_approval_is_there(window: Workbench) -> None:
    window.ask("touch survived")
    killed = window.kill_server()
    until(lambda: window.server_pids() not in ([], [killed]), "another server runs")
    expect(window.approval.locator("#stop")).to_be_enabled(timeout=PATIENCE)
    assert not (window.workspace / "survived").exists()
    expect(window.page.locator(".notification-toast", has_text="ended")).to_have_count(0)
    window.approve()
    window.closing("The model ended its turn")
    assert (window.workspace / "survived").exists()


def test_two_sessions_are_kept_apart(window: Workbench) -> None:
    window.ask("touch first")
    window.ask("touch second")
    expect(window.view.locator(".notice", has_text="another session")).to_contain_text("1 command of another session")
    expect(window.approval.locator("#approval-command")).to_have_text("touch second")
    window.approve()
    window.closing("The model ended its turn")
    assert [(window.workspace / name).exists() for name in ("first", "second")] == [False, True]
    window.view.locator(".notice", has_text="another session").locator("button").click()
    expect(window.approval.locator("#approval-command")).to_have_text("touch first")
    window.decide("stop")
    window.closing("stopped the turn")
    assert not (window.workspace / "first").exists()


def test_ap28_characters_that_hide_are_shown(window: Workbench) -> None:
    window.ask("echo a\u202etxt.exe\u202c \u200b \x1b[2K\U000e0100")
    shown = window.approval.locator("#approval-command")
    expect(shown).to_have_text("echo a<U+202E>txt.exe<U+202C> <U+200B> <U+001B>[2K<U+E0100>")
    expect(window.approval.locator(".warning").first).to_contain_text("U+202E")


@pytest.mark.parametrize(
    "command",
    ["ls\n" + "\n" * 300 + "touch pwned", "echo " + "x" * 5000 + "; touch pwned"],
    ids=["padded", "wide"],
)
def test_ap29_a_long_command_is_approved_only_after_its_end_was_seen(window: Workbench, command: str) -> None:
    window.ask(command)
    approve = window.approval.locator("#approve")
    expect(approve).to_be_disabled()
    expect(window.approval.locator("strong")).to_contain_text(f"{len(command):,} characters")
    window.approval.locator("button", has_text="Show the end").click()
    expect(approve).to_be_enabled()
    end = window.approval.locator("#approval-command").evaluate(
        "element => element.scrollHeight - element.scrollTop - element.clientHeight"
    )
    assert end < 8


def test_ux05_choices_stay_in_reach_of_a_long_command(window: Workbench) -> None:
    window.ask("\n".join(f"echo {at}" for at in range(400)))
    for name in ("approve", "edit", "reject", "stop"):
        box = window.approval.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 780, name
    command = window.approval.locator("#approval-command")
    command.focus()
    command.press("End")
    expect(window.approval.locator("#approve")).to_be_enabled()


def test_ux01_nothing_approves_by_the_way(window: Workbench) -> None:
    window.ask("touch approved")
    focused = "document.activeElement?.id ?? ''"
    assert window.view.locator("body").evaluate(focused) == "prompt"
    window.page.wait_for_timeout(450)
    for key in ("Enter", "Escape", " "):
        window.page.keyboard.press(key)
    window.approval.locator("#approval-command").focus()
    for key in ("Enter", " ", "Escape"):
        window.page.keyboard.press(key)
    window.approval.locator("#approve").dispatch_event("click", {"detail": 2})
    expect(window.approval).to_be_visible()
    assert not (window.workspace / "approved").exists()


def test_a_notice_says_that_a_command_waits_and_shows_none(window: Workbench) -> None:
    window.tapes.record(
        chat_body("", [bash("c", "sleep 4")]), chat_body("", [bash("c", "touch noticed")]), chat_body("")
    )
    window.new_session()
    window.prompt("Go.")
    expect(window.approval).to_be_visible(timeout=PATIENCE)
    window.approve()
    window.view.locator("#prompt").fill("a draft")
    window.page.wait_for_timeout(2_000)  # nobody leaves within the moment in which the page hands the draft over
    window.page.keyboard.press("Control+Shift+KeyE")
    toast = window.page.locator(".notification-toast", has_text="waits for your approval")
    expect(toast).to_be_visible(timeout=PATIENCE)
    assert "noticed" not in toast.inner_text()
    assert "noticed" not in window.status.inner_text()
    expect(window.status).to_contain_text("1 command waits for you")
    toast.get_by_role("button", name="Show").click()
    expect(window.approval.locator("#approval-command")).to_be_focused()
    expect(window.view.locator("#prompt")).to_have_value("a draft")
    window.view.locator("#prompt").fill("")


def test_only_a_key_pressed_in_the_view_approves(window: Workbench) -> None:
    window.ask("touch by-key")
    (window.workspace / "open.txt").write_text("text\n")
    window.page.wait_for_timeout(450)
    window.open("open.txt")
    window.page.keyboard.press("Control+Alt+KeyY")
    for _ in range(2):  # the first brings the focus to the view; the second is no key of it either
        window.command("Handrail: Approve the Command on Screen")
        expect(window.view.locator(".notice").first).to_contain_text("Read the command")
        expect(window.approval.locator("#approval-command")).to_be_focused()
    assert not (window.workspace / "by-key").exists()
    window.page.wait_for_timeout(1100)
    window.page.keyboard.press("Control+Alt+KeyY")
    window.closing("The model ended its turn")
    assert (window.workspace / "by-key").exists()


def test_unsaved_files_are_told_with_a_way_to_save(window: Workbench) -> None:
    (window.workspace / "draft.txt").write_text("saved\n")
    window.open("draft.txt")
    window.page.keyboard.press("Control+End")
    window.page.keyboard.type("unsaved")
    window.show()
    window.ask("cat draft.txt")
    unsaved = window.approval.locator(".unsaved")
    expect(unsaved).to_contain_text("draft.txt")
    unsaved.locator("button").click()
    expect(unsaved).to_have_count(0)
    assert (window.workspace / "draft.txt").read_text() == "saved\nunsaved"


def test_chips_give_along_what_the_editor_knows(window: Workbench) -> None:
    (window.workspace / "chosen.txt").write_text("the chosen words\n")
    window.open("chosen.txt")
    window.page.keyboard.press("Control+KeyA")
    window.show()
    chips = window.view.locator(".chip")
    expect(chips).to_contain_text(["chosen.txt", "Selection, lines 1"])
    chips.nth(1).click()
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "true")
    window.tapes.record(chat_body("Seen."))
    window.new_session()
    window.prompt("Look at this.")
    window.closing("The model ended its turn")
    record = [each.read_bytes() for each in (window.log.parent / "state").rglob("*") if each.is_file()]
    assert any(b"the chosen words" in each for each in record)
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "false")


def test_files_that_a_command_changed_can_be_opened(window: Workbench) -> None:
    window.ask("echo new > changed.txt")
    window.approve()
    window.closing("The model ended its turn")
    window.view.locator("article li button", has_text="changed.txt").click()
    expect(window.page.locator(".tab", has_text="changed.txt")).to_be_visible()


def test_a_loud_command_stays_smooth(window: Workbench) -> None:
    window.ask("for i in $(seq 5000); do echo line $i; done")
    window.approve()
    window.closing("The model ended its turn")
    output = window.view.locator("article .output")
    expect(output).to_contain_text("line 5000")
    assert "line 1\n" in output.inner_text() or window.view.locator("button", has_text="Open all").is_visible()


def test_sessions_are_listed_opened_exported_and_deleted(window: Workbench) -> None:
    window.ask("touch listed", prompt="List me.")
    window.decide("stop")
    window.closing("stopped the turn")
    window.new_session()
    window.command("Handrail: Sessions")
    window.row("List me.").hover()
    window.row("List me.").get_by_role("button", name="Export").click()
    window.row("Trajectory").click()
    expect(window.page.locator(".tab", has_text="Untitled")).to_be_visible(timeout=PATIENCE)
    window.command("Handrail: Sessions")
    window.row("List me.").click()
    expect(window.view.locator("article .command")).to_have_text("touch listed")
    window.command("Handrail: Sessions")
    window.row("List me.").hover()
    window.row("List me.").get_by_role("button", name="Delete").click()
    window.page.locator(".monaco-dialog-box").get_by_role("button", name="Delete").click()
    expect(window.view.locator(".empty")).to_be_visible()


def test_the_mode_is_changed_and_trusted_is_shown(window: Workbench) -> None:
    window.ask("touch moded")
    window.view.locator("header button").click()
    window.page.locator(".quick-input-list .monaco-list-row", has_text="trusted").click()
    window.page.locator(".monaco-dialog-box").get_by_role("button", name="Switch").click()
    expect(window.view.locator("header .warning").first).to_contain_text("trusted")
    expect(window.approval).to_be_visible()  # AP-27: a mode answers nothing by itself


def test_a_key_reaches_the_server_and_nothing_else(window: Workbench) -> None:
    key = "sk-a-key-of-the-tests-0123456789"
    (before,) = window.server_pids()
    window.command("Handrail: Set API Key")
    window.page.locator(".quick-input-list .monaco-list-row", has_text="MISTRAL_API_KEY").click()
    box = window.page.locator(".quick-input-widget input[type=password]")
    box.fill(key)
    box.press("Enter")
    until(lambda: window.server_pids() not in ([], [before]), "another server runs")
    expect(window.view.locator("#send")).to_be_enabled(timeout=PATIENCE)
    window.command("Handrail: Check What Is Needed")
    editor = window.page.locator(".editor-instance .view-lines").first
    expect(editor).to_contain_text("MISTRAL_API_KEY", timeout=PATIENCE)
    assert key not in editor.inner_text()
    for file in (window.log.parent / "data").rglob("*.json"):
        assert key not in file.read_text(errors="replace"), file


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessibility_has_no_serious_findings(window: Workbench, theme: str) -> None:
    if theme not in (window.view.locator("body").get_attribute("class") or ""):
        window.other_theme()
    window.ask("echo one > file.txt", "touch two")
    window.approve()
    expect(window.approval).to_contain_text("Run command 2 of 2?")
    for doing in ("edit", "back", "reject"):
        window.approval.locator(f"button#{doing}").click()
        window.view.locator("body").evaluate(axe_source())
        found = window.view.locator("body").evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_ls13_a_crash_loop_ends_with_one_message_and_the_log(window: Workbench) -> None:
    window.command("Handrail: Restart the Server")
    window.page.wait_for_timeout(300)
    killed = 0
    for _ in range(5):
        killed = window.kill_server(killed)
    toast = window.page.locator(".notification-toast", has_text=re.compile("five times"))
    expect(toast).to_have_count(1, timeout=PATIENCE)
    assert window.server_pids() == []
    toast.get_by_role("button", name="Show Log").click()
    expect(window.page.locator(".panel .action-item.checked", has_text="Output")).to_be_visible()
    window.command("View: Hide Panel")
    window.command("Handrail: Restart the Server")
    expect(window.view.locator("#send")).to_be_enabled(timeout=PATIENCE)
