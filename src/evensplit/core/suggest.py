"""Which of the words that are known somebody meant who wrote another one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

WORD_CHARACTERS_MAX = 40
"""What is longer is no word, and takes long to compare: metadata may have it."""


def meant(word: str, known: Sequence[str], called: Mapping[str, str] | None = None) -> str:
    """`did you mean …?` with what of `known` is near `word`, in any case; empty if nothing is, as for a long text.

    `called`: what some of them are called elsewhere, in lower case.
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
    """The end of a sentence about `text`, the name of a protocol or a mechanism that is none of `known`.

    It is not in it: somebody may have pasted a password there.
    """
    question = meant(text, known, called)
    return f"has an unknown value; expected {', '.join(known)}{f'; {question}' if question else ''}"
