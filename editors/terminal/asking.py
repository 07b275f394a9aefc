"""Puts one question at a time to the person, with prompt_toolkit.

Invariants: what was typed or pasted before a question was on the screen never answers it; there is no history, so no
arrow key brings an old answer back; Esc empties the line; a cancelled question leaves screen and terminal clean.
"""

from __future__ import annotations

import contextlib
import sys
import termios
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output


class Asker:
    """Asks on the terminal, or on the `given` input and output of a test."""

    def __init__(self, given_input: Input | None = None, given_output: Output | None = None) -> None:
        self._input = given_input
        self._output = given_output

    async def line(
        self,
        question: str,
        *,
        hint: str = "",
        interrupt: type[Exception],
        end: type[Exception],
    ) -> str:
        """Return one typed line. Ctrl-C raises `interrupt`, Ctrl-D on an empty line `end`."""
        session = self._session(interrupt, end)
        message = FormattedText([("", question), ("ansibrightblack", hint), ("", " > " if hint else "")])
        return await self._ask(session, message, key_bindings=_escape_empties())

    async def command(self, default: str, *, interrupt: type[Exception]) -> str:
        """Return the command `default` as the person changed it; several lines end with Esc, then Enter."""
        several = "\n" in default
        session = self._session(interrupt, interrupt)
        hint = f"    {'Esc, then Enter' if several else 'Enter'}: done · Ctrl-C: go back\n"
        message = FormattedText([("ansibrightblack", hint), ("", "  $ ")])
        return await self._ask(session, message, default=default, multiline=several, prompt_continuation="  > ")

    def _session(self, interrupt: type[Exception], end: type[Exception]) -> PromptSession[str]:
        return PromptSession(
            erase_when_done=True,
            complete_while_typing=False,
            interrupt_exception=interrupt,
            eof_exception=end,
            input=self._input,
            output=self._output or _plain_output(),
        )

    async def _ask(self, session: PromptSession[str], message: FormattedText, **options: object) -> str:
        _forget_typed(session.app.input)
        return await session.prompt_async(message, handle_sigint=False, **options)  # type: ignore[arg-type]


def _escape_empties() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.Escape, eager=True)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    return bindings


def _plain_output() -> Output:
    """Return the terminal without questions about the cursor: a late answer to one would look like typed keys."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _forget_typed(source: Input) -> None:
    """Drop keys that wait in the terminal, and those that prompt_toolkit read beyond the last answer."""
    clear_typeahead(source)
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcflush(source.fileno(), termios.TCIFLUSH)


class Echo:
    """The terminal's echo, off while work is shown so that keys do not spoil the screen."""

    def __init__(self) -> None:
        self._saved: list[Any] | None = None

    def off(self) -> None:
        """Switch it off; does nothing without a terminal."""
        if self._saved is None and sys.stdin.isatty():
            with contextlib.suppress(termios.error):
                self._saved = list(termios.tcgetattr(sys.stdin))
                quiet = termios.tcgetattr(sys.stdin)
                quiet[3] &= ~termios.ECHO
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)

    def restore(self) -> None:
        """Put the terminal back as it was."""
        saved, self._saved = self._saved, None
        if saved is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
