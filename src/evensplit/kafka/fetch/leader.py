"""One broker while it is read from: its connection, its queue, and the time that a quota makes it wait.

Sources: KIP-124 and KIP-219 (quotas: the broker says for how long it will not read from the connection).
"""

from __future__ import annotations

import logging
import select
from collections import deque
from collections.abc import Sequence
from typing import Protocol, TypeVar

from evensplit._kernel import FetchedResponse
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import POLL_MAX_S
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address, join_address
from evensplit.kafka.wire.frames import Frame

THROTTLED_VERSION = 8
"""From this version of Fetch on, a throttling broker answers at once and the client waits; before, it waits itself."""

THROTTLE_MAX_S = 60.0
"""The longest pause that is granted at a time: a broker that asks for more gets a request after this."""

THROTTLED_MAX_S = 600.0
"""The longest time in which a broker may only throttle; more of it counts against the timeout of its partitions."""

PATIENCE_MIN_S = 0.2
"""The least time that a leader has to answer."""

log = logging.getLogger("evensplit")


class Leader:
    """One broker, and the partitions that it is asked for."""

    def __init__(self, cluster: str, address: Address, frame: Frame) -> None:
        self.cluster = cluster
        self.address = address
        self.frame = frame
        self.connection: Connection | None = None
        self.queue: deque[PartitionRead] = deque()
        """Reads that are not in a request now, in the order in which they will be."""
        self.asked: list[PartitionRead] = []
        self.version = 0
        self.response_bytes_max = 0
        self.asked_at_s = 0.0
        self.patience_s = 0.0
        self.answered = 0
        self.rests_until = 0.0
        self.throttled_s = 0.0
        """For how long quotas have throttled it since it last sent something."""

    def rest(self, until: float) -> None:
        """Send no request before `until`, on the network's clock; the reads of the next one go back to the queue."""
        self.queue.extendleft(reversed(self.asked))
        self.asked = []
        self.rests_until = max(self.rests_until, until)

    def throttle(self, response: FetchedResponse, now_s: float) -> bool:
        """Send the broker nothing for as long as `response` says. True if it has nothing else: then request again.

        This time does not count against the timeout of its partitions, up to THROTTLED_MAX_S. `now_s`: on its clock.
        """
        if self.version < THROTTLED_VERSION or response.throttle_ms <= 0:
            return False
        assert self.connection is not None
        throttle_s = min(response.throttle_ms / 1000, THROTTLE_MAX_S)
        # It belongs to the connection, which the next task may get: until then the broker reads nothing from it.
        self.connection.muted_until = now_s + throttle_s
        self.throttled_s += throttle_s
        if self.throttled_s <= THROTTLED_MAX_S:
            for read in (*self.asked, *self.queue):
                read.stamp_s += throttle_s
        else:
            what = f"{join_address(self.address)}: throttled by a quota for more than {THROTTLED_MAX_S:g} s"
            for read in self.asked:
                read.trouble = read.trouble or ClusterUnreachable(self.cluster, f"{what}, in which nothing came")
        log.debug(
            "cluster %r, %s: throttled by a quota, nothing is asked of it for %d ms",
            self.cluster,
            join_address(self.address),
            response.throttle_ms,
        )
        if response.partitions:
            self.rests_until = max(self.rests_until, self.connection.muted_until)
            return False
        self.rest(self.connection.muted_until)
        return True

    def drop_spent(self) -> None:
        """Close a connection whose login is about to end. No request may be under way on it."""
        if self.connection is not None and not self.connection.usable:
            self.connection.close()
            self.connection = None


class Connected(Protocol):
    """Somebody with a connection."""

    connection: Connection | None


_Asked = TypeVar("_Asked", bound=Connected)


def wait_for_answers(asked: Sequence[_Asked], wait_s: float, poll: select.poll) -> list[_Asked]:
    """Those of `asked` that have sent something, after waiting for the first one up to `wait_s`."""
    by_descriptor: dict[int, _Asked] = {}
    ready: list[_Asked] = []
    for leader in asked:
        assert leader.connection is not None
        by_descriptor[leader.connection.fileno()] = leader
        poll.register(leader.connection.fileno(), select.POLLIN)
        if leader.connection.has_bytes():
            ready.append(leader)
    # A millisecond more, so that whatever is due at that time is due.
    wait_ms = 0.0 if ready or wait_s <= 0 else min(wait_s, POLL_MAX_S) * 1000 + 1
    return [*ready, *(by_descriptor[descriptor] for descriptor, _ in poll.poll(wait_ms))]
