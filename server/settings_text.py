"""The settings as text for a person: their JSON Schema, and what is in force with secrets masked.

Invariants: what is shown is what a new session would have; no known secret is printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import ValidationError

from agent_core.errors import SettingsError
from agent_core.redaction import Masker
from agent_core.settings import Settings
from agent_core.stored_settings import to_stored
from agent_core.wrong_values import wrong_values
from server.convert import settings_of
from server.protocol import Settings as WireSettings
from server.registry import layered_settings


def refused(error: ValidationError) -> str:
    """Return which values are wrong, and why."""
    return "; ".join(f"{place}: {why}" if place else why for place, why in wrong_values(error))


def schema() -> str:
    """Return the JSON Schema of the settings file."""
    return json.dumps(Settings.model_json_schema(), indent=2, ensure_ascii=False)


def in_force(environ: Mapping[str, str], given: WireSettings) -> str:
    """Return the settings of a new session as JSON text; raises `ValueError` with a sentence if they are wrong."""
    try:
        settings = layered_settings(environ, {}, settings_of(given))
    except SettingsError as error:
        raise ValueError(str(error)) from None
    stored = json.loads(to_stored(settings, Masker.from_sources(environ)))
    shown = Settings.model_validate(stored).model_dump(mode="json", by_alias=True)
    return json.dumps(shown, indent=2, ensure_ascii=False)
