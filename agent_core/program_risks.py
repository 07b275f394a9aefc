"""Which words of single programs can run or write something, and what a repository can make git run.

Invariants: pure tables and functions over argv words; the strictest reading that costs no program its ordinary use.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

_VERSIONED = re.compile(r"(python|pypy|perl|ruby|node|lua|php|pip)[0-9.]+")


@lru_cache(maxsize=1024)
def known_name(program: str) -> str:
    """Return the name under which a program is known here: without its folder and its version."""
    name = program.rsplit("/", 1)[-1]
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class _Risks:
    """Words of one program that can run or write something.

    `letters` are single-letter options, also in a cluster; `long` are `--options`, also abbreviated; `words` are
    operands or single-dash words as they stand; `check` returns the first other word that is risky, if any.
    """

    letters: str = ""
    long: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    check: Callable[[Sequence[str]], str | None] | None = None

    def find(self, words: Sequence[str]) -> str | None:
        """Return the first risky word."""
        for word in words:
            if word in self.words or self._option(word):
                return word
        return self.check(words) if self.check else None

    def _option(self, word: str) -> bool:
        if word.startswith("--"):
            name = word[2:].split("=", 1)[0]
            return name != "" and any(option.startswith(name) for option in self.long)
        return word.startswith("-") and any(letter in self.letters for letter in word[1:])


_SED_OPTION = re.compile(r"-[nErsuz]*e?|--(?:quiet|silent|regexp-extended|posix|sandbox|unbuffered|debug)?")
_SED_SCRIPT = re.compile(
    r"(?:\d+|\$)?(?:,(?:\d+|\$))?[pdq=]"
    r"|(?:(?:\d+|\$)(?:,(?:\d+|\$))?)?s([/|,\#@:])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gIip0-9]*"
)
_AWK_OPTION = re.compile(r"-[Fv].*|--|-")
_AWK_RISKY = re.compile(r"system|getline|ARGV|[|>@]")
_TAR_LETTERS = "IxcruAFPgTKk"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def _check_sed(words: Sequence[str]) -> str | None:
    options = [word for word in words if word.startswith("-")]
    operands = [word for word in words if not word.startswith("-")]
    strange = next((word for word in options if not _SED_OPTION.fullmatch(word)), None)
    if strange:
        return strange
    after_e = [after for word, after in itertools.pairwise(words) if word.startswith("-") and word.endswith("e")]
    scripts = after_e or operands[:1]
    return next((script for script in scripts if not _SED_SCRIPT.fullmatch(script)), None)


def _check_awk(words: Sequence[str]) -> str | None:
    for word in words:
        if _AWK_RISKY.search(word) or (word.startswith("-") and not _AWK_OPTION.fullmatch(word)):
            return word
    return None


def _check_address(words: Sequence[str]) -> str | None:
    for word in words:
        scheme = _SCHEME.match(word)
        if word.startswith("@") or (scheme and scheme[0].lower() not in {"http://", "https://"}):
            return word
    return None


def _check_tar(words: Sequence[str]) -> str | None:
    # The oldest form writes its options without a dash: `tar xzf a.tar`.
    first = words[0] if words and words[0].isalpha() else ""
    return first if any(letter in _TAR_LETTERS for letter in first) else None


def _check_git(words: Sequence[str]) -> str | None:
    # Leading letters only: `status -uno` and `log -Sfox` are no more than they seem.
    return next((word for word in words if word.startswith(("-o", "-x"))), None)


def _check_uniq(words: Sequence[str]) -> str | None:
    # The second operand is the file it writes.
    operands = [word for word in words if not word.startswith("-")]
    return operands[1] if len(operands) > 1 else None


def _check_make(words: Sequence[str]) -> str | None:
    return next((word for word in words if "=" in word), None)


_GIT_SUBCOMMANDS = _words("""
    add annotate apply archive blame branch cat-file check-ignore checkout cherry cherry-pick clean commit
    count-objects describe diff diff-files diff-index diff-tree for-each-ref fsck gc grep hash-object log ls-files
    ls-tree merge merge-base mv name-rev notes prune range-diff reflog reset restore rev-list rev-parse revert rm
    shortlog show show-branch show-ref stash status switch symbolic-ref tag version whatchanged write-tree
""")
# Git's other commands: none of its own names can be an alias.
_GIT_OTHERS = _words("""
    am archimport bisect bugreport bundle checkout-index clone column commit-tree config credential daemon describe
    difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-repo format-patch
    get-tar-commit-id gui help init interpret-trailers ls-remote mailinfo mailsplit maintenance merge-base
    merge-file merge-tree mergetool mktag mktree multi-pack-index p4 pack-objects patch-id pull push read-tree rebase
    reflog remote repack replace request-pull rerere send-email send-pack shell sparse-checkout stage stripspace
    submodule svn unpack-objects update-index update-ref update-server-info var verify-commit verify-pack verify-tag
    worktree
""")
_GIT_RENAMING = ("-c", "--config-env", "--exec-path")
_GIT_VALUED = _words("-C --git-dir --namespace --work-tree")
_GIT_GLOBAL = _words("--no-pager --no-optional-locks --literal-pathspecs --version -P")
_GIT_RISKS = _Risks(
    "O",
    _words("""
            config config-env contents edit exec exec-path ext-diff extcmd filters git-dir gpg-sign help interactive
            local-user no-index open-files-in-pager output output-directory paginate receive-pack recurse-submodules
            remote separate-git-dir show-signature sign strategy submodule template textconv trailer unsafe-paths
            upload-pack verify-signatures work-tree
        """),
    check=_check_git,
)
# The lines of a configuration that git and we surely read alike: blank, a comment, a section's name alone, or one key.
_SIMPLE_LINE = re.compile(
    r'[ \t]*(?:[#;].*|\[[a-z0-9.-]+(?:[ \t]+"[^"\\\[\]]*")?\]|[a-z][a-z0-9-]*[ \t]*(?:=[^\\]*)?)?[ \t]*',
    re.IGNORECASE | re.ASCII,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Keys of a repository's configuration by which git runs a program, or looks elsewhere, in what a rule may allow.
_GIT_CONFIGURED = re.compile(
    r"^[^#;\n]*?(?:^|\])[ \t]*"
    r"(external|command|textconv|clean|smudge|process|driver|uploadpack|receivepack|vcs|helper|program|defaultkeycommand"
    r"|alternaterefscommand|gitproxy|worktree|worktreeconfig|submodule|recurse)[ \t]*(?:=|$)|^[ \t]*\[(include)",
    re.IGNORECASE | re.MULTILINE,
)


def _git_risk(words: Sequence[str], covered: int) -> str | None:
    """Return git's first risky word beyond the `covered` ones; an unknown subcommand may be an alias."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if at >= covered and words[at] not in _GIT_GLOBAL:
            return words[at]
        at += 1
    if covered <= at < len(words) and words[at] not in _GIT_SUBCOMMANDS:
        return words[at]
    return _GIT_RISKS.find(words[max(covered, at + 1) :])


_RISKS = {
    "find": _Risks(
        long=_words("""
            files0-from
        """),
        words=_words("""
            -L -delete -exec -execdir -files0-from -fls -follow -fprint -fprint0 -fprintf -ok -okdir
        """),
    ),
    "fd": _Risks(
        "xXL",
        _words("""
            exec exec-batch follow
        """),
    ),
    "rg": _Risks(
        "zL",
        _words("""
            follow hostname-bin pre pre-glob search-zip
        """),
    ),
    "grep": _Risks(
        "R",
        _words("""
            dereference-recursive
        """),
    ),
    "sed": _Risks(check=_check_sed),
    "tar": _Risks(
        _TAR_LETTERS,
        _words("""
            absolute-names append catenate checkpoint-action concatenate create delete extract files-from get
            index-file info-script listed-incremental new-volume-script remove-files rmt-command rsh-command
            to-command update use-compress-program volno-file
        """),
        check=_check_tar,
    ),
    "sort": _Risks(
        "oT",
        _words("""
            compress-program files0-from output temporary-directory
        """),
    ),
    "awk": _Risks(check=_check_awk),
    "curl": _Risks(
        "oOTKFdcDEbuwxJHAe",
        _words("""
            abstract-unix-socket alt-svc cert config connect-to cookie cookie-jar create-dirs data dns-servers
            doh-url dump-header engine etag-compare etag-save expand form header hsts json key libcurl netrc next
            output output-dir preproxy proxy remote-header-name remote-name request resolve socks5 stderr trace
            trace-ascii trace-config unix-socket upload-file url url-query user variable write-out xattr
        """),
        words=_words("""
            -X
        """),
        check=_check_address,
    ),
    "wget": _Risks(
        "OPiaoexUB",
        _words("""
            append-output background body-data body-file config directory-prefix execute header input-file
            load-cookies method output-document output-file post-data post-file rejected-log save-cookies
            use-askpass warc-file
        """),
        check=_check_address,
    ),
    "npm": _Risks(
        "gcC",
        _words("""
            cache call editor git global globalconfig ignore-scripts init-module location node-options package
            prefix registry script-shell shell userconfig viewer workspace yes
        """),
        words=_words("""
            access add adduser audit bugs cache ci cit clean-install config create dedupe deprecate dist-tag docs
            edit exec explore help home hook i init innit install install-test it link ln login logout owner pack
            pkg profile prune publish rb rebuild repo restart run run-script sbom set shrinkwrap star start stop t
            team test token tst un uninstall unpublish up update version x
        """),
    ),
    "pip": _Risks(
        "iefrtcd",
        _words("""
            build build-option cache-dir cert client-cert config-setting config-settings constraint dest editable
            extra-index-url find-links global-option index-url install-option keyring-provider log prefix proxy
            python report requirement root src target trusted-host
        """),
        words=_words("""
            cache config debug download install lock uninstall wheel
        """),
        check=_check_address,
    ),
    "make": _Risks(
        "fCIeoWE",
        _words("""
            assume-new assume-old directory environment-overrides eval file include-dir makefile new-file old-file
            output-sync shuffle what-if
        """),
        check=_check_make,
    ),
    "date": _Risks(
        "sf",
        _words("""
            file set
        """),
    ),
    "file": _Risks(
        "CmfzZ",
        _words("""
            compile files-from magic-file uncompress uncompress-noreport
        """),
    ),
    "tree": _Risks(
        "oRl",
        _words("""
            fromfile output
        """),
    ),
    "diff": _Risks(
        "l",
        _words("""
            from-file paginate to-file
        """),
    ),
    "printf": _Risks("v"),
    "uniq": _Risks(check=_check_uniq),
    "wc": _Risks(
        long=_words("""
            files0-from
        """)
    ),
    "du": _Risks(
        "LDHX",
        _words("""
            dereference exclude-from files0-from
        """),
    ),
    "jq": _Risks(
        "fL",
        _words("""
            from-file library-path rawfile slurpfile
        """),
    ),
}
_SAME_AS = {
    "ripgrep": "rg",
    "fdfind": "fd",
    "egrep": "grep",
    "fgrep": "grep",
    "gsed": "sed",
    "gtar": "tar",
    "bsdtar": "tar",
    "pip3": "pip",
    "gmake": "make",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "gfind": "find",
    "gsort": "sort",
    "pnpm": "npm",
    "yarn": "npm",
}


def risky_word(argv: Sequence[str], covered: int) -> str | None:
    """Return the first word that can run or write something and is not among the first `covered` words of `argv`."""
    name = known_name(argv[0])
    if name == "git":
        return _git_risk(argv[1:], covered - 1)
    risks = _RISKS.get(_SAME_AS.get(name, name))
    return risks.find(argv[covered:]) if risks else None


def may_be_alias(words: Sequence[str | None]) -> bool:
    """Whether a name among these words may stand for another command: one of git's that is not git's own, or `-c`."""
    if known_name(words[0] or "") != "git":
        return False
    for before, word in itertools.pairwise(words):
        if word is not None and word.startswith("-"):
            if word.startswith(_GIT_RENAMING):
                return True
        elif before not in _GIT_VALUED:
            return word not in _GIT_SUBCOMMANDS | _GIT_OTHERS
    return False


def configured_program(git_config: str) -> str | None:
    """Return the key by which a repository's own configuration makes git run a program or look elsewhere, if any.

    Those that `rule_run_environment` switches off do not count; a line that is not written simply does.
    """
    if _CONTROL.search(git_config) or not all(map(_SIMPLE_LINE.fullmatch, git_config.split("\n"))):
        return "a line that is not written simply"
    found = _GIT_CONFIGURED.search(git_config)
    return found[found.lastindex or 0] if found else None


def rule_run_environment() -> dict[str, str]:
    """Return the variables that switch off what a repository can make git run, for commands that no person approved."""
    config = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null", "protocol.ext.allow": "never"}
    variables = {
        "GIT_PAGER": "cat",
        "PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_SSH_COMMAND": "ssh",
        "GIT_ASKPASS": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (key, value) in enumerate(config.items()):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
