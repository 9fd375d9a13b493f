"""What the clusters look like right now: partitions and the ends of their logs, asked for on the driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace

from evensplit.core.starting import EARLIEST, LATEST, TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.port import ClusterPort, Listing
from evensplit.spark.options import ClusterOptions

REFRESH_INTERVAL_S = 0.1
"""A cluster is asked at most this often: when idle, Spark asks for the next batch every 10 ms."""

CLUSTER_WAIT_S = 1.0
"""How long batches wait for one answer of a cluster, all together; when it comes later, it is taken then."""

UNREACHABLE_TIMEOUT_S = 600.0
"""How long a cluster may stay away, once it has answered, before that is an error."""


@dataclass(frozen=True, slots=True)
class View:
    """One cluster's answer.

    `earliest`, `latest`: (topic, partition) -> the start of its log, as it was when the partition was first seen, and
    the end of it now. A listed partition whose leader gives neither is not in them. `number`: the how-manieth answer of
    all it is, since one answer can be looked at several times.
    """

    listing: Listing
    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    number: int

    def same(self, other: object) -> bool:
        """Whether another answer says the same."""
        return isinstance(other, View) and replace(other, number=self.number) == self


Answer = View | ClusterError


class World:
    """The clusters of one source, each asked in a thread of its own, so that a slow one delays no other."""

    def __init__(
        self,
        clusters: Sequence[ClusterOptions],
        connect: Callable[[ClusterOptions], ClusterPort],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._ports = {options.id: connect(options) for options in clusters}
        self._subscriptions = {options.id: options.subscription for options in clusters}
        self._answers: dict[str, Answer] = {}
        self._asked: dict[str, Future[View]] = {}
        self._asked_at: dict[str, float] = {}
        self._away_since: dict[str, float] = {}
        self._earliest: dict[str, dict[TopicPartition, int]] = {name: {} for name in self._ports}
        self._count = 0
        self.version = 0
        """Goes up whenever a cluster answers something else than before."""

    def refresh(self, *, patient: bool) -> Mapping[str, Answer]:
        """The last answer of each cluster, by its id: a view, or the error that came instead.

        A cluster that was asked less than REFRESH_INTERVAL_S ago is not asked again. With `patient`, every cluster is
        asked in any case and has its whole request deadline. Without, batches wait CLUSTER_WAIT_S for an answer, and
        not at all for a cluster that failed to answer the last time; meanwhile its last answer stands.

        Raises:
            ClusterError: a cluster has not answered for UNREACHABLE_TIMEOUT_S.
        """
        now = self._clock()
        for name in self._ports:
            due = patient or now - self._asked_at.get(name, -REFRESH_INTERVAL_S) >= REFRESH_INTERVAL_S
            if due and name not in self._asked:
                self._asked[name] = self._ask(name, complete=patient)
                self._asked_at[name] = now
        for name, asked in list(self._asked.items()):
            patience = 0.0 if name in self._away_since else self._asked_at[name] + CLUSTER_WAIT_S - self._clock()
            wait([asked], timeout=None if patient else max(0.0, patience))
            if asked.done():
                self._take(name, self._asked.pop(name))
        return dict(self._answers)

    def close(self) -> None:
        """Drop all connections."""
        for port in self._ports.values():
            port.close()

    def _ask(self, name: str, *, complete: bool) -> Future[View]:
        """Ask in the background. With `complete`, an offset that is not to be had is an error."""
        future: Future[View] = Future()
        port, subscription, earliest = self._ports[name], self._subscriptions[name], self._earliest[name]
        self._count += 1
        number = self._count

        def ask() -> None:
            try:
                listing = port.list_partitions(subscription)
                listed = [(one.topic, one.partition) for one in listing.partitions]
                latest = port.list_offsets(dict.fromkeys(listed, LATEST), complete=complete) if listed else {}
                unseen = [key for key in listed if key not in earliest]
                if unseen:
                    earliest.update(port.list_offsets(dict.fromkeys(unseen, EARLIEST), complete=complete))
                starts = {key: earliest[key] for key in listed if key in earliest}
                future.set_result(View(listing, starts, latest, number))
            except BaseException as error:
                future.set_exception(error)

        # Daemons, so that a cluster that never answers cannot keep a finished process alive.
        threading.Thread(target=ask, name=f"evensplit-{name}", daemon=True).start()
        return future

    def _take(self, name: str, asked: Future[View]) -> None:
        """Take an answer that has come."""
        error = asked.exception()
        if error is None:
            view = asked.result()
            self.version += not view.same(self._answers.get(name))
            self._answers[name] = view
            self._away_since.pop(name, None)
            return
        if not isinstance(error, ClusterError):
            raise error
        self.version += not isinstance(self._answers.get(name), ClusterError)
        self._answers[name] = error
        away_s = self._clock() - self._away_since.setdefault(name, self._asked_at[name])
        if away_s > UNREACHABLE_TIMEOUT_S:
            raise ClusterError(
                name,
                f"it has not answered for {away_s:.0f} s, longer than the {UNREACHABLE_TIMEOUT_S:.0f} s allowed. All "
                f"positions are in the checkpoint: start the query again when the cluster is back. The last error: "
                f"{error.detail}",
            )
