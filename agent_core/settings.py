"""The settings of a session: one model, every field told, layered from defaults over the user's file to the client's.

Invariants: an unknown name is refused with the nearest known one; an error names the source, the setting and the way
out; settings hold no secrets (provider keys come from the environment only). Names are snake_case in the
code and camelCase to people, on the wire and in files; a file may write them either way.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from agent_core.errors import SettingsError
from agent_core.regular_files import read_regular, why_unread
from agent_core.types import Limits
from agent_core.wrong_values import place_of, wrong_values

WORKSPACE_FILE = ".handrail.toml"
_MOST_BYTES = 1 << 20


class Strict(BaseModel):
    """Base of all settings: frozen, nothing unknown."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class RuleExamples(Strict):
    """Command texts that a rule must and must not match, checked when it loads."""

    match: list[str] = Field(default=[], description="Commands that the rule matches.")
    no_match: list[str] = Field(default=[], description="Commands that the rule does not match.")


class RuleSettings(Strict):
    """One rule about simple commands, by the words they begin with."""

    match: list[str] = Field(min_length=1, description='The words a command begins with; "*" stands for any one.')
    decision: Literal["allow", "ask", "deny"] = Field(description="What happens to a command that matches.")
    why: str = Field(default="", description="Shown to the person, and to the model if the rule denies.")
    examples: RuleExamples = Field(default=RuleExamples(), description="Checked when the rule loads.")


class LimitSettings(Strict):
    """When a turn stops by itself; 0 is no limit."""

    max_steps: int = Field(default=100, ge=0, description="Steps in a turn.")
    max_cost: float = Field(default=0.0, ge=0, description="US dollars in a session; needs a model of known price.")
    max_seconds: float = Field(default=0.0, ge=0, description="Seconds of work in a turn, waiting for you left out.")
    max_format_errors: int = Field(default=3, ge=0, description="Malformed replies in a row.")
    max_repeats: int = Field(default=5, ge=0, description="Identical commands with identical results in a row.")
    max_rejections: int = Field(default=3, ge=0, description="Rejections without a reason in a row.")
    max_turn_tokens: int = Field(default=0, ge=0, description="Tokens that a turn may use, input and output.")
    max_attempts: int = Field(default=4, ge=1, description="Attempts per query, the first included.")

    def for_machine(self) -> Limits:
        """Return the limits that the step machine keeps."""
        return Limits(
            self.max_steps,
            self.max_cost or None,
            self.max_seconds or None,
            self.max_format_errors,
            self.max_repeats,
            self.max_rejections,
            self.max_turn_tokens,
        )


class CommandSettings(Strict):
    """How commands run."""

    timeout: float = Field(default=120.0, gt=0, description="Seconds a command may run.")
    output_limit: int = Field(default=16_000, ge=200, description="Bytes of output that the model is shown.")
    memory_limit: int | None = Field(default=None, gt=0, description="Bytes of memory that a command may use (Linux).")
    process_limit: int | None = Field(default=None, gt=0, description="Processes that a command may have (Linux).")
    env: dict[str, str] = Field(default={}, description="Variables added to a command's environment.")
    inherit: list[str] = Field(default=[], description="More names of variables passed on to commands.")


class TemplateSettings(Strict):
    """Jinja2 templates of what the model is told; null is the built-in one."""

    system: str | None = Field(default=None, description="The system prompt.")
    task: str | None = Field(default=None, description="A prompt of the person; `task` holds their words.")
    observation: str | None = Field(default=None, description="What became of a call; `output` holds the result.")
    format_error: str | None = Field(default=None, description="What was wrong with a reply; `error` says it.")


class Settings(Strict):
    """All settings of a session."""

    model: str = Field(default="", description="The model's name, as litellm takes it, such as `openai/gpt-5`.")
    models: list[str] = Field(default=[], description="Several models that are asked instead of `model`.")
    rotation: Literal["in_turn", "random"] = Field(default="in_turn", description="Which of `models` is asked next.")
    dialect: Literal["chat", "responses", "anthropic", "text"] | None = Field(
        default=None, description="How to speak to the model; by default it follows from the name."
    )
    api_base: str | None = Field(
        default=None, description="The provider's address, as its own client takes it (OpenAI: with /v1)."
    )
    model_options: dict[str, JsonValue] = Field(default={}, description="Passed to the provider as they are.")
    ca_bundle: str | None = Field(default=None, description="File with the certificates to check the provider by.")
    price_file: str | None = Field(
        default=None, description="A JSON file with prices of models, over the built-in ones."
    )
    images: bool = Field(default=False, description="Whether marked images in a command's output reach the model.")
    max_tokens: int = Field(default=8192, gt=0, description="Tokens that one reply may have.")
    stream: bool = Field(default=True, description="Whether replies are streamed.")
    request_timeout: float = Field(default=300.0, gt=0, description="Seconds that one query may take.")
    completion: Literal["reply", "submit"] = Field(
        default="reply", description="What ends a turn: a reply without a call, or the submission of the work."
    )
    mode: Literal["ask", "rules", "plan", "trusted"] = Field(
        default="ask",
        description="ask: only what you remembered runs; rules: allow rules too; plan: only reading; "
        "trusted: all that no rule stops.",
    )
    rules: list[RuleSettings | str] = Field(default=[], description='Rules, or names of shipped sets ("read-only").')
    limits: LimitSettings = Field(default=LimitSettings(), description="When a turn stops by itself.")
    history_budget: int | None = Field(default=None, gt=0, description="Tokens of history sent to the model.")
    command: CommandSettings = Field(default=CommandSettings(), description="How commands run.")
    templates: TemplateSettings = Field(default=TemplateSettings(), description="What the model is told.")
    approval_timeout: float = Field(default=0.0, ge=0, description="Seconds until an approval expires; 0: never.")
    replay: str | None = Field(default=None, description="A tape (file) that replaces the live model.")
    strict_replay: bool = Field(default=False, description="Whether a tape is left where a request differs at all.")
    record: str | None = Field(default=None, description="A file that the model's replies are recorded to.")
    sandbox: Literal["off", "read-only", "read-only+network", "workspace", "workspace+network"] = Field(
        default="off", description="What commands may touch, by bubblewrap; where it cannot be had, they are refused."
    )

    def over(self, changes: Mapping[str, Any], source: str) -> Settings:
        """Return these settings with `changes` (nested) over them; `source` is named in errors."""
        return build(_merged(self.model_dump(), changes, source), source)


def build(values: Mapping[str, Any], source: str) -> Settings:
    """Return checked settings; raises `SettingsError` that names every fault of `source`."""
    try:
        return Settings.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError(f"{source}: {'; '.join(_problems(error))}.") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a settings file, none if there is no file; raises `SettingsError` with path and line."""
    try:
        data = read_regular(path, _MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise SettingsError(f"The settings file {path} is larger than {_MOST_BYTES} bytes. Shorten it.")
        return tomllib.loads(data.decode())
    except FileNotFoundError:
        return {}
    except RecursionError:
        raise SettingsError(f"The settings file {path} is nested too deeply. Correct it.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = f"The settings file {path} cannot be read: {why_unread(error)}. Correct it, or move it away."
        raise SettingsError(told) from None


def workspace_rules(path: Path) -> list[RuleSettings]:
    """Return the rules of a workspace's file; raises `SettingsError` for anything else in it: none is missed."""
    values = read_toml(path)
    if others := sorted(set(values) - {"rules"}):
        told = ", ".join(f"`{each}`" for each in others)
        raise SettingsError(
            f"The workspace's file {path} may hold `rules` and nothing else, but it has {told}. "
            "Correct the name, or move it to your own settings.",
        )
    rules = build(values, str(path)).rules
    if sets := [each for each in rules if isinstance(each, str)]:
        raise SettingsError(f"The workspace's file {path} names the set {sets[0]!r}; only your own settings may.")
    return [each for each in rules if isinstance(each, RuleSettings)]


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any], source: str) -> dict[str, Any]:
    if twice := [name for name in changes if _OWN_NAMES.get(name, name) != name and _OWN_NAMES[name] in changes]:
        raise SettingsError(f"{source}: `{twice[0]}` is set twice, also as `{_OWN_NAMES[twice[0]]}`; leave one out.")
    named = {_OWN_NAMES.get(name, name): value for name, value in changes.items()}
    nested = {
        name: _merged(base[name], value, source)
        for name, value in named.items()
        if name in _NESTED and isinstance(value, Mapping)
    }
    return {**base, **named, **nested}


_NESTED = ("limits", "command", "templates")
_NAMES: dict[str, type[BaseModel]] = {
    "": Settings,
    "limits": LimitSettings,
    "command": CommandSettings,
    "templates": TemplateSettings,
    "rules": RuleSettings,
}
_OWN_NAMES = {to_camel(name): name for model in _NAMES.values() for name in model.model_fields}


def _problems(error: ValidationError) -> Iterator[str]:
    unknown = {place_of(each) for each in error.errors() if each["type"] == "extra_forbidden"}
    for place, why in wrong_values(error):
        yield _unknown(place) if place in unknown else f"`{place}`: {why}"


def _unknown(place: str) -> str:
    group, _, name = place.rpartition(".")
    names = [to_camel(each) for each in _NAMES.get(group.partition(".")[0], Settings).model_fields]
    near = get_close_matches(to_camel(name), names, n=1, cutoff=0.6)
    hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names)}"
    return f"there is no setting `{place}`; {hint}"
