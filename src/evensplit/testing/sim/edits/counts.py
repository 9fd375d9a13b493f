"""How often each offset of a log counts, and the parts of a log that are left when others are taken out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

Part = tuple[int, int]
"""Offsets, from the first one to the end (exclusive)."""


class Counts:
    """Offset -> how often, by the offsets at which that changes; far back it is 0."""

    def __init__(self, *parts: Part) -> None:
        self.steps: dict[int, int] = {}
        for start, end in parts:
            self.add(start, end)

    def add(self, start: int, end: int, times: int = 1) -> None:
        """Count what is in between `times` more; where `end` is before `start`, so many times less."""
        for at, step in ((start, times), (end, -times)):
            left = self.steps.get(at, 0) + step
            if left:
                self.steps[at] = left
            else:
                self.steps.pop(at, None)

    def put(self, start: int, end: int, other: Counts) -> None:
        """Let what is in between count as often as it does in `other`."""
        bounds = sorted({start, end, *(at for at in (*self.steps, *other.steps) if start < at < end)})
        for first, last in pairwise(bounds):
            self.add(first, last, other.at(first) - self.at(first))

    def plus(self, other: Counts, times: int = 1) -> Counts:
        """Both together, `other` so many times."""
        found = Counts()
        for one, by in ((self, 1), (other, times)):
            for at, step in one.steps.items():
                found.steps[at] = found.steps.get(at, 0) + by * step
        found.steps = {at: step for at, step in found.steps.items() if step}
        return found

    def at(self, offset: int) -> int:
        """How often `offset` counts."""
        return sum(step for at, step in self.steps.items() if at <= offset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.steps == other.steps

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.steps)

    def __str__(self) -> str:
        found: list[str] = []
        bounds = sorted(self.steps)
        for first, last in pairwise(bounds):
            if times := self.at(first):
                found.append(f"{first}..{last} {times} times" if times != 1 else f"{first}..{last}")
        return ", ".join(found) or "nothing"


def joined(parts: Iterable[Part]) -> list[Part]:
    """The same offsets, ascending, in as few parts as there can be."""
    found: list[Part] = []
    for start, end in sorted(part for part in parts if part[0] < part[1]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def without(parts: Iterable[Part], taken: Part) -> Iterator[Part]:
    """The parts without what is in `taken`."""
    for start, end in parts:
        for first, last in ((start, min(end, taken[0])), (max(start, taken[1]), end)):
            if first < last:
                yield first, last


def is_within(part: Part, others: Iterable[Part]) -> bool:
    """Whether all of a part is in `others`."""
    left = joined([part])
    for other in others:
        left = list(without(left, other))
    return not left
