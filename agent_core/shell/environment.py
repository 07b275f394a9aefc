"""Where bash is, and which variables a command sees.

Invariants: a variable of the server's own environment reaches a command only if it is on the allow list or inherited by
name in the person's settings (R10); pagers, editors and prompts are switched off, since no command has a terminal.
Handrail's commands need a POSIX system: on Windows `find_bash` raises with the way out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from agent_core.errors import SettingsError
from agent_core.redaction import is_secret_name

_ALLOWED = {
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TZ",
    "LANG",
    "LANGUAGE",
    "TMPDIR",
    "VIRTUAL_ENV",
    "SSH_AUTH_SOCK",
}
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}  # in small letters too
_CERTIFICATES = {
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
}
_ALLOWED_PREFIXES = ("LC_", "XDG_", "CONDA_")

# `false` as an editor makes a program that wants one fail with its own sentence instead of waiting for a person.
_NON_INTERACTIVE = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
}
_USUAL_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
_CHARSET = re.compile(r"\.([A-Za-z0-9_-]+)")
_ASCII = bytes(range(128))


def find_bash(environ: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of bash; raise `SettingsError` with the way out if there is none."""
    if os.name != "posix":
        raise SettingsError("Handrail runs commands in bash on Linux or macOS. On Windows, run Handrail inside WSL.")
    path = find_program("bash", environ)
    if path is not None:
        return path
    raise SettingsError(
        "No bash was found in PATH or in /bin, /usr/bin and /usr/local/bin, and commands run in nothing else. "
        "Install bash, or add its folder to the PATH that the server is started with."
    )


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of a program in PATH or in one of the usual folders."""
    # Entries of PATH that are not absolute could name a program of the workspace, which is not ours to trust.
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    for folder in (*folders, *_USUAL_FOLDERS):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def base_environment(
    environ: Mapping[str, str], *, inherit: Collection[str], added: Mapping[str, str]
) -> dict[str, str]:
    """Return the whole environment of a command.

    `environ` is the server's; `inherit` names more of its variables to pass on; `added` is set last and wins.
    """
    chosen = {name: value for name, value in environ.items() if name in inherit or _allowed(name)}
    return {**chosen, **_NON_INTERACTIVE, **added}


def encoding_of(environment: Mapping[str, str]) -> str:
    """Return the encoding that the environment's locale declares for output; UTF-8 if it is none that Python knows."""
    locale = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or ""
    declared = _CHARSET.search(locale)
    if declared is None:
        return "utf-8"
    try:
        # Only encodings that keep ASCII as it is: line ends and escape sequences are found after decoding.
        usable = _ASCII.decode(declared[1]).encode() == _ASCII
    except (LookupError, UnicodeError):
        return "utf-8"
    return declared[1] if usable else "utf-8"


def _allowed(name: str) -> bool:
    if name in _ALLOWED or name.upper() in _PROXIES or name in _CERTIFICATES:
        return True
    return name.startswith(_ALLOWED_PREFIXES) and not is_secret_name(name)
