"""The terminal face: draws with rich, and turns what the person answers into decisions.

Invariants: nothing is approved but by an answer that `answers` reads as approval; text of models, commands and people
is never read as markup; before every question the end of the command is on the screen, and one that was not on it
whole, with its facts and warnings, is not approved before it was shown so (AP-29); the terminal is left as it was.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from editors.terminal.answers import HELP, read_answer
from editors.terminal.asking import Asker, Echo
from editors.terminal.client import RequestFailed
from editors.terminal.layout import STYLES, pages_of, rows_of, size_of, unseen_rows
from editors.terminal.text import count, inline
from editors.terminal.turn import Analyze, CancelTurn, Undecided, writing
from editors.terminal.view import BLANK, Line, command_lines, detail_lines, judged, warning_lines
from server.protocol import Call, Decision

_HINT = "yes · edit · no [reason] · always · stop · ?"
_UNSEEN_HINT = "view · edit · no [reason] · stop · ?"
_EDITED_HINT = "yes · edit · anything else goes back"
_FRAME = 0.1  # seconds


class _GoBack(Exception):
    """The person left a second question; the first one is asked again."""


class TerminalFace:
    """Draws on `console` and asks by `asker`."""

    def __init__(self, console: Console | None = None, asker: Asker | None = None) -> None:
        self.analyze: Analyze | None = None
        self._console = console or _console()
        self._asker = asker or Asker()
        self._echo = Echo()
        self._now = _Now()
        self._live: Live | None = None
        self._unseen: dict[tuple[str, str], int] = {}  # rows of a call that were not on the screen with its question
        self._viewed: set[tuple[str, str]] = set()

    def show(self, lines: Sequence[Line]) -> None:
        """Append lines, a very long command shortened in its middle."""
        self._print(rows_of(lines, size_of(self._console)))

    @writing()
    def _print(self, rows: Iterable[Text]) -> None:
        for row in rows:
            self._console.print(row, soft_wrap=True)

    @writing()
    def doing(self, activity: str, tail: Line | None) -> None:
        """Show a spinner with what goes on, and the unfinished line above it."""
        self._now.become(activity, tail)
        if not self._now.activity:
            self.rest()
        elif self._live is None:
            self._echo.off()
            self._live = Live(self._now, console=self._console, transient=True, auto_refresh=False)
            self._live.start()

    @writing()
    def rest(self) -> None:
        """Take the spinner away and give the terminal back."""
        live, self._live = self._live, None
        self._echo.restore()
        if live is not None:
            live.stop()

    async def pulse(self) -> None:
        """Turn the spinner and see when the terminal is gone; runs until it is cancelled."""
        began_on_terminal = self._console.is_terminal
        while True:
            await asyncio.sleep(_FRAME)
            if self._live is None:
                continue
            with writing():
                self._live.refresh()  # writes nothing where there is no terminal any more
                if began_on_terminal and not self._console.is_terminal:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def ask(self, call: Call) -> Decision | None:
        """Ask until there is a decision; None if the person leaves."""
        self.rest()
        while True:
            try:
                with writing():
                    decision = await self._ask_once(call)
            except _GoBack:
                continue
            except Undecided:
                return None
            if decision is not None:
                return decision

    async def _ask_once(self, call: Call) -> Decision | None:
        hint = _UNSEEN_HINT if self._unseen_of(call) else _HINT
        typed = await self._asker.line("  Run it?  ", hint=hint, interrupt=CancelTurn, end=Undecided)
        answer = read_answer(typed)
        unseen = self._unseen_of(call)  # the window may have another size now
        if unseen and answer.kind in ("approve", "remember"):
            told = f"{count(unseen, 'row')} of this did not fit on the screen; v shows all of it, then you can approve"
            self.show([Line("  ! ", told, "warning", "warning")])
            return None
        match answer.kind:
            case "approve":
                if call.count > 1:  # its output comes later, when the others are decided too
                    self.show([Line("    ", "approved", "quiet")])
                return _decision(call, "approve")
            case "edit":
                return await self._edited(call)
            case "reject":
                return _decision(call, "reject", reason=answer.reason or await self._reason())
            case "stop":
                return _decision(call, "stop")
            case "remember":
                return await self._remembered(call)
            case "view":
                await self._whole([BLANK, *command_lines(call.display), *detail_lines(call)])
                self._viewed.add((call.call_id, call.digest))
            case "help":
                self.show([Line("    ", f"{key:<8}{meaning}", "quiet") for key, meaning in HELP])
            case "unclear" if typed.strip():
                self.show([Line("    ", "not understood, nothing was decided; ? tells what there is", "quiet")])
        return None

    def _unseen_of(self, call: Call) -> int:
        """Return how many rows have not been on the screen, at the smallest size since the first question."""
        shown = call.call_id, call.digest
        if shown in self._viewed:
            return 0
        lines = [*command_lines(call.display), *detail_lines(call)]
        self._unseen[shown] = max(self._unseen.get(shown, 0), unseen_rows(lines, size_of(self._console)))
        return self._unseen[shown]

    async def _reason(self) -> str:
        hint = "told to the model; Enter: no reason"
        typed = (await self._asker.line("  Why not?  ", hint=hint, interrupt=_GoBack, end=_GoBack)).strip()
        again = read_answer(typed)  # a "no" that is said once more is not the reason
        return again.reason if again.kind == "reject" else typed

    async def _edited(self, call: Call) -> Decision | None:
        text = call.command
        while True:
            text = await self._asker.command(text, interrupt=_GoBack)
            if not text.strip() or text == call.command:
                self.show([Line("    ", "unchanged, nothing was decided", "quiet")])
                return None
            await self._show_edited(call, text)
            typed = await self._asker.line(
                "  Run the edited command?  ", hint=_EDITED_HINT, interrupt=_GoBack, end=_GoBack
            )
            kind = read_answer(typed).kind
            if kind == "approve":
                return _decision(call, "approve_edited", command=text)
            if kind != "edit":
                return None

    async def _show_edited(self, call: Call, text: str) -> None:
        if self.analyze is None:
            await self._whole(command_lines(text))
            return
        try:
            analysis = await self.analyze(call, text)
        except RequestFailed as refusal:
            await self._whole([*command_lines(text), Line("  ! ", inline(refusal.message), "warning", "warning")])
            return
        verdict = analysis.verdict
        await self._whole(
            [
                Line("    ", "edited by you:", "quiet"),
                *command_lines(analysis.display),
                Line("    ", f"{judged(verdict)}: {inline(verdict.why)}", "quiet"),
                *warning_lines(text, analysis.warnings),
            ]
        )

    async def _remembered(self, call: Call) -> Decision | None:
        exact = ["exact"] if call.may_remember_exact else []
        choices = [*exact, *(rule.words for rule in call.proposed_rules)]
        if not choices:
            self.show([Line("    ", "this command cannot be remembered; decide it by itself", "warning")])
            return None
        told = ["exactly this command, in this folder"] if exact else []
        told += [inline(rule.words) + (f" ({inline(rule.why)})" if rule.why else "") for rule in call.proposed_rules]
        self.show([Line(f"    {number}  ", text, "quiet") for number, text in enumerate(told, 1)])
        hint = "a number runs it and remembers that for this session; Enter goes back"
        typed = (await self._asker.line("  Which?  ", hint=hint, interrupt=_GoBack, end=_GoBack)).strip()
        chosen = {str(number): choice for number, choice in enumerate(choices, 1)}.get(typed)
        if chosen is None:
            return None
        self.show([Line("    ", "approved, and remembered for this session", "quiet")])
        return _decision(call, "approve", remember=chosen)

    async def _whole(self, lines: Sequence[Line]) -> None:
        """Show all of a command, stopping at each screenful; go back if the person leaves before the end."""
        first, *others = pages_of(lines, size_of(self._console))
        self._print(first)
        for at, page in enumerate(others):
            await self._further(sum(map(len, others[at:])))
            self._print(page)

    async def _further(self, left: int) -> None:
        question = f"  {count(left, 'more row')}  "
        if await self._asker.line(question, hint="Enter shows them; q goes back", interrupt=_GoBack, end=_GoBack):
            self.show([Line("    ", "the rest was not shown", "quiet")])
            raise _GoBack


def _console() -> Console:
    """Return the terminal in its real size, whatever the variables say that a shell once exported."""
    environ = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    return Console(markup=False, highlight=False, emoji=False, _environ=environ)


def _decision(call: Call, decision: str, **more: str) -> Decision:
    given = {name: value for name, value in more.items() if value}
    return Decision.model_validate({"call_id": call.call_id, "digest": call.digest, "decision": decision, **given})


class _Now:
    """What goes on at the moment: the unfinished line, and a spinner with the seconds since it began."""

    def __init__(self) -> None:
        self.activity = ""
        self._tail: Line | None = None
        self._since = 0.0
        self._spinner = Spinner("dots", style=STYLES["quiet"])

    def become(self, doing: str, tail: Line | None) -> None:
        """Take over what goes on; the seconds begin anew if it is something else."""
        if doing != self.activity:
            self.activity, self._since = doing, time.monotonic()
        self._tail = tail

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw at most two rows."""
        if self._tail is not None:
            row = Text(self._tail.gutter + self._tail.text, STYLES[self._tail.style], no_wrap=True)
            row.truncate(options.max_width, overflow="ellipsis")
            yield row
        seconds = int(time.monotonic() - self._since)
        elapsed = f"{seconds} s" if seconds else ""
        self._spinner.update(text=Text(" · ".join(filter(None, [self.activity, elapsed])), STYLES["quiet"]))
        yield Text("  ", end="")
        yield self._spinner
