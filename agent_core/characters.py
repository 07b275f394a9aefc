"""Characters that can make a text look like another one: invisible ones, and ones that look like ASCII.

Invariants: pure. A line feed and a tab are ordinary; every other control, format, blank-looking, private, tag or
unassigned character is deceptive wherever it stands. A look-alike counts only in a word that could be taken for an
ASCII word, so that text in other scripts stays readable.
"""

from __future__ import annotations

import re
import unicodedata

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_DECEPTIVE_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zs", "Zl", "Zp"})
# Blank or joining characters that Unicode counts as letters, marks or symbols; then the variation selectors.
_BLANK_BUT_NOT_BY_CATEGORY = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
# Characters that common fonts draw like an ASCII one and that no normal form of Unicode maps to it.
_DRAWN_LIKE_ASCII = frozenset(
    "АВЕЅІЈКМНОРСТУХҮаеорсухѕіјһԁԛԝѵӏгп"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορυχικ"
    "ԱՍՕօսոհցաɡɑɩıǃℓ"
    "‐‑‒–—―−⁃˗‘’‚‛“”„‟′″ʹʺʼˈ⁄∕⧸╱⟋⧵∖⼁ǀ∣❘│‖｜։׃∶ː；﹔︰"  # noqa: RUF001
    "‹›〈〉⟨⟩❬❭❮❯❰❱≺≻＜＞˂˃＆﹠⅋＄﹩·•․‥…‚‸⁎∗⋆✱﹡＊﹖？⁓∼˜～"  # noqa: RUF001
)
_WORD = re.compile(r"\w+")


def needs_no_look(text: str) -> bool:
    """Whether the text is plain ASCII with line feeds and tabs, so that no character of it can deceive."""
    return text.isascii() and _CONTROL.search(text) is None


def is_deceptive(character: str) -> bool:
    """Whether the character is invisible, moves what stands around it, or has no agreed look."""
    if character.isascii():
        return _CONTROL.match(character) is not None
    if unicodedata.category(character) in _DECEPTIVE_CATEGORIES or character in _BLANK_BUT_NOT_BY_CATEGORY:
        return True
    return any(ord(character) in selectors for selectors in _VARIATION_SELECTORS)


def holds_deceptive(text: str) -> bool:
    """Whether any character of the text is deceptive."""
    return not needs_no_look(text) and any(map(is_deceptive, text))


def look_alikes(text: str) -> frozenset[int]:
    """Return the places of characters that can be taken for ASCII ones."""
    if text.isascii():
        return frozenset()
    found = {at for at, character in enumerate(text) if _like_ascii(character) and not character.isalnum()}
    for word in _WORD.finditer(text):
        if not word[0].isascii() and all(letter.isascii() or _like_ascii(letter) for letter in word[0]):
            found.update(at for at in range(*word.span()) if not text[at].isascii())
        elif any("a" <= letter.lower() <= "z" for letter in word[0]):
            found.update(at for at in range(*word.span()) if _like_ascii(text[at]))
    return frozenset(found)


def code_point(character: str) -> str:
    """Return the character's number as `<U+202E>`."""
    return f"<U+{ord(character):04X}>"


def _like_ascii(character: str) -> bool:
    if character.isascii():
        return False
    return character in _DRAWN_LIKE_ASCII or unicodedata.normalize("NFKC", character).isascii()
