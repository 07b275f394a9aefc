"""Files that may hold secrets are found wherever they lie, and again when they come or go."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_core import secret_files
from agent_core.secret_files import SecretFiles


def write(root: Path, *paths: str, text: str = "A_TOKEN=x") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def found(files: SecretFiles, folder: Path) -> list[str]:
    below = files.below(str(folder), 5.0)
    assert below.whole
    return sorted(below.secrets)


def test_secrets_are_found_at_any_depth(tmp_path: Path) -> None:
    secrets = [".env", "deploy/prod.env", "packages/a/.env.production", "packages/a/id_rsa", "x/.ssh/anything"]
    write(tmp_path, *secrets, "src/main.py", ".env.example", "node_modules/a/.env", "v/site-packages/c/cacert.pem")
    assert found(SecretFiles(str(tmp_path)), tmp_path) == sorted(secrets)
    assert found(SecretFiles(str(tmp_path)), tmp_path / "packages" / "a") == [".env.production", "id_rsa"]


def test_a_file_has_nothing_below_it_and_what_is_missing_is_not_known(tmp_path: Path) -> None:
    write(tmp_path, "a")
    assert SecretFiles(str(tmp_path)).below(str(tmp_path / "a")).whole
    assert not SecretFiles(str(tmp_path)).below(str(tmp_path / "b")).whole


def test_what_comes_and_goes_is_seen_at_the_next_look(tmp_path: Path) -> None:
    write(tmp_path, "a/b/x.py")
    files = SecretFiles(str(tmp_path))
    assert found(files, tmp_path) == []
    write(tmp_path, "a/b/.env")
    assert found(files, tmp_path) == ["a/b/.env"]
    (tmp_path / "a/b/.env").unlink()
    assert found(files, tmp_path) == []


def test_a_folder_that_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/.env")
    for folder in (tmp_path, tmp_path / "a"):
        os.utime(folder, (time.time() - 9, time.time() - 9))
    files = SecretFiles(str(tmp_path))
    assert found(files, tmp_path) == ["a/.env"]
    monkeypatch.setattr(os, "scandir", None)
    assert found(files, tmp_path) == ["a/.env"]


def test_links_are_told_but_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/prod.env", "w/x.py")
    (tmp_path / "w" / "link").symlink_to(tmp_path / "elsewhere")
    below = SecretFiles(str(tmp_path / "w")).below(str(tmp_path / "w"))
    assert (below.secrets, below.links) == ((), ("link",))


def test_a_busy_machine_hides_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a processor for a tenth of a second has not looked through a large folder."""
    write(tmp_path, "nested/.env")
    passed = itertools.count(time.monotonic(), 0.01)
    clocks = SimpleNamespace(monotonic=lambda: next(passed), thread_time=time.thread_time, time_ns=time.time_ns)
    monkeypatch.setattr(secret_files, "time", clocks)
    below = SecretFiles(str(tmp_path)).below(str(tmp_path))
    assert (below.whole, below.secrets) == (True, ("nested/.env",))


def test_an_end_of_time_is_told(tmp_path: Path) -> None:
    write(tmp_path, *(f"{number}/x" for number in range(50)))
    assert not SecretFiles(str(tmp_path)).below(str(tmp_path), 0.0).whole


@pytest.mark.parametrize(
    ("config", "secrets"),
    [
        ("[remote]\n\turl = git@host:a/b\n", []),
        ("[remote]\n\turl = https://host/a@b\n", []),
        ("[remote]\n\turl = https://someone:word@host/a\n", [".git/config"]),
        ('[http "https://h"]\n\textraheader = AUTHORIZATION: basic x\n', [".git/config"]),
    ],
)
def test_gits_own_folder_counts_if_a_password_is_in_it(tmp_path: Path, config: str, secrets: list[str]) -> None:
    write(tmp_path, ".git/config", text=config)
    write(tmp_path, ".git/objects/prod.env")
    assert found(SecretFiles(str(tmp_path)), tmp_path) == secrets


def test_the_texts_of_environment_files_nearest_first(tmp_path: Path) -> None:
    write(tmp_path, "a/b/.env.local", text="B_KEY=2")
    write(tmp_path, "prod.env", text="A_KEY=1")
    write(tmp_path, "key.pem", ".env.example")
    (tmp_path / "link.env").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.env")
    assert list(SecretFiles(str(tmp_path)).env_texts()) == ["A_KEY=1", "B_KEY=2"]


def test_not_more_environment_files_are_read_than_is_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, *(f"{number}.env" for number in range(9)))
    monkeypatch.setattr(secret_files, "_MOST_ENV_FILES", 3)
    monkeypatch.setattr(secret_files, "_MOST_ENV_BYTES", 12)
    assert [len(text) for text in SecretFiles(str(tmp_path)).env_texts()] == [9, 3]


@pytest.mark.parametrize(
    ("place", "line", "asked_for"),
    [
        (".gitignore", "!.env", True),
        ("a/.ignore", "!/b/.e*", True),
        (".git/info/exclude", "!.*", True),
        (".rgignore", "!{.env,x}", True),
        (".ignore", "!\\.env", True),
        (".ignore", "!.[^x]*", True),
        (".gitignore", "\ufeff!.env", True),
        (".gitignore", "#" * 70_000 + "\n!.env", True),
        (".gitignore", "!.env.example", False),
        (".gitignore", ".env", False),
    ],
)
def test_an_ignore_file_may_ask_for_a_hidden_file(tmp_path: Path, place: str, line: str, asked_for: bool) -> None:
    write(tmp_path, "a/b/.env")
    write(tmp_path, place, text=f"{line}\n*.log\n")
    assert SecretFiles(str(tmp_path)).unhidden(str(tmp_path / "a/b/.env")) is asked_for
