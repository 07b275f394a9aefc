"""Lays lines out in rows of a terminal, and leaves out the middle of a command that would not fit on it.

Invariants: no row is wider than the terminal; a command's first and last rows are kept; its facts and warnings and the
question below it count, so that all of it is on the screen at once, or `unseen_rows` tells how much may not be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile
from unicodedata import east_asian_width

from rich.cells import chop_cells
from rich.console import Console, ConsoleDimensions
from rich.text import Text

from editors.terminal.text import count
from editors.terminal.view import OTHERS_GUTTER, Line, Style

STYLES: dict[Style, str] = {
    "plain": "",
    "title": "bold",
    "quiet": "bright_black",
    "said": "bold cyan",
    "model": "",
    "command": "bold",
    "output": "",
    "good": "green",
    "bad": "red",
    "warning": "yellow",
}
_LONGEST_QUESTION = 64  # cells, with an answer
_FEWEST_ROWS = 3  # of a command: the first, the notice, the last
_PART_AT_FIRST = 0.6


def size_of(console: Console) -> ConsoleDimensions:
    """Return the terminal's present size, also of a dumb one, which rich takes to be of 25 rows."""
    if console.is_dumb_terminal:
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(console.file.fileno())
            return ConsoleDimensions(columns or 80, rows or 25)
    return console.size


def rows_of(lines: Iterable[Line], screen: ConsoleDimensions) -> list[Text]:
    """Return the rows of lines; of a command that does not fit on the screen with its facts the middle is left out."""
    rows: list[Text] = []
    blocks = [list(block) for _, block in groupby(lines, lambda line: line.style == "command")]
    for block, after in zip(blocks, [*blocks[1:], []], strict=False):
        laid_out = all_rows_of(block, screen.width)
        if block[0].style == "command":
            facts = all_rows_of(takewhile(lambda line: line.style not in ("output", "model"), after), screen.width)
            laid_out = _shortened(laid_out, screenful(screen) - len(facts))
        rows += laid_out
    return rows


def all_rows_of(lines: Iterable[Line], width: int) -> list[Text]:
    """Return the rows of lines, nothing left out."""
    return [row for line in lines for row in _laid_out(line, width)]


def unseen_rows(lines: Sequence[Line], screen: ConsoleDimensions) -> int:
    """Return how many rows of a command and its facts are not on the screen when the question stands below them."""
    shown = rows_of(lines, screen)
    whole = len(all_rows_of(lines, screen.width))
    left_out = whole - len(shown) + 1 if whole > len(shown) else 0  # one row of those shown is the notice
    return left_out + max(0, sum(_height(row, screen.width) for row in shown) - screenful(screen))


def pages_of(lines: Iterable[Line], screen: ConsoleDimensions) -> list[list[Text]]:
    """Return all rows of lines, as many at a time as are surely on the screen together above a question."""
    pages: list[list[Text]] = [[]]
    left = screenful(screen)
    for row in all_rows_of(lines, screen.width):
        height = _height(row, screen.width)
        if height > left and pages[-1]:
            pages.append([])
            left = screenful(screen)
        pages[-1].append(row)
        left -= height
    return pages


def _height(row: Text, width: int) -> int:
    """Return how many of the screen's rows this may take, where a terminal draws more signs wide than we think."""
    return max(1, -(-_most_cells(row.plain) // width))


def _most_cells(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if not sign.isascii() and east_asian_width(sign) in "AFW" else 1 for sign in text)


def screenful(screen: ConsoleDimensions) -> int:
    """Return how many rows fit above a question."""
    return max(1, screen.height - 1 - _LONGEST_QUESTION // screen.width - 1)


def _shortened(rows: list[Text], room: int) -> list[Text]:
    room = max(_FEWEST_ROWS, room)
    if len(rows) <= room:
        return rows
    first = round((room - 1) * _PART_AT_FIRST)
    last = room - 1 - first
    notice = Text(f"  … {count(len(rows) - first - last, 'more row')}; v shows all", STYLES["warning"])
    return [*rows[:first], notice, *rows[-last:]]


def _laid_out(line: Line, width: int) -> list[Text]:
    again = _gutter_again(line)
    room = max(10, width - max(map(_most_cells, (line.gutter, again))))
    if line.style in ("command", "output"):  # exact text breaks anywhere, prose between words
        parts = chop_cells(line.text, room) or [""]
    else:
        parts = [str(row).rstrip() for row in Text(line.text).wrap(_PLAIN, room)] or [""]
    rows = []
    for at, part in enumerate(parts):
        row = Text(end="").append(line.gutter if at == 0 else again, STYLES[line.gutter_style])
        rows.append(row.append(part, STYLES[line.style]))
    return rows


def _gutter_again(line: Line) -> str:
    """Return what stands before the further rows of one line: never what begins a line of the interface."""
    if "│" in line.gutter:
        return line.gutter
    return OTHERS_GUTTER if len(line.gutter) <= len(OTHERS_GUTTER) else "  ┆ "


_PLAIN = Console(markup=False, highlight=False, emoji=False)
