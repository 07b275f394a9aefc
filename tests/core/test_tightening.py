"""What a deny or ask rule does where its command is not seen: it asks, in the mode in which everything runs too."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_core.policy import Mode, Policy
from agent_core.policy_context import PolicyContext
from agent_core.rules import Rule
from agent_core.types import Verdict

CONTEXT = PolicyContext(cwd="/w/p", roots=("/w/p",))
DENY = Rule(match=("git", "push"), decision="deny")
PROGRAMS = ("git", "bash", "echo", "hyperfine", "xargs", "python3", "unheard-of", "make", "find", "parallel")


def judged(command: str, *rules: Rule, mode: Mode = "trusted", remembered: bool = False) -> Verdict:
    context = PolicyContext(
        cwd="/w/p", roots=("/w/p",), remembered=frozenset({("/w/p", command)} if remembered else ())
    )
    return Policy(rules or (DENY,), mode).judge(command, context)


def lines(text: str, *more: str) -> list[str]:
    return [*text.strip().splitlines(), *more]


# One command a line; of a heredoc the line ends are written `\n`.
SPELLINGS = [
    line.replace(r"\n", "\n") if "Z" in line else line
    for line in (Path(__file__).parent / "spellings.txt").read_text().splitlines()
]
SEEN = lines(
    r"""
git 2>/dev/null push
git <<< x push
>log git push
git<&- push
git 2>&- push
git {x}>f push
git -c user.name=x push
GIT push
uv run git push
poetry run git push
npx git push
pipx run git push
npm exec git push
xvfb-run git push
numactl git push
dbus-run-session git push
ssh-agent git push
caffeinate git push
hyperfine 'git push'
sg group 'git push'
time git push
watch -n1 git push
docker run image git push
sh -c 'cd x;git   push'
""",
    "sh -c 'git\tpush'",
)
EXPANDED = lines(r"""
git pu{s,}h
git $'push'
git {push,}
git pus?
git "$x"
x=push; git $x
f() { git "$@"; }; f push
for x in push; do git -q $x; done
echo push | xargs git
echo push | xargs -I% git %
parallel git ::: push
find . -exec git {} \;
find . -exec sh -c '"$0" push' git \;
""")

ALIASED = lines("""
git p
git -c alias.p=push p
git --exec-path=x fetch
git --config-env=alias.p=X p
""")

UNSEEN = lines(r"""
g=git; $g push
$(echo git) push
{git,x} push
sh -c 'g=git; $g push'
bash -c "git pu$x"
bash <<< "git push"
echo git push | sh
sh -s < file
bash -x
bash -o pipefail
echo git push | source /dev/stdin
echo git push | sudo bash
bash /proc/self/fd/0 <<< "git push"
bash <(echo git push)
eval "git $x"
env -u X $x
xargs $x
find . $x
npx $x
uv run --with y $x
echo Z2l0IHB1c2g= | base64 -d | xargs -I{} sh -c '{}'
echo Z2l0IHB1c2g= | base64 -d | parallel
alias g=git
hash -p /usr/bin/git g
""")

NAMED = lines(
    r"""
git submodule foreach git push
git bisect run git push
git rebase -x 'git push'
git rebase -x 'git pu${x}sh'
unheard-of git push
unheard-of 'git push'
unheard-of g"it" pu\sh
./w.sh /usr/bin/git push
make GIT='git push' all
EDITOR='git push' git commit
python3 -c "import os; os.system('git push')"
perl -e 'exec "git", "push"'
sed 's/x/git push/e' file
make -f /dev/stdin <<< $'all:\n\tgit push'
socat - EXEC:'git push'
GIT_PAGER='git push' git log
GIT_EXTERNAL_DIFF='git push' git diff
git grep -O'git push' x
echo 'os.system("git push")' | python3
ln -s /usr/bin/git ./g && ./g push
cp $(which git) ./g
""",
    "python3 - <<'E'\nimport subprocess\nsubprocess.run(['git', 'push'])\nE",
    "make -f - <<'E'\nx:\n\tgit push\nE",
    "cat > s.sh <<'E'\ngit push\nE\nbash s.sh",
)
ORDINARY = lines(
    r"""
git status
git fetch origin && git rebase origin/main
git commit -m "$message"
git add -A && git commit -m "push the fix"
git -C sub log --oneline
for f in *.py; do wc -l $f; done
echo "git push is denied" >> notes.md
grep -rn "git push" .
python -m pytest -q $args
x=$(git rev-parse HEAD); echo $x
make test 2>&1 | tail -5
sed -i 's/a/b/' f.py
bash script.sh
bash -x build.sh all
bash -eo pipefail -c 'make test'
timeout 60 pytest -q
npm run build
npm run build $x
npx eslint $files
cargo test $x
ls $HOME
export X=1; ./run.sh
find . -name '*.py' -exec wc -l {} +
rm -rf build
""",
    "git commit -m \"$(cat <<'E'\nfix: do push\nE\n)\"",
    "cat > notes.md <<'E'\nthen run git push\nE",
    "python3 - <<'E'\nprint({1: 2})\nE",
)


@pytest.mark.parametrize("command", SEEN)
def test_what_is_seen_is_denied(command: str) -> None:
    assert judged(command).decision == "deny"


@pytest.mark.parametrize("command", SPELLINGS)
def test_no_spelling_runs_by_itself(command: str) -> None:
    assert judged(command).decision in ("deny", "ask")


@pytest.mark.parametrize("command", EXPANDED + ALIASED)
def test_what_may_turn_out_to_be_the_rules_command_is_asked(command: str) -> None:
    verdict = judged(command)
    assert (verdict.decision, verdict.rule) == ("ask", "user: deny git push")
    assert "may turn out to be `git push`" in verdict.why


@pytest.mark.parametrize("command", UNSEEN)
def test_what_hides_its_commands_is_asked(command: str) -> None:
    verdict = judged(command)
    assert (verdict.decision, verdict.rule) == ("ask", "analysis")
    assert "not known whether a rule denies or asks" in verdict.why


@pytest.mark.parametrize("command", NAMED)
def test_what_is_handed_the_rules_words_is_asked(command: str) -> None:
    verdict = judged(command)
    assert (verdict.decision, verdict.rule) == ("ask", "user: deny git push")
    assert "may run `git push`" in verdict.why


@pytest.mark.parametrize("command", EXPANDED + ALIASED + UNSEEN + NAMED)
def test_an_ask_rule_does_the_same(command: str) -> None:
    assert judged(command, Rule(match=("git", "push"), decision="ask")).decision == "ask"


@pytest.mark.parametrize("command", SEEN + EXPANDED + ALIASED + UNSEEN + NAMED)
def test_no_allow_rule_loosens_it(command: str) -> None:
    allows = [Rule(match=(program,), decision="allow") for program in PROGRAMS]
    assert judged(command, DENY, *allows, mode="rules").decision != "allow"


def test_an_allow_rule_for_a_program_that_runs_others_lets_no_denied_command_through() -> None:
    allow = Rule(match=("unheard-of",), decision="allow")
    assert judged("unheard-of git pull", DENY, allow, mode="rules").decision == "allow"
    assert judged("unheard-of git push", DENY, allow, mode="rules").decision == "ask"


@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_work_is_not_asked(command: str) -> None:
    assert judged(command).decision == "allow"


@pytest.mark.parametrize("command", UNSEEN + EXPANDED)
def test_without_such_rules_everything_runs(command: str) -> None:
    assert Policy((), "trusted").judge(command, CONTEXT).decision == "allow"


def test_what_was_remembered_exactly_is_not_asked_again() -> None:
    assert judged("git $x", remembered=True).decision == "allow"
    assert judged("git push $x", remembered=True).decision == "deny"


@pytest.mark.parametrize(
    ("words", "command", "decision"),
    [
        ("docker push", "docker --context far push image", "deny"),
        ("docker push", "docker --context=far push image", "deny"),
        ("docker push", "docker image push", "allow"),
        ("rm -rf /", "rm $x", "ask"),
        ("rm -rf /", "rm -r -f -- /", "deny"),
        ("rm -rf /", "rm -r build", "allow"),
        ("git * --force", "git $x", "ask"),
        ("git * --force", "git push --force", "deny"),
        ("git *", "git $x", "deny"),
        ("git remote add", "git remote $x", "ask"),
        ("git remote add", "git branch $x", "allow"),
        ("./deploy.sh", "cd x && ../deploy.sh", "deny"),
        ("./deploy.sh", "bash deploy.sh", "deny"),
        ("* --force", "unheard-of --force", "deny"),
        ("* --force", "unheard-of $x", "ask"),
        ("curl", "unheard-of curl", "ask"),
        ("curl", "unheard-of 'x;curl'", "ask"),
    ],
)
def test_other_rules(words: str, command: str, decision: str) -> None:
    assert judged(command, Rule(match=tuple(words.split()), decision="deny")).decision == decision
