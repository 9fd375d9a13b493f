"""Numbers and names in sentences, and texts from brokers and services made safe to show."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its noun: `1 split`, `1,234 splits`. `several`: the plural, if it is not `one` with an `s`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def some(names: Sequence[object], shown_max: int = 3, joint: str = ", ") -> str:
    """The first of `names`, and how many there are if that is more: `a, b, c, … 7 in all`."""
    more = [f"… {len(names):,} in all"] if len(names) > shown_max else []
    return joint.join([*map(str, names[:shown_max]), *more])


def offsets_text(*ranges: tuple[int, int]) -> str:
    """Ranges of offsets, at least one: `offset 24`, `offsets 100 to 104 and 106`. Each: first offset, the one after."""
    parts = [f"{first:,}" if to == first + 1 else f"{first:,} to {to - 1:,}" for first, to in ranges]
    return f"offset{'' if is_one_offset(*ranges) else 's'} {' and '.join(parts)}"


def skip_text(of: object, first: int, to: int) -> str:
    """Offsets of a partition, `first` to `to` (exclusive), as `evensplit skip` takes them: `orders/3:120-129`."""
    return f"{of}:{first}" if to == first + 1 else f"{of}:{first}-{to - 1}"


def command_line(name: str, *words: object) -> str:
    """A command of evensplit, to be copied into a shell: arguments with blanks and the like are in quotes."""
    return shlex.join(("evensplit", name, *map(str, words)))


def is_one_offset(*ranges: tuple[int, int]) -> bool:
    """Whether there is one offset in the ranges, so that a sentence about them is in the singular."""
    return len(ranges) == 1 and ranges[0][1] == ranges[0][0] + 1


def expected_of(names: Sequence[object], shown_max: int = 10) -> str:
    """The end of "expected …" where one of `names` is: `one of 'a', 'b'`, or just the name."""
    return f"{'one of ' if len(names) > 1 else ''}{some(names, shown_max)}"


SAID_CHARACTERS_MAX = 300
"""The most characters shown of a message or a name from a broker or a service."""


def plain(text: str) -> str:
    """Return `text` on one line, with line breaks and other unprintable characters escaped.

    Text from a broker, a service or a checkpoint can contain anything, and could forge lines of a log.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def short(text: str, characters_max: int = SAID_CHARACTERS_MAX) -> str:
    """`plain` for a text of any length: at most its first `characters_max` characters."""
    return plain(text if len(text) <= characters_max else f"{text[:characters_max]}…")


def shown(text: str) -> str:
    """`text` in a sentence: in quotes, and not more than a hundred characters of it."""
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
