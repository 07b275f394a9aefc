"""The exceptions of the core, sorted by who must act.

Invariants: every message is one or two sentences that name the thing, the reason and the way out; none holds a secret.
What a model, a command or a person may do in the ordinary course (a malformed call, a non-zero exit, a timeout, a
rejection, a cancel) is data, not an exception.

    HandrailError
    ├── SettingsError      the user: a setting, template, rule, price file or tape is wrong
    ├── UsageError         the caller: a request that cannot be done now
    │   ├── IllegalEvent       the session is not in a state for it
    │   ├── StaleDecision      a decision about a call that is unknown, changed or already decided
    │   └── UnknownSession     no session has that id
    ├── SessionHeld        the user: another live process has the session open
    ├── JournalError       the user: the record cannot be written or read (disk full, damaged, newer version)
    ├── ProviderFailure    the model's side: a query that gave no reply, sorted by kind
    └── BrokenInvariant    the developer: Handrail itself is wrong
"""

from __future__ import annotations

from agent_core.types import FailureKind, Usage


class HandrailError(Exception):
    """Root of everything that the core raises on purpose."""


class SettingsError(HandrailError):
    """A setting, template, rule, price file or tape is wrong; the message names it and the way out."""


class UsageError(HandrailError):
    """A request that cannot be done now; nothing was changed."""


class IllegalEvent(UsageError):
    """The event is not legal in the machine's state; nothing was changed."""


class StaleDecision(UsageError):
    """A decision about a call that is unknown, changed, or not waiting; nothing was decided."""


class UnknownSession(UsageError):
    """No session has that id."""


class SessionHeld(HandrailError):
    """Another live process holds the session; `holder` says which."""

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder


class JournalError(HandrailError):
    """The journal cannot be written or read."""


class ProviderFailure(HandrailError):
    """A query that gave no reply. `raw` is what the provider sent, masked; `usage` what it billed all the same.

    `retry_after` is how many seconds the provider asks to wait before the next attempt, None if it does not say.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        raw: str = "",
        usage: Usage | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.raw = raw
        self.usage = usage or Usage()
        self.retry_after = retry_after


class BrokenInvariant(HandrailError):
    """Something that cannot be; a fault of Handrail itself."""
