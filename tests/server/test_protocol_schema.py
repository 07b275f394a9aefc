"""What is generated from the definition of the wire: files are those of today, samples what they say."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from server.protocol import METHODS, ErrorCode, words
from server.schema import __main__ as generator
from server.schema.__main__ import GOLDEN, ROOT, generated, main, stale
from server.schema.samples import SAMPLES
from server.schema.shapes import shapes, vocabularies

SCHEMA = json.loads((ROOT / "server/protocol.schema.json").read_text("utf-8"))


def test_the_generated_files_are_those_of_the_definition(capsys: pytest.CaptureFixture[str]) -> None:
    assert stale(generated()) == []
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_a_difference_is_told_and_a_run_without_check_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generator, "ROOT", tmp_path)
    monkeypatch.setattr(generator, "GOLDEN", tmp_path / "tests/wire/golden")
    assert main(["--check"]) == 1
    assert "differs: server/PROTOCOL.md" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())
    assert main([]) == 0
    (tmp_path / "server/PROTOCOL.md").write_text("x")
    (tmp_path / "tests/wire/golden/gone.json").write_text("x")
    assert main(["--check"]) == 1
    out = capsys.readouterr().out
    assert "differs: server/PROTOCOL.md\ndiffers: tests/wire/golden/gone.json\n" in out
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_every_message_has_a_sample_of_its_own_types() -> None:
    assert list(SAMPLES) == list(METHODS)
    for name, sample in SAMPLES.items():
        method = METHODS[name]
        assert type(sample.params) is method.params, name
        assert (None if sample.result is None else type(sample.result)) is method.result, name


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_golden_files_are_read_as_the_samples_and_pass_the_schema(path: Path) -> None:
    golden = json.loads(path.read_text("utf-8"))
    method, sample = METHODS[golden["method"]], SAMPLES[golden["method"]]
    parts = [("params", method.params, sample.params), ("result", method.result, sample.result)]
    for part, model, value in parts:
        if model is None:
            assert part not in golden
            continue
        assert model.model_validate(golden[part]) == value
        _validate(golden[part], model.__name__)


def test_the_schema_refuses_what_the_models_refuse() -> None:
    params = json.loads((GOLDEN / "session.decide.json").read_text("utf-8"))["params"]
    for spoilt in (
        {},
        {**params, "sessionId": 7},
        {**params, "decisions": []},
        {**params, "decisions": [{**params["decisions"][0], "decision": "yes"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            _validate(spoilt, "DecideParams")
    with pytest.raises(jsonschema.ValidationError):
        _validate({"maxToken": 5}, "Settings")
    _validate({**params, "later": 1}, "DecideParams")
    _validate({"sessionId": "s", "maxSteps": None}, "StepParams")


def test_the_samples_show_every_member_of_a_snapshot_and_a_call() -> None:
    shown = "".join(path.read_text("utf-8") for path in GOLDEN.glob("*.json"))
    unseen = {
        f"{shape.name}.{member.name}"
        for shape in shapes()
        for member in shape.members
        if shape.name in {"Snapshot", "Step", "Call", "CommandResult", "SessionInfo", "Decision", "StreamParams"}
        and f'"{member.name}":' not in shown
    }
    assert unseen <= {"Call.editedFrom", "Call.relatedRejection", "CommandResult.signal", "CommandResult.error"}


def test_every_target_tells_every_word_member_and_code() -> None:
    texts = {path.name: text for path, text in generated().items() if path.suffix != ".json" or "schema" in path.name}
    del texts["README.md"]  # only its table of settings is generated
    assert set(texts) == {"protocol.schema.json", "PROTOCOL.md", "protocol.ts", "protocol.lua"}
    told = {member.name for shape in shapes() for member in shape.members}
    told |= {word for vocabulary in vocabularies() for word in vocabulary.meanings}
    told |= {str(int(code)) for code in ErrorCode} | {name.removeprefix("handrail/") for name in METHODS}
    for name, text in texts.items():
        assert not [word for word in told if word not in text], name


def test_open_vocabularies_stay_open() -> None:
    texts = {path.name: text for path, text in generated().items()}
    assert {vocabulary.name for vocabulary in vocabularies()} >= {"State", "CallStatus", "Reason", "StopReason"}
    for vocabulary in vocabularies():
        assert hasattr(words, vocabulary.name)
        assert "enum" not in SCHEMA["$defs"][vocabulary.name]
        typescript = texts["protocol.ts"].split(f"export type {vocabulary.name} =")[1].split(";")[0]
        assert typescript.endswith("(string & {})")
        lua = texts["protocol.lua"].split(f"---@alias handrail.{vocabulary.name}\n")[1].split("\n\n")[0]
        assert lua.endswith("---| string")


def test_links_of_the_page_lead_somewhere() -> None:
    page = (ROOT / "server/PROTOCOL.md").read_text("utf-8")
    anchors = [
        line.lstrip("#").strip().lower().replace(" ", "-").replace("/", "").replace(",", "").replace("'", "")
        for line in page.splitlines()
        if line.startswith("#")
    ]
    assert len(anchors) == len(set(anchors))
    links = {part.split(")")[0] for part in page.split("](#")[1:]}
    assert links <= set(anchors)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_typescript_holds_at_run_time(tmp_path: Path) -> None:
    """What is left after the types are taken away is a module with the version, the codes and the meanings."""
    source = (ROOT / "editors/vscode/src/protocol.ts").read_text("utf-8")
    values = [block for block in source.split("\n\n") if "export const" in block]
    program = "\n".join(values).replace(" as const", "").replace(": Record<string, Record<string, string>>", "")
    (tmp_path / "protocol.mjs").write_text(program)
    run = (
        "import('./protocol.mjs').then(m => console.log(JSON.stringify([m.PROTOCOL_VERSION, m.ErrorCode, m.MEANINGS])))"
    )
    out = subprocess.run(["node", "-e", run], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    version, codes, meanings = json.loads(out)
    assert version == "1.0"
    assert codes == {code.name: int(code) for code in ErrorCode}
    assert meanings == {vocabulary.name: dict(vocabulary.meanings) for vocabulary in vocabularies()}


def _validate(value: object, name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA | {"$ref": f"#/$defs/{name}"}).validate(value)
