"""The analyser understands exactly what bash would run, names every doubt, and never raises."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_core.shell_syntax import analyse


@pytest.mark.parametrize(
    ("text", "argvs"),
    [
        ("git status", [("git", "status")]),
        ("git log --format='a b' \"x y\" a\\ b", [("git", "log", "--format=a b", "x y", "a b")]),
        ("g''it st'a'tus \\\n -s", [("git", "status", "-s")]),
        ("a | b |& c && d || e; f\ng", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",), ("g",)]),
        ("ls &&\n # why\n ls;\n\n", [("ls",), ("ls",)]),
        ("! ls 2>&1 >/dev/null", [("ls",)]),
        ("ls &> /dev/null < /dev/null", [("ls",)]),
        ("echo 'query { test }'", [("echo", "query { test }")]),
        ('grep "a && b | c" f.txt', [("grep", "a && b | c", "f.txt")]),
        ("git diff HEAD@{1} HEAD~2 {} a#b", [("git", "diff", "HEAD@{1}", "HEAD~2", "{}", "a#b")]),
        ('grep "foo$" "a\\"b\\$c\\d"', [("grep", "foo$", 'a"b$c\\d')]),
        ("git commit -m 'größe\n2'", [("git", "commit", "-m", "größe\n2")]),
        ("cd src", [("cd", "src")]),
    ],
)
def test_understood(text: str, argvs: list[tuple[str, ...]]) -> None:
    analysis = analyse(text)
    assert analysis.doubts == ()
    assert [command.argv for command in analysis.commands] == argvs


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("echo $(touch x)", "command substitution"),
        ('echo "`touch x`"', "command substitution"),
        ("echo <(touch x)", "process substitution"),
        ("echo $HOME", "a variable"),
        ("echo ${x@P}", "parameter expansion"),
        ("echo $((x))", "arithmetic expansion"),
        ("echo $[x]", "a variable"),
        ("echo {a,b}", "brace expansion"),
        ("echo $'a'", "$'…' quoting"),
        ("ls *.py", "a pattern that the shell expands"),
        ("l? x", "a pattern that the shell expands"),
        ("$cmd x", "a variable"),
        ("cat a > b", "a redirect to a file"),
        ("cat a >> b", "a redirect to a file"),
        ("cat a >& b", "a redirect to a file"),
        ("> b", "a redirect to a file"),
        ("cat < b", "a redirect from a file"),
        ("x=1 ls", "an assignment"),
        ("x=1", "an assignment"),
        ("export x=1", "an assignment"),
        ("f() { ls; }", "a function"),
        ("cat <<E\n$(touch x)\nE", "a heredoc"),
        ("cat <<< x", "a here-string"),
        ("ls &", "a background command"),
        ("(ls)", "a subshell"),
        ("{ ls; }", "a group"),
        ("[[ -f x ]]", "a test"),
        ("if true; then ls; fi", "control flow"),
        ("time ls", "a shell keyword"),
        ("git st\\\natus", "a parse error"),
        ("ls\\\n2>&1", "a parse error"),
        ("ls &\\\n& rm", "a parse error"),
        ("echo 'a", "a parse error"),
        ("ls )", "a parse error"),
        ("ls\rrm", "control or invisible characters"),
        ("ls\u00a0-l", "control or invisible characters"),
        ("ls \u200b", "control or invisible characters"),
        ("ls\0", "control or invisible characters"),
        ("", "nothing to run"),
        ("  # rm -rf src", "only a comment"),
        ("a" * 40_000, "a very long text"),
        ("a|" * 4000, "a very long text"),
    ],
)
def test_doubted(text: str, doubt: str) -> None:
    assert doubt in analyse(text).doubts


def test_commands_inside_what_is_doubted_are_known() -> None:
    programs = [command.argv[0] for command in analyse("for x in $(one); do two & (three) | `four`; done").commands]
    assert {"one", "two", "three", "four"} <= set(programs)


def test_a_quoted_heredoc_body_is_no_command_ap_09() -> None:
    analysis = analyse("cat > notes.md <<'EOF'\nthen run git push\nEOF")
    assert [command.argv for command in analysis.commands] == [("cat",)]
    assert analysis.writes == ("notes.md",)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80) | st.text(alphabet="ab ;&|<>()[]{}$`'\"\\\n#=!~*?E\0\r", max_size=60).map(str.encode))
@example(b"\xed\xa0\x80")
def test_any_bytes_are_read_without_raising(data: bytes) -> None:
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        analysis = analyse(text)
        assert analysis.understood or analysis.doubts


def test_code_points_that_crash_the_parser_do_not_reach_it() -> None:
    """Seen with tree-sitter-bash 0.25.1: its scanner reads outside of its tables, so that the whole process may end."""
    for code in range(0x80, 0x110000, 0x1FF):
        analyse(f"a=${{{chr(code)}|${{{chr(code)}{chr(code)}")
    assert analyse("git commit -m größe😀").commands[0].argv == ("git", "commit", "-m", "größe😀")
    assert analyse("git\x0bstatus").commands[0].argv == ("git\x0bstatus",)


def test_deep_nesting_is_read_without_raising() -> None:
    for opening in ("$(", "(", "{ ", '"$(', "`", "if ", "<(", "a <<E\n", "((", "${a:-"):
        analyse(opening * 3000)
