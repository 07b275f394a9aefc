"""Images inside a command's output, written in the marker that the reference agent's tools write (opt-in).

Invariants: without the option, text stays text. Only an image whose data is in the text counts as one: an address would
make the provider fetch whatever a command printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_IMAGE = re.compile(
    r"<MSWEA_MULTIMODAL_CONTENT><CONTENT_TYPE>image_url</CONTENT_TYPE>\s*"
    r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+?)\s*</MSWEA_MULTIMODAL_CONTENT>",
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its media type (`image/png`) and its data in base64."""

    media_type: str
    data: str

    @property
    def url(self) -> str:
        """The image as a data address."""
        return f"data:{self.media_type};base64,{self.data}"


def parts_of(text: str, *, images: bool) -> list[str | Image]:
    """Return the texts and images that an output consists of, in order; no blank texts beside an image."""
    if not images or "<MSWEA_MULTIMODAL_CONTENT>" not in text:
        return [text]
    parts: list[str | Image] = []
    end = 0
    for match in _IMAGE.finditer(text):
        parts += [text[end : match.start()], Image(match[1], "".join(match[2].split()))]
        end = match.end()
    parts.append(text[end:])
    return [part for part in parts if isinstance(part, Image) or part.strip()] or [text]
