"""The opt-in sandbox: the words of `bwrap` that go before a command, and whether this machine can run them.

Invariants: a mode that is not known, or that cannot be had, is refused with the reason; nothing falls back to running
without. Inside, the file system is read-only but for a private /tmp and, in the mode `workspace`, the session's folder;
the places where people keep keys, and /run with its sockets, are empty; there is no network unless the mode ends in
`+network`; no process outlives the command, so nothing is ever left behind. A shell that a signal ended shows as exit
code 128 and the signal's number, because that is what `bwrap` passes on.

Linux with bubblewrap only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from agent_core.shell import launch
from agent_core.shell.environment import find_program

_MODES = ("read-only", "workspace")
_NETWORK = "+network"
_PROBE_SECONDS = 5.0
_SYSTEM = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"),  # noqa: S108
    *("--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
)
# What programs need of /run: where NixOS keeps them, and, with a network, how names are resolved.
_NEEDED_OF_RUN = "/run/current-system"
_RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
_KEY_PLACES = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".oci",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".vault-token",
    ".password-store",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d",
    ".local/share/keyrings",
    ".mozilla",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/handrail",
    ".config/op",
    ".config/google-chrome",
    ".config/chromium",
)


class Bubblewrap:
    """Bubblewrap on this machine; it is tried once."""

    def __init__(self) -> None:
        self._program: str | None = None
        self._unavailable: str | None = None

    async def unavailable(self) -> str:
        """Return why there can be no sandbox here and the way out, `""` if there can be."""
        if self._unavailable is None:
            self._program = find_program("bwrap", os.environ)
            self._unavailable = await self._try()
        return self._unavailable

    def words(self, mode: str, folder: str, *, hidden: Sequence[Path] = (), shown: Path | None = None) -> list[str]:
        """Return the words that go before a command; the first is the program's path.

        `hidden` are more places to hide, `shown` is one below them that can be read nevertheless.
        """
        workspace = os.path.realpath(folder)
        words = [self._program or "bwrap", *_SYSTEM, *_read_only(_NEEDED_OF_RUN)]
        if mode.endswith(_NETWORK):
            words += ["--share-net", *(word for place in _RESOLVERS for word in _read_only(place))]
        writable = mode.removesuffix(_NETWORK) == "workspace"
        words += ["--bind" if writable else "--ro-bind", workspace, workspace]
        # After the workspace, which may be a home folder that holds them.
        for place in (*(Path.home() / name for name in _KEY_PLACES), *hidden):
            words += _hidden(os.path.realpath(place))
        if shown is not None:
            words += _read_only(os.path.realpath(shown))
        return [*words, "--setenv", "TMPDIR", "/tmp", "--unsetenv", "SSH_AUTH_SOCK", "--chdir", workspace, "--"]  # noqa: S108

    async def _try(self) -> str:
        if self._program is None:
            return "The sandbox needs bubblewrap, and no `bwrap` was found in PATH. Install the package bubblewrap."
        try:
            words = [self._program, *_SYSTEM, "--", "true"]
            started = launch.start(words, executable=self._program, cwd="/", environment={"PATH": os.defpath})
        except OSError as error:
            return f"The sandbox cannot be had: {self._program} does not start ({error.strerror})."
        codes: asyncio.Queue[int] = asyncio.Queue()
        started.on_exit(codes.put_nowait)
        try:
            if await asyncio.wait_for(codes.get(), _PROBE_SECONDS) == 0:
                return ""
            said = os.read(started.output, 4096).decode("utf-8", "replace").strip()
        except (TimeoutError, BlockingIOError):
            said = "it gives no answer"
        finally:
            started.kill()
            os.close(started.output)
        return (
            f"The sandbox cannot be had: {self._program} fails here ({said}). "
            "Containers and hardened kernels often forbid user namespaces; allow them, or set sandbox to off."
        )


def refusal(mode: str, folder: str) -> str:
    """Return why this mode cannot be had for this folder whatever the machine offers, `""` if it can be."""
    if mode.removesuffix(_NETWORK) not in _MODES:
        known = ", ".join(f"`{name}`, `{name}{_NETWORK}`" for name in _MODES)
        return f"The sandbox mode {mode!r} is not known. Use `off`, {known}."
    if os.path.realpath(folder) == "/":
        return "The whole file system cannot be the sandbox's workspace. Open the session in a project's folder."
    return ""


def _read_only(place: str) -> list[str]:
    return ["--ro-bind-try", place, place]


def _hidden(place: str) -> list[str]:
    if os.path.isdir(place):
        return ["--tmpfs", place]
    return ["--ro-bind", os.devnull, place] if os.path.exists(place) else []


BUBBLEWRAP = Bubblewrap()
