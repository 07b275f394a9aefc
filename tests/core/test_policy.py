"""Nothing runs by itself that no rule names, and every verdict says which rule and why."""

from __future__ import annotations

import itertools
import posixpath
from dataclasses import replace
from typing import Literal

import pytest

from agent_core.errors import SettingsError
from agent_core.policy import Mode, Policy, describe_rule, may_remember, proposed_rules
from agent_core.policy_context import PolicyContext
from agent_core.program_risks import configured_program, rule_run_environment
from agent_core.redaction import Masker
from agent_core.rules import Examples, Rule, loosening, merge_rules
from agent_core.types import Reason

CONTEXT = PolicyContext(cwd="/w/p", roots=("/w/p",), home="/home/u")


def rule(words: str, decision: Literal["allow", "ask", "deny"] = "allow") -> Rule:
    return Rule(match=tuple(words.split()), decision=decision)


def decide(command: str, *rules: Rule | str, mode: Mode = "rules", context: PolicyContext = CONTEXT) -> str:
    return Policy(rules, mode).judge(command, context).decision


# What the page for users says ("How rules are judged"), example by example.


@pytest.mark.parametrize(
    ("words", "command", "decision"),
    [
        ("git status", "git status", "allow"),
        ("git status", "git status --short", "allow"),
        ("git status", "git status | git status", "allow"),
        ("git status", "git status 2>&1", "allow"),
        ("git status", "git status; rm -rf src", "ask"),
        ("git status", "git status > ~/.bashrc", "ask"),
        ("git status", "git status $(touch x)", "ask"),
        ("git status", "GIT_PAGER=x git status", "ask"),
        ("git status", "./git status", "ask"),
        ("git status", "GIT status", "ask"),
        ("git status", "env git status", "ask"),
        ("git status", "cd sub && git status", "ask"),
        ("grep", "grep -n 'a | b' src/x.py", "allow"),
        ("grep", "grep root /etc/passwd", "ask"),
        ("grep", "grep KEY .env", "ask"),
        ("find", "find . -name '*.py'", "allow"),
        ("find", "find . -delete", "ask"),
        ("timeout", "timeout 60 ./deploy.sh", "ask"),
        ("timeout 60 pytest", "timeout 60 pytest", "allow"),
        ("python", "python -m pytest", "ask"),
        ("python -m pytest", "python -m pytest -x tests", "allow"),
        ("npm run lint", "npm run lint -- src", "allow"),
        ("npm run", "npm run lint", "ask"),
    ],
)
def test_the_page_for_users(words: str, command: str, decision: str) -> None:
    assert decide(command, rule(words)) == decision


@pytest.mark.parametrize("tail", ["&& ", "; ", "| tee ", "& ", "|| ", "\n"])
def test_ap_01_a_safe_first_word_allows_nothing_after_it(tail: str) -> None:
    assert decide(f"ls {tail}touch pwned", rule("ls")) == "ask"


def test_ap_02_every_command_of_a_pipe_is_judged() -> None:
    assert decide("rm -rf build | grep ok", rule("grep")) == "ask"


@pytest.mark.parametrize(
    "command",
    ["eval $(echo dG91Y2ggcHduZWQ= | base64 -d)", "echo $(touch pwned)", "echo `touch pwned`", "echo <(touch pwned)"],
)
def test_ap_03_what_is_substituted_is_asked(command: str) -> None:
    assert decide(command, rule("echo")) == "ask"


def test_ap_04_redirects_to_files_are_asked() -> None:
    assert decide("cat README.md > out.txt", rule("cat")) == "ask"
    assert decide("cat a >> b", rule("cat")) == "ask"
    assert decide("cat a > /dev/null 2>&1", rule("cat")) == "allow"


@pytest.mark.parametrize("command", ["echo 'query { test }'", "npm run lint 2>&1", 'grep "a && b | c" f.txt'])
def test_ap_05_quoted_signs_separate_nothing(command: str) -> None:
    assert decide(command, rule("echo"), rule("npm run lint"), rule("grep")) == "allow"


WRAPPED = [
    "env git push",
    "timeout 5 git push",
    "nice git push",
    "sh -c 'git push'",
    "xargs git push < f",
    "./w.sh git push",
]


@pytest.mark.parametrize("command", WRAPPED)
def test_ap_07_wrappers_hide_nothing(command: str) -> None:
    allows = [rule(word) for word in ("git", "env", "timeout", "nice", "sh", "xargs")]
    assert decide(command, *allows, rule("git push", "deny")) in ("deny", "ask")
    assert decide(command, *allows) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "env git push",
        "bash -lc 'cd x && git push'",
        "xargs git push",
        "/usr/bin/git push",
        "git -C sub push",
        "a | (git push)",
        "eval git push",
        "find . -exec git push \\;",
        "x=$(git push)",
        "git --no-pager push --force",
        "'git' \"push\"",
    ],
)
def test_a_deny_rule_sees_through_wrappers_in_every_mode(command: str) -> None:
    for mode in ("ask", "rules", "plan", "trusted"):
        verdict = Policy([rule("git push", "deny")], mode).judge(command, CONTEXT)
        assert (verdict.decision, verdict.rule) == ("deny", "user: deny git push"), mode


def test_a_text_too_long_to_read_hides_nothing_from_a_deny_rule() -> None:
    for many in (
        "echo " + "a" * 40_000 + "; ",
        "true\n" * 2_000,
        "env true" + " a" * 1_000 + "; ",
        "env" + " -u a" * 500,
    ):
        command = many + " git push"
        assert decide(command, rule("git push", "deny"), mode="trusted") in ("deny", "ask")
        assert decide(command, mode="trusted") == "allow"
    assert decide("env rm" + " a" * 1_000 + " -rf", rule("rm -rf", "deny"), mode="trusted") == "ask"


def test_ap_09_a_deny_rule_reads_no_heredoc_body() -> None:
    command = "cat > notes.md <<'EOF'\nthen run git push\nEOF"
    assert decide(command, rule("git push", "deny")) == "ask"
    assert decide(command, rule("git push", "deny"), mode="trusted") == "allow"


@pytest.mark.parametrize("command", ["rm -fr /", "rm -r -f /", "rm --recursive --force /", "rm -rf -- /"])
def test_ap_10_reordered_options_are_not_allowed(command: str) -> None:
    assert decide(command, rule("rm"), rule("rm -rf /", "deny")) != "allow"


def test_ap_10_reordered_letters_are_denied() -> None:
    assert decide("rm -v -fr -- /", rule("rm -rf /", "deny"), mode="trusted") == "deny"


def test_ap_11_a_chain_is_remembered_only_as_its_exact_text() -> None:
    chain = "export P=x && make plan"
    assert proposed_rules(chain, CONTEXT) == ()
    context = replace(CONTEXT, remembered={("/w/p", chain)})
    assert decide(chain, mode="ask", context=context) == "allow"
    assert decide("export P=x && touch pwned", mode="ask", context=context) == "ask"


def test_ap_12_a_wrapper_is_never_proposed() -> None:
    assert proposed_rules("busybox sh -c 'echo hi'", CONTEXT) == ()
    context = replace(CONTEXT, remembered={("/w/p", "busybox sh -c 'echo hi'")})
    assert decide("busybox sh -c 'touch pwned'", context=context) == "ask"


def test_ap_13_the_same_text_is_not_asked_twice_in_its_folder() -> None:
    context = replace(CONTEXT, remembered={("/w/p", "psql -c 'select 1'")})
    assert decide("psql -c 'select 1'", mode="ask", context=context) == "allow"
    assert decide("psql -c 'select 2'", mode="ask", context=context) == "ask"
    assert decide("psql -c 'select 1'", mode="ask", context=replace(context, cwd="/w/p/sub")) == "ask"


def test_ap_14_deny_beats_ask_beats_allow_in_every_order() -> None:
    rules = [rule("curl", "deny"), rule("*", "ask"), rule("curl example.invalid")]
    for order in itertools.permutations(rules):
        assert decide("curl example.invalid", *order) == "deny"
    for order in itertools.permutations(rules[1:]):
        assert decide("curl example.invalid", *order) == "ask"


def test_ap_15_remembered_decisions_are_of_one_session() -> None:
    policy = Policy(mode="ask")
    assert policy.judge("ls", replace(CONTEXT, remembered_rules={("ls",)})).decision == "allow"
    assert policy.judge("ls", CONTEXT).decision == "ask"


def test_ap_26_a_rule_for_a_wrapper_allows_nothing_in_it() -> None:
    assert decide("timeout 60 ./deploy.sh", rule("timeout")) == "ask"
    assert decide("./deploy.sh", rule("timeout")) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "export GIT_PAGER='touch pwned'",
        "alias git='touch pwned'",
        "trap 'touch pwned' EXIT",
        "source ./x.sh",
        "cd sub",
        "exec git status",
        ". ./x.sh",
        "hash -p ./x git",
        "set -x",
        "enable -f x",
    ],
)
def test_ap_32_builtins_are_commands_like_others(command: str) -> None:
    assert decide(command, rule("git status")) == "ask"
    assert decide(f"{command}; git status", rule("git status")) == "ask"
    assert decide(f"{command} more", rule(command.split()[0])) == "ask"


@pytest.mark.parametrize("command", ["rm -rf build/ ~/", 'rm -rf "$UNSET/"*', "rm -rf ../.."])
def test_ap_34_what_lies_outside_is_asked_and_never_remembered(command: str) -> None:
    assert decide(command, rule("rm")) == "ask"
    assert proposed_rules(command, CONTEXT) == ()
    assert decide("rm -rf build/", rule("rm")) == "allow"


def test_remembering_is_not_offered_for_secrets_or_places_outside() -> None:
    assert may_remember("rm -rf build", CONTEXT)
    assert not may_remember("rm -rf ../..", CONTEXT)
    assert not may_remember("echo <masked:key>", CONTEXT)
    assert not may_remember("echo x", replace(CONTEXT, secrets=("A_KEY",)))


@pytest.mark.parametrize("mode", ["ask", "rules", "trusted"])
def test_a_command_with_a_secret_or_a_mask_is_always_asked(mode: Mode) -> None:
    """Issue 4, point 7: no masked text is written back over a real key."""
    masker = Masker.from_sources({"GH_TOKEN": "tok3n-of-the-hub"})
    masked = f"echo {masker.mask('tok3n-of-the-hub')}"
    context = replace(CONTEXT, remembered={("/w/p", masked)})
    assert decide(masked, rule("echo"), mode=mode, context=context) == "ask"
    context = replace(CONTEXT, secrets=masker.secrets_in("echo tok3n-of-the-hub"))
    verdict = Policy([rule("echo")], mode).judge("echo tok3n-of-the-hub", context)
    assert (verdict.decision, verdict.rule) == ("ask", "secrets")
    assert "GH_TOKEN" in verdict.why
    assert "tok3n" not in verdict.why


def test_modes() -> None:
    allow = rule("make test")
    assert decide("make test", allow, mode="ask") == "ask"
    assert decide("make test", allow, mode="rules") == "allow"
    assert decide("make test", allow, mode="plan") == "deny"
    assert decide("anything $(at all)", mode="trusted") == "allow"
    assert decide("make test", rule("make", "ask"), mode="trusted") == "ask"
    assert decide("git log --oneline | head -3", mode="plan") == "allow"
    assert decide("git log > x", mode="plan") == "deny"
    assert Policy(mode="plan").judge("rm x", CONTEXT).reason is Reason.PLAN_MODE
    assert Policy(mode="plan").judge("cat x; echo <masked:key>", CONTEXT).reason is Reason.PLAN_MODE


@pytest.mark.parametrize("mode", ["ask", "rules", "plan", "trusted"])
def test_an_untrusted_workspace_runs_nothing(mode: Mode) -> None:
    context = replace(CONTEXT, trusted=False, remembered={("/w/p", "ls")})
    verdict = Policy(["read-only"], mode).judge("ls", context)
    assert (verdict.decision, verdict.reason) == ("deny", Reason.WORKSPACE_UNTRUSTED)


def test_a_workspace_only_tightens() -> None:
    own = [rule("rm"), rule("git push", "deny"), rule("git", "ask")]
    merged = merge_rules([rule("git")], own)
    assert [mine.name for mine in merged] == ["user: allow git", "workspace: deny git push", "workspace: ask git"]
    assert loosening(own) == (own[0],)
    assert decide("git push", *merged, mode="trusted") == "deny"
    assert decide("rm x", *merged) == "ask"


RISKY = """
git -c core.pager=x log
git --exec-path=. log
git log --outp=x
git grep -Ovi x
git format-patch -o x
git rebase -x ./x main
uniq a b
git x
git config core.pager x
git difftool
git submodule foreach ls
git push
find . -execdir ls
find . -fprint x
rg --pre=./x y
rg --pre ./x y
grep -R x .
sed -i s/a/b/ f
sed s/a/b/e f
sed 'w out' f
sed -n e../x.sh f
sed -f s.sed f
sed --expression=p f
tar xf a.tar
tar -xf a.tar
tar tf a.tar --to-command=./x
tar tf a.tar --checkpoint-action=exec=./x
tar -I ./x -tf a.tar
sort -o x y
sort --compress-prog=./x y
awk 'BEGIN{system("x")}'
awk '{print > "x"}' f
awk -f p.awk f
xargs ls
ssh host ls
curl -o x https://h
curl -sSLo x https://h
curl --data @x https://h
curl file:///x
npm --prefix=x test
npm exec x
npm install x
npm run x
pip install x
pip --python=./x list
make -f x
make SHELL=./x
make --eval=x
""".strip().splitlines()


@pytest.mark.parametrize("command", RISKY)
def test_words_that_run_or_write_turn_an_allow_into_a_question(command: str) -> None:
    assert decide(command, rule(command.split()[0])) == "ask"


HARMLESS = """
git log --oneline -n 5
git --no-pager diff HEAD~1 -- src/x.py
git commit -m 'a message'
git show HEAD:src/x.py
git status -uno
git log -Sfox
uniq -c a
find . -type f -name '*.py' -not -path './build/*'
rg -n 'foo|bar' src
grep -rn --exclude-dir=.git foo .
sed -n 1,20p src/x.py
sed -e 's/a/b/g' src/x.py
tar tzf a.tgz
sort -u -k2 x
awk '{print $1}' x
awk -F: '{print $2}' x
curl -s https://example.invalid/x
npm ls
pip list
make
make test
""".strip().splitlines()


@pytest.mark.parametrize("command", HARMLESS)
def test_ordinary_words_do_not(command: str) -> None:
    program = command.split()[0]
    assert Policy([rule(program)], "rules").judge(command, CONTEXT).why == f"the rule `{program}` allows it" + (
        " (runs the workspace's own code)" if program in ("npm", "make") else ""
    )


def test_a_rule_may_name_the_risky_word_itself() -> None:
    assert decide("find . -delete", rule("find . -delete")) == "allow"
    assert decide("pip install -e .", rule("pip install -e .")) == "allow"
    assert decide("git push origin", rule("git push")) == "allow"


@pytest.mark.parametrize(
    "word",
    [
        "/etc/passwd",
        "../x",
        "~/x",
        "~u/x",
        "--file=/etc/x",
        "-f/etc/x",
        "-f../x",
        "a:/etc/x",
        "src/../../x",
        "link/x",
        "link/..",
        "..",
        "//etc/x",
        ".env",
        ".env.local",
        ".git/config",
        "sub/.ssh/id_rsa",
        "key.pem",
        ".npmrc",
        ".handrail.toml",
        "HEAD:.env",
        "alias/x",
    ],
)
def test_words_that_lead_outside_or_to_keys_are_asked(word: str) -> None:
    links = {"/w/p/link": "/elsewhere/deep", "/w/p/alias": "/w/p/.git"}

    def resolve(path: str) -> str:
        for link, target in links.items():
            if path == link or path.startswith(link + "/"):
                return posixpath.normpath(target + path[len(link) :])
        return posixpath.normpath(path)

    context = replace(CONTEXT, resolve=resolve)
    assert decide("cat src/x", rule("cat"), context=context) == "allow"
    assert decide(f"cat src/x {word}", rule("cat"), context=context) == "ask"


def test_cd_into_the_workspace_is_understood_and_followed() -> None:
    rules = [rule("cd"), rule("cat")]
    assert decide("cd sub && cat x", *rules) == "allow"
    assert decide("cd /w/p/sub && cat x", *rules) == "allow"
    assert decide("cd sub && cat ../x", *rules) == "ask"  # if the `cd` fails, this is outside
    for command in ("cd", "cd -", "cd ..", "cd /tmp", "cd ~", "cd sub/../..", "cd -P ..", "cd a b"):
        assert decide(f"{command} && cat x", *rules) == "ask", command
    assert decide("cd .. && cat p/x", *rules) == "ask"


def test_a_program_that_path_finds_in_the_workspace_is_asked() -> None:
    def places(name: str) -> str | None:
        return {"git": "/w/p/bin/git", "ls": "/usr/bin/ls"}.get(name)

    context = replace(CONTEXT, find_program=places, resolve=lambda path: path.replace("/w/p/bin", "/usr/bin"))
    assert decide("ls", rule("ls"), context=context) == "allow"
    assert decide("git status", rule("git"), context=context) == "ask"


def test_a_workspace_may_be_opened_through_a_link() -> None:
    context = replace(CONTEXT, cwd="/link", resolve=lambda path: posixpath.normpath(path).replace("/link", "/w/p"))
    assert decide("cat src/x", rule("cat"), context=context) == "allow"
    assert decide("cat /link/x /w/p/y", rule("cat"), context=context) == "allow"
    assert decide("cat ../x", rule("cat"), context=context) == "ask"


@pytest.mark.parametrize(
    "text",
    [
        '[diff "x"]\n\ttextconv = ./x',
        '[filter "x"] clean = ./x',
        "[diff]\n external=./x",
        "[include]\n path = x",
        "[core]\nworktree=/",
    ],
)
def test_a_repository_that_configures_programs_makes_git_ask(text: str) -> None:
    context = replace(CONTEXT, git_config=lambda _folder: text)
    assert decide("git diff", rule("git"), context=context) == "ask"
    assert decide("ls", rule("ls"), context=context) == "allow"


def test_an_ordinary_repository_configures_no_program() -> None:
    text = '[core]\n\tbare = false\n\tpager = less\n[remote "origin"]\n\turl = x\n[branch "command"]\n\tmerge = x\n'
    assert configured_program(text) is None


def test_the_environment_of_rule_run_commands_switches_git_helpers_off() -> None:
    variables = rule_run_environment()
    pairs = {
        variables[f"GIT_CONFIG_KEY_{n}"]: variables[f"GIT_CONFIG_VALUE_{n}"]
        for n in range(int(variables["GIT_CONFIG_COUNT"]))
    }
    assert pairs["core.fsmonitor"] == "false"
    assert pairs["core.hooksPath"] == "/dev/null"
    assert (variables["GIT_PAGER"], variables["GIT_SSH_COMMAND"]) == ("cat", "ssh")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls -la", ("ls",)),
        ("git log --oneline", ("git", "log")),
        ("python -m pytest -x", ("python", "-m", "pytest")),
        ("npm run lint", ("npm", "run", "lint")),
        ("make test", ("make", "test")),
        ("uv run pytest -x", ("uv", "run", "pytest")),
        ("./run-tests.sh fast", ("./run-tests.sh",)),
    ],
)
def test_proposed_rules_allow_what_they_were_proposed_for(command: str, words: tuple[str, ...]) -> None:
    assert proposed_rules(command, CONTEXT) == (words,)
    assert decide(command, mode="ask", context=replace(CONTEXT, remembered_rules={words})) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "python x.py | cat",
        "python -c 'x'",
        "python",
        "node -e x",
        "sh x",
        "sudo ls",
        "env ls",
        "xargs ls",
        "ls $(x)",
        "ls > x",
        "git -c a=b log",
        "find . -delete",
        "cat .env",
        "cat /etc/passwd",
        "export A=b",
        "eval ls",
        "echo <masked:key>",
        "npx",
        "timeout 5 ls",
        "a=b ls",
        "",
    ],
)
def test_no_rule_is_proposed_for_wrappers_interpreters_and_doubts(command: str) -> None:
    assert proposed_rules(command, CONTEXT) == ()


def test_a_rule_that_runs_the_workspaces_own_code_says_so() -> None:
    for words in (("make", "test"), ("python", "-m", "pytest"), ("npm", "test"), ("./x.sh",), ("pytest",)):
        assert "the workspace's own code" in describe_rule(words)
        assert (
            "the workspace's own code"
            in Policy([Rule(match=words, decision="allow")], "rules").judge(" ".join(words), CONTEXT).why
        )
    assert describe_rule(("git", "log")) == "every command that begins with `git log`"


def test_verdicts_name_rule_and_reason() -> None:
    policy = Policy([Rule(match=("ls",), decision="allow", why="harmless"), "read-only"], "rules")
    verdict = policy.judge("ls; git status", CONTEXT)
    assert (verdict.rule, verdict.why) == ("user: allow ls; read-only: allow git status", "harmless; it only reads")
    assert policy.judge("ls; frobnicate", CONTEXT).why == "no rule allows `frobnicate`"
    assert "command substitution" in policy.judge("ls $(x)", CONTEXT).why


def test_the_read_only_set_is_off_by_default() -> None:
    assert decide("ls") == "ask"
    assert decide("ls -la | head -3", "read-only") == "allow"
    for command in (
        "find . -delete",
        "sed -i s/a/b/ x",
        "sort -o x y",
        "tee x",
        "git branch x",
        "git stash",
        "cat ~/.ssh/id_rsa",
    ):
        assert decide(command, "read-only") == "ask", command


def test_examples_are_checked_when_rules_load() -> None:
    good = Examples(match=("git log -3",), no_match=("git logs", "git log > x"))
    Policy([Rule(match=("git", "log"), decision="allow", examples=good)])
    Policy(
        [
            Rule(
                match=("git", "push"),
                decision="deny",
                examples=Examples(match=("env git push",), no_match=("git pull",)),
            )
        ]
    )
    for bad in (Examples(match=("git status",)), Examples(no_match=("git log -3",))):
        with pytest.raises(SettingsError, match="git log"):
            Policy([Rule(match=("git", "log"), decision="allow", examples=bad)])


def test_rules_that_cannot_be_are_refused() -> None:
    with pytest.raises(SettingsError, match="read-only"):
        Policy(["reed-only"])
    with pytest.raises(SettingsError, match="every program"):
        Policy([rule("*")])
    with pytest.raises(ValueError, match="at least one word"):
        Rule(match=(), decision="allow")
    with pytest.raises(ValueError, match="origin"):
        Rule.model_validate({"match": ["ls"], "decision": "allow", "origin": "user"})
    parsed = Rule.model_validate(
        {"match": ["ls"], "decision": "deny", "examples": {"match": ["ls"], "no_match": ["l"]}}
    )
    assert parsed.examples.no_match == ("l",)


def test_a_star_stands_for_any_one_word() -> None:
    assert decide("npm run lint --silent", rule("npm run lint *")) == "allow"
    assert decide("npm run lint", rule("npm run lint *")) == "ask"
    assert decide("npm run evil", rule("npm run *")) == "ask"
    assert decide("git log main", rule("git * main")) == "allow"
