"""One story in every dialect, whole and streamed, through the whole session: the same transcript."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_core.dialects.text import FENCE
from agent_core.session import Session
from agent_core.types import Observation
from tests.core.test_dialect_streams import WIRES, Said
from tests.stories.conftest import Story, decide, decision, go, waiting

MODELS = {
    "chat": "deepseek/deepseek-test",
    "responses": "openai/gpt-5-codex",
    "anthropic": "anthropic/claude-test",
    "text": "ollama/small",
}
REJECTED, FAILING = "cat ~/notes", "echo 'no rule' >&2; exit 2"


def thirds(text: str) -> list[str]:
    """Cut a text as a stream does."""
    size = len(text) // 3 + 1
    return [text[start : start + size] for start in range(0, len(text), size)]


def replies(name: str, *, stream: bool) -> list[Any]:
    """Return the provider's bodies, or their events: two calls, and an end."""
    if name == "text":  # one command per reply is all that this dialect can say
        texts = [f"I look.\n```{FENCE}\n{command}\n```" for command in (REJECTED, FAILING)]
        said = [Said("hm", text, []) for text in texts]
    else:
        said = [Said("hm", "I look.", [REJECTED, FAILING])]
    wires = [WIRES["chat" if name == "text" else name](each, thirds) for each in [*said, Said("", "Done.", [])]]
    return [events if stream else body for body, events in wires]


async def told(session: Session) -> None:
    """Reject the one and approve the other, in as many questions as it takes."""
    while calls := waiting(session):
        await decide(
            session,
            *(
                decision(call, "reject", reason="not that file") if call.to_run.command == REJECTED else decision(call)
                for call in calls
            ),
        )


def transcript(session: Session) -> list[tuple[str, ...]]:
    """Return what was said, asked, decided and answered, in one form for all dialects."""
    record = session.machine.record
    calls = [call for step in record.steps for call in step.calls]
    observations = {each.call_key: each.text for each in record.history if isinstance(each, Observation)}
    said = [step.reply for step in record.steps if step.reply is not None]
    return [
        *((call.to_run.command, call.status.value, call.decided_by, observations[call.key]) for call in calls),
        *sorted({("said", reply.text.partition("\n")[0]) for reply in said}),
        *sorted({("thought", reply.reasoning) for reply in said}),
        ("stopped", str(record.stop)),
    ]


@pytest.fixture
def expected() -> list[tuple[str, ...]]:
    return [
        (REJECTED, "rejected", "person", ""),
        (FAILING, "completed", "person", ""),
        ("said", "Done."),
        ("said", "I look."),
        ("thought", ""),
        ("thought", "hm"),
        ("stopped", "end_turn"),
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", MODELS)
async def test_the_same_story_gives_the_same_transcript(
    story: Story, expected: list[tuple[str, ...]], name: str, stream: bool
) -> None:
    script = replies(name, stream=stream)
    session = await story.open(*script, model=MODELS[name], dialect=name, stream=stream)
    await go(session, "Repair it.")
    await told(session)
    seen = transcript(session)
    assert [(*each[:3], "") if len(each) == 4 else each for each in seen] == expected
    rejected, failing = seen[0][3], seen[1][3]
    assert "not that file" in rejected
    assert failing.endswith("<returncode>2</returncode>\n<output>\nno rule\n</output>")
    sent = json.dumps(story.script.messages)
    assert sent.index("not that file") < sent.index("<returncode>2</returncode>")
    signed = {"anthropic": "S+/=", "responses": "gAAA+/=", "chat": "hm"}.get(name, "I look.")
    assert signed in sent, "what this vendor wants back of its own turn"
