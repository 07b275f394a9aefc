"""What single programs are: which run others, which run code they are given, which reach the network.

Invariants: pure tables and functions over argv words. A doubt here costs a question and never a run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from agent_core.program_risks import known_name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WRAPPERS = _words("""
    . aa-exec asdf ash at bash batch builtin busybox bwrap caffeinate cage catchsegv cgexec chpst chronic chroot
    chrt command coproc cpulimit crontab cset csh daemon daemonize dash dbus-launch dbus-run-session direnv doas
    docker dumb-init eatmydata entr env eval exec expect fakechroot fakeroot faketime firejail fish flock
    foreman gdb gnome-terminal gosu heaptrack hyperfine i386 incus ionice kitty konsole ksh kubectl linux32 linux64
    ltrace lxc lxc-exec machinectl minijail0 mise mksh mpiexec mpirun nerdctl newgrp nice nodemon nohup nomad
    nsenter nsjail numactl parallel perf pkexec pkgx pm2 podman prlimit proot proxychains proxychains4 pwsh retry
    rlwrap rr rsync runcon runuser rush sandbox-exec scp screen script sem setarch setpriv setsid setuidgid sftp sg
    sh softlimit source srun ssh ssh-agent sshpass start-stop-daemon stdbuf strace su su-exec sudo supervise
    systemd-inhibit systemd-run taskset tcsh time timeout tini tmux torify torsocks toybox trap trickle ts tsocks
    uftrace unbuffer unshare vagrant valgrind watch watchexec x86_64 xargs xterm xvfb-run zsh
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
_SHELLS = _words(". ash bash csh dash fish ksh mksh pwsh sh source tcsh zsh")
FINDERS = _words("fd fdfind find")
"""Programs that run a command for what they find, if they are told to."""
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
_RUNNING = frozenset(words[0] for words in _RUNNERS)
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
_UNKNOWN = "$_"  # shell text for a word that is not known
_BLANK = re.compile(r"\s")
_Word = TypeVar("_Word", str, "str | None")


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


def inner_commands(argv: Sequence[_Word]) -> Iterator[tuple[_Word, ...]]:
    """Yield every reading of the command that a wrapper runs; for rules that tighten, so rather too many."""
    name = known_name(argv[0] or "")
    if name in WRAPPERS or name in FINDERS or name in _RUNNING:
        yield from (tuple(argv[at:]) for at in range(1, min(len(argv), _MOST_READINGS)))


def runs_unknown(words: Sequence[str | None]) -> bool:
    """Whether such as `npx` or `uv run` may run what one of the words that are not known stands for."""
    length = next((len(runner) for runner in _RUNNERS if tuple(words[: len(runner)]) == runner), len(words))
    before = ""
    for word in words[length:]:
        if word is None:
            return True
        if not word.startswith("-") and not before.startswith("-"):  # else it may be the value of the option before
            return False
        before = word
    return False


def inner_texts(argv: Sequence[str | None]) -> Iterator[str]:
    """Yield the shell texts among the arguments of a shell or of `eval`."""
    name = known_name(argv[0] or "")
    if name == "eval":
        yield " ".join(_UNKNOWN if word is None else word for word in argv[1:])
    elif name in WRAPPERS:
        yield from (word for word in argv[1:] if word and _BLANK.search(word))


def reads_commands(argv: Sequence[str | None]) -> bool:
    """Whether this is a shell that is given no script and no text, so that what it runs comes from its input."""
    if known_name(argv[0] or "") not in _SHELLS:
        return False
    words = iter(argv[1:])
    for word in words:
        if word is None or word in ("-", "--"):
            return True
        if not word.startswith(("-", "+")):
            return word.startswith(("/dev/", "/proc/"))
        if word in ("--rcfile", "--init-file", "-o", "+o", "-O", "+O"):
            next(words, None)
        elif not word.startswith("--") and "c" in word:
            return False
        elif not word.startswith("--") and "s" in word:
            return True
    return True


def may_feed_a_shell(words: Sequence[str | None]) -> bool:
    """Whether `xargs` or `parallel` gives what it reads to a shell."""
    if any(known_name(word or "") in _SHELLS for word in words[1:]):
        return True
    return known_name(words[0] or "") == "parallel" and not any(word and word.startswith(":::") for word in words)
