"""What single programs are: which run others, which run code they are given, which reach the network.

Invariants: pure tables and functions over argv words. A doubt here costs a question and never a run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from agent_core.program_risks import known_name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS = _words("""
    . ash at bash batch builtin busybox bwrap cgexec chronic chroot chrt command coproc crontab csh dash doas docker
    entr env eval exec expect faketime firejail fish flock gdb ionice ksh kubectl ltrace machinectl mksh nerdctl
    nice nohup nsenter parallel perf pkexec podman prlimit proot pwsh rlwrap rsync runuser scp screen script setarch
    setpriv setsid sftp sh source ssh sshpass start-stop-daemon stdbuf strace su sudo systemd-run taskset tcsh time
    timeout tmux toybox trap unbuffer unshare vagrant valgrind watch xargs zsh
    ed emacs ex less man more nano nvim vi vim
""")
"""Programs and built-ins that run what their arguments name: they never hold an allow for what follows them."""
STATEFUL_BUILTINS = _words("""
    [ alias bg bind complete compopt declare disown enable exit export fc fg getopts hash history let local logout
    mapfile popd pushd read readarray readonly return set shift shopt suspend test typeset ulimit umask unalias
    unset wait
""")
"""Built-ins that change what later commands of the same text mean, or evaluate their arguments."""
INTERPRETERS = _words("""
    Rscript bun deno ghci guile irb java julia lua luajit mysql node nodejs
    osascript perl php psql pypy pypy3 python python2 python3 racket ruby sqlite3 tclsh
""")
"""Programs that run code they are given: a rule for one has to name what it runs."""
_RUNNERS = tuple(
    tuple(line.split())
    for line in """
        npx
        bunx
        uvx
        pipx run
        uv run
        uv tool run
        poetry run
        pdm run
        pipenv run
        hatch run
        rye run
        conda run
        bundle exec
        npm exec
        npm x
        npm run
        npm run-script
        pnpm exec
        pnpm dlx
        pnpm run
        yarn dlx
        yarn exec
        yarn run
        go run
        cargo run
        dotnet run
    """.strip().splitlines()
)
_WITH_SUBCOMMANDS = _words("""
    apt brew bundle cargo composer conda dotnet gh git go gradle helm hg jj just make mvn npm pip pip3 pnpm poetry
    svn systemctl terraform tox uv yarn
""")
_OWN_CODE = INTERPRETERS | _words("""
    bundle cargo cmake composer ctest dotnet eslint gmake go gradle hatch jest just make mocha mvn mypy ninja nox
    npm npx pdm pnpm poetry pre-commit pytest rake tox tsc uv vitest yarn
""")
NETWORK = _words("""
    aria2c aws az curl dig ftp gcloud gh host http https kubectl nc ncat netcat nslookup openssl ping rsync scp sftp
    socat ssh telnet wget xh
""")
PRIVILEGE = _words("""
    chroot doas nsenter pkexec runuser setpriv su sudo unshare
""")
_NETWORK_SUBCOMMANDS = {
    "git": _words("clone fetch ls-remote pull push send-email submodule"),
    "npm": _words("ci exec i install publish update x"),
    "pip": _words("download install wheel"),
    "pip3": _words("download install wheel"),
}
_CODE_OPTION = re.compile(r"-[a-zA-Z]*[ceEprR]|--(?:eval|print|command|execute|run|require|import)")
_MOST_READINGS = 64


def needs_every_word(argv: Sequence[str]) -> bool:
    """Whether a rule may allow this only by naming each of its words: it runs, or changes, what its arguments name."""
    name = known_name(argv[0])
    if name in WRAPPERS or name in STATEFUL_BUILTINS:
        return True
    # Code on the command line; in `python -m tool -c file` the option is the tool's own.
    before_operand = itertools.takewhile(lambda word: word.startswith("-") and word != "-m", argv[1:])
    return name in INTERPRETERS and any(_CODE_OPTION.match(word) for word in before_operand)


def fewest_words(argv: Sequence[str]) -> int:
    """Return how many words a rule needs at least to name what this runs: 1 for most, more for what runs others."""
    for runner in _RUNNERS:
        if tuple(argv[: len(runner)]) == runner:
            return _words_to_operand(argv, len(runner))
    return _words_to_operand(argv, 1) if known_name(argv[0]) in INTERPRETERS else 1


def _words_to_operand(argv: Sequence[str], start: int) -> int:
    for at in range(start, len(argv)):
        if not argv[at].startswith("-"):
            return at + 1
    # Without an operand it reads its standard input or its settings: only the bare program itself.
    return len(argv) + 1


def proposal(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the shortest prefix that says what this does."""
    count = max(fewest_words(argv), 2 if argv[0] in _WITH_SUBCOMMANDS else 1)
    return tuple(argv[:count])


def runs_own_code(words: Sequence[str]) -> bool:
    """Whether a command that begins so runs code that lies in the workspace."""
    named_by_place = "/" in words[0] and not words[0].startswith("/")
    return named_by_place or known_name(words[0]) in _OWN_CODE


def uses_network(argv: Sequence[str]) -> bool:
    """Whether the program talks to other machines."""
    name = known_name(argv[0])
    return name in NETWORK or any(word in _NETWORK_SUBCOMMANDS.get(name, ()) for word in argv[1:])


def inner_commands(argv: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield every reading of the command that a wrapper runs; for rules that tighten, so rather too many."""
    name = known_name(argv[0])
    last = min(len(argv), _MOST_READINGS)
    if name in WRAPPERS or name == "find":
        yield from (tuple(argv[at:]) for at in range(1, last))
    elif name == "git" and len(argv) > 1 and argv[1].startswith("-"):
        # `git -C folder push`: which of the words belong to the options before the subcommand is left open.
        yield from (("git", *argv[at:]) for at in range(2, last))


def inner_texts(argv: Sequence[str]) -> Iterator[str]:
    """Yield the shell texts among the arguments of a shell or of `eval`."""
    name = known_name(argv[0])
    if name == "eval":
        yield " ".join(argv[1:])
    elif name in WRAPPERS:
        yield from (word for word in argv[1:] if " " in word)
