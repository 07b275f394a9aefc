"""Watches the server from outside of its process tree, and ends whatever a server that was killed has left behind.

`handrail serve` becomes three processes before it imports anything large:

    the front, which the editor started
    the keeper, apart from it  ->  the server  ->  commands, the model worker

Whatever loses its parents becomes the child of the nearest subreaper above it, and neither an empty environment nor a
new session nor closed descriptors change that. So the keeper is a subreaper and the server's parent: when the server is
gone, all that is left of it is below the keeper, which kills it. The keeper has left the front's tree, group and
session, so an editor that kills one of these reaches the front alone; the keeper sees that and kills the server. It
does not ask first: a server that is killed is to look so to its client, with no session closed and no question
answered, and whoever loads a session next records what was interrupted. A server whose keeper was killed ends in order,
and what is left below it with it.

This costs three forks of a small process at the start, and nothing per command: a keeper between the server and its
commands would hold as much, but each command would have to be asked of it and its end to be told by it.

Invariants: no thread lives and nothing large is imported when `KEPT.begin` is called; the front gives on the signals
that end a server and ends as the server did, once nothing is left. Whichever one of the three is killed, nothing is
left; only who kills both server and keeper, before the other misses the one, leaves what bears no mark. Linux only;
elsewhere the server runs unkept.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import NoReturn

from agent_core import sweep

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LONGEST_END_SECONDS = 1.0


class Kept:
    """Whether this process is a server with a keeper, and which process that is."""

    def __init__(self) -> None:
        self._keeper: int | None = None

    @property
    def keeper(self) -> int | None:
        """The keeper's id; None if there is none, or none any more."""
        return self._keeper if self._keeper == os.getppid() else None

    def begin(self) -> None:
        """Return in the server, a new process below a keeper; the calling process becomes the front and ends there.

        Where there can be no keeper, the calling process is the server.
        """
        if _possible():
            _go_apart()
            self._keeper = os.getppid()


KEPT = Kept()


def _go_apart() -> None:
    """Return in the server only."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an editor that ignores it would have left us nobody to wait for
    lifeline, held = os.pipe()  # the signals for the server; its end is the front's
    told, telling = os.pipe()  # how the server ended
    leaving = os.fork()
    if leaving:
        os.close(lifeline)
        os.close(telling)
        os.waitpid(leaving, 0)
        _stand_in(held, told)
    os.close(held)
    os.close(told)
    os.setsid()
    if os.fork():
        os._exit(0)
    server = os.fork()
    if server:
        _watch(server, lifeline, telling)
    os.close(lifeline)
    os.close(telling)


def end_what_is_below() -> None:
    """End all processes below this one, for a server or keeper that has nothing else left to do.

    What belongs to another user, such as by `sudo`, cannot be ended and is left after a second.
    """
    sweep.end_all(lambda: sweep.with_descendants(sweep.children_of(os.getpid())), _LONGEST_END_SECONDS)


def _possible() -> bool:
    if not sys.platform.startswith("linux") or not sweep.lists_children():
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # before Linux 5.3, or forbidden
        return False
    # Tried now, since what comes after cannot be undone.
    return sweep.become_subreaper(wanted=True) and not sweep.become_subreaper(wanted=False)


def _stand_in(held: int, told: int) -> NoReturn:
    """Be the front."""

    def give_on(number: int, _: object) -> None:
        with contextlib.suppress(OSError):
            os.write(held, bytes([number]))

    for number in _ENDING:
        signal.signal(number, give_on)
    _hold_nothing()
    # Without a word the keeper was killed; the server now ends by itself, and nobody can tell how.
    code = int(os.read(told, 16) or -signal.SIGKILL)
    if code < 0:
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _watch(server: int, lifeline: int, telling: int) -> NoReturn:
    """Be the keeper."""
    try:
        # Long before the server can run a command, and without making it wait for it.
        sweep.become_subreaper(wanted=True)
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: _reap_all_but(server))
        _hold_nothing()
        _give_on_signals(server, lifeline)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # nobody needs their exits now, and they come by the hundred
        code = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
        end_what_is_below()
        with contextlib.suppress(OSError):
            os.write(telling, str(code).encode())
    finally:
        os._exit(0)  # whatever happens here, it must not go on as the server


def _give_on_signals(server: int, lifeline: int) -> None:
    """Return when the server has ended, or has been killed because its front is gone."""
    ended = os.pidfd_open(server)
    news = select.poll()
    news.register(ended, select.POLLIN)
    news.register(lifeline, select.POLLIN)
    while ended not in {descriptor for descriptor, _ in news.poll()}:
        numbers = os.read(lifeline, 64)
        for number in numbers or [signal.SIGKILL]:
            os.kill(server, number)
        if not numbers:
            return


def _reap_all_but(server: int) -> None:
    """Take the exits of orphans; the server's own is waited for elsewhere."""
    for pid in sweep.children_of(os.getpid()):
        if pid != server:
            with contextlib.suppress(ChildProcessError):  # another of these signals came in between
                os.waitpid(pid, os.WNOHANG)


def _hold_nothing() -> None:
    """Let go of the client's streams and of the folder, which others may want to see closed or removed."""
    os.chdir("/")
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    os.dup2(empty, 1)
    os.close(empty)
