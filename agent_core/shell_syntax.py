"""Reads a command text as bash would: its simple commands, or what in it is not fully understood.

Invariants: pure, never raises. A text is understood only if every byte of it is accounted for: by a word that the
lexer here reads again on its own, by a known operator, by a harmless redirect, by a comment, or by blanks between
them; whatever else the parser finds is a doubt with a name. So a fault of the parser can cause a question, not a run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from agent_core.characters import holds_deceptive

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its words, quoting removed. A word that the shell expands stands as it is written.

    `expanded` holds the places of such words; `around` the assignments and here-strings beside the words, as written.
    """

    argv: tuple[str, ...]
    text: str
    expanded: frozenset[int] = frozenset()
    around: str = ""

    @property
    def words(self) -> tuple[str | None, ...]:
        """The words that are known: None stands for one that the shell makes any number of other words of."""
        if not self.expanded:
            return self.argv
        return tuple(None if at in self.expanded else word for at, word in enumerate(self.argv))


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a text would run, as far as it is known: all simple commands in order, also those inside what is doubted.

    `doubts` names each construct that is not fully understood, once; `writes` holds redirects' targets and `bodies` the
    texts of heredocs, as written.
    """

    commands: tuple[SimpleCommand, ...]
    doubts: tuple[str, ...]
    writes: tuple[str, ...] = ()
    bodies: tuple[str, ...] = ()

    @property
    def understood(self) -> bool:
        """Whether `commands` is exactly what would run."""
        return not self.doubts


_LONGEST_ANALYSED = 32_768  # characters; a longer text is not read closely by any person either
# The parser's time grows with the square of how many of these signs a text has: 2,000 take it 0.1 seconds.
_OPERATOR_SIGNS = "|&;<>()`{[$"
_MOST_SIGNS = 2000
_MOST_COMMANDS = 1000
TOO_LONG = "a very long text"
"""The doubt about a text of which nothing was read: it has no commands here, whatever it runs."""
_EMPTY, _COMMENT, PARSE_ERROR = "nothing to run", "only a comment", "a parse error"
_DOUBTS = {
    "command_substitution": "command substitution",
    "process_substitution": "process substitution",
    "simple_expansion": "a variable",
    "expansion": "parameter expansion",
    "arithmetic_expansion": "arithmetic expansion",
    "brace_expression": "brace expansion",
    "ansi_c_string": "$'…' quoting",
    "translated_string": "translated text",
    "variable_assignment": "an assignment",
    "variable_assignments": "an assignment",
    "declaration_command": "an assignment",
    "unset_command": "an assignment",
    "function_definition": "a function",
    "heredoc_redirect": "a heredoc",
    "herestring_redirect": "a here-string",
    "subshell": "a subshell",
    "compound_statement": "a group",
    "test_command": "a test",
    "ERROR": PARSE_ERROR,
} | dict.fromkeys(
    ("if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement"), "control flow"
)
_WORDS = frozenset({"word", "string", "raw_string", "concatenation", "number"})
_STATEMENTS = frozenset({"program", "list", "pipeline", "command", "redirected_statement", "negated_command"})
_IN_ONE_LINE = frozenset({"command", "redirected_statement"})
_OPERATORS = {
    "program": frozenset({";", "\n"}),
    "list": frozenset({"&&", "||"}),
    "pipeline": frozenset({"|", "|&"}),
    "negated_command": frozenset({"!"}),
}
_RESERVED = frozenset(
    {"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function"}
    | {"time", "coproc", "in", "{", "}", "!", "[[", "]]"}
)
_NO_ARGUMENT = frozenset({"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect", "comment"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_BEFORE_COMMENT = frozenset({b"", b" ", b"\t", b"\n", b";", b"&", b"|"})
_BLANKS = re.compile(rb"(?:[ \t\n]|\\\n)*")
_BLANKS_IN_A_LINE = re.compile(rb"(?:[ \t]|\\\n)*")
_HARMLESS_REDIRECT = re.compile(rb"[0-9]?>&[0-9]|[0-9]?[<>]&-|(?:[0-9]?(?:>>?|<|>\|)|&>>?)[ \t]*/dev/null")
_LOST_WORD = re.compile(rb"[ \t]+-[ \t]*")  # the parser has no node for a lone `-` before a heredoc
_READS = re.compile(rb"[0-9]*<(?![>&])")
_PLAIN = re.compile(rb"[A-Za-z0-9_@%+:,./=^-]+")
_PIECE = re.compile(
    rb"""(?P<bare>[^\s'"\\$`|&;<>()*?\[{}]+|[{}])"""
    rb"""|(?P<joined>\\\n)|\\(?P<escaped>[^\n])|'(?P<single>[^']*)'"""
    rb'''|"(?P<double>(?:[^"\\$`]|\\.|\$(?![A-Za-z0-9_@*\#?$!{(\[-]))*)"''',
    re.DOTALL,
)
_ESCAPE_IN_DOUBLE = re.compile(rb'\\(?:\n|(["\\$`]))')
# For bash all of these are letters of a word. For the parser they are told as such, place for place: its scanner reads
# outside of its tables for some code points, which can end the process.
_AS_LETTERS = bytes(code if code in b"\t\n" or 32 <= code < 127 else ord("z") for code in range(256))
_SIGNS = (
    (b"<(", "process substitution"),
    (b">(", "process substitution"),
    (b"$((", "arithmetic expansion"),
    (b"$(", "command substitution"),
    (b"`", "command substitution"),
    (b"${", "parameter expansion"),
    (b"$'", "$'…' quoting"),
    (b"$", "a variable"),
    (b"{", "brace expansion"),
)


@lru_cache(maxsize=64)
def analyse(text: str) -> Analysis:
    """Return what the text would run, and every doubt about that."""
    if len(text) > _LONGEST_ANALYSED or sum(map(text.count, _OPERATOR_SIGNS)) > _MOST_SIGNS:
        return Analysis((), (TOO_LONG,))
    reading = _Reading(text)
    if holds_deceptive(text):
        reading.doubt("control or invisible characters")
    reading.read()
    if len(reading.commands) > _MOST_COMMANDS:
        return Analysis((), (TOO_LONG,))
    if not reading.commands:
        reading.doubt(_COMMENT if text.lstrip().startswith("#") else _EMPTY)
    return Analysis(tuple(reading.commands), tuple(reading.doubts), tuple(reading.writes), tuple(reading.bodies))


@cache
def _parser() -> Parser:
    # Imported at the first command, so that the server's start does not pay for it.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Reading:
    """One walk over a parsed text; the doubts are kept as a dictionary's keys, in order and once each."""

    def __init__(self, text: str) -> None:
        self.data = text.encode("utf-8", "replace")
        self.commands: list[SimpleCommand] = []
        self.doubts: dict[str, None] = {}
        self.writes: list[str] = []
        self.bodies: list[str] = []
        self._after_redirect: dict[int, list[Node]] = {}  # words of a command, by its node, that stand after a redirect

    def read(self) -> None:
        root = _parser().parse(self.data.translate(_AS_LETTERS)).root_node
        around = self.data[: root.start_byte] + self.data[root.end_byte :]
        if not _BLANKS.fullmatch(around):
            self.doubt(PARSE_ERROR)
        pending = [root]
        while pending and len(self.commands) <= _MOST_COMMANDS:
            node = pending.pop()
            pending += reversed(self._visit(node))

    def _visit(self, node: Node) -> list[Node]:
        """Note what this node is, and return the children that still have to be looked at."""
        kind = node.type
        if node.is_missing:
            self.doubt(PARSE_ERROR)
        if kind in _STATEMENTS:
            children = node.children
            self._check_statement(node, children)
            if kind == "command":
                return self._command(node, children)
            own = self._find_words_after_redirects(node, children) if kind == "redirected_statement" else []
            return own + [child for child in children if child.is_named]
        if kind == "comment":
            self._check_comment(node)
            return []
        if kind == "file_redirect":
            return self._redirect(node)
        if kind in _WORDS or kind in {"command_name", "string_content"}:
            # The command or redirect around it has told already whether this word is plain.
            return [child for child in node.children if child.is_named]
        if kind == "heredoc_body":
            self.bodies.append(self._text(node))
        # The parts of a doubted construct need no doubts of their own.
        if kind in _DOUBTS or not self.doubts:
            self.doubt(_DOUBTS.get(kind, kind.replace("_", " ")))
        return [child for child in node.children if child.is_named]

    def _command(self, node: Node, children: list[Node]) -> list[Node]:
        """Note this simple command, and return those of its parts that are not plain words."""
        around = [child for child in children if child.type in _NO_ARGUMENT]
        words = [child for child in children if child.type not in _NO_ARGUMENT]
        return around + self._note(node, words + self._after_redirect.get(node.id, []), around)

    def _note(self, node: Node, parts: list[Node], around: list[Node]) -> list[Node]:
        """Note a simple command of these words, and return those that are not plain."""
        words: list[str] = []
        expanded: dict[int, Node] = {}
        for part in parts:
            raw = self.data[part.start_byte : part.end_byte]
            # In `{name}>file` it is no word, but a variable for the descriptor.
            described = raw.startswith(b"{") and self.data[part.end_byte : part.end_byte + 1] in (b"<", b">")
            word = None if described else _word(raw)
            if word is None:
                self.doubt(_why_not_plain(raw))
                expanded[len(words)] = part
            words.append(raw.decode("utf-8", "replace") if word is None else word)
        if words:
            if words[0] in _RESERVED:
                self.doubt("a shell keyword")
            elif "=" in words[0]:
                self.doubt("an assignment")
            beside = " ".join(map(self._text, around))
            self.commands.append(SimpleCommand(tuple(words), self._text(node), frozenset(expanded), beside))
        return list(expanded.values())

    def _find_words_after_redirects(self, statement: Node, children: list[Node]) -> list[Node]:
        """Give the words after a redirect's target to the command that they belong to: `git 2>log push` pushes.

        Return what of them is not plain if they are a command of their own: `2>log >more git push`.
        """
        words = [word for child in children if child.type in _REDIRECTS for word in _words_after(child)]
        if not words:
            return []
        self.doubt("words after a redirect")
        node = statement
        while node.type != "command":
            parts = [child for child in node.named_children if child.type not in _REDIRECTS | {"comment"}]
            if not parts:
                return self._note(statement, words, [])
            node = parts[-1]
        self._after_redirect.setdefault(node.id, []).extend(words)
        return []

    def _redirect(self, node: Node) -> list[Node]:
        targets = node.children_by_field_name("destination")[: 0 if _closes(node) else 1]
        end = targets[0].end_byte if targets else max(child.end_byte for child in node.children if not child.is_named)
        raw = self.data[node.start_byte : end]
        if _HARMLESS_REDIRECT.fullmatch(raw):
            return []
        if _READS.match(raw):
            self.doubt("a redirect from a file")
        else:
            self.doubt("a redirect to a file")
            self.writes.extend(map(self._text, targets or [node]))
        return targets

    def _check_statement(self, node: Node, children: list[Node]) -> None:
        """Doubt a statement unless known operators stand between its parts, and nothing but blanks else."""
        operators = _OPERATORS.get(node.type, frozenset())
        one_line = node.type in _IN_ONE_LINE
        end = node.start_byte
        separated = True
        for child in children:
            gap = self.data[end : child.start_byte]
            end = child.end_byte
            first = self.data[child.start_byte : child.start_byte + 1]
            starts_word = one_line and child.start_byte > node.start_byte and first not in {b"<", b">", b"&"}
            lost_word = child.type == "heredoc_redirect" and _LOST_WORD.fullmatch(gap)
            if not lost_word and not _separates(gap, one_line=one_line, needed=starts_word):
                self.doubt(PARSE_ERROR)
            if child.type == "comment":
                continue
            separated = separated or (node.type == "program" and b"\n" in gap)
            if child.is_named:
                if operators and not separated:
                    self.doubt(PARSE_ERROR)
                separated = False
            else:
                self._doubt_operator(child.type, operators)
                separated = True
        if not _BLANKS.fullmatch(self.data[end : node.end_byte]):
            self.doubt(PARSE_ERROR)

    def _doubt_operator(self, operator: str, known: frozenset[str]) -> None:
        if operator == "&":
            self.doubt("a background command")
        elif operator not in known:
            self.doubt(PARSE_ERROR)

    def _check_comment(self, node: Node) -> None:
        before = self.data[max(0, node.start_byte - 1) : node.start_byte]
        raw = self.data[node.start_byte : node.end_byte]
        if not raw.startswith(b"#") or b"\n" in raw or before not in _BEFORE_COMMENT:
            self.doubt(PARSE_ERROR)

    def doubt(self, name: str) -> None:
        self.doubts[name] = None

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _words_after(redirect: Node) -> list[Node]:
    """Return the words after a redirect's target: the parser counts them to the redirect, bash to the command."""
    if redirect.type == "file_redirect":
        return redirect.children_by_field_name("destination")[0 if _closes(redirect) else 1 :]
    nested = [word for child in redirect.named_children if child.type in _REDIRECTS for word in _words_after(child)]
    return [*nested, *redirect.children_by_field_name("argument")]


def _closes(redirect: Node) -> bool:
    """Whether it closes a descriptor, as `2>&-` does, and has no target."""
    return any(child.type.endswith("&-") for child in redirect.children)


def _separates(gap: bytes, *, one_line: bool, needed: bool) -> bool:
    """Whether this is nothing but blanks, and enough of them for bash to see two words where they are `needed`.

    An escaped newline is nothing at all to bash: alone it joins what stands around it.
    """
    if not (_BLANKS_IN_A_LINE if one_line else _BLANKS).fullmatch(gap):
        return False
    return b" " in gap or b"\t" in gap or not (needed or b"\\\n" in gap)


def _word(raw: bytes) -> str | None:
    """Return the word with its quoting removed as bash removes it; None if bash would expand anything in it."""
    if _PLAIN.fullmatch(raw):
        return raw.decode()
    parts: list[bytes] = []
    bare = b""
    at = 0
    while at < len(raw):
        piece = _PIECE.match(raw, at)
        if piece is None:
            return None
        at = piece.end()
        kind = piece.lastgroup or ""
        text = piece[kind]
        if kind == "double":
            text = _ESCAPE_IN_DOUBLE.sub(rb"\1", text)
        elif kind == "bare":
            bare += text
        if kind != "joined":
            parts.append(text)
    braces = b"{" in bare and (b"," in bare or b".." in bare)
    if braces or raw.startswith(b"#"):
        return None
    return b"".join(parts).decode("utf-8", "replace")


def _why_not_plain(raw: bytes) -> str:
    """Return a name for what makes a word more than itself; there is always one."""
    for sign, name in _SIGNS:
        if sign in raw:
            return name
    return "a pattern that the shell expands"
