"""Kinds of faults that agents of this sort are known for, each as a test here or where this list says.

- the fake model bypasses parser and formatter: `scripted.py`: scripts hold provider bodies, read by the production
  dialect
- commands that are no text, in any call of a batch: `test_parsing.py`: PA-11, PA-24, one bad call refuses the batch
- ids missing, empty, doubled, or used before: `test_dialect_chat.py`: ID-01, ID-02, used again in a later turn
- results left out, padded silently, or dropped: `test_machine.py`: the invariants; here: more results than calls
- a failed price hides what was paid; two ledgers: `test_machine.py`: an unknown price; `test_turn.py`: CO-04, the one
  ledger is `Record.usage`
- errors of programming are tried again for minutes: `test_model.py`: only transient kinds; Retry-After, a visible
  wait that a cancel ends
- keys in trajectories, logs, templates, prompts: `test_canary.py`, `test_redaction.py`; here: what templates cannot
  see
- registry of prices missing or broken, no choices: `test_model_prices.py`, `test_settings_live.py`;
  `test_dialect_chat.py`: DL-21, billed
- replies that are not JSON (dates, decimals): cannot occur: bodies are JSON text, or `model_dump(mode="json")` in the
  worker
- the environment's own members hide the exit code: cannot occur: `CommandResult` and `rendering.Output` have fixed
  members
- one validation per dialect, drifting apart: cannot occur: `parsing.parse` is the only one, and dialects only
  translate
- one class per vendor on top of another: cannot occur: dialects are values behind one protocol, none derives from
  another
- a call that blocks everything: `test_process.py`: PF-04, PF-01; queries and commands are tasks
- a format error without messages is a crash: cannot occur: it is a value (`FormatError`), not an exception
- Ctrl-C, timeouts and pipes that leave processes or hang: `test_shell.py`: PX-01 to PX-07, CX-01
- unbounded output: `test_shell_output.py`: PF-07, OU-04 to OU-07
- allow rules that match by prefix: `test_policy.py`: rules match words of whole commands
- a shell that is none of bash: `test_shell.py`: PX-12; the proposal shows the shell, its digest holds it
- approving one text and running another: `test_turn.py`: AP-17
- output that steers the terminal: `test_display.py`, `test_shell_output.py`: escapes are removed or shown
- a submission in a batch loses the results before it: `test_turn.py`: submit is the end
- stop reasons, blocks and usage that nobody foresaw: `test_dialect_anthropic.py`: stop reasons, unknown blocks,
  bodies that are no reply
- thinking dropped, one message per result, no error flag, empty content: `test_dialect_anthropic.py`: DL-10, DL-16,
  DL-17, DL-23
- tapes that replay parsed values, or to any conversation: `test_tape.py`, `test_tape_recorder.py`
- every step writes the whole record again: here: what a step writes does not grow
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agent_core import events as ev
from agent_core.dialects import Query, dialect_for
from agent_core.errors import IllegalEvent, SettingsError
from agent_core.rendering import load
from agent_core.settings import TemplateSettings, build
from agent_core.types import Message, Observation, StopReason, UserMessage
from tests.core.replies import (
    anthropic_body,
    bash,
    chat_body,
    function_call,
    reply,
    responses_body,
    results,
    tool_use,
    turn,
)
from tests.core.replies import call as bash_call
from tests.stories.conftest import Story, approve_all, go

DONE = chat_body("Done.")
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", chat_body(None, [bash("c1", 'echo "hi" \\ \n $x')])),
        ("anthropic", anthropic_body(tool_use("c1", 'echo "hi" \\ \n $x'))),
        ("responses", responses_body(function_call("c1", 'echo "hi" \\ \n $x'))),
    ],
)
def test_builders_of_replies_encode_quotes(name: str, body: dict[str, Any]) -> None:
    """Test helpers that glue JSON together by string formatting."""
    (call,) = dialect_for("m", name).decode(body).calls
    assert json.loads(call.arguments) == {"command": 'echo "hi" \\ \n $x'}


async def test_more_results_than_calls_are_a_fault_of_ours_and_raise(story: Story) -> None:
    """Results beyond the calls dropped in silence."""
    session = await story.open(chat_body(None, [bash("c1", "")]), DONE)
    await session.step("Go.", 1)
    machine = session.machine
    await session.rested(machine.record.revision)
    more = tuple(Observation(f"1.{number}", "text") for number in (1, 2))
    with pytest.raises(IllegalEvent):
        machine.feed(ev.Observed(1.0, more))


@pytest.mark.parametrize("name", ["chat", "anthropic", "responses"])
def test_what_the_person_ran_is_no_result_of_a_call(name: str) -> None:
    """A person's own command told as an answer to a call that nobody made."""
    body = dialect_for("m", name).encode(Query("m", "", [UserMessage("Go."), UserMessage("I ran ls.", "person_ran")]))
    messages = body["input" if name == "responses" else "messages"]
    assert messages[-1]["role"] == "user"
    assert "I ran ls." in json.dumps(messages)
    assert not {"tool_call_id", "call_id", "tool_use_id"} & set(json.dumps(messages).replace('"', " ").split())


@pytest.mark.parametrize("name", ["system", "task", "observation", "format_error"])
@pytest.mark.parametrize("text", ["{{ HOME }}", "{{ api_key }}", "{{ environ }}", "{% for %}", "{{ cwd.x.y }}"])
def test_a_template_fails_when_it_loads_and_sees_named_values_only(name: str, text: str) -> None:
    """Template errors at step 40; templates that can print the environment or a key."""
    with pytest.raises(SettingsError, match=f"template `{name}`"):
        load(TemplateSettings.model_validate({name: f"first line\n{text}"}))


def test_templates_are_compiled_once() -> None:
    """A template compiled anew for every observation."""
    assert load(TemplateSettings()).observation is load(TemplateSettings()).observation


async def test_nothing_but_what_a_provider_knows_is_sent(story: Story) -> None:
    """Members of one's own on messages, leaked to the provider; the history changed by sending it."""
    session = await story.open(chat_body("I look.", [bash("c1", "echo a"), bash("c2", "")]), DONE, mode="trusted")
    await go(session)
    history = list(session.machine.record.history)
    allowed = {"role", "content", "tool_calls", "tool_call_id"}
    assert all(set(message) <= allowed for body in story.script.requests for message in body["messages"])
    assert (
        story.script.requests[1]["messages"][: len(story.script.requests[0]["messages"])]
        == (story.script.requests[0]["messages"])
    )
    assert session.machine.record.history == history


async def test_output_is_told_as_it_is(story: Story) -> None:
    """HTML and ASCII escapes that cost tokens and change the text."""
    command = "printf 'if a < b && c > d: 你好 \\x27 \"'"
    session = await story.open(chat_body(None, [bash("c1", command)]), DONE, mode="trusted")
    await go(session)
    told = story.script.messages[-1]["content"]
    assert "if a < b && c > d: 你好 ' \"" in told


async def test_a_variable_named_like_a_template_value_is_a_variable(story: Story) -> None:
    """An environment variable named `output` that breaks every step."""
    environment = dict.fromkeys(("output", "command", "error", "task", "cwd"), "mine")
    replies = [chat_body(None, [bash("c1", "echo $output $task")]), DONE]
    session = await story.open(*replies, mode="trusted", command={"env": environment})
    await go(session)
    await approve_all(session)
    assert "mine mine" in story.script.messages[-1]["content"]


async def test_a_limit_of_n_steps_allows_n_and_keeps_the_last_answer(story: Story) -> None:
    """A limit that allows one less, or loses the answer that was paid for; a second task that inherits the first's."""
    replies = [chat_body(None, [bash(f"c{number}", f"echo {number}")]) for number in range(4)]
    session = await story.open(*replies, mode="trusted", limits={"max_steps": 2})
    for task in ("One.", "Two."):
        await go(session, task)
        assert session.machine.record.stop is StopReason.MAX_STEPS
    record = session.machine.record
    assert [call.result.output for step in record.steps for call in step.calls if call.result] == [
        *("0\n", "1\n", "2\n", "3\n")
    ]
    assert record.usage.cost == pytest.approx(0.04), "each call is paid once, and all of them are told"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"limits": {"step_limt": 3}}, "there is no setting `limits.step_limt`"),
        ({"command": {"timeout": 0}}, "`command.timeout`"),
        ({"max_iterations": 3}, "there is no setting `max_iterations`"),
    ],
)
def test_a_setting_is_taken_or_refused_never_dropped(values: dict[str, Any], words: str) -> None:
    """Unknown settings dropped in silence; a timeout of 0 taken for none given."""
    with pytest.raises(SettingsError, match=words):
        build(values, "The test")


async def test_a_submission_is_whole_and_as_it_was_written(story: Story) -> None:
    """A patch cut to what the model is shown, its line ends rewritten."""
    command = f"{SUBMIT}; printf 'a\\r\\nb\\rc\\n'; seq 1 9000"
    session = await story.open(chat_body(None, [bash("c1", command)]), mode="trusted", completion="submit")
    await go(session)
    record = session.machine.record
    assert record.stop is StopReason.SUBMITTED
    assert record.steps[-1].submission == "a\r\nb\rc\n" + "".join(f"{number}\n" for number in range(1, 9001))


@pytest.mark.parametrize("command", [f"{SUBMIT}; exit 3", f"echo before; {SUBMIT}"])
async def test_what_is_no_submission_ends_nothing(story: Story, command: str) -> None:
    """The word of submission printed by the way, or by a command that failed."""
    replies = [chat_body(None, [bash("c1", command)]), chat_body(None, [bash("c2", f"{SUBMIT}; echo it")])]
    session = await story.open(*replies, mode="trusted", completion="submit")
    await go(session)
    assert (session.machine.record.stop, session.machine.record.steps[-1].submission) == ("submitted", "it\n")
    assert len(session.machine.record.steps) == 2


async def test_what_a_step_writes_does_not_grow(story: Story) -> None:
    """The whole record written again at every step; output kept in many copies."""
    mark = "unique-output-of-this-step"
    replies = [chat_body(None, [bash(f"c{number}", f"echo {mark} {number % 2}")]) for number in range(40)]
    session = await story.open(*replies, DONE, mode="trusted", limits={"max_steps": 0})
    await go(session)
    await session.close()
    with sqlite3.connect(story.state / "journal.db") as journal:
        rows = journal.execute(
            "SELECT body FROM events WHERE kind LIKE '%inished%' OR kind LIKE '%bserved%'"
        ).fetchall()
    texts = [row[0] if isinstance(row[0], str) else row[0].decode() for row in rows]
    assert len(texts) >= 80
    assert max(len(text) for text in texts) < 1.2 * min(len(text) for text in texts if "exited" in text) + 400
    assert {text.count(mark) for text in texts} == {0, 1}, "the last turn has no output"


@pytest.mark.parametrize("images", [True, False])
def test_an_image_and_the_marks_for_the_cache_go_together(images: bool) -> None:
    """A cache mark that fails on content of several parts."""
    marker = "<MSWEA_MULTIMODAL_CONTENT><CONTENT_TYPE>image_url</CONTENT_TYPE>data:image/png;base64,AAAA"
    said = turn(reply(bash_call("a", "shot"), dialect="anthropic", model="claude"))
    history: list[Message] = [
        UserMessage("Look."),
        said,
        *results(said, f"see {marker}</MSWEA_MULTIMODAL_CONTENT> there"),
    ]
    body = dialect_for("claude").encode(Query("claude", "s", history, images=images))
    assert "cache_control" in body["messages"][-1]["content"][-1]


def test_the_folder_of_these_tests_has_every_file_that_the_list_names() -> None:
    """A list that names tests which are gone."""
    tests = {path.name for path in Path(__file__).parent.parent.rglob("*.py")}
    named = {word.strip("`:;,") for word in (__doc__ or "").split() if word.strip(":;,").startswith("`test_")}
    assert named
    assert {name for name in named if name.endswith(".py")} <= tests
