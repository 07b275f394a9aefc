"""Templates of what the model is told: compiled and dry-rendered when settings load, then only filled.

Invariants: a template sees named values only, never the environment or a secret; an undefined name is an error at load,
not at step 40; what a template is filled with is never read as a template.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agent_core.errors import SettingsError
from agent_core.settings import TemplateSettings

SYSTEM = """\
You are a careful software engineer who works in a project through one tool, `bash`.

- A person sees every command before it runs and may edit or reject it; a rejection comes with their reason: heed it.
- Each command starts fresh in {{ cwd }}: no folder, variable or shell option survives from one call to the next.
- Commands have no terminal and no input; use non-interactive forms. They end after {{ timeout }} seconds.
- Look before you change, change as little as needed, and check your work by running it.
{% if completion == "submit" -%}
- When the work is done, run a command that prints COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT as its first line; the rest of
  its output is your submission.
{%- else -%}
- When the work is done, or you need an answer, reply without a call.
{%- endif %}

The system is {{ system }} {{ release }} on {{ machine }}; the shell is {{ shell }}.
"""

TASK = "{{ task }}"

OBSERVATION = """\
{% if output.exception_info %}<exception>{{ output.exception_info }}</exception>
{% endif %}{% if output.note %}<note>{{ output.note }}</note>
{% endif %}<returncode>{{ output.returncode }}</returncode>
<output>
{{ output.output or "(no output)\n" }}</output>"""

FORMAT_ERROR = "{{ error }}"


@dataclass(frozen=True, slots=True)
class Output:
    """What an observation template sees of one call; a call that did not run has returncode -1 and says why."""

    output: str
    returncode: int
    exception_info: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Templates:
    """A session's compiled templates."""

    system: Template
    task: Template
    observation: Template
    format_error: Template


def load(settings: TemplateSettings) -> Templates:
    """Compile and try all templates; raises `SettingsError` that names the template, the line and the reason."""
    return Templates(
        _compiled("system", settings.system or SYSTEM),
        _compiled("task", settings.task or TASK),
        _compiled("observation", settings.observation or OBSERVATION),
        _compiled("format_error", settings.format_error or FORMAT_ERROR),
    )


def session_values(cwd: str, shell: str, timeout: float, completion: str, model: str) -> dict[str, Any]:
    """Return the values that all templates of a session see."""
    return {
        "cwd": cwd,
        "shell": shell,
        "timeout": f"{timeout:g}",
        "completion": completion,
        "model": model,
        **_platform(),
    }


def progress_values(replies: int, cost: float | None, seconds: float) -> dict[str, Any]:
    """Return how far the session is, as templates see it; an unknown cost is None."""
    return {"n_model_calls": replies, "model_cost": cost, "elapsed_seconds": round(seconds, 1)}


@cache
def _platform() -> Mapping[str, str]:
    uname = platform.uname()
    return {"system": uname.system, "release": uname.release, "version": uname.version, "machine": uname.machine}


_environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)

_SAMPLE = {
    **session_values("/project", "/bin/bash", 60.0, "reply", "model"),
    **progress_values(1, 0.5, 2.0),
}
_SAMPLES: dict[str, dict[str, Any]] = {
    "system": {},
    "task": {"task": "Repair the test."},
    "observation": {"output": Output("text\n", 0, "", "note"), "command": "ls"},
    "format_error": {"error": "What was wrong.", "actions": [], "has_tool_calls": True, "finish_reason": "stop"},
}


@cache
def _compiled(name: str, source: str) -> Template:
    try:
        template = _environment.from_string(source)
        template.render({**_SAMPLE, **_SAMPLES[name]})
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        known = ", ".join(sorted({**_SAMPLE, **_SAMPLES[name]}))
        raise SettingsError(
            f"The template `{name}` cannot be used: {error.message}{f' (line {line})' if line else ''}. "
            f"It may use: {known}.",
        ) from None
    except Exception as error:
        raise SettingsError(f"The template `{name}` cannot be filled: {error}.") from None
    return template
