"""Which files of a list a command touches."""

from __future__ import annotations

import posixpath

import pytest

from agent_core.touching import touched

FILES = {path: path for path in ("/w/a.py", "/w/src/b.py", "/w/src/deep/c.py", "/elsewhere/d.py")}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py", ["/w/a.py"]),
        ("cat ./src/../a.py", ["/w/a.py"]),
        ("sed -i s/a/b/ src/b.py && ls", ["/w/src/b.py"]),
        ("echo x > src/b.py", ["/w/src/b.py"]),
        ("tool --file=a.py", ["/w/a.py"]),
        ("grep -r word src", ["/w/src/b.py", "/w/src/deep/c.py"]),
        ("cat src/*.py", ["/w/src/b.py", "/w/src/deep/c.py"]),
        ("cat *.py", ["/w/a.py", "/w/src/b.py", "/w/src/deep/c.py"]),
        ("git add .", ["/w/a.py", "/w/src/b.py", "/w/src/deep/c.py"]),
        ("pytest", ["/w/a.py", "/w/src/b.py", "/w/src/deep/c.py"]),
        ('eval "$x"', ["/w/a.py", "/w/src/b.py", "/w/src/deep/c.py"]),
        ("cat /elsewhere/d.py", ["/elsewhere/d.py"]),
        ("cat 'a.py'", ["/w/a.py"]),
        ("echo hello", []),
        ("cat a.pyc src2", []),
        ("((", ["/w/a.py", "/w/src/b.py", "/w/src/deep/c.py"]),
    ],
)
def test_files_are_named_by_words_folders_patterns_and_code(command: str, expected: list[str]) -> None:
    assert list(touched(command, "/w", FILES, posixpath.normpath)) == expected


def test_a_link_leads_to_the_file() -> None:
    links = {"/w/link.py": "/w/a.py"}
    assert touched("cat link.py", "/w", FILES, lambda path: links.get(path, path)) == ("/w/a.py",)
    assert touched("cat a.py", "/w", {"/w/link.py": "/w/a.py"}, posixpath.normpath) == ("/w/link.py",)


def test_without_files_nothing_is_read() -> None:
    assert touched("((", "/w", {}, lambda path: pytest.fail("nothing to resolve")) == ()
