"""Suggestions for misspelled words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

WORD_CHARACTERS_MAX = 40
"""Longer texts, which metadata may have, get no suggestion: they take long to compare."""


def meant(word: str, known: Sequence[str], called: Mapping[str, str] | None = None) -> str:
    """Return `did you mean …?` with the words of `known` that are close to `word`, ignoring case; empty if none is.

    `called`: other names of these words, in lower case -> the word.
    """
    written = word.strip().lower()
    wanted = (called or {}).get(written, written).lower()
    if len(wanted) > WORD_CHARACTERS_MAX:
        return ""
    by_lower = {one.lower(): one for one in known}
    near = [lower for lower in by_lower if wanted and lower.startswith(wanted)]
    near = near or difflib.get_close_matches(wanted, list(by_lower), n=1)
    return f"did you mean {' or '.join(by_lower[lower] for lower in near)}?" if near else ""


def unknown_word(text: str, known: Sequence[str], called: Mapping[str, str]) -> str:
    """Return the end of a sentence about `text`, the name of a protocol or a mechanism that is not in `known`.

    It does not quote `text`, which may be a password pasted in the wrong place.
    """
    question = meant(text, known, called)
    return f"has an unknown value; expected {', '.join(known)}{f'; {question}' if question else ''}"
