"""The terminal face with real prompts on a scripted keyboard."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from prompt_toolkit import PromptSession
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions

from editors.terminal.asking import Asker
from editors.terminal.client import RequestFailed
from editors.terminal.layout import all_rows_of, pages_of, rows_of, unseen_rows
from editors.terminal.turn import CancelTurn
from editors.terminal.ui import TerminalFace
from editors.terminal.view import BLANK, Line, command_lines
from server.protocol import Call, CommandAnalysis, Decision, ProposedRule, Verdict
from tests.editors.terminal_stub import call

ENTER, ESCAPE, CTRL_C, CTRL_D, UP = "\r", "\x1b", "\x03", "\x04", "\x1b[A"


class WatchedAsker(Asker):
    """An asker that tells how many questions were put."""

    asked = 0
    _newest: PromptSession[str] | None = None

    def _session(self, *arguments: type[Exception]) -> PromptSession[str]:
        self.asked += 1
        self._newest = super()._session(*arguments)
        return self._newest

    async def after(self, asked: int, task: asyncio.Task[Decision | None]) -> None:
        """Return when a question after the first `asked` ones is on the screen, or there will be none."""
        while not task.done():
            if self.asked > asked and self._newest is not None and self._newest.app.is_running:
                break
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.01)


class Desk:
    """A face, its keyboard and its paper."""

    def __init__(self, keyboard: PipeInput) -> None:
        self.keyboard = keyboard
        self.paper = io.StringIO()
        self.analyzed: list[str] = []
        self.console = Console(file=self.paper, width=60, height=25, markup=False, highlight=False, emoji=False)
        self.asker = WatchedAsker(keyboard, DummyOutput())
        self.face = TerminalFace(self.console, self.asker)
        self._task: asyncio.Task[Decision | None]
        self.face.analyze = self.analyze

    @property
    def told(self) -> str:
        """What was shown, as one line."""
        return " ".join(self.paper.getvalue().replace("\n  ┆ ", " ").split())

    async def analyze(self, asked: Call, command: str) -> CommandAnalysis:
        self.analyzed.append(command)
        if "refused" in command:
            raise RequestFailed(-32603, "cannot be judged")
        verdict = Verdict(decision="ask", rule="mode", why="nothing allows it")
        return CommandAnalysis(understood=True, display=command, verdict=verdict, warnings=["mind the gap"])

    @asynccontextmanager
    async def asking(self, asked: Call) -> AsyncIterator[asyncio.Task[Decision | None]]:
        put = self.asker.asked
        task = self._task = asyncio.ensure_future(self.face.ask(asked))
        await asyncio.wait_for(self.asker.after(put, task), 5)
        yield task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def type(self, *keys: str) -> None:
        """Type each text when the face has asked what it answers; only an answer brings the next question."""
        for each in keys:
            put = self.asker.asked
            self.keyboard.send_text(each)
            if each.endswith((ENTER, CTRL_C, CTRL_D)):
                await asyncio.wait_for(self.asker.after(put, self._task), 5)
            else:
                await asyncio.sleep(0.06)

    async def answered(self, asked: Call, *keys: str) -> Decision | None:
        async with self.asking(asked) as task:
            await self.type(*keys)
            return await asyncio.wait_for(task, 2)


@pytest.fixture
def desk() -> Iterator[Desk]:
    with create_pipe_input() as keyboard:
        yield Desk(keyboard)


async def test_y_and_enter_approve_exactly_what_was_shown(desk: Desk) -> None:
    assert await desk.answered(call(), "y" + ENTER) == Decision(call_id="c1", decision="approve", digest="d1")


@pytest.mark.parametrize(
    "keys", [[ENTER], [ESCAPE], [" ", ENTER], ["x" + ENTER], ["y", ESCAPE, ENTER], ["q"], [UP, ENTER], ["yes!" + ENTER]]
)
async def test_enter_escape_and_stray_keys_leave_the_question_open(desk: Desk, keys: list[str]) -> None:
    """UX-01."""
    async with desk.asking(call()) as task:
        await desk.type(*keys)
        await asyncio.sleep(0.1 if ESCAPE in keys else 0)
        assert not task.done()


async def test_an_earlier_answer_does_not_come_back_by_an_arrow_key(desk: Desk) -> None:
    await desk.answered(call(), "y" + ENTER)
    async with desk.asking(call(2)) as task:
        await desk.type(UP, ENTER)
        assert not task.done()


async def test_what_was_typed_ahead_answers_nothing(desk: Desk) -> None:
    """UX-01: a second answer sent with the first is not one about a command that was not on the screen."""
    await desk.answered(call(), "y" + ENTER + "y" + ENTER)
    async with desk.asking(call(2)) as task:
        assert not task.done()


async def test_ctrl_c_cancels_and_ctrl_d_leaves(desk: Desk) -> None:
    with pytest.raises(CancelTurn):
        await desk.answered(call(), CTRL_C)
    assert await desk.answered(call(), CTRL_D) is None


async def test_a_rejection_takes_its_reason_at_once_or_asks_for_it(desk: Desk) -> None:
    """AP-24."""
    for keys in (["n use make" + ENTER], ["n" + ENTER, "use make" + ENTER]):
        decision = await desk.answered(call(), *keys)
        assert decision == Decision(call_id="c1", decision="reject", digest="d1", reason="use make")
    assert await desk.answered(call(), "n" + ENTER, ENTER) == Decision(call_id="c1", decision="reject", digest="d1")


async def test_leaving_the_question_for_a_reason_goes_back_and_decides_nothing(desk: Desk) -> None:
    async with desk.asking(call()) as task:
        await desk.type("n" + ENTER, CTRL_C)
        assert not task.done()
        await desk.type("s" + ENTER)
        assert await task == Decision(call_id="c1", decision="stop", digest="d1")


async def test_an_edit_is_shown_and_asked_about_again(desk: Desk) -> None:
    """AP-18."""
    decision = await desk.answered(call(command="ls -l /nope"), "e" + ENTER, "\x7f" * 5 + "." + ENTER, "y" + ENTER)
    assert decision == Decision(call_id="c1", decision="approve_edited", digest="d1", command="ls -l .")
    assert desk.analyzed == ["ls -l ."]
    assert "$ ls -l ." in desk.paper.getvalue()
    assert "! mind the gap" in desk.paper.getvalue()


async def test_an_edit_alone_approves_nothing(desk: Desk) -> None:
    async with desk.asking(call()) as task:
        await desk.type("e" + ENTER, ENTER)  # unchanged
        await desk.type("e" + ENTER, " -l" + ENTER, ENTER)  # changed, then no answer
        await desk.type("e" + ENTER, " refused" + ENTER, CTRL_C)
        assert not task.done()
    assert "unchanged, nothing was decided" in desk.paper.getvalue()
    assert "cannot be judged" in desk.paper.getvalue()


async def test_a_command_of_several_lines_is_edited_as_such(desk: Desk) -> None:
    asked = call(command="a\nb")
    decision = await desk.answered(asked, "e" + ENTER, "c" + ENTER + "d" + ESCAPE + ENTER, "yes" + ENTER)
    assert decision is not None
    assert decision.command == "a\nbc\nd" or decision.command == "c\nda\nb"


async def test_remembering_is_chosen_by_number_from_what_the_server_proposes(desk: Desk) -> None:
    """AP-11, AP-13: what is remembered is shown before."""
    asked = call(command="git status", proposed_rules=[ProposedRule(words="git status *", match=["git", "status"])])
    exact = await desk.answered(asked, "a" + ENTER, "1" + ENTER)
    rule = await desk.answered(asked, "always" + ENTER, "2" + ENTER)
    assert exact is not None
    assert rule is not None
    assert (exact.decision, exact.remember) == ("approve", "exact")
    assert (rule.decision, rule.remember) == ("approve", "git status *")
    assert "2  git status *" in desk.paper.getvalue()
    async with desk.asking(asked) as task:
        await desk.type("a" + ENTER, ENTER, "a" + ENTER, "3" + ENTER, "a" + ENTER, "y" + ENTER)
        assert not task.done()


async def test_a_cancelled_question_ends(desk: Desk) -> None:
    """UX-02."""
    async with desk.asking(call()) as task:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 1)
    assert await desk.answered(call(2), "y" + ENTER) is not None


async def test_help_and_view_decide_nothing(desk: Desk) -> None:
    """UX-05: everything can be seen."""
    asked = call(command="\n".join(f"echo {number}" for number in range(100)), long=True)
    async with desk.asking(asked) as task:
        await desk.type("?" + ENTER, "v" + ENTER, ENTER, ENTER)
        assert not task.done()
    assert "run exactly this command" in desk.paper.getvalue()
    assert "> echo 50" in desk.paper.getvalue()


async def test_what_cannot_be_answered_yet_is_not_offered(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    hints: list[str] = []

    async def line(self: Asker, question: str, *, hint: str = "", **ends: object) -> str:
        hints.append(hint)
        return ["y", "v", "", "", "y"][len(hints) - 1]

    monkeypatch.setattr(Asker, "line", line)
    assert await desk.face.ask(call(command=LONG)) is not None
    assert hints[0] == hints[1] == "view · edit · no [reason] · stop · ?"
    assert hints[-1] == "yes · edit · no [reason] · always · stop · ?"


async def test_a_view_stops_at_each_screenful_and_left_before_its_end_it_showed_not_all(desk: Desk) -> None:
    """AP-29: what ran past the eye was not shown."""
    asked = call(command="\n".join(f"echo {number}" for number in range(60)))
    async with desk.asking(asked) as task:
        await desk.type("v" + ENTER)
        assert "> echo 20\n" in desk.paper.getvalue()
        assert "> echo 25\n" not in desk.paper.getvalue()
        await desk.type("q" + ENTER, "y" + ENTER)
        assert "the rest was not shown" in desk.told
        assert "42 rows of this did not fit on the screen" in desk.told
        await desk.type("v" + ENTER, CTRL_C, "y" + ENTER)
        assert not task.done()
        await desk.type("v" + ENTER, ENTER, ENTER, "y" + ENTER)
        assert await asyncio.wait_for(task, 2) is not None
    assert "> echo 40\n" in desk.paper.getvalue()


async def test_an_edited_text_longer_than_the_screen_is_shown_by_screenfuls_too(desk: Desk) -> None:
    async with desk.asking(call(command="\n".join(f"echo {number}" for number in range(60)))) as task:
        await desk.type("e" + ENTER, "x" + ESCAPE + ENTER, "q" + ENTER)  # left before its end
        await desk.type("y" + ENTER)
        assert not task.done()
        assert "did not fit on the screen" in desk.told
        await desk.type("e" + ENTER, "x" + ESCAPE + ENTER, ENTER, ENTER, "y" + ENTER)
        decision = await asyncio.wait_for(task, 2)
    assert decision is not None
    assert decision.decision == "approve_edited"


@pytest.mark.parametrize("height", [5, 8, 12, 24, 40])
@pytest.mark.parametrize("facts", [1, 3, 9])
@pytest.mark.parametrize(
    "command", ["ls", "a\nb\nc\nd\ne\nf", "ls" + "\n" * 300 + "touch pwned", "x" * 5000 + "; touch pwned"]
)
def test_a_command_and_its_facts_are_on_the_screen_together_or_their_lack_is_counted(
    height: int, facts: int, command: str
) -> None:
    """AP-29, UX-05."""
    screen = ConsoleDimensions(60, height)
    told = [Line("    ", f"fact {number}", "warning") for number in range(facts)]
    lines = [Line("  │ ", "output of the command before", "output"), BLANK, *command_lines(command), *told]
    rows = [str(row) for row in rows_of(lines, screen)]
    on_screen = "\n".join(rows[-(height - 3) :])  # the question takes two, with the answer's end a third
    everything = "\n".join(str(row) for row in all_rows_of(lines[2:], 60))
    assert (unseen_rows(lines[2:], screen) == 0) == (everything in on_screen)
    if facts + 5 < height:
        assert str(all_rows_of(command_lines(command), 60)[-1]) in on_screen
    if unseen_rows(lines[2:], screen) and facts + 7 < height:
        assert "more rows; v shows all" in on_screen
        assert len(rows) == 2 + height - 3


@pytest.mark.parametrize(("sign", "may_be_wide"), [("a", False), ("é", True), ("日", False), ("①", True), ("я", True)])
def test_signs_that_some_terminals_draw_wide_are_counted_so(sign: str, may_be_wide: bool) -> None:
    """A row that wraps where we do not expect it pushes the first ones off the screen."""
    screen = ConsoleDimensions(60, 20)
    lines = command_lines("\n".join([sign * (52 // cell_len(sign))] * 12))
    assert len(all_rows_of(lines, 60)) == 12
    assert (unseen_rows(lines, screen) > 0) == may_be_wide
    assert len(pages_of(lines, screen)) == (2 if may_be_wide else 1)
    assert [row for page in pages_of(lines, screen) for row in page] == all_rows_of(lines, 60)


def test_rows_fit_the_width_and_markup_is_text() -> None:
    line = Line("  │ ", "[bold red]" + "日本" * 40, "output")
    rows = all_rows_of([line], 40)
    assert all(row.cell_len <= 40 for row in rows)
    assert str(rows[0]).startswith("  │ [bold red]")
    assert str(rows[1]).startswith("  │ ")


def test_the_spinner_is_gone_when_the_session_rests(desk: Desk) -> None:
    desk.face.doing("thinking", Line("● ", "so far", "model"))
    desk.face.doing("", None)
    desk.face.show([Line("", "done")])
    assert desk.paper.getvalue().endswith("done\n")


def test_a_gutter_keeps_its_style_to_itself() -> None:
    (row,) = all_rows_of([Line("  $ ", "ls", "command")], 40)
    assert row.style == ""
    assert [(span.start, span.end, span.style) for span in row.spans] == [(0, 4, "bright_black"), (4, 6, "bold")]


LONG = "\n".join(f"echo {number}" for number in range(60))
PADDED = "echo a" + " " * 3_000 + "; rm -rf src"


@pytest.mark.parametrize(("command", "screenfuls"), [(LONG, 2), (PADDED, 2), ("true" + "\n" * 90 + "rm -rf src", 4)])
@pytest.mark.parametrize("keys", [["y" + ENTER], ["a" + ENTER]])
async def test_a_command_that_was_not_on_the_screen_whole_is_not_approved_before_v(
    desk: Desk, command: str, screenfuls: int, keys: list[str]
) -> None:
    """AP-29: approving is for what was seen."""
    asked = call(command=command)
    async with desk.asking(asked) as task:
        await desk.type(*keys)
        async with asyncio.timeout(5):
            while "did not fit on the screen; v shows all of it, then you can approve" not in desk.told:
                assert not task.done()
                await asyncio.sleep(0.01)
        await desk.type("v" + ENTER, *[ENTER] * screenfuls, "y" + ENTER)
        decision = await asyncio.wait_for(task, 2)
    assert decision is not None
    assert decision.decision == "approve"


async def test_a_terminal_made_wider_after_a_command_was_shown_does_not_make_it_seen(desk: Desk) -> None:
    """AP-29: what counts is what was left out on the screen."""
    async with desk.asking(call(command=PADDED)) as task:
        desk.console.width = 4_000
        await desk.type("y" + ENTER)
        async with asyncio.timeout(5):
            while "did not fit on the screen" not in desk.told:
                assert not task.done()
                await asyncio.sleep(0.01)


async def test_a_command_that_is_asked_about_again_stays_seen_or_unseen(desk: Desk) -> None:
    """AP-29: it is not drawn again, for instance after a decision that was refused."""
    asked = call(command=PADDED)
    async with desk.asking(asked):
        await desk.type(ENTER)
    desk.console.width = 4_000
    async with desk.asking(asked) as task:
        await desk.type("y" + ENTER)
        assert not task.done()
        assert "did not fit on the screen" in desk.told
        await desk.type("v" + ENTER, "y" + ENTER)  # so wide that it fits
        assert await asyncio.wait_for(task, 2) is not None
    desk.console.width = 60
    assert await desk.answered(asked, "y" + ENTER) is not None
    async with desk.asking(call(2, PADDED)) as task:
        await desk.type("y" + ENTER)
        assert not task.done()


async def test_an_edit_that_leaves_only_a_comment_is_told(desk: Desk) -> None:
    async with desk.asking(call(command="s")):
        await desk.type("e" + ENTER, "\x01# " + ENTER)
        assert "edited by you: $ # s " in desk.told
        assert "! only a comment is left: nothing would run" in desk.told


async def test_a_long_command_can_be_rejected_and_stopped_unseen(desk: Desk) -> None:
    decision = await desk.answered(call(command=LONG), "n no" + ENTER)
    assert decision is not None
    assert decision.decision == "reject"


async def test_of_an_edited_command_every_row_is_shown_before_it_is_asked_about(desk: Desk) -> None:
    async with desk.asking(call(command=LONG)):
        await desk.type("e" + ENTER, "x", ESCAPE + ENTER)
        async with asyncio.timeout(10):
            while not all(f" echo {number}\n" in desk.paper.getvalue() for number in range(59)):
                await desk.type(ENTER)  # one for each screenful, whenever it is there
        assert "v shows all" not in desk.paper.getvalue()


async def test_an_answer_at_the_question_why_not_may_repeat_the_no(desk: Desk) -> None:
    decision = await desk.answered(call(), "n" + ENTER, "n use make" + ENTER)
    assert decision is not None
    assert decision.reason == "use make"


def test_every_row_of_what_the_model_says_bears_a_bar_so_that_none_looks_like_a_command() -> None:
    lines = [Line("● ", "I look. " + "word " * 30, "model"), Line("│ ", "  $ rm -rf src", "model")]
    rows = [str(row) for row in all_rows_of(lines, 40)]
    assert rows[0].startswith("● ")
    assert len(rows) > 4
    assert all(row.startswith("│ ") for row in rows[1:])
