"""Many named tuples at once: for tens of thousands of them, a call in Python for each is most of what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def named(kind: type[T], rows: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """The tuples of `kind` with the fields of each of `rows`. Nothing looks whether those are as many as `kind` has."""
    return map(tuple.__new__, repeat(kind), rows)
