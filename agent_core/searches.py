"""What a program reads that its words do not name: the files below the folders that it searches.

Invariants: pure tables and functions over argv words; whatever is not understood counts as reading the whole workspace.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from agent_core.options import Grammar, Options
from agent_core.program_risks import known_name
from agent_core.reach import Search

_NOTHING = Search()
_UNKNOWN = Search(everywhere=True)
_SIMPLE_GLOB = re.compile(r"[\w.*?-]+")
_SIMPLE_PATH = re.compile(r"[\w./@+-]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GREP = Grammar(
    "EFGPivwxcLlqsonHhTUuVzZabrIRy0123456789",
    "efmABCDd",
    _words("""
        basic-regexp binary byte-offset color colour count dereference-recursive extended-regexp files-with-matches
        files-without-match fixed-strings ignore-case initial-tab invert-match line-buffered line-number line-regexp
        no-filename no-group-separator no-ignore-case no-messages null null-data only-matching perl-regexp quiet
        recursive silent text with-filename word-regexp
    """),
    _words("""
        after-context before-context binary-files context devices directories exclude exclude-dir exclude-from file
        group-separator include label max-count regexp
    """),
)
_GREP_SELECTS = _words("include exclude exclude-from")
_RG = Grammar(
    "abcFhHiIlLnNoPpqsSUuVvwxz0.",
    "ABCEefgjmMrtTd",
    _words("""
        block-buffered byte-offset case-sensitive column count count-matches crlf files files-with-matches
        files-without-match fixed-strings heading hidden ignore-case invert-match json line-buffered line-number
        line-regexp mmap multiline multiline-dotall no-column no-config no-filename no-heading no-hidden no-ignore
        no-ignore-dot no-ignore-exclude no-ignore-files no-ignore-global no-ignore-parent no-ignore-vcs
        no-line-number no-messages no-mmap no-require-git no-unicode null null-data one-file-system only-matching
        passthru pcre2 pretty quiet smart-case stats text trim type-list unrestricted vimgrep with-filename word-regexp
    """),
    _words("""
        after-context before-context color colors context context-separator dfa-size-limit encoding engine
        field-context-separator field-match-separator file glob iglob max-columns max-count max-depth max-filesize
        path-separator regexp regex-size-limit replace sort sortr threads type type-not
    """),
)
_GIT_GREP = Grammar(
    "aiIwvhHEGPFnolLzcpqWr0123456789",
    "efmABC",
    _words("""
        all-match and basic-regexp break cached color column count exclude-standard extended-regexp files-with-matches
        files-without-match fixed-strings full-name function-context heading ignore-case index invert-match
        line-number name-only no-color no-index not null only-matching or perl-regexp quiet recursive show-function
        text untracked word-regexp
    """),
    _words("""
        after-context before-context context max-count max-depth threads
    """),
)
_DIFF = Grammar(
    "abBcdeEiNnpPqrstTuwyZ0123456789",
    "CDFILSUWxX",
    _words("""
        brief color context expand-tabs ignore-all-space ignore-blank-lines ignore-case ignore-space-change
        ignore-tab-expansion ignore-trailing-space minimal new-file no-dereference normal recursive
        report-identical-files side-by-side speed-large-files strip-trailing-cr suppress-common-lines text unified
        width
    """),
    _words("""
        exclude exclude-from ifdef ignore-matching-lines label show-function-line starting-file
    """),
)
_CP = Grammar(
    "abdfHilLnpPrRsTuvxZ",
    "St",
    _words("""
        archive attributes-only force interactive link no-clobber no-dereference no-target-directory one-file-system
        parents preserve recursive remove-destination strip-trailing-slashes symbolic-link update verbose
    """),
    _words("suffix target-directory"),
)
# Types of files among which no secret has its name.
_HARMLESS_TYPES = _words("""
    c cpp cs css go h haskell html java js kotlin lua markdown md perl php py python ruby rust scala swift ts
""")
_GIT_HARMLESS = _words("--no-pager --no-optional-locks --literal-pathspecs --version -P")
_GIT_PRINTERS = _words("archive cat-file diff range-diff show")
# Options by which git prints what files hold, or tells whether they hold what is guessed (`-G`, `-S`).
_PATCH = re.compile(
    r"-[pucUWmLGS].*|--(?:patc|u|cc|ch|dd|func|word|color-w|remerge|diff-merges|ext|text|bin|pick|find-o).*"
)
_HUNKS = re.compile(r"-[a-zA-Z]*p.*|--patc.*")
_VERBOSE = re.compile(r"-[a-zA-Z]*v.*|--v.*")
# The options by which git's other commands print what files hold.
_GIT_MAY_PRINT = {
    **dict.fromkeys(_words("diff-files diff-index diff-tree log reflog stash whatchanged"), _PATCH),
    **dict.fromkeys(_words("add checkout reset restore"), _HUNKS),
    "commit": re.compile(f"{_HUNKS.pattern}|{_VERBOSE.pattern}"),
    "status": _VERBOSE,
}
_GIT_FILE = re.compile(r"[\w./@^~+-]+:[\w./@+-]+")  # a file in a commit; `:/words` is a commit with these words
_OBJECT = re.compile(r"[0-9a-f]{4}")  # it may name a file's contents, which no option turns to a summary
_GIT_SUMMARY = re.compile(r"--(?:name-only|name-status|(?:short|num|dir)?stat(?:=.*)?|summary|no-patch|quiet|raw)|-s")
_GIT_VALUELESS = re.compile(rf"{_GIT_SUMMARY.pattern}|--cached|--staged|--no-color|-[wMC]")


def search(argv: Sequence[str], environment: Collection[str] = ()) -> Search:
    """Return what this command reads besides the files that its words name.

    `environment` holds the names of the variables that it gets.
    """
    name = known_name(argv[0])
    reader = _READERS.get(name)
    found = reader(argv[1:]) if reader else _NOTHING
    if reader is _rg and "RIPGREP_CONFIG_PATH" in environment:
        return replace(found, hidden=True, only=(), but=(), but_folders=())
    return found


def _grep(words: Sequence[str]) -> Search:
    options = _GREP.read(words)
    if options is None:
        return _UNKNOWN
    pattern, paths = _pattern_and_paths(options, (*options.operands, *options.paths))
    actions = options.values("d", "directories")
    follows = bool(options.values("R", "dereference-recursive"))
    recursive = follows or options.values("r", "recursive")
    if not recursive and not any("recurse".startswith(action) for action in actions):
        return Search(no_paths=pattern)
    included = options.values("include")
    # A file that no such option names is read unless the first of them includes; of contradicting ones the last counts.
    includes = [name for name, _ in options.given if name in _GREP_SELECTS][:1] == ["include"]
    return Search(
        paths or (".",),
        no_paths=pattern,
        follows=follows,
        only=_only(included) if includes else (),
        but=() if included else _but(options.values("exclude")),
        but_folders=_but(options.values("exclude-dir")),
    )


def _rgrep(words: Sequence[str]) -> Search:
    return _grep(["-r", *words])


def _rg(words: Sequence[str]) -> Search:
    options = _RG.read(words)
    if options is None:
        return _UNKNOWN
    if options.values("files", "type-list"):
        return _NOTHING
    pattern, paths = _pattern_and_paths(options, (*options.operands, *options.paths))
    globs = options.values("g", "glob")
    wanted = [glob for glob in globs if not glob.startswith("!")] + options.values("iglob")
    unusual = any(kind not in _HARMLESS_TYPES for kind in options.values("t", "type"))
    asked = options.values("hidden", ".") or len(options.values("u", "unrestricted")) > 1
    # Of contradicting globs the last one counts; those that leave out are heard only where none contradicts.
    but = () if wanted else _but(glob[1:] for glob in globs)
    return Search(
        paths or (".",),
        no_paths=(*pattern, *(glob for glob in globs if glob not in wanted)),
        hidden=bool(asked or unusual or wanted),
        # A glob in any case, `--iglob`, is not one of ours.
        only=() if options.values("iglob") else _only([glob.rsplit("/", 1)[-1] for glob in wanted]),
        but=but,
        but_folders=but,
    )


def _pattern_and_paths(options: Options, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the operand that is searched for, if no option says it, and those that are paths."""
    if options.values("e", "regexp", "f", "file"):
        return (), words
    return words[:1], words[1:]


def _only(globs: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns if all of them are simple ones; others may mean more than they seem to."""
    return tuple(globs) if all(map(_SIMPLE_GLOB.fullmatch, globs)) and "**" not in globs else ()


def _but(globs: Iterable[str]) -> tuple[str, ...]:
    return tuple(glob for glob in (each.rstrip("/") for each in globs) if _SIMPLE_GLOB.fullmatch(glob))


def _diff(words: Sequence[str]) -> Search:
    options = _DIFF.read(words)
    if options is None:
        return _UNKNOWN
    but = _but(options.values("x", "exclude"))
    folders = tuple(word for word in (*options.operands, *options.paths) if word != "-")
    return Search(folders, follows=True, but=but, but_folders=but)


def _git(words: Sequence[str]) -> Search:
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    if any(word not in _GIT_HARMLESS for word in words[:at]):
        return _UNKNOWN  # it may be about another repository
    command, rest = (words[at], words[at + 1 :]) if at < len(words) else ("", ())
    if command == "grep":
        return _git_grep(rest)
    if not _prints_contents(command, rest):
        return _NOTHING
    paths = rest[rest.index("--") + 1 :] if "--" in rest else ()
    if paths and all(map(_SIMPLE_PATH.fullmatch, paths)):
        return Search(tuple(paths), tracked=True)
    return Search(everywhere=True, tracked=True)


def _prints_contents(command: str, words: Sequence[str]) -> bool:
    if command in _GIT_MAY_PRINT:
        return any(map(_GIT_MAY_PRINT[command].fullmatch, words))
    if command not in _GIT_PRINTERS:
        return False
    operands = [word for word in words if not word.startswith("-")]
    if command in ("cat-file", "show") and operands and all(map(_GIT_FILE.fullmatch, set(words) - {"-p"})):
        return False  # `git show HEAD:src/x.py` reads what it names; with an option such as `--all` more than that
    if any(map(_PATCH.fullmatch, words)) or (command != "diff" and any(map(_OBJECT.search, operands))):
        return True
    return not _has_summary(words)


def _has_summary(words: Sequence[str]) -> bool:
    """Whether an option asks for a summary; after an unknown option it may be that one's value."""
    before = ("", *words)
    return any(
        _GIT_SUMMARY.fullmatch(word) and (not earlier.startswith("-") or _GIT_VALUELESS.fullmatch(earlier))
        for earlier, word in zip(before, words, strict=False)
    )


def _git_grep(words: Sequence[str]) -> Search:
    options = _GIT_GREP.read(words)
    if options is None:
        return _UNKNOWN
    tracked = not options.values("untracked", "no-index")
    pattern, paths = _pattern_and_paths(options, options.operands)
    paths = (*paths, *options.paths)
    if all(map(_SIMPLE_PATH.fullmatch, paths)):
        return Search(paths or (".",), no_paths=pattern, tracked=tracked)
    return Search(everywhere=True, no_paths=pattern, tracked=tracked)


def _cp(words: Sequence[str]) -> Search:
    options = _CP.read(words)
    if options is None:
        return _UNKNOWN
    operands = (*options.operands, *options.paths)
    if not options.values("r", "R", "a", "recursive", "archive"):
        return _NOTHING
    return Search(operands if options.values("t", "target-directory") else operands[:-1])


def _tar(words: Sequence[str]) -> Search:
    options = [words[0] if words else "", *(word for word in words if word.startswith("-"))]
    makes = any("c" in option or "r" in option or "u" in option for option in options)
    return _UNKNOWN if makes else _NOTHING


def _unknown(_words: Sequence[str]) -> Search:
    return _UNKNOWN


_READERS = {
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "ggrep": _grep,
    "rgrep": _rgrep,
    "rg": _rg,
    "ripgrep": _rg,
    "cp": _cp,
    "colordiff": _diff,
    "diff": _diff,
    "gdiff": _diff,
    "tar": _tar,
    "git": _git,
    **dict.fromkeys(
        ("7z", "ack", "ack-grep", "ag", "pcre2grep", "pcregrep", "pt", "sift", "ug", "ugrep", "zgrep", "zip"), _unknown
    ),
}
