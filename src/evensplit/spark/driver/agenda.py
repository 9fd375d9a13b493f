"""When an idle query has something to plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple


class Due(NamedTuple):
    """A reason to plan from a time on; with a cluster, not before a later poll of it is over."""

    at_s: float = -math.inf
    """In s, by the monotonic clock."""
    cluster: str = ""
    poll: int = 0
    """The number of the last poll of the cluster that was taken in."""


@dataclass(frozen=True, slots=True)
class Agenda:
    """Written down at the end of a plan: what it has taken in, and what is due when. Looks at no split."""

    versions: object
    """Of the results of all polls, as they were taken in."""
    due_ms: int | None
    """When time alone changes the state, in ms since 1970; None: it does not."""
    dues: tuple[Due, ...]
    late: Collection[str]
    """Clusters that were left out because they were late."""
    awaited: tuple[Future[Any], ...]
    """Look-ups that the plan did without."""

    def has_news(
        self, *, versions: object, now_ms: int, now_s: float, polls: Mapping[str, int], late: Collection[str]
    ) -> bool:
        """Whether there is anything to plan that the last plan has not taken in.

        Args:
            polls: cluster -> the number of its last poll, unless that failed.
            late: the clusters that are late now.
        """
        return (
            versions != self.versions
            or (self.due_ms is not None and now_ms >= self.due_ms)
            or any(now_s >= one.at_s and (not one.cluster or polls.get(one.cluster, 0) > one.poll) for one in self.dues)
            or any(name not in late for name in self.late)
            or any(future.done() for future in self.awaited)
        )


class Wait(NamedTuple):
    """How long `Coordinator.await_news` waits for something to plan."""

    polls: int
    """So many polls had been sent when it began."""
    until_s: float
    """When it is over, by the monotonic clock."""
    monotonic: Callable[[], float]

    @property
    def is_over(self) -> bool:
        """Whether its time has passed."""
        return self.monotonic() >= self.until_s
