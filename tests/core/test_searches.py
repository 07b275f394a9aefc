"""What programs read below the folders that they search, told by their words alone."""

from __future__ import annotations

import posixpath
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.policy import Policy
from agent_core.policy_context import Below, PolicyContext
from agent_core.rules import Rule
from agent_core.searches import search

SECRETS = (".env", "nested/prod.env", "packages/a/.env.local", "packages/a/key.pem")


def below(folder: str) -> Below:
    top = posixpath.relpath(folder, "/w/p")
    if top == "a.py":
        return Below()
    if top not in (".", "src", "nested", "packages", "packages/a", "linked"):
        return Below(whole=False)
    paths = [posixpath.relpath(path, top) for path in SECRETS if top == "." or path.startswith(f"{top}/")]
    return Below(tuple(paths), ("link",) if top == "linked" else ())


CONTEXT = PolicyContext(cwd="/w/p", roots=("/w/p",), below=below, tracked=lambda *_: Below())
RULES = [
    Rule(match=(word,), decision="allow")
    for word in ("grep", "rg", "git", "diff", "ag", "rgrep", "pcregrep", "colordiff")
]


def judged(command: str, context: PolicyContext = CONTEXT) -> str:
    return Policy(["read-only", *RULES], "rules").judge(command, context).decision


READ = """
grep -r x
grep -rn x .
grep -nr x packages
grep -Hrnie x -- .
grep --recursive x .
grep --recur x .
grep -drecurse x .
grep --directories=rec x .
grep -rn x src nested
grep -rn '--include=*.py' '--include=*.[e]nv' x
grep -rn '--include=.*' x
grep -rn --include '*.pe?' x
grep -r --inc='*.en?' --include='*.py' x
grep -re '--include=*.py' .
grep -r -e x -e y .
grep -r x -- . '--include=*.py'
grep -r --exclude=nested --exclude=packages --exclude=.env x
grep -r --exclude-dir=packages x
grep -r --exclude='[!x]*' x
grep -r x --exclude=src '--include=*.py'
grep -r x --exclude=.env '--include=[.]env'
grep -r x --exclude-from=/dev/null '--include=*.py'
pcregrep -r x .
colordiff -r nested src
grep -r --unheard-of x src
grep -r x missing
rgrep x
egrep -r x .
rg x
rg x nested
rg --hidden x packages/a
rg -. x packages/a
rg -uu x packages/a
rg -u --unrestricted x packages/a
rg -g .env x
rg -g '.e*' x
rg --iglob '*.ENV' x
rg -g '!*.env' -g '*.env' x
rg -t config x packages/a
rg --unheard-of x src
ag x
diff -r nested src
diff nested src
diff -r linked src
git grep --untracked x
git grep --no-exclude-standard --untracked x packages
git --no-pager grep --untracked x
""".strip().splitlines()


@pytest.mark.parametrize("command", READ)
def test_these_read_over_secrets(command: str) -> None:
    assert judged(command) == "ask"


NOT_READ = """
grep x a.py
grep -n x src/a.py
grep -rn x src
grep -rn x a.py src
grep -rn process.env src
grep -rn x . --include='*.py'
grep -rn '--include=*.py' '--include=*.ts' x .
grep -rn x '--include=*.py' --exclude=a.py
grep -r --exclude-dir=packages --exclude-dir=nested --exclude=.env x
rg x src
rg -n process.env src
rg -uuu x src
rg x -g '*.py'
rg x -g 'src/**/*.py' --hidden
rg --hidden -g '!packages' -g '!nested/' -g '!.env' x
rg -tpy x a.py src
rg --files
rg --files --hidden
rg x -g '!*.env' -g '!*.pem'
rg x -g '!prod.env' --glob '!*.pem'
diff -u a.py a.py
diff -r src src
git grep x
git grep -n process.env
git grep -n x -- '*.py'
git grep x src
git log --oneline -5
git diff
ls -R
find . -type f
tree
""".strip().splitlines()


@pytest.mark.parametrize("command", NOT_READ)
def test_these_do_not(command: str) -> None:
    assert judged(command) == "allow"


@pytest.mark.parametrize(
    "command",
    ["grep .env .env", "grep -e.env .env", "grep x prod.env", "rg -e x prod.env", "rg -g '!x.env' x src/x.env"],
)
def test_what_is_searched_for_is_no_path_but_what_follows_is(command: str) -> None:
    assert judged(command) == "ask"


TRACKING = """
git grep x
git grep x nested
git grep -e x -- nested
git grep x HEAD
git diff
git diff HEAD~1
git diff --stat -p
git diff -- nested src
git show
git show HEAD
git show HEAD:a.py HEAD
git cat-file -p 0815
git log -p
git log -U1 --oneline
git log --patch-with-stat
git -P log -p
git stash list -p
git reflog show -p
""".strip().splitlines()


@pytest.mark.parametrize("command", TRACKING)
def test_git_reads_secrets_that_it_tracks(command: str) -> None:
    def tracked(folder: str, _whole: bool) -> Below:
        top = posixpath.relpath("/w/p/nested/prod.env", folder)
        return Below(() if top.startswith("..") else (top,), whole=folder != "/w/p/HEAD")

    assert judged(command, replace(CONTEXT, tracked=tracked)) == "ask"


NAMES_ONLY = """
git status
git log --oneline
git log --stat
git diff --stat
git diff --name-only HEAD
git diff -- src
git grep x src
git show HEAD:src/a.py
git show --no-patch HEAD
git ls-files
git blame a.py
""".strip().splitlines()


@pytest.mark.parametrize("command", NAMES_ONLY)
def test_git_prints_names_and_other_files(command: str) -> None:
    assert judged(command, replace(CONTEXT, tracked=lambda folder, _whole: below(folder))) == "allow"


def test_an_ignore_file_or_the_persons_settings_can_make_rg_read_hidden_files() -> None:
    assert judged("rg x -g '!*.pem' packages/a") == "allow"
    context = replace(CONTEXT, unhidden=lambda path: path == "/w/p/packages/a/.env.local")
    assert judged("rg x -g '!*.pem' packages/a", context) == "ask"
    assert judged("rg x -g '!*.pem' packages/a", replace(CONTEXT, environment={"RIPGREP_CONFIG_PATH"})) == "ask"


@pytest.mark.parametrize(
    "command", ["mv nested src && grep -r x src", "git mv nested src; rg x src", "grep -r x src || cp -r nested src"]
)
def test_what_may_move_files_beside_a_search_makes_it_one_of_the_whole_workspace(command: str) -> None:
    rules = [*RULES, *(Rule(match=(word,), decision="allow") for word in ("mv", "cp", "make"))]
    assert Policy(rules, "rules").judge(command, CONTEXT).decision == "ask"
    elsewhere = replace(CONTEXT, below=lambda _folder: Below())
    assert Policy(rules, "rules").judge(command, elsewhere).decision == "allow"
    assert judged("ls nested && grep -r x src | sort") == "allow"


@pytest.mark.parametrize("command", ["cp -r nested src/n", "cp -a . src/n", "zip -r a.zip .", "tar czf a.tgz packages"])
def test_copies_of_whole_folders_are_searches_too(command: str) -> None:
    words = tuple(command.split()[:2])
    assert Policy([Rule(match=words, decision="allow")], "rules").judge(command, CONTEXT).decision == "ask"
    free = replace(CONTEXT, below=lambda _folder: Below())
    assert Policy([Rule(match=words, decision="allow")], "rules").judge(command, free).decision == "allow"


def test_copies_of_files_are_not() -> None:
    for command in ("cp a.py b.py", "cp -r src b", "tar tzf a.tgz"):
        rules = [Rule(match=(command.split()[0],), decision="allow")]
        assert Policy(rules, "rules").judge(command, CONTEXT).decision == "allow", command


def test_a_folder_too_large_to_look_through_is_asked_about() -> None:
    context = replace(CONTEXT, below=lambda _folder: Below(whole=False))
    assert judged("grep -r x src", context) == "ask"
    assert judged("grep x a.py", context) == "allow"


def test_every_folder_that_a_cd_may_lead_to_counts() -> None:
    assert judged("cd src && grep -rn x .") == "ask"  # if the `cd` fails, it is the whole workspace
    assert judged("cd src && grep -rn x /w/p/src") == "allow"


def test_the_disk_is_not_looked_at_unless_a_rule_would_allow() -> None:
    def never(folder: str) -> Below:
        raise AssertionError(folder)

    context = replace(CONTEXT, below=never)
    assert Policy([], "rules").judge("grep -r x .", context).decision == "ask"
    assert judged("cat a.py", context) == "allow"


@pytest.mark.skipif(shutil.which("grep") is None, reason="grep is not installed")
@pytest.mark.parametrize("command", [each for each in READ + NOT_READ if each.startswith(("grep", "egrep"))])
def test_grep_itself_reads_no_secret_that_is_not_told(tmp_path: Path, command: str) -> None:
    """The reference is grep: whatever secret it finds something in must be one that `search` tells."""
    for path in (*SECRETS, "a.py", "src/a.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x\n")
    argv = shlex.split(command)
    output = subprocess.run([*argv, "-H"], cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    output = "\n" + output.replace("./", "")
    told = search(argv)
    for path in SECRETS:
        if f"\n{path}:" in output and not told.everywhere:
            seen = [posixpath.relpath(path, folder) for folder in told.folders]
            assert any(told.reads(each) for each in seen if not each.startswith("..")), path
