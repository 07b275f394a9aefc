"""Draws the demo as a picture, `editors/terminal/demo.svg`, from a real run: `python -m tests.editors.draw_demo`.

Invariants: the server, the commands and the lines are real, only the keyboard is scripted; the picture loads nothing
from anywhere.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from editors.terminal import running
from editors.terminal.asking import Asker
from editors.terminal.demo import TAPE, TASK, copy_project
from editors.terminal.ui import TerminalFace
from server.protocol import Settings
from tests.editors.terminal_pty import environment

PICTURE = Path(__file__).parents[2] / "editors/terminal/demo.svg"
WIDTH = 92
_ELSEWHERE = re.compile(r"@font-face\s*\{\{.*?\}\}|<!--.*?-->", re.DOTALL)  # web fonts, and whose format it is


class Keyboard(Asker):
    """Approves each command and leaves the question on the paper, as it stands on the screen."""

    def __init__(self, paper: Console) -> None:
        super().__init__()
        self._paper = paper

    async def line(self, question: str, *, hint: str = "", interrupt: type[Exception], end: type[Exception]) -> str:
        """Answer `y`."""
        self._paper.print(Text(question).append(f"{hint} > ", "bright_black").append("y"))
        return "y"


def draw() -> None:
    """Run the demo and write the picture."""
    paper = Console(record=True, width=WIDTH, file=StringIO(), markup=False, highlight=False, emoji=False)
    face = TerminalFace(paper, Keyboard(paper))
    running._face = lambda task: face
    with tempfile.TemporaryDirectory(prefix="handrail-") as scratch:
        project = copy_project(Path(scratch))
        settings = Settings(model="recorded-demo", dialect="chat", replay=str(TAPE))
        task = running.Task(TASK, project, settings, on_ask="approve")
        asyncio.run(running.run(task, environment=environment(Path(scratch))))
    paper.save_svg(str(PICTURE), title="handrail demo", code_format=_ELSEWHERE.sub("", CONSOLE_SVG_FORMAT))


if __name__ == "__main__":
    draw()
