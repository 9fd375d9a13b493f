"""Which of the words that are known somebody meant who wrote another one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from evensplit.kafka.secrets import has_placeholder

WORD_CHARACTERS_MAX = 40
"""What is longer is no word, and takes long to compare: metadata may have it."""

_WORD = re.compile(rf"[A-Za-z0-9_-]{{1,{WORD_CHARACTERS_MAX}}}", re.ASCII)


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


def unknown_word(text: str, known: Sequence[str], called: Mapping[str, str], *, final: bool) -> str:
    """The end of a sentence about `text`, the name of a protocol or a mechanism that is none of `known`.

    It is shown only if it is one short word, and not where it may be what a placeholder stands for (`final`).
    """
    expected = f"expected {', '.join(known)}"
    if final or has_placeholder(text) or not _WORD.fullmatch(text.strip()):
        return f"has an unknown value; {expected}"
    question = meant(text, known, called)
    return f"is {text.strip()!r}; {expected}{f': {question}' if question else ''}"
