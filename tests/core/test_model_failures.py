"""What went wrong is sorted by what is known best, and told in one sentence with a way out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_core.failures import failure_from_report, missing_key, retry_after_seconds
from agent_core.keys import KEY_VARIABLES, key_variables
from agent_core.model_names import provider_of
from agent_core.types import FailureKind as Kind

MODEL = "openai/gpt-5"


def error(message: str, **members: Any) -> str:
    return json.dumps({"error": {"message": message, **members}})


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        ({"status": 400, "body": error("bad")}, Kind.BAD_REQUEST),
        ({"status": 409, "body": error("conflict")}, Kind.BAD_REQUEST),
        ({"status": 413, "body": error("large")}, Kind.CONTEXT_TOO_LONG),
        ({"status": 400, "body": error("prompt is too long: 205000 tokens > 200000 maximum")}, Kind.CONTEXT_TOO_LONG),
        ({"status": 400, "body": error("x", code="context_length_exceeded")}, Kind.CONTEXT_TOO_LONG),
        ({"status": 500, "body": error("the request exceeds the context size")}, Kind.CONTEXT_TOO_LONG),
        ({"status": 400, "body": error("API key not valid. Please pass one.")}, Kind.AUTHENTICATION),
        ({"status": 400, "body": error("x", code="content_filter")}, Kind.CONTENT_FILTER),
        ({"status": 401, "body": error("maximum context")}, Kind.AUTHENTICATION),
        ({"status": 429, "body": error("too many tokens per minute; prompt is too long")}, Kind.RATE_LIMIT),
        ({"status": 429, "body": error("x", code="insufficient_quota")}, Kind.QUOTA),
        ({"status": 418, "body": ""}, Kind.BAD_REQUEST),
        ({"status": 502, "body": "<html>Bad gateway</html>"}, Kind.SERVER_ERROR),
        ({"status": 503, "body": ""}, Kind.OVERLOADED),
        ({"status": 504, "body": ""}, Kind.TIMEOUT),
        ({"status": 529, "body": ""}, Kind.OVERLOADED),
        ({"status": 200, "body": "<html>log in</html>"}, Kind.MALFORMED_REPLY),
        ({"status": 200, "fault": "ReadError: gone"}, Kind.CONNECTION),
        ({"status": 200, "fault": "TimeoutError: the time limit was reached"}, Kind.TIMEOUT),
        ({"fault": "ReadTimeout: slow", "error": "Timeout"}, Kind.TIMEOUT),
        ({"fault": "ConnectError: refused", "error": "InternalServerError"}, Kind.CONNECTION),
        ({"fault": "UnsupportedProtocol: no http", "error": "InternalServerError"}, Kind.BAD_REQUEST),
        ({"error": "Timeout", "message": "408"}, Kind.TIMEOUT),
        ({"error": "InternalServerError", "message": "The api_key client option must be set"}, Kind.AUTHENTICATION),
        ({"error": "UnsupportedParamsError", "message": "x does not support y"}, Kind.BAD_REQUEST),
        ({"error": "APIConnectionError", "message": "KeyError: 'id'"}, Kind.MALFORMED_REPLY),
        ({}, Kind.MALFORMED_REPLY),
    ],
)
def test_every_report_has_its_kind(report: dict[str, Any], kind: Kind) -> None:
    failure = failure_from_report(report, MODEL)
    assert failure.kind is kind
    sentence = str(failure)
    assert MODEL in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 600


def test_the_providers_own_words_are_told_and_the_whole_body_is_kept() -> None:
    body = error("so  sorry\nagain. ")
    failure = failure_from_report({"status": 500, "body": body}, MODEL)
    assert "(HTTP 500): so sorry again. " in str(failure)
    assert failure.raw == body
    html = failure_from_report({"status": 502, "body": "<h1>Bad</h1>\n<p>gateway</p>"}, MODEL)
    assert ": Bad gateway." in str(html)
    assert len(str(failure_from_report({"status": 500, "body": error("x" * 9000)}, MODEL))) < 600


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-4", 0.0),
        ("soon", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_read(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds


def test_the_variable_of_a_key_is_named() -> None:
    """CO-05."""
    told = "There is no key for openai/x. Set OPENAI_API_KEY in the environment that starts Handrail."
    assert str(missing_key("openai/x")) == told
    assert "Set ANTHROPIC_API_KEY." in str(failure_from_report({"status": 401}, "claude-sonnet-4-5"))
    assert "key of elsewhere" in str(failure_from_report({"status": 401}, "elsewhere/x"))


def test_providers_are_known_by_prefix_or_family() -> None:
    assert [provider_of(model) for model in ("openai/x", "claude-x", "gpt-5", "o3", "llama", "a/b/c")] == [
        *("openai", "anthropic", "openai", "openai", "", "a"),
    ]
    assert key_variables("gemini/gemini-2.5-pro")[0] == "GEMINI_API_KEY"
    assert key_variables("ollama_chat/llama3") == ()
    assert all(names for names in KEY_VARIABLES.values())


def test_an_unreachable_address_is_told_without_the_programs_own_objects() -> None:
    fault = "ClientConnectorError: Cannot connect to host 127.0.0.1:9 ssl:<ssl.SSLContext object at 0x7f> [refused]"
    failure = failure_from_report({"fault": fault}, "openai/m")
    assert "Cannot connect to host 127.0.0.1:9 [refused]" in str(failure)
