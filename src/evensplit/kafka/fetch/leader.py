"""What the lane knows of one leader while it reads, and what it waits for.

Sources: KIP-124 and KIP-219 (quotas: the broker says for how long it will not read from the connection).
"""

from __future__ import annotations

import logging
import select
from collections import deque
from collections.abc import Sequence

from evensplit._kernel import FetchedResponse
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.deadline import POLL_MAX_S
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import Address, join_address
from evensplit.kafka.wire.frames import Frame

THROTTLED_VERSION = 8
"""From this version of Fetch on a broker answers at once, with nothing, and the client waits; before, it held back."""

THROTTLE_MAX_S = 60.0
"""No quota holds a client back for longer at a time: a broker that says so is asked again by then."""

THROTTLED_MAX_S = 600.0
"""No quota holds back everything for longer: after that, it counts as time in which partitions have to get on."""

PATIENCE_MIN_S = 0.2
"""A leader always has at least so long to answer."""

log = logging.getLogger("evensplit")


class Leader:
    """One broker, and the partitions that it is asked for."""

    def __init__(self, cluster: str, address: Address, frame: Frame) -> None:
        self.cluster = cluster
        self.address = address
        self.frame = frame
        self.connection: Connection | None = None
        self.queue: deque[PartitionRead] = deque()
        """Those that are not asked for at the moment, in the order in which they are to be."""
        self.asked: list[PartitionRead] = []
        self.version = 0
        self.response_bytes_max = 0
        self.asked_at_s = 0.0
        self.patience_s = 0.0
        self.answered = 0
        self.rests_until = 0.0
        self.throttled_s = 0.0
        """For how long quotas have held it back since something last came of it."""

    def rest(self, until: float) -> None:
        """Ask for nothing before `until`, on the network's clock; what was about to be asked for waits."""
        self.queue.extendleft(reversed(self.asked))
        self.asked = []
        self.rests_until = max(self.rests_until, until)

    def throttle(self, response: FetchedResponse, now_s: float) -> bool:
        """Leave the broker alone for as long as `response` says; True if that is all it says, so to be asked for again.

        That is no time in which its partitions failed to get on, up to THROTTLED_MAX_S. `now_s`: on its clock.
        """
        if self.version < THROTTLED_VERSION or response.throttle_ms <= 0:
            return False
        assert self.connection is not None
        throttle_s = min(response.throttle_ms / 1000, THROTTLE_MAX_S)
        # With the connection it goes to the next reader: until then the broker reads nothing from it.
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
        """Let go of a connection that is not to be used again, as its login is about to end. Nothing is asked for."""
        if self.connection is not None and not self.connection.usable:
            self.connection.close()
            self.connection = None


def wait_for_answers(asked: Sequence[Leader], wait_s: float, poll: select.poll) -> list[Leader]:
    """Those of `asked` from which something has come, waiting for the first one `wait_s` at most."""
    by_descriptor: dict[int, Leader] = {}
    ready: list[Leader] = []
    for leader in asked:
        assert leader.connection is not None
        by_descriptor[leader.connection.fileno()] = leader
        poll.register(leader.connection.fileno(), select.POLLIN)
        if leader.connection.has_bytes():
            ready.append(leader)
    # A millisecond more, so that what is due then is due.
    wait_ms = 0.0 if ready else min(max(0.0, wait_s), POLL_MAX_S) * 1000 + 1
    return [*ready, *(by_descriptor[descriptor] for descriptor, _ in poll.poll(wait_ms))]
