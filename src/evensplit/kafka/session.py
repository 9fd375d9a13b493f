"""What one process knows of one cluster, and its connections to it: the client's memory.

Not for several threads at once: `ClusterClient` sees to that.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from evensplit.core.starting import TopicPartition
from evensplit.errors import ClusterError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.api import METADATA
from evensplit.kafka.connection import Connection
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.port import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from evensplit.kafka.settings import Address, ClientSettings, join_address

_ADVICE = (
    "check kafka.bootstrap.servers, and that the addresses which the brokers advertise can be reached from this host"
)


class Broker(NamedTuple):
    """One broker, as the metadata has it. `rack` is empty if it has none."""

    node_id: int
    host: str
    port: int
    rack: str = ""

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class Leaders:
    """Who leads which partition. `unknown` has Kafka's error code for each partition without a known leader.

    `topic_ids` has those of the partitions' topics, as `ListedPartition.topic_id`, where the brokers have them.
    """

    known: Mapping[TopicPartition, Broker]
    unknown: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


class Backoff:
    """The pauses between attempts: from the first one on they double, up to a maximum."""

    def __init__(self, settings: ClientSettings) -> None:
        self._next_s = settings.retry_backoff_ms / 1000
        self._max_s = max(settings.retry_backoff_max_ms, settings.retry_backoff_ms) / 1000

    def pause(self, deadline: Deadline) -> None:
        """Sleep until the next attempt is due, or the deadline is over."""
        # A pause of nothing would turn a broker that refuses at once into a busy loop.
        deadline.pause(max(self._next_s, 0.001))
        self._next_s = min(2 * self._next_s, self._max_s)


class Session:
    """Connections, brokers and leaders of one cluster, in the process that made it."""

    def __init__(self, cluster: str, settings: ClientSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.brokers: dict[int, Broker] = {}
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[str, dict[int, int]] = {}
        self._topic_ids: dict[str, str] = {}

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def connection(self, address: Address, deadline: Deadline) -> Connection:
        """The connection to `address`, opened if there is none that can be used."""
        found = self._connections.get(address)
        if found is None or not found.is_quiet():
            if found is not None:
                found.close()
            found = self._connections[address] = Connection(self.cluster, address, self.settings, deadline)
        return found

    def metadata(self, topics: Collection[str] | None, deadline: Deadline, patience_s: float | None = None) -> Any:
        """One broker's metadata about `topics`, or about all with None. What it says of leaders is kept.

        Every address that is known is tried, again and again, until one answers or the deadline is over; the first time
        for `patience_s` each at most.
        """
        backoff = Backoff(self.settings)
        failures: dict[Address, ClusterError] = {}
        while True:
            addresses = self._addresses()
            for number, address in enumerate(addresses):
                # A broker that takes its time shall leave some for the others.
                share_s = deadline.remaining_s / (len(addresses) - number)
                share = deadline.within(share_s if patience_s is None else min(share_s, patience_s))
                try:
                    build = partial(_metadata_request, topics)
                    response = self.connection(address, share).request(METADATA, build, share)
                    if not response.brokers:
                        raise ClusterUnreachable(
                            self.cluster, f"{join_address(address)}: it knows no brokers yet, as while it starts"
                        )
                except ClusterError as error:
                    # That time ran out tells less than what was wrong before.
                    if address not in failures or not share.passed:
                        failures[address] = error
                else:
                    self._learn(response)
                    return response
            self._give_up_or_pause(failures, deadline, backoff)
            patience_s = None

    def find_leaders(
        self,
        partitions: Collection[TopicPartition],
        deadline: Deadline,
        *,
        refresh: bool,
        patience_s: float | None = None,
    ) -> Leaders:
        """Who leads `partitions`; asks, as `metadata` does, only for `refresh` or if one of them is not known."""
        codes: dict[str, int] = {}
        if refresh or not all(self._leader(key) for key in partitions):
            response = self.metadata(sorted({topic for topic, _ in partitions}), deadline, patience_s)
            codes = {topic.name: int(topic.error_code) for topic in response.topics if topic.error_code}
        known: dict[TopicPartition, Broker] = {}
        unknown: dict[TopicPartition, int] = {}
        for key in partitions:
            broker = self._leader(key)
            if broker is not None:
                known[key] = broker
            elif key[1] in self._leaders.get(key[0], ()):
                unknown[key] = LEADER_NOT_AVAILABLE
            else:
                unknown[key] = codes.get(key[0], UNKNOWN_TOPIC_OR_PARTITION)
        return Leaders(known, unknown, {topic: self._topic_ids.get(topic, "") for topic, _ in partitions})

    def _leader(self, key: TopicPartition) -> Broker | None:
        return self.brokers.get(self._leaders.get(key[0], {}).get(key[1], -1))

    def _addresses(self) -> list[Address]:
        """Where to ask, likeliest first: open connections, bootstrap servers, all other brokers."""
        usable = [address for address, connection in self._connections.items() if connection.usable]
        brokers = [self.brokers[node].address for node in sorted(self.brokers)]
        return list(dict.fromkeys([*usable, *self.settings.addresses, *brokers]))

    def _learn(self, response: Any) -> None:
        self.brokers = {
            int(one.node_id): Broker(int(one.node_id), one.host, int(one.port), one.rack or "")
            for one in response.brokers
        }
        for topic in response.topics:
            self._leaders[topic.name] = {one.partition_index: one.leader_id for one in topic.partitions}
            self._topic_ids[topic.name] = topic_id(topic)

    def _give_up_or_pause(self, failures: Mapping[Address, ClusterError], deadline: Deadline, backoff: Backoff) -> None:
        hopeless = all(isinstance(error, UnsupportedBroker) for error in failures.values())
        if hopeless or deadline.passed:
            details = "; ".join(error.detail for error in failures.values())
            kind = UnsupportedBroker if hopeless else ClusterUnreachable
            raise kind(self.cluster, f"no broker could be asked. {details}. Please {_ADVICE}")
        backoff.pause(deadline)


def topic_id(topic: Any) -> str:
    """The id of a topic in a metadata response, as text; empty where the broker has none."""
    if not topic.topic_id or not topic.topic_id.int:
        return ""
    return base64.urlsafe_b64encode(topic.topic_id.bytes).rstrip(b"=").decode()


def _metadata_request(topics: Collection[str] | None, version: int) -> Any:
    named = None
    if topics is not None:
        named = [METADATA.request.MetadataRequestTopic(version=version, name=name) for name in topics]
    return METADATA.request(version=version, topics=named, allow_auto_topic_creation=False)
