"""A real VS Code with the packaged extension, driven through a headless Chromium.

Invariants: folders, settings, state and ports are the run's own; whatever happens, no process is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import FrameLocator, Locator, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as NotInTime

from tests.core.replies import bash, chat_body
from tests.editors import vscode_install

SERVER = [sys.executable, "-P", "-m", "server"]
PATIENCE = 20_000  # ms
_ROOT = Path(__file__).parents[2]
_CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
_CHROMIUM += ["--disable-component-update", "--disable-sync"]
_USER = {
    "workbench.startupEditor": "none",
    "files.autoSave": "off",
    "chat.disableAIFeatures": True,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "update.mode": "none",
    "telemetry.telemetryLevel": "off",
    "workbench.enableExperiments": False,
    "git.enabled": False,
    "window.commandCenter": False,
    "workbench.tips.enabled": False,
    "window.dialogStyle": "custom",
    "workbench.layoutControl.enabled": False,
}


@dataclass
class Tapes:
    """Sessions replay tapes, which are files named by the settings."""

    folder: Path
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = self.folder / "tape.json"

    def record(self, *bodies: dict[str, Any]) -> None:
        """Make these the replies of the next session."""
        self.path.write_text(
            json.dumps({"model": "m", "recorded_at": "2026-01-01", "dialect": "chat", "frames": bodies})
        )

    def asks(self, *commands: str, then: str = "Done.") -> None:
        """Make a model that asks for commands in one reply and then ends."""
        self.record(chat_body("I look.", [bash(f"c{at}", each) for at, each in enumerate(commands)]), chat_body(then))


@dataclass
class Workbench:
    """One window of VS Code. `view` is the extension's page in it."""

    page: Page
    workspace: Path
    tapes: Tapes
    url: str
    log: Path

    @property
    def view(self) -> FrameLocator:
        return self.page.frame_locator("iframe.webview.ready").frame_locator("#active-frame")

    @property
    def approval(self) -> Locator:
        return self.view.locator("#approval")

    @property
    def status(self) -> Locator:
        return self.page.locator(".statusbar-item", has_text="Handrail").first

    def command(self, title: str) -> None:
        """Run a command of the palette by its whole title."""
        for _ in range(3):
            try:
                self._quick("F1").fill(f">{title}", timeout=2000)
                self.row(title).click(timeout=5000)
            except NotInTime:  # something on its way to the focus closed the palette
                continue
            return
        raise AssertionError(f"the palette did not stay open for {title}")

    def row(self, text: str) -> Locator:
        """Return the first row with a text of the list that is open."""
        return self.page.locator(".quick-input-list .monaco-list-row", has_text=text).first

    def show(self) -> None:
        """Open the view and wait until it can be used."""
        self.command("Handrail: Give a Task")
        expect(self.view.locator("#send")).to_be_enabled(timeout=PATIENCE)
        expect(self.view.locator("#prompt, #approval-command").and_(self.view.locator(":focus"))).to_be_visible()

    def new_session(self) -> None:
        """Leave the session that is shown."""
        self.command("Handrail: New Session")
        expect(self.view.locator(".empty")).to_be_visible()
        expect(self.view.locator("#prompt")).to_be_focused()

    def prompt(self, text: str) -> None:
        """Send a prompt from the view."""
        self.view.locator("#prompt").fill(text)
        self.view.locator("#prompt").press("Enter")

    def ask(self, *commands: str, prompt: str = "Go.") -> None:
        """Bring a new session to the approval of these commands."""
        self.tapes.asks(*commands)
        self.new_session()
        self.prompt(prompt)
        expect(self.approval).to_be_visible(timeout=PATIENCE)

    def decide(self, button: str) -> None:
        """Press one of the approval's buttons, as late as a person would."""
        digest = self.approval.get_attribute("data-digest")
        assert digest
        self.page.wait_for_timeout(450)
        self.approval.locator(f"#{button}").click()

    def approve(self) -> None:
        self.decide("approve")

    def closing(self, text: str) -> None:
        """Wait until the turn is over with these words."""
        expect(self.view.locator(".closing")).to_contain_text(text, timeout=PATIENCE)

    def _quick(self, key: str) -> Locator:
        """Open the list that a key opens; again if the page, on its way to the focus, closed it."""
        box = self.page.locator(".quick-input-widget input.input").first
        for _ in range(4):
            self.page.keyboard.press(key)
            try:
                box.wait_for(state="visible", timeout=1500)
                self.page.wait_for_timeout(100)
                if box.is_visible():
                    return box
            except NotInTime:
                continue
        raise AssertionError(f"{key} opens no list")

    def settle(self) -> None:
        """End what waits or runs, in every session of the window."""
        for _ in range(4):
            self.show()
            if self.approval.count():
                self.decide("stop")
            elif self.view.locator("button", has_text="Cancel turn").count():
                self.view.locator("button", has_text="Cancel turn").click()
            elif self.view.locator(".notice button").count():
                self.view.locator(".notice button").click()
                continue
            else:
                return
            expect(self.view.locator(".closing")).to_be_visible(timeout=PATIENCE)

    def open(self, name: str) -> None:
        """Open a file of the workspace in an editor and put the focus there."""
        self._quick("Control+KeyP").fill(str(self.workspace / name))
        self.page.locator(".quick-input-list .monaco-list-row").first.click()
        expect(self.page.locator(".tab.active", has_text=name)).to_be_visible()
        self.page.locator(".editor-instance .view-lines").first.click()

    def other_theme(self) -> None:
        """Change between light and dark colours."""
        self.command("Preferences: Toggle between Light/Dark Themes")

    def reload(self) -> None:
        """Reload the window."""
        self.page.reload(wait_until="domcontentloaded")
        self.ready()

    def ready(self) -> None:
        self.status.wait_for(timeout=60_000)

    def kill_server(self, before: int = 0) -> int:
        """Kill the server that runs after `before` did, and return its process."""
        until(lambda: self.server_pids() not in ([], [before]), "a server runs")
        (pid,) = self.server_pids()
        os.kill(pid, signal.SIGKILL)
        return pid

    def server_pids(self) -> list[int]:
        """Return the processes of Handrail's server that this VS Code itself started: not what is below or apart."""
        ours = {pid for pid in _processes() if _state_of(pid) == str(self.log.parent / "state")}
        servers = {pid for pid in ours if _is_server(pid)}
        return [pid for pid in servers if _parent_of(pid) in ours - servers]


def _processes() -> Iterator[int]:
    yield from (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())


def _state_of(pid: int) -> str:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    name = b"HANDRAIL_STATE_DIR="
    return next((each.removeprefix(name).decode() for each in environ if each.startswith(name)), "")


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _is_server(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[1:4] == [b"-P", b"-m", b"server"]


@contextmanager
def workbench(
    folder: Path, version: str, *, trusted: bool = True, settings: Mapping[str, Any] | None = None
) -> Iterator[Workbench]:
    """Start VS Code with the extension on a new workspace, and open a window."""
    code, vsix, chromium = vscode_install.vscode(version), vscode_install.package(), vscode_install.browser()
    workspace, tapes = folder / "workspace", Tapes(folder)
    workspace.mkdir(parents=True)
    tapes.record(chat_body("Nothing to do."))
    machine = {"handrail.server.command": SERVER, "handrail.replay": str(tapes.path), **(settings or {})}
    _write_settings(folder, machine, trusted=trusted)
    with _serving(code, folder, vsix, trusted=trusted) as url, sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium, args=_CHROMIUM)
        page = chrome.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(PATIENCE)
        window = Workbench(page, workspace, tapes, f"{url}/?folder={workspace}", folder / "server.log")
        try:
            page.goto(window.url, wait_until="domcontentloaded")
            yield window
        finally:
            page.screenshot(path=str(folder / "last.png"))
            chrome.close()


def run_in_host(folder: Path, version: str) -> tuple[object, list[str]]:
    """Run the extension's API tests inside VS Code's extension host; return the exit code and what they told."""
    code, chromium, extension = vscode_install.vscode(version), vscode_install.browser(), vscode_install.built_tests()
    workspace = folder / "workspace"
    (workspace / ".vscode").mkdir(parents=True)
    theirs = {"handrail.server.command": ["/nowhere/theirs"], "handrail.mode": "trusted"}
    (workspace / ".vscode" / "settings.json").write_text(json.dumps(theirs))
    _write_settings(folder, {"handrail.server.command": SERVER}, trusted=True)
    told: list[str] = []
    codes: list[object] = []
    with _serving(code, folder, None, trusted=True) as url, sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium, args=_CHROMIUM)
        try:
            page = chrome.new_page()
            page.expose_function("codeAutomationLog", lambda _, given: told.append(" ".join(map(str, given))))
            page.expose_function("codeAutomationExit", lambda code: codes.append(code))
            remote = "vscode-remote://" + url.removeprefix("http://")
            payload = [
                ["extensionDevelopmentPath", f"{remote}{extension}"],
                ["extensionTestsPath", f"{remote}{extension}/dist/api/index.js"],
                ["skipWelcome", "true"],
            ]
            page.goto(f"{url}/?folder={workspace}&payload={quote(json.dumps(payload))}", wait_until="domcontentloaded")
            end = time.monotonic() + 120
            while not codes and time.monotonic() < end:
                page.wait_for_timeout(100)
        finally:
            chrome.close()
    return (codes[0] if codes else "no end within 120 s"), [each for each in told if each.startswith("TEST ")]


def _write_settings(folder: Path, machine: Mapping[str, Any], *, trusted: bool) -> None:
    data = folder / "data"
    for each in (data / "User", data / "Machine", folder / "extensions"):
        each.mkdir(parents=True)
    user = {**_USER, "security.workspace.trust.enabled": not trusted}
    (data / "Machine" / "settings.json").write_text(json.dumps(machine))
    (data / "User" / "settings.json").write_text(json.dumps(user))


@contextmanager
def _serving(code: Path, folder: Path, vsix: Path | None, *, trusted: bool) -> Iterator[str]:
    (folder / "config.toml").touch()
    environ = {
        **os.environ,
        "EXTENSIONS_GALLERY": "{}",
        "HANDRAIL_STATE_DIR": str(folder / "state"),
        "HANDRAIL_CONFIG": str(folder / "config.toml"),
        "PYTHONPATH": str(_ROOT),
    }
    data = str(folder / "data")
    base = [str(code / "node"), str(code / "node_modules/code-server/lib/vscode/out/server-main.js")]
    base += ["--server-data-dir", data, "--user-data-dir", data, "--extensions-dir", str(folder / "extensions")]
    base += ["--accept-server-license-terms"]
    if vsix is not None:
        words = [*base, "--install-extension", str(vsix)]
        subprocess.run(words, env=environ, check=True, capture_output=True, timeout=60)
    port = _free_port()
    more = ["--host", "127.0.0.1", "--port", str(port), "--without-connection-token", "--disable-telemetry"]
    more += ["--disable-workspace-trust"] if trusted else []
    more += ["--enable-smoke-test-driver"] if vsix is None else []
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([*base, *more], env=environ, stdout=log, stderr=log, start_new_session=True)
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _answers(port) or process.poll() is not None, "VS Code answers", 40)
            assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
            yield url
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/version")
        return connection.getresponse().status == HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(holds: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def axe_source() -> str:
    """Return axe-core's source, for a page."""
    return (vscode_install.tools() / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def copy_demo(target: Path) -> None:
    """Put the demo's project into a folder."""
    from editors.terminal.demo import copy_project

    made = copy_project(target)
    for each in made.iterdir():
        shutil.move(each, target / each.name)
    made.rmdir()
