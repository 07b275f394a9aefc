"""What single vendors demand beyond their dialect: the form of call ids, and what of an earlier turn must come back.

Invariants: everything follows from the model's name, so the same history gives the same request every time.
"""

from __future__ import annotations

import hashlib
import re
import string
from dataclasses import dataclass

from agent_core.model_names import MISTRAL, provider_of

_PORTABLE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")

_IDS_BY_PROVIDER = {
    "openai": re.compile(r"[^\s\x00-\x1f]{1,64}"),
    "azure": re.compile(r"[^\s\x00-\x1f]{1,40}"),
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "bedrock": re.compile(r"[a-zA-Z0-9_.:-]{1,64}"),
}
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")

_REASONING_COMES_BACK = frozenset({"deepseek", "moonshot"})
_NO_NULL_CONTENT = frozenset({"hosted_vllm", "vllm", "llamafile", "lm_studio", "ollama", "ollama_chat", "oobabooga"})


@dataclass(frozen=True, slots=True)
class Vendor:
    """The target of a request, read from its model's name."""

    model: str

    @property
    def provider(self) -> str:
        """The provider's name."""
        return provider_of(self.model)

    @property
    def wants_reasoning(self) -> bool:
        """Whether `reasoning_content` must stand in every earlier assistant turn."""
        return self.provider in _REASONING_COMES_BACK

    @property
    def refuses_null_content(self) -> bool:
        """Whether `content: null` beside calls must be written as an empty text."""
        return self.provider in _NO_NULL_CONTENT

    def takes_id(self, call_id: str, maker: str) -> bool:
        """Whether an id, made by the model `maker`, may be sent to this vendor as it is.

        A vendor always gets its own form back. What others made has to fit what the vendor is known to accept, or,
        if nothing is known of it, a form that no vendor refuses.
        """
        if not call_id:
            return False
        if maker == self.model:
            return True
        pattern = self._id_pattern
        if pattern is None:
            return provider_of(maker) == self.provider or _PORTABLE_ID.fullmatch(call_id) is not None
        return pattern.fullmatch(call_id) is not None

    def make_id(self, key: str, attempt: int) -> str:
        """Return an id in a form that this vendor accepts; the same for the same key and attempt, always."""
        digest = hashlib.sha256(f"{attempt}:{key}".encode(errors="replace")).digest()
        if self._id_pattern is _MISTRAL_ID:
            number = int.from_bytes(digest, "big")
            alphabet = string.ascii_letters + string.digits
            return "".join(alphabet[number // len(alphabet) ** place % len(alphabet)] for place in range(9))
        return f"call_{digest.hex()[:24]}"

    @property
    def _id_pattern(self) -> re.Pattern[str] | None:
        return _MISTRAL_ID if MISTRAL.search(self.model) else _IDS_BY_PROVIDER.get(self.provider)
