"""The one masker before every sink: known secret values and well-known key shapes become marked masks.

Invariants: pure. A masked stream equals the mask of the whole text, however it was split into chunks; a stream holds
back only the bytes in which a secret may still begin. Time is linear in the text: every pattern is bounded and can
start only once per token. Values that are short, plain words, numbers, or places (paths, addresses without
credentials) are never known secrets.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import quote

from agent_core.masks import SHAPE_MASK, mask_for
from agent_core.masks import holds_mask as holds_mask
from agent_core.secret_shapes import beginning_of, scan_shapes

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_DOTENV_ENTRY = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*=[ \t]*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\n]*))""",
    re.MULTILINE | re.DOTALL,
)
_PLACE = re.compile(r"(?:[a-z][a-z0-9+.-]*:/)?[~.]{0,2}/[^@=?]*")
_LONGEST_PLACE_PART = 24
_SHORTEST_SECRET = 8
_LONG_ENOUGH_BY_ITSELF = 16
_FEWEST_DISTINCT = 5
_CONTEXT = 16  # bytes before a text that its boundary check may look at

Span = tuple[int, int, bytes]
"""Where a secret begins and ends, and the mask that takes its place."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret, if its value is worth one."""
    return _SECRET_NAME.search(name) is not None


class Masker:
    """Knows this process's secrets by name and hides them; share one between all sinks of a session."""

    def __init__(self, secrets: Mapping[str, str], provider_keys: Collection[str] = ()) -> None:
        """Take `secrets` as name to value, and the names among them that are provider keys."""
        self._secrets = dict(secrets)
        self._provider_keys = tuple(name for name in self._secrets if name in provider_keys)
        self._names_by_form = _names_by_form(self._secrets)

    @classmethod
    def from_sources(
        cls,
        environ: Mapping[str, str],
        dotenv: str = "",
        provider_keys: Collection[str] = (),
        more: Iterable[str] = (),
    ) -> Masker:
        """Collect the known secrets of an environment, of a `.env` file's text and of `more` such texts.

        `provider_keys` are names of variables; they are secrets whatever their names are, if their values are worth it.
        """
        values: dict[str, dict[str, None]] = {}
        texts = (dotenv, *more)
        for name, value in [*environ.items(), *itertools.chain.from_iterable(map(_dotenv_entries, texts))]:
            if (name in provider_keys or is_secret_name(name)) and _worth_masking(value):
                values.setdefault(name, {})[value] = None
        # The same name with another value in another place is another secret.
        found = {_label(name, at): value for name, each in values.items() for at, value in enumerate(each)}
        return cls(found, provider_keys)

    def mask(self, text: str) -> str:
        """Return the text with known values as `<masked:NAME>` and well-known key shapes as `<masked:key>`."""
        data = text.encode("utf-8", "surrogatepass")
        spans, _ = self.scan(data, 0)
        return _replaced(data, 0, len(data), spans).decode("utf-8", "surrogatepass") if spans else text

    def stream(self) -> MaskingStream:
        """Return a masker for one stream of bytes that arrives in chunks."""
        return MaskingStream(self)

    def secrets_in(self, text: str) -> tuple[str, ...]:
        """Return the names of the known secrets whose value is in the text; `key` stands for a well-known shape."""
        data = text.encode("utf-8", "surrogatepass")
        names = {name for form, name in self._names_by_form.items() if form in data}
        known = tuple(name for name in self._secrets if name in names)
        return known or (("key",) if scan_shapes(data, 0)[0] else ())

    def holds_provider_key(self, text: str) -> bool:
        """Whether a provider key is in the text, as it is or as JSON or an address would write it."""
        data = text.encode("utf-8", "surrogatepass")
        return any(form in data for form, name in self._names_by_form.items() if name in self._provider_keys)

    def scan(self, data: bytes, start: int) -> tuple[list[Span], int]:
        """Return the secrets in `data[start:]`, in order, and where one may still begin that the end cuts off.

        Secrets that overlap are one; the second number is `len(data)` if the end cuts nothing off.
        """
        shapes, held = scan_shapes(data, start)
        found: list[Span] = [(first, last, SHAPE_MASK) for first, last in shapes]
        for form, name in self._names_by_form.items():
            at = data.find(form, start)
            while at >= 0:
                found.append((at, at + len(form), mask_for(name)))
                at = data.find(form, at + 1)
            held = min(held, beginning_of(form, data, start))
        spans = _merged(found)
        # A secret is let go whole or not at all.
        return spans, next((first for first, last, _ in spans if first < held < last), held)


class MaskingStream:
    """Masks one stream of bytes; what `feed` and `finish` return, put together, is the masked stream."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._before = b""  # the last bytes that were let go, which a boundary check may need
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next chunk and return the masked bytes that are safe to emit, perhaps none."""
        return self._advance(chunk, final=False)

    def finish(self) -> bytes:
        """Return what was held back, masked; the stream is over."""
        return self._advance(b"", final=True)

    def _advance(self, chunk: bytes, *, final: bool) -> bytes:
        data = self._before + self._held + chunk
        start = len(self._before)
        spans, held = self._masker.scan(data, start)
        end = len(data) if final else held
        self._before, self._held = data[max(0, end - _CONTEXT) : end], data[end:]
        return _replaced(data, start, end, spans)


def _label(name: str, number: int) -> str:
    return name + ("" if number == 0 else ".env" if number == 1 else f".env.{number}")


def _replaced(data: bytes, start: int, end: int, spans: list[Span]) -> bytes:
    pieces: list[bytes] = []
    for first, last, mask in spans:
        if first >= end:
            break
        pieces += (data[start:first], mask)
        start = last
    return b"".join([*pieces, data[start:end]])


def _merged(found: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for first, last, mask in sorted(found):
        if merged and first < merged[-1][1]:
            begin, end, earlier = merged[-1]
            merged[-1] = (begin, max(end, last), mask if earlier == SHAPE_MASK else earlier)
        else:
            merged.append((first, last, mask))
    return merged


def _names_by_form(secrets: Mapping[str, str]) -> dict[bytes, str]:
    """Return every form in which a secret may be written, with its name; of equal values the first name counts."""
    forms: dict[bytes, str] = {}
    for name, value in secrets.items():
        lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
        in_json = json.dumps(value)[1:-1]
        for form in (value, in_json, quote(value, safe=""), *(line for line in lines if _worth_masking(line))):
            forms.setdefault(form.encode("utf-8", "surrogatepass"), name)
    return forms


def _worth_masking(value: str) -> bool:
    """Whether a value is long and varied enough to be a secret, and not a number, a word or a place."""
    value = value.strip()
    if len(value) < _SHORTEST_SECRET or len(set(value)) < _FEWEST_DISTINCT:
        return False
    if _PLACE.fullmatch(value) and all(len(part) < _LONGEST_PLACE_PART for part in value.split("/")):
        return False
    kinds = (str.islower, str.isupper, str.isdigit, lambda character: not character.isalnum())
    varied = sum(any(map(kind, value)) for kind in kinds) > 1
    return varied or len(value) >= _LONG_ENOUGH_BY_ITSELF


def _dotenv_entries(text: str) -> Iterator[tuple[str, str]]:
    for entry in _DOTENV_ENTRY.finditer(text):
        value = entry["double"] if entry["double"] is not None else entry["single"]
        if value is None:
            value = re.split(r"\s#", entry["bare"], maxsplit=1)[0].strip()
        yield entry["name"], value
        if entry["double"] and "\\n" in value:
            yield entry["name"], value.replace("\\n", "\n")
