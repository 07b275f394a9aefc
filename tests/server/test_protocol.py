"""The wire models: what they take, what they refuse, and what they send."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from agent_core import settings
from agent_core import types as core
from server.protocol import (
    METHODS,
    PREFIX,
    DecideParams,
    ErrorCode,
    Limits,
    NewParams,
    Params,
    QueueParams,
    Settings,
    Snapshot,
    StepParams,
    Usage,
    Wire,
    words,
)

ROOT = Path(__file__).parents[2]


def _refusal(model: type[Wire], data: object) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return str(caught.value)


def test_every_method_of_ours_has_the_prefix_and_says_what_it_does() -> None:
    assert len(METHODS) == 22
    for name, method in METHODS.items():
        assert name.startswith(PREFIX)
        assert method.doc.endswith(".")
        if method.direction == "client_to_server":
            assert issubclass(method.params, Params), name
        else:
            assert method.result is None, name


def test_every_member_of_every_model_is_documented() -> None:
    def subclasses(model: type[Wire]) -> set[type[Wire]]:
        return {model}.union(*(subclasses(child) for child in model.__subclasses__()))

    missing = [
        f"{model.__name__}.{name}"
        for model in subclasses(Wire)
        if model.__module__.startswith("server.protocol")
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert not missing


def test_what_the_server_does_not_know_is_left_out_and_empty_lists_are_sent() -> None:
    sent = Snapshot(session_id="s", revision=3, state="idle", cwd="file:///w", mode="ask", usage=Usage()).to_wire()
    assert sent["pending"] == []
    assert "stopReason" not in sent
    assert "cost" not in sent["usage"]
    assert sent["usage"]["costKnown"] is False


def test_params_send_what_was_given_null_included() -> None:
    assert StepParams(session_id="s", max_steps=None).to_wire() == {"sessionId": "s", "maxSteps": None}
    nested = NewParams(cwd="file:///w", settings=Settings(limits=Limits(max_steps=3)))
    assert nested.to_wire() == {"cwd": "file:///w", "settings": {"limits": {"maxSteps": 3}}}


def test_max_steps_left_out_is_one_and_null_is_until_the_end() -> None:
    assert StepParams.model_validate({"sessionId": "s"}).max_steps == 1
    assert StepParams.model_validate({"sessionId": "s", "maxSteps": None}).max_steps is None
    assert "maxSteps" in _refusal(StepParams, {"sessionId": "s", "maxSteps": 0})


@pytest.mark.parametrize("value", [7, None, ["s"], {"a": 1}, True])
def test_types_are_strict(value: object) -> None:
    assert "sessionId" in _refusal(StepParams, {"sessionId": value})


@pytest.mark.parametrize("value", ["1", True, 1.0, [1]])
def test_a_number_is_not_taken_from_anything_else(value: object) -> None:
    assert "maxSteps" in _refusal(StepParams, {"sessionId": "s", "maxSteps": value})


def test_unknown_members_of_params_are_ignored() -> None:
    assert StepParams.model_validate({"sessionId": "s", "later": {"jsonrpc": "2.0"}}).session_id == "s"


@pytest.mark.parametrize("model", [StepParams, QueueParams])
def test_a_blank_prompt_is_refused(model: type[Params]) -> None:
    for blank in ("", " \n"):
        assert "prompt\n  Value error, it is blank: say what to do" in _refusal(
            model, {"sessionId": "s", "prompt": blank}
        )


def test_unknown_words_do_not_break_a_client() -> None:
    snapshot = Snapshot.model_validate(
        {"sessionId": "s", "revision": 1, "state": "dreaming", "cwd": "file:///w", "mode": "new", "other": 1}
    )
    assert snapshot.state == "dreaming"


def test_an_unknown_decision_is_refused_and_never_taken_for_a_yes() -> None:
    for word in ("yes", "Approve", "approve ", "", None, True):
        decision = {"callId": "c", "digest": "d", "decision": word}
        assert "decisions.0.decision" in _refusal(DecideParams, {"sessionId": "s", "decisions": [decision]})


def test_an_edited_text_goes_with_approve_edited_and_only_with_it() -> None:
    plain = {"callId": "c", "digest": "d", "decision": "approve", "command": "ls"}
    assert "approve_edited" in _refusal(DecideParams, {"sessionId": "s", "decisions": [plain]})
    edited = {"callId": "c", "digest": "d", "decision": "approve_edited"}
    assert "approve_edited" in _refusal(DecideParams, {"sessionId": "s", "decisions": [edited]})
    assert "decisions" in _refusal(DecideParams, {"sessionId": "s", "decisions": []})


def test_unknown_settings_are_refused_with_the_nearest_known_name() -> None:
    assert "'maxTokens'" in _refusal(Settings, {"maxToken": 5})
    assert "limits" in (text := _refusal(Settings, {"limits": {"maxStep": 5}}))
    assert "did you mean 'maxSteps'" in text
    assert "known are model" in _refusal(Settings, {"zzz": 5})
    assert "'noMatch'" in _refusal(
        Settings, {"rules": [{"match": ["ls"], "decision": "allow", "examples": {"nomatch": []}}]}
    )


def test_model_options_travel_as_text_and_are_taken_as_an_object() -> None:
    assert Settings.model_validate({"modelOptions": {"temperature": 0}}).model_options == '{"temperature": 0}'
    assert Settings.model_validate({"modelOptions": "{}"}).model_options == "{}"


def test_the_words_of_the_wire_are_the_words_of_the_core() -> None:
    for alias, vocabulary in (
        (words.CallStatus, core.CallStatus),
        (words.Reason, core.Reason),
        (words.StopReason, core.StopReason),
    ):
        (told,) = get_args(alias)[1:]
        assert set(told.meanings) == {word.value for word in vocabulary}


def test_every_error_code_has_a_meaning() -> None:
    assert ErrorCode(1003) is ErrorCode.DECISION_REFUSED
    assert all(code.meaning.endswith(".") for code in ErrorCode)


def test_importing_the_protocol_imports_nothing_but_pydantic() -> None:
    program = (
        "import sys, pydantic, pydantic.alias_generators, pydantic.dataclasses; before = set(sys.modules);"
        "import server.protocol;"
        "from server.protocol import Snapshot; Snapshot.model_rebuild();"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    out = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    of_pydantic = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
    assert set(out.stdout.split()) - set(sys.stdlib_module_names) <= {"server"} | of_pydantic


def test_a_setting_means_the_same_in_the_file_and_on_the_wire() -> None:
    ours, wire = meanings(settings.Settings), meanings(Settings)
    assert wire.keys() <= ours.keys()
    # On the wire an object may also be JSON text.
    assert {name: ours[name] for name in wire} | {"model_options": ""} == wire | {"model_options": ""}


def meanings(model: type[BaseModel], outer: str = "") -> dict[str, str | None]:
    """Return each setting's description by its dotted name, members of a group beside the group."""
    found: dict[str, str | None] = {}
    for name, field in model.model_fields.items():
        found[outer + name] = field.description
        kinds = [field.annotation, *get_args(field.annotation)]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= meanings(kind, f"{outer}{name}.")
    return found
