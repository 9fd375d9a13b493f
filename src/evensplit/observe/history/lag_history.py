"""The lag of a source over time, in offsets and in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.history.ends_seen import Age, EndsSeen, least_needed

POINTS_MAX = 200
"""How many points are kept: as the time that they are of gets longer, the fewer for each minute."""


class LagPoint(NamedTuple):
    """The lag at a time. None stands for a value that is not known."""

    at_ms: int
    lag: int | None
    """Offsets to be read, of all partitions whose end is known."""
    age: Age | None
    """How long the oldest unread record has waited."""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """The lag over time, and what it takes to go on."""

    points: tuple[LagPoint, ...] = ()
    """Oldest first, at most `POINTS_MAX`."""
    ages: Mapping[str, Age] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> how long its oldest unread record had waited when the query last looked; without clusters of which
    that is not known."""
    ends: EndsSeen = field(default_factory=EndsSeen, compare=False)

    @property
    def age(self) -> Age | None:
        """How long the oldest unread record of all had waited when the query last looked; None: not known."""
        return oldest(tuple(self.ages.values()))

    def seen(
        self, state: EnumeratorState, latest: Mapping[SplitId, int], at_ms: int | None, lag: int | None
    ) -> LagHistory:
        """Add what was seen at `at_ms`, in `state`: the ends of logs, and the sum of the lag.

        Nothing changes if there is no time, or no end is known and none was before.
        """
        if at_ms is None or not (latest or self.ends.times):
            return self
        ages, ends = self.ends.seen(state.splits, latest, at_ms).ages(state.splits)
        point = LagPoint(at_ms, lag, oldest(tuple(ages.values())))
        points = [*(one for one in self.points if one.at_ms < at_ms), point]
        if len(points) > POINTS_MAX:
            del points[least_needed([one.at_ms for one in points], relative=False)]
        return LagHistory(tuple(points), MappingProxyType(ages), ends)


def oldest(ages: tuple[Age, ...]) -> Age | None:
    """The age of the oldest of several records; None if there is none."""
    if not ages:
        return None
    # Those that have not waited at all bound nothing.
    most = [one.most_ms for one in ages]
    return Age(max(one.least_ms for one in ages), None if None in most else max(one for one in most if one is not None))
