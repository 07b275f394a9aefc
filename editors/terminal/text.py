"""Text made safe and short for a terminal: escaped characters, paths, times, costs, counts.

Invariants: what leaves `escape` moves no cursor, changes no colour and hides nothing; an unknown cost is `unknown`,
never a number (R13).
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_HIDDEN_SELECTORS = range(0xE0100, 0xE01F0)  # printable by Unicode's letter, yet invisible
_HARMLESS_BLANKS = "\n\t\u00a0\u202f"


def escape(text: str) -> str:
    """Show control, bidirectional, invisible and unassigned characters as `<U+....>`; keep line feeds and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else f"<U+{ord(character):04X}>" for character in text)


def inline(text: str) -> str:
    """Show a name, a reason or another text that has one line: line feeds and tabs are shown as well."""
    return escape(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")


def _is_plain(character: str) -> bool:
    if character in _HARMLESS_BLANKS:
        return True
    return character.isprintable() and ord(character) not in _HIDDEN_SELECTORS


def output_line(line: str) -> str:
    """Show one line of a command's output: colours removed, of an overwritten line only what was last, escaped."""
    plain = _TERMINAL_SEQUENCE.sub("", line).rstrip("\r")
    return escape(plain.rpartition("\r")[2]).expandtabs()


def path_of(uri: str) -> str:
    """Return the path of a `file:` URI; anything else as it is."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def folder(uri: str) -> str:
    """Show a folder, with the home folder as `~`."""
    path, home = path_of(uri), str(Path.home())
    return inline("~" + path[len(home) :] if path == home or path.startswith(home + "/") else path)


def seconds(value: float) -> str:
    """Show a duration."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def money(cost: float | None, *, known: bool) -> str:
    """Show a cost in US dollars."""
    if known and cost is not None:
        return f"cost ${cost:.4f}"
    return f"cost unknown (at least ${cost:.4f})" if cost else "cost unknown"


def count(number: int, thing: str) -> str:
    """Show a number of things: `1 step`, `2,000 steps`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
