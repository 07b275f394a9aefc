"""The settings of a session, under the same names wherever a client gives them.

Invariants: what is left out keeps its default, which the core knows; an unknown member is refused. A client reads what
loosens (rules that allow, mode, apiBase, env, templates, sandbox off, paths) from the user's own scope alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from json import dumps
from typing import Literal

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from server.protocol.base import StrictParams
from server.protocol.words import Mode


class RuleExamples(StrictParams):
    """Command texts that a rule must and must not match; checked when the rule is loaded."""

    match: list[str] = Field(default=[], description="Commands that the rule matches.")
    no_match: list[str] = Field(default=[], description="Commands that the rule does not match.")


class Rule(StrictParams):
    """A rule about simple commands, by the words they begin with."""

    match: list[str] = Field(min_length=1, description='The words a command begins with; "*" is any one word.')
    decision: Literal["allow", "ask", "deny"] = Field(description="What happens to a command that matches.")
    why: str | None = Field(default=None, description="Shown to the person, and to the model if the rule denies.")
    examples: RuleExamples | None = Field(default=None, description="Checked when the rule is loaded.")


class Limits(StrictParams):
    """When a turn stops by itself. A member that is left out keeps its default; 0 is no limit."""

    max_steps: int | None = Field(default=None, ge=0, description="Steps in a turn.")
    max_cost: float | None = Field(
        default=None, ge=0, description="US dollars in a session; needs a model of known price."
    )
    max_seconds: float | None = Field(
        default=None, ge=0, description="Seconds of work in a turn, waiting for you left out."
    )
    max_format_errors: int | None = Field(default=None, ge=0, description="Malformed replies in a row.")
    max_repeats: int | None = Field(
        default=None, ge=0, description="Identical commands with identical results in a row."
    )
    max_rejections: int | None = Field(default=None, ge=0, description="Rejections without a reason in a row.")
    max_turn_tokens: int | None = Field(default=None, ge=0, description="Tokens that a turn may use, input and output.")
    max_attempts: int | None = Field(default=None, ge=1, description="Attempts per query, the first included.")


class CommandSettings(StrictParams):
    """How commands run."""

    timeout: float | None = Field(default=None, gt=0, description="Seconds a command may run.")
    output_limit: int | None = Field(default=None, gt=0, description="Bytes of output that the model is shown.")
    memory_limit: int | None = Field(default=None, gt=0, description="Bytes of memory that a command may use (Linux).")
    process_limit: int | None = Field(default=None, gt=0, description="Processes that a command may have (Linux).")
    env: dict[str, str] | None = Field(default=None, description="Variables added to a command's environment.")
    inherit: list[str] | None = Field(default=None, description="More names of variables passed on to commands.")


class Templates(StrictParams):
    """Jinja2 templates of what the model is told."""

    system: str | None = Field(default=None, description="The system prompt.")
    task: str | None = Field(default=None, description="A prompt of the person; `task` holds their words.")
    observation: str | None = Field(default=None, description="What became of a call; `output` holds the result.")
    format_error: str | None = Field(default=None, description="What was wrong with a reply; `error` says it.")


class Settings(StrictParams):
    """Settings of a session. What loosens (rules that allow, mode, apiBase, env, templates, sandbox off, paths) counts
    only from the user's own scope; a client never reads it from a workspace's files.
    """  # noqa: D205

    model: str | None = Field(
        default=None, description="The model's name, as litellm takes it, such as `openai/gpt-5`."
    )
    models: list[str] | None = Field(default=None, description="Several models that are asked instead of `model`.")
    rotation: Literal["in_turn", "random"] | None = Field(default=None, description="Which of `models` is asked next.")
    dialect: Literal["chat", "responses", "anthropic", "text"] | None = Field(
        default=None, description="How to speak to the model; by default it follows from the name."
    )
    api_base: str | None = Field(
        default=None, description="The provider's address, as its own client takes it (OpenAI: with /v1)."
    )
    model_options: str | None = Field(
        default=None, description="A JSON object as text, passed to the provider as it is; an object is taken as well."
    )
    ca_bundle: str | None = Field(default=None, description="File with the certificates to check the provider by.")
    price_file: str | None = Field(
        default=None, description="A JSON file with prices of models, over the built-in ones."
    )
    images: bool | None = Field(
        default=None, description="Whether marked images in a command's output reach the model."
    )
    max_tokens: int | None = Field(default=None, gt=0, description="Tokens that one reply may have.")
    stream: bool | None = Field(default=None, description="Whether replies are streamed.")
    request_timeout: float | None = Field(default=None, gt=0, description="Seconds that one query may take.")
    completion: Literal["reply", "submit"] | None = Field(
        default=None, description="What ends a turn: a reply without a call, or the submission of the work."
    )
    mode: Mode | None = Field(
        default=None,
        description="ask: only what you remembered runs; rules: allow rules too; plan: only reading; "
        "trusted: all that no rule stops.",
    )
    rules: list[Rule | str] | None = Field(default=None, description='Rules, or names of shipped sets ("read-only").')
    limits: Limits | None = Field(default=None, description="When a turn stops by itself.")
    history_budget: int | None = Field(default=None, gt=0, description="Tokens of history sent to the model.")
    command: CommandSettings | None = Field(default=None, description="How commands run.")
    templates: Templates | None = Field(default=None, description="What the model is told.")
    approval_timeout: float | None = Field(
        default=None, ge=0, description="Seconds until an approval expires; 0: never."
    )
    replay: str | None = Field(default=None, description="A tape (file) that replaces the live model.")
    strict_replay: bool | None = Field(
        default=None, description="Whether a tape is left where a request differs at all."
    )
    record: str | None = Field(default=None, description="A file that the model's replies are recorded to.")
    sandbox: Literal["off", "read-only", "read-only+network", "workspace", "workspace+network"] | None = Field(
        default=None, description="What commands may touch, by bubblewrap; where it cannot be had, they are refused."
    )

    @model_validator(mode="before")
    @classmethod
    def _options_as_text(cls, data: object) -> object:
        """Take `modelOptions` as an object too, since people write it so; raw JSON travels as text from here on."""
        if not isinstance(data, Mapping):
            return data
        objects = {name: value for name, value in data.items() if to_camel(name) == "modelOptions"}
        if not any(isinstance(value, dict) for value in objects.values()):
            return data
        return {**data, **{name: dumps(value) for name, value in objects.items() if isinstance(value, dict)}}
