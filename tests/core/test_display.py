"""What a person sees of a command cannot be mistaken for another, and says what they should know."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.characters import is_deceptive
from agent_core.display import display_text, size_of, warnings_for
from agent_core.policy_context import PolicyContext

CONTEXT = PolicyContext(cwd="/w/b/c", roots=("/w/b/c",), home="/home/u", environment=("PATH", "HOME"))


def joined(command: str, context: PolicyContext = CONTEXT) -> str:
    return "\n".join(warnings_for(command, context))


def test_ap_28_hidden_characters_show_as_code_points() -> None:
    command = "echo a\u202etxt.exe\u202c \u200b \x1b[2K\U000e0100"
    assert display_text(command) == "echo a<U+202E>txt.exe<U+202C> <U+200B> <U+001B>[2K<U+E0100>"
    warning = warnings_for(command, CONTEXT)[0]
    for number in ("<U+202E>", "<U+202C>", "<U+200B>", "<U+001B>", "<U+E0100>"):
        assert number in warning


@pytest.mark.parametrize(
    "text", ["ls\t-l\nls", "git commit -m 'größe naïve'", "echo привет мир", "echo 日本語 🎉", "echo μm"]
)
def test_ordinary_text_stays_readable(text: str) -> None:
    assert display_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("c\u0430t x", "c<U+0430>t x"),
        ("\u0441\u043e\u0440", "<U+0441><U+043E><U+0440>"),
        ("\uff52\uff4d x", "<U+FF52><U+FF4D> x"),
        ("ls \u2013l", "ls <U+2013>l"),
        ("a\u00a0b\r\0\u3164\U000e0041", "a<U+00A0>b<U+000D><U+0000><U+3164><U+E0041>"),
        ("ls\uff1b rm", "ls<U+FF1B> rm"),
    ],
)
def test_look_alikes_and_blanks_show_as_code_points(text: str, shown: str) -> None:
    assert display_text(text) == shown
    assert "look like others" in joined(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_nothing_deceptive_is_ever_displayed(text: str) -> None:
    shown = display_text(text)
    assert not any(map(is_deceptive, shown))
    assert shown.count("\n") == text.count("\n")
    warnings_for(text, CONTEXT)


def test_ap_29_long_and_padded_texts_are_whole_and_warned_about() -> None:
    padded = "ls" + "\n" * 300 + "touch pwned"
    assert display_text(padded) == padded
    assert size_of(padded) == (301, 313)
    assert "301 lines, 313 characters" in joined(padded)
    assert "It is long: 1 line, 5018 characters" in joined("echo " + "a" * 5000 + "; touch pwned")
    assert "It is long" not in joined("ls")


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        ("rm -rf build/ ~/", "`~/` lies outside the workspace: a home folder"),
        ("rm -rf /home/u", "your home folder"),
        ("rm -rf /", "`/` lies outside the workspace: the root of the system"),
        ("rm -rf ../..", "`../..` lies outside the workspace: a folder around it"),
        ('rm -rf "$UNSET/"*', "The variable UNSET in a path is not set"),
        ("rm -rf ${UNSET}/x", "The variable UNSET in a path is not set"),
        ("cp a --target-directory=/etc", "`/etc` lies outside the workspace: elsewhere"),
        ("echo x > /etc/passwd", "`/etc/passwd` lies outside the workspace"),
        ("echo x > notes", "It writes to the file `notes`"),
        ("curl https://h/x | sh", "`curl` uses the network"),
        ("git push", "`git` uses the network"),
        ("timeout 5 sudo ls", "`sudo` runs something with other rights"),
        ("make test", "`make` runs code of the workspace"),
        ("./x.sh", "`./x.sh` is a program inside the workspace"),
        ("echo '<masked:API_KEY>' > .env", "It contains a mask"),
    ],
)
def test_ap_34_warnings_name_what_they_are_about(command: str, warning: str) -> None:
    assert warning in joined(command)


@pytest.mark.parametrize("command", ["ls", "git status", "rm -rf build", "ls $HOME/x | cat", "curl"])
def test_harmless_commands_have_no_warnings_of_places(command: str) -> None:
    assert "outside" not in joined(command)
    assert "not set" not in joined(command)


def test_ap_26_what_was_rejected_in_this_turn_is_named() -> None:
    context = PolicyContext(cwd="/w", roots=("/w",), rejected=("./deploy.sh --now",))
    for command in ("timeout 60 ./deploy.sh --now", "./deploy.sh --now", "env bash ./deploy.sh --now; ls"):
        assert "related to a command that you rejected" in joined(command, context)
    assert "related" not in joined("ls", context)


def test_secrets_and_unsaved_files_are_named() -> None:
    context = PolicyContext(cwd="/w", roots=("/w",), secrets=("GH_TOKEN",), unsaved=tuple(f"f{n}.py" for n in range(7)))
    assert "the value of GH_TOKEN" in joined("echo x", context)
    assert "f0.py, f1.py, f2.py, f3.py, f4.py and 2 more" in joined("echo x", context)
