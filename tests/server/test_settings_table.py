"""The README's table of settings is that of the models."""

from __future__ import annotations

import pytest

from agent_core.settings import Settings
from server.protocol import Settings as WireSettings
from server.schema.__main__ import ROOT
from server.schema.settings_table import settings_table, with_settings


def test_the_readme_holds_the_table_of_today() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    assert settings_table() in page
    assert with_settings(page) == page


def test_each_setting_has_a_line_with_values_default_and_meaning() -> None:
    lines = settings_table().splitlines()
    assert "| `limits.maxSteps` | whole number | `100` | Steps in a turn. |" in lines
    assert any(line.startswith("| `mode` | `ask`, `rules`, `plan`, `trusted` | `ask` |") for line in lines)
    assert any(line.startswith("| `rules` | list of rule or text | ") for line in lines)
    names = {line.split("`")[1].split(".")[0] for line in lines[2:]}
    assert len(names) == len(Settings.model_fields)
    assert all(line.count(" | ") == 3 and not line.endswith("|  |") for line in lines[2:])


def test_every_name_in_the_table_is_one_of_the_wire() -> None:
    known = {field.alias or name for name, field in WireSettings.model_fields.items()}
    aliases = {WireSettings.model_config["alias_generator"](name) for name in WireSettings.model_fields}  # type: ignore[operator, misc]
    names = {line.split("`")[1].split(".")[0] for line in settings_table().splitlines()[2:]}
    assert names <= known | aliases


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        with_settings("# A page\n")
