"""Random shell texts around a canary: what bash would run, no rule that does not name it lets run by itself.

The reference is bash itself. The canary is a function that appends a line to a file, exported so that sub-shells know
it too; the allowed program is another function that does nothing. Only these two and built-ins can do anything in the
empty folder in which the texts run, since PATH leads nowhere.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from agent_core.policy import Policy
from agent_core.policy_context import PolicyContext
from agent_core.rules import Rule
from agent_core.shell_syntax import analyse

BYPASS = Path(__file__).parent / "bypass.json"
BASH = shutil.which("bash") or "/bin/bash"
SAFE, CANARY = "safe", "canary"
CONTEXT = PolicyContext(cwd="/w/p", roots=("/w/p",))
POLICY = Policy([Rule(match=(SAFE,), decision="allow"), Rule(match=("cd",), decision="allow")], "rules")

DENYING = Policy([Rule(match=(CANARY,), decision="deny")], "trusted")

WORDS = [
    SAFE,
    CANARY,
    "cd",
    "x",
    "-x",
    "a=b",
    "'q q'",
    '"d d"',
    "ca'na'ry",
    'sa""fe',
    "\\canary",
    "#",
    "{a,b}",
    "$x",
    "${x:-canary}",
    "*",
    "~",
]
JOINTS = [
    " ",
    "  ",
    "\t",
    ";",
    "; ",
    " && ",
    " || ",
    " | ",
    " |& ",
    " & ",
    "\n",
    "\\\n",
    " \\\n ",
    "",
    "\r",
    "\\",
    "\v",
    "\u00a0",
]
SIGNS = [
    "$(",
    ")",
    "`",
    "(",
    "{ ",
    "; }",
    "'",
    '"',
    "<(",
    " >f ",
    " 2>&1 ",
    " </dev/null ",
    " &>/dev/null ",
    "<<E\n",
    "\nE\n",
    "<<<",
    "!",
    "#",
    "$'",
    "$((",
    "))",
]
SIGNS += [
    "if ",
    "; then ",
    "; fi",
    "case x in x) ",
    ";; esac",
    "f() ",
    "time ",
    "eval ",
    "command ",
    "trap ",
    " EXIT",
    "[[ ",
    " ]]",
    "for i in 1; do ",
    "; done",
    '$"',
    "${",
    "}",
]
texts = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(JOINTS) | st.sampled_from([SAFE, " ", CANARY]) | st.sampled_from(SIGNS),
    min_size=1,
    max_size=12,
).map("".join)
chains = st.tuples(st.sampled_from([SAFE, f"{SAFE} x"]), texts, st.sampled_from(["", CANARY, f"{SAFE} y"])).map("".join)


def runs_the_canary(text: str, folder: Path) -> bool:
    """Whether bash, given the text, reaches the canary. Built-ins that end or replace the shell cannot do harm here."""
    mark = folder / "mark"
    mark.unlink(missing_ok=True)
    prepared = (
        f"canary() {{ printf x >>{mark}; }}\nsafe() {{ :; }}\nexport -f canary safe\nexport PATH=/nowhere\n{text}\n"
    )
    subprocess.run(
        [BASH, "--norc", "--noprofile"],
        input=prepared.encode("utf-8", "replace"),
        cwd=folder,
        capture_output=True,
        timeout=10,
        check=False,
    )
    return mark.exists()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts | chains)
@example(f"{SAFE}\\\n{CANARY}")
@example(f"{SAFE} &\\\n& {CANARY}")
@example(f"{SAFE} #\\\n{CANARY}")
@example(f"{SAFE} x#;{CANARY}")
@example(f"{SAFE} {{ ; {CANARY}")
@example(f"{SAFE}\n\\\n{CANARY}")
@example(f"{SAFE} '\n'\n{CANARY}")
@example(f"{SAFE} <<E\nE\n{CANARY}")
@example(f"{SAFE} |\n{CANARY}")
@example(f'{SAFE} "$"\n{CANARY}')
def test_nothing_that_runs_the_canary_is_ever_allowed(tmp_path: Path, text: str) -> None:
    allowed = POLICY.judge(text, CONTEXT).decision == "allow"
    event(f"allowed: {allowed}")
    if allowed:
        assert not runs_the_canary(text, tmp_path)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts | chains)
@example(f"{SAFE} $({CANARY})")
@example(f"x={CANARY}; $x")
@example("echo ca''nary | . /dev/stdin")
@example("ca{n,}ary")
@example(f"2>&1 {CANARY}")
@example(f"{SAFE} `echo \\`{CANARY}\\``")
@example("f() { ${1}ary; }; f can")
@example(f"trap {CANARY} EXIT")
def test_where_everything_runs_a_denied_canary_never_runs_unasked(tmp_path: Path, text: str) -> None:
    allowed = DENYING.judge(text, CONTEXT).decision == "allow"
    event(f"allowed: {allowed}")
    if allowed:
        assert not runs_the_canary(text, tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([f"{SAFE} x", CANARY, f"{SAFE} 'a b'", f"{CANARY} y"]), min_size=1, max_size=5), st.data()
)
def test_every_understood_canary_is_seen(tmp_path: Path, commands: list[str], data: st.DataObject) -> None:
    """The other way round: an understood text runs the canary exactly if the analysis lists it and bash gets there."""
    text = commands[0]
    for command in commands[1:]:
        text += data.draw(st.sampled_from(["; ", "\n", " | ", " && ", ";\n"])) + command
    analysis = analyse(text)
    assert analysis.understood
    assert [simple.argv[0] == CANARY for simple in analysis.commands] == [CANARY in command for command in commands]
    assert runs_the_canary(text, tmp_path) == any(CANARY in command for command in commands)


def test_the_canary_can_sing(tmp_path: Path) -> None:
    assert runs_the_canary("safe $(canary)", tmp_path)
    assert not runs_the_canary("safe canary", tmp_path)


def test_bypass_constructs() -> None:
    cases = json.loads(BYPASS.read_text())
    policy = Policy([Rule(match=tuple(words), decision="allow") for words in cases["rules"]], "rules")
    assert len(cases["cases"]) == 48
    for case in cases["cases"]:
        verdict = policy.judge(case["command"], CONTEXT)
        assert (verdict.decision == "allow") == case["may_allow"], (case["construct"], verdict)
