"""Commands written as text, for models without tools: exactly one fenced block per reply (opt-in by name).

Invariants: on the wire this is Chat Completions without tools. A block is a call only if where it ends is beyond doubt:
it is closed, and nothing after it looks like a fence; otherwise the reply counts as incomplete and nothing runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_core.dialects import Query, chat, tool
from agent_core.dialects.chat_stream import ChatAssembler
from agent_core.dialects.history import Conversation, Exchange, Items
from agent_core.dialects.shapes import argument_members, clean, text_of
from agent_core.types import Finish, ModelReply, ToolCall, UserMessage

NAME = "text"
FENCE = "bash-run"

INSTRUCTIONS = f"""\
{tool.DESCRIPTION}

To run a command, write exactly one fenced block in your reply, like this:

```{FENCE}
<the command>
```

If the command itself holds a line of three backticks, fence the block with four. Write nothing after the block; the
result comes in the next message."""

_OPENING = re.compile(rf"^(`{{3,}}){FENCE}[ \t]*\r?$", re.MULTILINE)
_FENCE_LINE = re.compile(r"^[ \t]{0,3}(`{3,})(.*)$", re.MULTILINE)


class TextDialect:
    """Translates to and from Chat Completions without tools for one model."""

    name = NAME

    def __init__(self, model: str) -> None:
        self._model = model
        self._conversation = Conversation(_encode_exchange)

    def encode(self, query: Query) -> dict[str, Any]:
        """Return the body of the request."""
        system = f"{clean(query.system)}\n\n{INSTRUCTIONS}".strip()
        messages: Items = [{"role": "system", "content": system}]
        for item in self._conversation.items(query):
            messages += [chat.user_message(item)] if isinstance(item, UserMessage) else item
        body = {**query.options, "model": query.model, "messages": messages}
        body.pop("tools", None)
        if query.max_tokens is not None:
            body["max_tokens"] = query.max_tokens
        return body

    def decode(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole reply; raise `ProviderFailure` for one that is none."""
        return _with_written_calls(chat.read_reply(body, self._model))

    def assembler(self) -> ChatAssembler:
        """Return an empty assembler for one streamed reply."""
        return ChatAssembler(self.decode)


def _encode_exchange(exchange: Exchange, query: Query) -> Items:
    reply = exchange.turn.reply
    text = clean(reply.text)
    if reply.dialect != NAME:
        blocks = [_block(text_of(argument_members(call.arguments).get("command"))) for call in reply.calls]
        text = "\n\n".join([text, *blocks]).strip()
    results = [{"role": "user", "content": clean(result.text) or "(no output)"} for result in exchange.results]
    return [{"role": "assistant", "content": text}, *results]


def _block(command: str) -> str:
    """Return a command as this dialect writes it, with a fence longer than any in it."""
    longest = max((len(match[1]) for match in _FENCE_LINE.finditer(command)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{FENCE}\n{command}\n{fence}"


def _with_written_calls(reply: ModelReply) -> ModelReply:
    """Return the reply with the calls that its text holds; real calls, which were not offered, do not count."""
    reply = replace(reply, dialect=NAME, calls=())
    openings = list(_OPENING.finditer(reply.text))
    if len(openings) != 1:
        # Several blocks are several calls, so that the refusal of the whole is told with their number (R4).
        return replace(reply, calls=tuple(_call("") for _ in openings))
    start = openings[0].end() + 1
    fences = list(_FENCE_LINE.finditer(reply.text, start))
    closing = next((fence for fence in fences if _closes(fence, openings[0])), None)
    if closing is None:
        return _incomplete(reply, "a command block that is not closed")
    # What stands inside the block may look like shorter fences; after it there must be none.
    if any(fence.start() > closing.start() for fence in fences):
        return _incomplete(reply, "a fence after the command block, so its end is in doubt")
    command = reply.text[start : max(start, closing.start() - 1)].removesuffix("\r")
    return replace(reply, calls=(_call(command),))


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    return len(fence[1]) >= len(opening[1]) and not fence[2].strip() and fence[0].startswith("`")


def _incomplete(reply: ModelReply, why: str) -> ModelReply:
    if reply.finish is not Finish.STOP:
        return replace(reply, calls=(_call(""),))
    return replace(reply, calls=(_call(""),), finish=Finish.UNKNOWN, finish_raw=why)


def _call(command: str) -> ToolCall:
    return ToolCall("", tool.NAME, json.dumps({"command": command}))
