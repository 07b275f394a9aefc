"""Makes a copy of a history that fits a budget of tokens; the record itself stays whole.

Invariants: a call never goes without its result, nor a result without its call (ID-12); the first task, the last
exchanges and everything after them stay as they are; the model is told what is left out. The same history and budget
give the same copy, and a growing history keeps its beginning for a while, so that a provider's cache stays of use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_core.types import AssistantTurn, Message, Observation, UserMessage

_BYTES_PER_TOKEN = 3.5
_PER_MESSAGE = 8
_KEPT_EXCHANGES = 2
_KEPT_OUTPUT = 200  # characters: an output up to this length is not worth leaving out


@dataclass(slots=True)
class _Group:
    """Messages that stay or go together: an assistant turn with what follows it, or what the person said."""

    messages: list[Message]

    @property
    def is_exchange(self) -> bool:
        return isinstance(self.messages[0], AssistantTurn)

    @property
    def tokens(self) -> int:
        return sum(map(estimated_tokens, self.messages))


def estimated_tokens(message: Message) -> int:
    """Return about how many tokens a message takes; rather too many than too few for English text and code."""
    if isinstance(message, AssistantTurn):
        reply = message.reply
        size = max(len(reply.raw), len(reply.text) + sum(len(call.arguments) for call in reply.calls))
    else:
        size = len(message.text) if message.text.isascii() else len(message.text.encode(errors="replace"))
    return math.ceil(size / _BYTES_PER_TOKEN) + _PER_MESSAGE


def shorten(history: Sequence[Message], max_tokens: int) -> Sequence[Message]:
    """Return the history, or a copy that takes about `max_tokens` (estimated) at most, as far as the rules above allow.

    Old outputs are left out first, the oldest before the others, then whole exchanges. What is freed grows by quarters
    of the budget, so most queries of a growing history leave out exactly what the query before them left out.
    """
    total = sum(map(estimated_tokens, history))
    if total <= max_tokens:
        return history
    quarter = max(1, max_tokens // 4)
    to_free = math.ceil((total - max_tokens) / quarter) * quarter
    groups = _groups(history)
    open_to_change = [place for place, group in enumerate(groups) if group.is_exchange][:-_KEPT_EXCHANGES]
    freed, outputs = 0, 0
    for place in open_to_change:
        if freed >= to_free:
            break
        shorter, count = _without_outputs(groups[place])
        freed += groups[place].tokens - shorter.tokens
        groups[place] = shorter
        outputs += count
    left_out = 0
    gone: set[int] = set()
    for place in open_to_change:
        if freed >= to_free:
            break
        freed += groups[place].tokens
        outputs -= _outputs_left_out(groups[place])
        left_out += 1
        gone.add(place)
    kept = [message for place, group in enumerate(groups) if place not in gone for message in group.messages]
    return _with_notice(kept, left_out, outputs)


def _groups(history: Sequence[Message]) -> list[_Group]:
    """Split the history: exchanges with what is told because of them; what the person said by itself."""
    groups: list[_Group] = []
    for message in history:
        alone = isinstance(message, UserMessage) and message.origin in ("prompt", "queued", "person_ran")
        after_exchange = bool(groups) and groups[-1].is_exchange
        if isinstance(message, AssistantTurn) or alone or not after_exchange:
            groups.append(_Group([message]))
        else:
            groups[-1].messages.append(message)
    return groups


_LEFT_OUT = "[This output is left out here to save room: "


def _without_outputs(group: _Group) -> tuple[_Group, int]:
    """Return the exchange without its outputs, and how many were left out."""
    shorter = _Group([_without_output(message) for message in group.messages])
    return shorter, _outputs_left_out(shorter)


def _without_output(message: Message) -> Message:
    if not isinstance(message, Observation) or len(message.text) <= _KEPT_OUTPUT:
        return message
    return replace(message, text=f"{_LEFT_OUT}{len(message.text)} characters. Run the command again if needed.]")


def _outputs_left_out(group: _Group) -> int:
    return sum(isinstance(each, Observation) and each.text.startswith(_LEFT_OUT) for each in group.messages)


def _with_notice(kept: list[Message], exchanges: int, outputs: int) -> list[Message]:
    """Put what the model is told after the first task."""
    told = [f"{exchanges} earlier steps with their results"] if exchanges else []
    told += [f"the outputs of {outputs} earlier commands"] if outputs else []
    if not told:
        return kept
    text = f"To save room, {' and '.join(told)} are left out of this conversation. Look again at what you need."
    first = next((place for place, each in enumerate(kept) if isinstance(each, UserMessage)), -1)
    return [*kept[: first + 1], UserMessage(text, "notice"), *kept[first + 1 :]]
