"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "") -> str:
    """A number and what is counted: `1 split`, `1,234 splits`. `several`: the plural, where no `s` makes it."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"
