"""What of a conversation is sent to the model: all of it as long as it fits, else a shortened copy.

Invariants: pure; the record is never touched; the cost of deciding does not grow with a conversation that fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_core.dialects.budget import estimated_tokens, shorten
from agent_core.record import Record
from agent_core.types import Message

NEAR = 0.85
"""The part of a model's window from which on the copy is shortened."""
SHORTENED = 0.6
"""The part of what was sent that is sent after a compaction, or after the provider said that it was too long."""
_LEAST = 1_000


def history_to_send(record: Record, budget: int | None, window: int | None) -> Sequence[Message]:
    """Return the messages for the next query; `budget` is the person's setting, `window` the model's, in tokens."""
    bounds = [each for each in (budget, record.budget, _near(record, window)) if each is not None]
    return shorten(record.history, min(bounds)) if bounds else record.history


def compacted_budget(record: Record) -> int:
    """Return the budget of history that a compaction sets."""
    size = sum(map(estimated_tokens, record.history))
    return max(_LEAST, int(min(size, record.budget or size) * SHORTENED))


def _near(record: Record, window: int | None) -> int | None:
    """Return the budget that the window sets, once the conversation comes near it."""
    if window is None:
        return None
    bound = int(window * NEAR)
    last = next((step.reply.usage for step in reversed(record.steps[-10:]) if step.reply is not None), None)
    return bound if last is not None and last.input_tokens + last.output_tokens > bound else None
