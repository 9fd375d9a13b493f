"""When an idle query has something to plan: what is due when, and what the last plan has taken in."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple


class Due(NamedTuple):
    """Something to be done from a time on or, with a cluster, when a later poll of that has come as well."""

    at_s: float = -math.inf
    """By the monotonic clock."""
    cluster: str = ""
    poll: int = 0
    """The last poll of the cluster that was taken in."""


@dataclass(frozen=True, slots=True)
class Agenda:
    """What was written down at the end of a plan. Asking it costs no look at any split."""

    versions: object
    """Of all that was polled, as it was taken in."""
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
        """Whether there is anything that the last plan has not taken in.

        Args:
            polls: cluster -> the last poll that it answered, unless a later one failed.
            late: the clusters that are late now.
        """
        return (
            versions != self.versions
            or (self.due_ms is not None and now_ms >= self.due_ms)
            or any(now_s >= one.at_s and (not one.cluster or polls.get(one.cluster, 0) > one.poll) for one in self.dues)
            or any(name not in late for name in self.late)
            or any(future.done() for future in self.awaited)
        )


def every_poll_of(clusters: Iterable[str], taken: Mapping[str, int]) -> Iterable[Due]:
    """Dues by which every later poll of `clusters` counts; `taken`: cluster -> the last one that was taken in."""
    return (Due(cluster=name, poll=taken.get(name, 0)) for name in clusters)


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
