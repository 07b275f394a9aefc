"""Sorts what went wrong with a call to a provider into one `FailureKind` and one sentence.

Invariants: pure; sorted by status, body and transport first, by litellm's class only where there is nothing else (it
calls a refused connection and a missing key status 500); what is not understood is never tried again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agent_core.errors import ProviderFailure
from agent_core.keys import key_variables
from agent_core.model_names import provider_of
from agent_core.types import FailureKind

_BY_STATUS = {
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.QUOTA,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    413: FailureKind.CONTEXT_TOO_LONG,
    425: FailureKind.OVERLOADED,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}
_BY_TEXT = (
    (
        FailureKind.CONTEXT_TOO_LONG,
        re.compile(
            r"context.length|context.window|maximum context|context size|prompt is too long|too many (?:input )?tokens|"
            r"input is too long|exceeds? the (?:model'?s )?(?:maximum|context)|input token count|above_max_length",
            re.IGNORECASE,
        ),
    ),
    (
        FailureKind.QUOTA,
        re.compile(r"insufficient_quota|exceeded your current quota|credit balance|billing", re.IGNORECASE),
    ),
    (
        FailureKind.AUTHENTICATION,
        re.compile(r"api[ _]key not valid|invalid[ _]api[ _]key|incorrect api key", re.IGNORECASE),
    ),
    (
        FailureKind.CONTENT_FILTER,
        re.compile(r"content_filter|content management policy|content_policy|policy_violation", re.IGNORECASE),
    ),
)
_BY_TYPE = (
    ("overloaded", FailureKind.OVERLOADED),
    ("rate_limit", FailureKind.RATE_LIMIT),
    ("authentication", FailureKind.AUTHENTICATION),
    ("permission", FailureKind.PERMISSION),
    ("not_found", FailureKind.NOT_FOUND),
    ("timeout", FailureKind.TIMEOUT),
    ("server_error", FailureKind.SERVER_ERROR),
    ("api_error", FailureKind.SERVER_ERROR),
    ("invalid_request", FailureKind.BAD_REQUEST),
)
"""Words in the names that providers give to errors; only for errors that came without a status of their own."""
_TOLD_BY_TEXT = (400, 413, 422, 500)  # statuses that say too little by themselves
_SENTENCES = {
    FailureKind.AUTHENTICATION: "{who} refused the key{status}: {told}. {key}",
    FailureKind.PERMISSION: "{who} does not let this key use it{status}: {told}. Use another key or another model.",
    FailureKind.NOT_FOUND: "{who} was not found{status}: {told}. Check the model's name and apiBase.",
    FailureKind.BAD_REQUEST: "{who} refused the request{status}: {told}. Check the model, modelOptions and dialect.",
    FailureKind.CONTEXT_TOO_LONG: (
        "The conversation is too long for {model}{status}: {told}. "
        "Compact it, start a new session, or use a model with a larger context."
    ),
    FailureKind.CONTENT_FILTER: "{who} withheld the reply by its content filter{status}: {told}. Reword the task.",
    FailureKind.QUOTA: "The quota or credit for {model} is used up{status}: {told}. Add credit or use another key.",
    FailureKind.RATE_LIMIT: "{who} limits the rate of calls{status}: {told}. Wait and go on.",
    FailureKind.OVERLOADED: "{who} is overloaded{status}: {told}. Wait and go on.",
    FailureKind.SERVER_ERROR: "{who} failed{status}: {told}. Wait and go on.",
    FailureKind.TIMEOUT: "{who} did not answer in time{status}: {told}. Go on, or raise requestTimeout.",
    FailureKind.CONNECTION: "{who} cannot be reached: {told}. Check the network, the proxy and apiBase.",
    FailureKind.MALFORMED_REPLY: "{who} gave something that is no reply{status}: {told}. Check apiBase and dialect.",
    FailureKind.EMPTY_REPLY: "{who} gave an empty reply{status}: {told}. Go on to ask again.",
}
_TOLD_LIMIT = 300
_OBJECT = re.compile(r"\bssl:<[^>]*>|<[\w.]+ object at 0x[0-9a-f]+>")
"""What Python prints of its own objects in a message: nothing for a person."""
_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"


def failure_from_report(report: Mapping[str, Any], model: str) -> ProviderFailure:
    """Return the failure of one call to `model`, from the worker's report of it (see `provider_worker`); not masked."""
    status, fault = report.get("status"), str(report.get("fault") or "")
    body, message = str(report.get("body") or ""), str(report.get("message") or "")
    kind = _kind(status, fault, body, message, str(report.get("error") or ""))
    told = _told(body) or (fault if not status else "") or message
    if _CERTIFICATE in fault:
        return ProviderFailure(
            FailureKind.BAD_REQUEST,
            f"The certificate of the server for {model} is not trusted. If it is yours, set caBundle to its CA file.",
            raw=fault,
        )
    return ProviderFailure(
        kind,
        sentence(kind, model, told, status=status),
        raw=body or message,
        retry_after=retry_after_seconds(report.get("retry_after")),
    )


def sentence(kind: FailureKind, model: str, told: str, *, status: int | None = None) -> str:
    """Return the sentence for a person: who failed, how, what it told, and the way out."""
    good = status is not None and status < 400
    return _SENTENCES.get(kind, "{who} gave no reply{status}: {told}.").format(
        who=f"The provider of {model}",
        model=model,
        status="" if status is None or good else f" (HTTP {status})",
        told=_short(told) or "no reason given",
        key=_key_advice(model),
    )


def missing_key(model: str) -> ProviderFailure:
    """Return the failure of a model whose key is not in the environment."""
    return ProviderFailure(
        FailureKind.AUTHENTICATION,
        f"There is no key for {model}. {_key_advice(model)[:-1]} in the environment that starts Handrail.",
    )


def reported_kind(code: int, words: str) -> FailureKind:
    """Return the kind of an error told inside a reply that began as a success: `code` is its number, 0 if none.

    `words` are the error's type, its code and its sentence.
    """
    if by_text := _kind_by_text(words):
        return by_text
    lowered = words.lower()
    by_status = _kind_by_status(code) if code >= 400 else FailureKind.SERVER_ERROR
    return next((kind for word, kind in _BY_TYPE if word in lowered), by_status)


def retry_after_seconds(header: str | None) -> float | None:
    """Read a Retry-After header, seconds or a date; None if there is none or it cannot be read."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _kind(status: int | None, fault: str, body: str, message: str, error: str) -> FailureKind:
    if status is None:
        return _kind_without_status(fault, message, error)
    if status >= 400:
        by_text = _kind_by_text(body)
        ambiguous = status in _TOLD_BY_TEXT or (status == 429 and by_text is FailureKind.QUOTA)
        return by_text if by_text and ambiguous else _kind_by_status(status)
    if fault.startswith("TimeoutError"):
        return FailureKind.TIMEOUT
    if fault:  # the status had come, and then the connection broke
        return FailureKind.CONNECTION
    return FailureKind.MALFORMED_REPLY


def _kind_by_status(status: int) -> FailureKind:
    return _BY_STATUS.get(status, FailureKind.SERVER_ERROR if status >= 500 else FailureKind.BAD_REQUEST)


def _kind_by_text(text: str) -> FailureKind | None:
    return next((kind for kind, pattern in _BY_TEXT if pattern.search(text)), None)


def _kind_without_status(fault: str, message: str, error: str) -> FailureKind:
    name = fault.partition(":")[0]
    if "Timeout" in name:
        return FailureKind.TIMEOUT
    if name in ("UnsupportedProtocol", "LocalProtocolError", "InvalidURL"):
        return FailureKind.BAD_REQUEST
    if name:
        return FailureKind.CONNECTION
    if error == "Timeout":
        return FailureKind.TIMEOUT
    if error == "AuthenticationError" or "api_key" in message:
        return FailureKind.AUTHENTICATION
    if "BadRequest" in error or "Unsupported" in error:
        return _kind_by_text(message) or FailureKind.BAD_REQUEST
    return FailureKind.MALFORMED_REPLY


def _told(body: str) -> str:
    """Return the provider's own words in a body, in whichever of the usual members they are."""
    try:
        value = json.loads(body)
    except ValueError:
        return re.sub(r"<[^>]*>|\s+", " ", body[:2000]).strip()
    for name in ("error", "message", "detail", "msg"):
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, Mapping) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value)


def _short(text: str) -> str:
    line = " ".join(_OBJECT.sub("", text).split()).rstrip(".")
    return line if len(line) <= _TOLD_LIMIT else line[: _TOLD_LIMIT - 1] + "…"


def _key_advice(model: str) -> str:
    variables = key_variables(model)
    if variables:
        return f"Set {variables[0]}."
    provider = provider_of(model)
    return f"Set the variable that holds the key of {provider}." if provider else "Set the provider's key variable."
