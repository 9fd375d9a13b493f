"""Looks up offsets by time and committed offsets of one cluster, in the background."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from evensplit.core.model import ListedPartition
from evensplit.core.state.offset_strategies import Found, Lookups
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.spark.poll.scheduler import Scheduler


class LookUps:
    """The last look-up of each purpose."""

    def __init__(self, cluster: str, scheduler: Scheduler) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._asked: dict[str, tuple[frozenset[ListedPartition], Future[Found]]] = {}
        self._awaited: dict[str, Future[Found]] = {}

    def find(
        self, port: ClusterPort, purpose: str, wanted: Lookups, partitions: Iterable[ListedPartition], *, patient: bool
    ) -> Found | None:
        """Return the offsets that are `wanted`; None as long as they are not there, unless `patient`.

        Args:
            partitions: the partitions that they are for. An earlier result for the same `purpose` and these partitions,
                or more, is returned as it is, unless it is about another topic of the same name.

        Raises ClusterError.
        """
        needed = frozenset(partitions)
        if purpose not in self._asked or not needed <= self._asked[purpose][0]:

            def find() -> Found:
                times = port.list_offsets(wanted.times) if wanted.times else {}
                return Found(times, {group: port.committed_offsets(group, of) for group, of in wanted.groups.items()})

            self._asked[purpose] = needed, self._scheduler.start(find, f"evensplit-{self._cluster}-{purpose}")
        future = self._asked[purpose][1]
        if not patient and not future.done():
            self._awaited[purpose] = future
            return None
        self._awaited.pop(purpose, None)
        self._scheduler.wait((future,))
        try:
            return future.result()
        except ClusterError:
            del self._asked[purpose]
            raise

    @property
    def awaited(self) -> tuple[Future[Found], ...]:
        """Look-ups that were not done when they were wanted."""
        return tuple(self._awaited.values())

    def forget_awaited(self) -> None:
        """Begin a plan: look-ups that are still wanted will be asked for again."""
        self._awaited.clear()

    def forget(self) -> None:
        """Look everything up anew."""
        self._asked.clear()
