"""Topics that this user may not see any more: where a pattern lists all topics, they look like deleted ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from evensplit.core.model import TopicPattern, Topics
from evensplit.kafka.admin.protocol import ClusterPort, Listing


class Withheld:
    """Tells topics that are withheld from those that are gone: who asks for one by its name is told which it is.

    `topics`: those that were there before, and that the cluster did not list the last time although it was asked.
    """

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()

    def complete(self, port: ClusterPort, wanted: TopicPattern, listing: Listing, known: Iterable[str]) -> Listing:
        """`listing`, the answer to a pattern, with what it does not say of topics that were `known` before.

        Asks once more only if such a topic is missing. Raises what `ClusterPort.list_partitions` raises.
        """
        pattern = re.compile(wanted.regex)
        listed = {one.topic for one in listing.partitions}.union(listing.unlisted)
        lacking = sorted(topic for topic in self.topics.union(known) - listed if pattern.search(topic))
        if not lacking:
            self.topics = frozenset()
            return listing
        named = port.list_partitions(Topics(tuple(lacking)))
        self.topics = frozenset(named.unlisted)
        return replace(
            listing,
            incomplete=(*listing.incomplete, *named.incomplete),
            unlisted=(*listing.unlisted, *named.unlisted),
        )
