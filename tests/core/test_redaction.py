"""Known secrets never pass the masker, whole or in pieces, and nothing else is touched."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.redaction import Masker, holds_mask

KEY = "sk-test-0123456789abcdefghij"
ENVIRON = {
    "OPENAI_API_KEY": KEY,
    "GH_TOKEN": "tok3n-of-the-hub",
    "DB_PASSWORD": 'pa"ss\\w0rd/ü',
    "PORT_TOKEN": "3000",
    "ADMIN_PASSWORD": "admin",
    "KEY_FILE": "/home/someone/keys/private.json",
    "KEYCLOAK_URL": "http://localhost:8080/auth",
    "PATH": "/usr/bin:/bin",
}
SHAPES = [
    KEY,
    "sk-ant-api03-" + "Ab1_-" * 18,
    "ghp_" + "aB3" * 12,
    "github_pat_" + "aB3_" * 15,
    "glpat-" + "aB3-" * 5,
    "AKIA" + "ABCDEFGH12345678",
    "AIza" + "aB3_-" * 7,
    "xoxb-1234567890-abcdef",
    "hf_" + "aB3" * 11,
    "npm_" + "aB3" * 12,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLXNpZ25hdHVyZQ",
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA\n" * 20,
    "-----BEGIN PRIVATE KEY-----\\n" + "MIIEowIBAAKCAQEA\\n" * 4,
]


@pytest.fixture(scope="module")
def masker() -> Masker:
    return Masker.from_sources(ENVIRON, "LOCAL_SECRET='from-the-file-1' # why\n", ["OPENAI_API_KEY"])


def streamed(masker: Masker, chunks: list[bytes]) -> bytes:
    stream = masker.stream()
    return b"".join([*(stream.feed(chunk) for chunk in chunks), stream.finish()])


def test_known_values_become_named_masks_se_01_se_03(masker: Masker) -> None:
    assert masker.mask(f"a {KEY} b tok3n-of-the-hub c") == "a <masked:OPENAI_API_KEY> b <masked:GH_TOKEN> c"
    assert masker.mask("LOCAL_SECRET='from-the-file-1'") == "LOCAL_SECRET='<masked:LOCAL_SECRET>'"


def test_numbers_words_and_places_stay(masker: Masker) -> None:
    text = "listening on 3000 as admin, /home/someone/keys/private.json, http://localhost:8080/auth /usr/bin:/bin"
    assert masker.mask(text) == text


def test_escaped_forms_are_known(masker: Masker) -> None:
    assert "w0rd" not in masker.mask(json.dumps({"password": ENVIRON["DB_PASSWORD"]}))
    assert "w0rd" not in masker.mask("?p=pa%22ss%5Cw0rd%2F%C3%BC")


@pytest.mark.parametrize("shape", SHAPES)
def test_well_known_shapes_are_masked(shape: str) -> None:
    masker = Masker.from_sources({})
    for before in ("", "x=", "\n", '"', "\x1b[01;31m", "\\n", "%3D"):
        masked = masker.mask(f"{before}{shape} tail")
        assert masked == f"{before}<masked:key> tail", before


@pytest.mark.parametrize(
    "text", ["Authorization: Bearer abcdef0123456789abcdef", "https://h/x?key=abcdef0123456789abcdef"]
)
def test_header_and_address_are_masked_se_05(text: str) -> None:
    masked = Masker.from_sources({}).mask(text)
    assert "0123" not in masked
    assert masked.endswith(("Bearer <masked:key>", "?key=<masked:key>"))


@pytest.mark.parametrize(
    "text",
    [
        "task-management-system-design",
        "sk-learn-contrib-extra-package",
        "disk-0123456789abcdefghij",
        "----- BEGIN -----",
        "the bearer of this letter",
        "x = text.startswith('-----BEGIN RSA PRIVATE KEY-----')",
    ],
)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert Masker.from_sources({}).mask(text) == text


def test_overlapping_secrets_leave_no_rest() -> None:
    masker = Masker({"A": "abcdefgh-12", "B": "gh-1234567", "C": "cdefgh-1"})
    assert masker.mask("[abcdefgh-1234567]") == "[<masked:A>]"


def test_a_secret_split_at_any_place_is_masked(masker: Masker) -> None:
    for secret in [*SHAPES, "tok3n-of-the-hub", ENVIRON["DB_PASSWORD"]]:
        data = f"before {secret} after".encode()
        whole = masker.mask(data.decode()).encode()
        assert secret.encode() not in whole
        for cut in range(len(data)):
            assert streamed(masker, [data[:cut], data[cut:]]) == whole, (secret, cut)
        assert streamed(masker, [data[i : i + 1] for i in range(len(data))]) == whole


pieces = st.sampled_from(
    [
        *SHAPES,
        KEY[:9],
        "tok3n-of-the-hub",
        "tok3n-of",
        "ghp_",
        "-----BEGIN ",
        "sk-",
        "eyJ",
        ".",
        " ",
        "\n",
        "\x1b[m",
        "Bearer ",
        "é",
    ],
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces | st.text(max_size=6), max_size=8).map("".join), st.lists(st.integers(0, 400), max_size=6))
def test_a_stream_equals_the_whole(masker: Masker, text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[a:b] for a, b in itertools.pairwise(places)]
    assert streamed(masker, chunks).decode("utf-8", "surrogatepass") == masker.mask(text)


def test_a_stream_holds_back_only_what_may_begin_a_secret(masker: Masker) -> None:
    stream = masker.stream()
    assert stream.feed(b"50% done") == b"50% done"
    assert stream.feed(b" and tok3n-of") == b" and "
    assert stream.feed(b"!") == b"tok3n-of!"
    assert stream.feed(b"\xff\xfe\n") == b"\xff\xfe\n"
    assert stream.finish() == b""


def test_what_is_in_a_command(masker: Masker) -> None:
    assert masker.secrets_in(f"curl -H {KEY} tok3n-of-the-hub") == ("OPENAI_API_KEY", "GH_TOKEN")
    assert masker.secrets_in("echo ghp_" + "aB3" * 12) == ("key",)
    assert masker.secrets_in("echo hello") == ()
    assert masker.holds_provider_key(f"echo {KEY}")
    assert not masker.holds_provider_key("echo tok3n-of-the-hub")
    assert holds_mask(masker.mask(KEY))
    assert holds_mask("echo <masked:key>")
    assert not holds_mask("echo '<masked>' masked:key")


def test_the_two_values_of_one_name_are_both_known() -> None:
    masker = Masker.from_sources(
        {"API_KEY": "first-value-1"}, 'API_KEY="second-value-2"\nexport B_TOKEN=third_value-3 # c'
    )
    assert masker.mask("first-value-1 second-value-2 third_value-3") == (
        "<masked:API_KEY> <masked:API_KEY.env> <masked:B_TOKEN>"
    )


def test_each_file_may_give_the_same_name_another_value() -> None:
    texts = ["A_KEY='first-value-1", "A_KEY=second-value-2", "A_KEY=third-value-3", "A_KEY=second-value-2"]
    masker = Masker.from_sources({}, texts[0], more=texts[1:])
    assert masker.mask("second-value-2 third-value-3") == "<masked:A_KEY.env> <masked:A_KEY.env.2>"
    assert holds_mask("<masked:A_KEY.env.2>")


def test_lines_of_a_long_secret_are_known() -> None:
    masker = Masker.from_sources({}, 'SIGNING_KEY="first-line-0001\nsecond-line-0002"')
    assert masker.mask("x second-line-0002") == "x <masked:SIGNING_KEY>"


@pytest.mark.parametrize(
    "unit", ["sk-", "-eyJ", "-----BEGIN ", "0meyJ", "ghp_aaaa", "tok3n-of-the-hu", "Bearer a", "?key="]
)
def test_hostile_repetition_costs_linear_time(masker: Masker, unit: str) -> None:
    """Not a measure of speed: quadratic work on 600 kB would take minutes."""
    data = (unit * (600_000 // len(unit))).encode()
    before = time.process_time()
    streamed(masker, [data[i : i + 65536] for i in range(0, len(data), 65536)])
    assert time.process_time() - before < 20
