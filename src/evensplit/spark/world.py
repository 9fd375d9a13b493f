"""What the clusters look like right now: partitions and the ends of their logs, asked for on the driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from evensplit.core.starting import LATEST
from evensplit.errors import ClusterError
from evensplit.kafka.port import ClusterPort, Listing
from evensplit.spark.options import ClusterOptions

REFRESH_INTERVAL_S = 0.1
"""A cluster is asked at most this often: when idle, Spark asks for the next batch every 10 ms."""

CLUSTER_WAIT_S = 1.0
"""How long a batch waits for a cluster that did not answer the last time; the answer is taken when it comes."""

UNREACHABLE_TIMEOUT_S = 600.0
"""How long a cluster may stay away, once it has answered, before that is an error."""


@dataclass(frozen=True, slots=True)
class View:
    """One cluster's answer. `latest`: (topic, partition) -> the end of its log, for every listed partition."""

    listing: Listing
    latest: Mapping[tuple[str, int], int]


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

    def port(self, cluster: str) -> ClusterPort:
        """The connection to one cluster."""
        return self._ports[cluster]

    def refresh(self, *, patient: bool) -> Mapping[str, Answer]:
        """What each cluster answers, by its id; an error where it does not.

        A cluster that was asked less than REFRESH_INTERVAL_S ago is not asked again: its last answer stands. With
        `patient`, every cluster has its whole request deadline to answer, and is asked in any case. Without, one that
        did not answer the last time has CLUSTER_WAIT_S.

        Raises:
            ClusterError: a cluster has not answered for UNREACHABLE_TIMEOUT_S.
        """
        now = self._clock()
        for name in self._ports:
            due = patient or now - self._asked_at.get(name, -REFRESH_INTERVAL_S) >= REFRESH_INTERVAL_S
            if due and name not in self._asked:
                self._asked[name] = self._ask(name)
                self._asked_at[name] = now
        healthy = [asked for name, asked in self._asked.items() if patient or name not in self._away_since]
        wait(healthy)
        wait(self._asked.values(), timeout=CLUSTER_WAIT_S)
        for name in list(self._asked):
            self._take(name)
        return dict(self._answers)

    def close(self) -> None:
        """Drop all connections."""
        for port in self._ports.values():
            port.close()

    def _ask(self, name: str) -> Future[View]:
        future: Future[View] = Future()
        port, subscription = self._ports[name], self._subscriptions[name]

        def ask() -> None:
            try:
                listing = port.list_partitions(subscription)
                wanted = {(listed.topic, listed.partition): LATEST for listed in listing.partitions}
                future.set_result(View(listing, port.list_offsets(wanted) if wanted else {}))
            except BaseException as error:
                future.set_exception(error)

        # Daemons, so that a cluster that never answers cannot keep a finished process alive.
        threading.Thread(target=ask, name=f"evensplit-{name}", daemon=True).start()
        return future

    def _take(self, name: str) -> None:
        """Take the answer of `name`, if it is there."""
        asked, now = self._asked[name], self._clock()
        if asked.done():
            del self._asked[name]
            error = asked.exception()
            if error is None:
                self._answers[name] = asked.result()
                self._away_since.pop(name, None)
                return
            if not isinstance(error, ClusterError):
                raise error
            self._answers[name] = error
        else:
            self._answers[name] = ClusterError(name, f"no answer yet, after {now - self._asked_at[name]:.1f} s")
        since = self._away_since.setdefault(name, now)
        if now - since > UNREACHABLE_TIMEOUT_S:
            answer = self._answers[name]
            raise ClusterError(
                name,
                f"it has not answered for {now - since:.0f} s, which is longer than the {UNREACHABLE_TIMEOUT_S:.0f} s "
                f"allowed; all positions are in the checkpoint, so start the query again when the cluster is back. "
                f"The last error: {answer}",
            )
