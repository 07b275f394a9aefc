"""A command sees an allow-listed environment without prompts, and bash is found or its absence is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_core.errors import SettingsError
from agent_core.shell import base_environment, environment, find_bash
from agent_core.shell.environment import encoding_of

SERVER = {
    "PATH": "/bin",
    "HOME": "/home/x",
    "LC_TIME": "C",
    "XDG_CACHE_HOME": "/c",
    "CONDA_PREFIX": "/conda",
    "CONDA_TOKEN": "t",
    "https_proxy": "http://p",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/ca.pem",
    "SSH_AUTH_SOCK": "/run/agent",
    "OPENAI_API_KEY": "k",
    "MY_TOKEN": "t",
    "EDITOR": "vim",
    "PAGER": "less",
    "BASH_ENV": "/evil",
    "LD_PRELOAD": "/evil.so",
    "BASH_FUNC_ls%%": "() { evil; }",
}


def test_only_what_is_allowed_or_inherited_by_name_passes() -> None:
    seen = base_environment(SERVER, inherit=(), added={})
    hidden = {"OPENAI_API_KEY", "MY_TOKEN", "BASH_ENV", "LD_PRELOAD", "BASH_FUNC_ls%%", "CONDA_TOKEN"}
    assert not hidden & set(seen)
    assert set(SERVER) - hidden <= set(seen)
    assert base_environment(SERVER, inherit=["MY_TOKEN"], added={})["MY_TOKEN"] == "t"


def test_pagers_and_editors_are_off_unless_the_person_adds_them() -> None:
    seen = base_environment(SERVER, inherit=(), added={"EDITOR": "ed"})
    assert (seen["PAGER"], seen["GIT_EDITOR"], seen["TERM"], seen["EDITOR"]) == ("cat", "false", "dumb", "ed")


@pytest.mark.parametrize(
    ("locale", "encoding"),
    [
        ({}, "utf-8"),
        ({"LANG": "C"}, "utf-8"),
        ({"LANG": "de_DE.ISO-8859-1@euro"}, "ISO-8859-1"),
        ({"LANG": "de_DE.ISO-8859-1", "LC_ALL": "C.UTF-8"}, "UTF-8"),
        ({"LANG": "xx.utf-16"}, "utf-8"),
        ({"LANG": "xx.rot13"}, "utf-8"),
        ({"LANG": "xx.utf-7"}, "utf-8"),
        ({"LANG": "xx.nonsense"}, "utf-8"),
    ],
)
def test_the_encoding_is_that_of_the_locale_if_it_is_usable(locale: dict[str, str], encoding: str) -> None:
    assert encoding_of(locale) == encoding


def test_bash_is_not_taken_from_a_folder_named_relatively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bash").write_text("#!/bin/sh\necho evil\n")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert find_bash({"PATH": f".:{tmp_path.name}::/bin"}) == "/bin/bash"


def test_a_missing_bash_and_a_foreign_system_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_USUAL_FOLDERS", ())
    with pytest.raises(SettingsError, match="Install bash"):
        find_bash({"PATH": "/nowhere"})
    monkeypatch.setattr("os.name", "nt")
    with pytest.raises(SettingsError, match="WSL"):
        find_bash({"PATH": "/bin"})
