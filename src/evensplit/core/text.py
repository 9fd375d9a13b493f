"""Numbers in sentences, and texts that others have written."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, one: str, several: str = "") -> str:
    """A number and what is counted: `1 split`, `1,234 splits`. `several`: the plural, where no `s` makes it."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def some(names: Sequence[object], shown_max: int = 3) -> str:
    """The first of `names`, with an ellipsis if there are more."""
    return ", ".join((*map(str, names[:shown_max]), *(["…"] if len(names) > shown_max else [])))


SAID_CHARACTERS_MAX = 300
"""So much is shown of what a broker or a service says, and of a name that it gives."""


def plain(text: str) -> str:
    """`text` on one line: line breaks and all else that is not printable, such as what moves a cursor, are written out.

    Whatever comes from a broker, a service or a checkpoint can have anything in it, and could write lines of a log.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def short(text: str, characters_max: int = SAID_CHARACTERS_MAX) -> str:
    """The same of a text that can have any length: its first `characters_max` characters."""
    return plain(text if len(text) <= characters_max else f"{text[:characters_max]}…")
