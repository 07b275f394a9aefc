"""How a session's settings are kept in the journal: without secrets, and readable by later versions.

Invariants: no value that a person may have put under a secret's name, and no known secret, is written; what was left
out for that reason is not there when the session is loaded, so that no mask is ever sent as a key.
"""

from __future__ import annotations

import json
from typing import Any

from agent_core.errors import SettingsError
from agent_core.redaction import Masker, holds_mask, is_secret_name
from agent_core.settings import Settings, build

_MORE_SECRET_NAMES = ("authorization", "cookie")


def to_stored(settings: Settings, masker: Masker) -> str:
    """Return the settings as JSON text for the journal."""
    values = settings.model_dump(mode="json")
    values["model_options"] = _without_secrets(values["model_options"])
    values["command"]["env"] = _without_secrets(values["command"]["env"])
    return masker.mask(json.dumps(values, ensure_ascii=False))


def from_stored(text: str) -> Settings:
    """Return the settings of a stored session; `trusted` is not restored, and what was masked is left out."""
    try:
        values = _without_masks(json.loads(text))
    except json.JSONDecodeError as error:
        raise SettingsError(f"The stored settings of the session are damaged: {error}.") from None
    if values.get("mode") == "trusted":
        values["mode"] = "ask"
    return build(values, "The stored session's settings")


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_secrets(each) for name, each in value.items() if not _is_secret(name)}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value


def _without_masks(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if not (isinstance(each, str) and holds_mask(each))}
        return {name: _without_masks(each) for name, each in kept.items()}
    return [_without_masks(each) for each in value] if isinstance(value, list) else value


def _is_secret(name: str) -> bool:
    return is_secret_name(name) or any(each in name.lower() for each in _MORE_SECRET_NAMES)
