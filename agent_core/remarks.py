"""Sentences that the person should see although nothing failed: of a recording that ended, of a tape that is read anew.

Invariants: whatever the log level, a remark is a warning; a server may show what this logger says beside its log.
"""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)


def remark(sentence: str) -> None:
    """Tell the person."""
    log.warning("%s", sentence)
