"""What stands in a secret's place: its one form, and how it is recognised.

Invariants: pure; every mask that is made here is recognised here.
"""

from __future__ import annotations

import re

_MASK = re.compile(r"<masked:[A-Za-z_][A-Za-z0-9_.-]*>")


def mask_for(name: str) -> bytes:
    """Return the mask for the secret of this name."""
    return f"<masked:{name}>".encode()


SHAPE_MASK = mask_for("key")
"""The mask for a text that is a secret by its look."""


def holds_mask(text: str) -> bool:
    """Whether the text contains a mask, so that running or writing it could put the mask in a real secret's place."""
    return _MASK.search(text) is not None
