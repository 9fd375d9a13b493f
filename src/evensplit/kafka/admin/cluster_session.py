"""One cluster as this process knows it: brokers, leaders, and the connections to them.

Not for several threads at once: `ClusterClient` sees to that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import AuthenticationError, ClusterError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.admin.protocol import are_two_clusters
from evensplit.kafka.admin.staleness import Newest
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.net.network import NETWORK, Network
from evensplit.kafka.options.client import Address, ClientSettings, join_address
from evensplit.kafka.wire.api import METADATA, Api, Build, metadata_bytes_max
from evensplit.kafka.wire.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from evensplit.kafka.wire.requests import write_metadata
from evensplit.kafka.wire.responses import Metadata

FAILURES_TOLD_MAX = 20
"""Of so many addresses it is told why they could not be asked."""

HURRIED_S = 1.0
"""In less than that a broker need not answer: that it did not tells less than what it had said before."""

UNKNOWN_TOPIC_GRACE_S = 2.0
"""A broker may not know yet of a topic that another one has; one that stays unknown for so long is not there."""

FAILED_REST_S = 2.0
"""So long a broker that failed to answer is asked after all others; twice as long if it fails again."""

FAILED_REST_MAX_S = 10.0
"""No broker rests for longer, however often it has failed: it may be the only one that knows better."""

OLDER_REST_S = 1.0
"""So long rests one whose metadata was older than what was said before, as it is for a moment after each election."""

TURN_S = 1.0
"""So long a broker is waited for that is asked only because it is its turn, before the one that has answered is."""

TURNS_MAX = 3
"""So many others are asked at most, before the one that has answered is."""

ATTEMPT_S = 1.0
"""So long one broker is waited for, if partitions may be left out."""

_ADVICE = (
    "check kafka.bootstrap.servers, and that the addresses which the brokers advertise can be reached from this host"
)

_OLDER = "every broker that answered said what is older than what was said before"

_RESTORED = (
    "Those that know better may be away. If the cluster's metadata was restored from a backup, start the query again, "
    "in a new process"
)

_CORRECTION = "correct the bootstrap servers (kafka.bootstrap.servers), so that they lead to the cluster from before"


_Response = TypeVar("_Response")


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
    `epochs`: topic -> partition -> the epoch of its leader (KIP-320); -1 where the brokers do not say.
    `answered`: where the broker listens that has said so now; None if no broker was asked. `brokers`: where all of the
    cluster do, by the same account.
    """

    known: Mapping[TopicPartition, Broker]
    unknown: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    epochs: Mapping[str, Mapping[int, int]]
    answered: Address | None = None
    brokers: Sequence[Address] = ()

    def by_address(self) -> dict[Address, list[TopicPartition]]:
        """Where a leader listens -> what it leads; ascending."""
        found: dict[Address, list[TopicPartition]] = {}
        for key, broker in self.known.items():
            found.setdefault(broker.address, []).append(key)
        return dict(sorted(found.items()))


class _OlderMetadata(ClusterError):
    """A broker said what is older than what another one had said before. Goes no further than this module."""


class _AnotherCluster(ClusterError):
    """A broker of a cluster that is not the one meant answered. Goes no further than this module."""


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
    """Connections, brokers, leaders and coordinators of one cluster, in the process that made it."""

    def __init__(self, cluster: str, settings: ClientSettings, network: Network = NETWORK) -> None:
        self.cluster = cluster
        self.settings = settings
        self._network = network
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.brokers: dict[int, Broker] = {}
        self.coordinators: dict[str, Address] = {}
        """Where the coordinator of each group is, as far as is known."""
        self.trouble = ""
        """Why none of the brokers that were asked last could answer; empty once one has."""
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[str, dict[int, int]] = {}
        self._epochs: dict[str, dict[int, int]] = {}
        self._topic_ids: dict[str, str] = {}
        self._cluster_id = ""
        self._answered: Address | None = None
        self._turned = False
        self._rests: dict[Address, tuple[float, float]] = {}
        self._newest = Newest()

    @property
    def answering(self) -> str:
        """The node id of the broker that answered last; empty for an address that the metadata does not name.

        Behind another address can be any broker, and another one each time.
        """
        return next((str(node) for node, one in self.brokers.items() if one.address == self._answered), "")

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def turn(self) -> None:
        """Ask other brokers the next time, and the one that answered last only if no other one does.

        Those that have just failed are asked, too: they may be the only ones that know better.
        """
        self._turned = self._answered is not None

    def connection(self, address: Address, deadline: Deadline) -> Connection:
        """The connection to `address`, opened if there is none that can be used."""
        found = self._connections.get(address)
        if found is None or not found.is_quiet():
            if found is not None:
                found.close()
            found = self._connections[address] = self._open(address, deadline)
        return found

    def _open(self, address: Address, deadline: Deadline) -> Connection:
        return Connection(self.cluster, address, self.settings, deadline, self._network)

    def metadata(
        self,
        topics: Collection[str] | None,
        deadline: Deadline,
        patience_s: float | None = None,
        *,
        cluster_id: str = "",
        prefer: Collection[Address] = (),
    ) -> Metadata:
        """One broker's metadata about `topics`, or about all with None, from any broker as `ask_any` has it.

        What it says of leaders is kept, and topics that were not asked for are left out. `cluster_id`: what the cluster
        has to call itself, if it says so; what a broker of another one answers counts as none.
        """
        build = partial(write_metadata, topics)
        check = partial(self._check_metadata, cluster_id, topics)
        api = METADATA if topics is None else replace(METADATA, answer_bytes_max=metadata_bytes_max(len(topics)))
        response = self.ask_any(api, build, deadline, patience_s, check=check, prefer=prefer).only(topics)
        self._learn(response, of_all=topics is None)
        return response

    def ask_any(
        self,
        api: Api[_Response],
        build: Build,
        deadline: Deadline,
        patience_s: float | None = None,
        *,
        check: Callable[[Address, _Response], None] = lambda address, response: None,
        prefer: Collection[Address] = (),
    ) -> _Response:
        """The first response to a request that every broker can answer.

        Every address that is known is tried, again and again, until one answers or the deadline is over; the first time
        for `patience_s` each at most, and those whose turn it is for TURN_S. A response that `check` raises a
        `ClusterError` for counts as none. Those that are to be heard, `prefer`, come before all others, even if they
        have just failed.
        """
        backoff = Backoff(self.settings)
        failures: dict[Address, ClusterError] = {}
        while True:
            others = [*sorted(prefer, key=self._is_resting), *(self._others() if self._turned else [])]
            self._turned = False
            addresses = list(dict.fromkeys([*others, *self._addresses()]))
            for number, address in enumerate(addresses):
                if failures and deadline.passed:
                    break
                # A broker that takes its time shall leave some for the others.
                share_s = deadline.remaining_s / (len(addresses) - number)
                limit_s = TURN_S if address in others and len(addresses) > 1 else patience_s
                share = deadline.within(share_s if limit_s is None else min(share_s, limit_s))
                try:
                    response = self.connection(address, share).request(api, build, share)
                    check(address, response)
                except ClusterError as error:
                    self._let_rest(address, error)
                    # That time ran out tells less than what was wrong before.
                    if address not in failures or not share.passed:
                        failures[address] = error
                else:
                    self._answered, self.trouble = address, ""
                    self._rests.pop(address, None)
                    return response
            self._give_up_or_pause(failures, deadline, backoff)
            patience_s, prefer = None, ()

    def find_leaders(
        self,
        partitions: Collection[TopicPartition],
        deadline: Deadline,
        *,
        refresh: bool,
        patience_s: float | None = None,
        cluster_id: str = "",
        prefer: Collection[Address] = (),
    ) -> Leaders:
        """Who leads `partitions`; asks, as `metadata` does, only for `refresh` or if one of them is not known.

        What is known from a cluster that calls itself otherwise than `cluster_id` is not.
        """
        codes: dict[str, int] = {}
        answered: Address | None = None
        refresh = refresh or are_two_clusters(cluster_id, self._cluster_id)
        topics = sorted({topic for topic, _ in partitions})
        if refresh or not all(self._leader(key) for key in partitions):
            response = self.metadata(topics, deadline, patience_s, cluster_id=cluster_id, prefer=prefer)
            answered = self._answered
            codes = {topic.name: topic.error_code for topic in response.topics if topic.error_code}
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
        return Leaders(
            known,
            unknown,
            topic_ids={topic: self._topic_ids.get(topic, "") for topic in topics},
            epochs={topic: self._epochs.get(topic, {}) for topic in topics},
            answered=answered,
            brokers=self._broker_addresses(),
        )

    def _leader(self, key: TopicPartition) -> Broker | None:
        return self.brokers.get(self._leaders.get(key[0], {}).get(key[1], -1))

    def _addresses(self) -> list[Address]:
        """Where to ask: whoever answered last; open connections, bootstrap servers, all others.

        Those that have failed a short time ago come last.
        """
        first = [] if self._answered is None else [self._answered]
        usable = [address for address, connection in self._connections.items() if connection.usable]
        known = dict.fromkeys([*first, *usable, *self.settings.addresses, *self._broker_addresses()])
        return sorted(known, key=self._is_resting)

    def _others(self) -> list[Address]:
        """Whose turn it is: those behind the one that answered last, and of these the ones that rest last."""
        addresses = list(dict.fromkeys([*self._broker_addresses(), *self.settings.addresses]))
        at = addresses.index(self._answered) if self._answered in addresses else 0
        others = [one for one in (*addresses[at:], *addresses[:at]) if one != self._answered]
        return sorted(others, key=self._is_resting)[:TURNS_MAX]

    def _is_resting(self, address: Address) -> bool:
        return self._network.clock.now_s() < self._rests.get(address, (0.0, 0.0))[0]

    def _let_rest(self, address: Address, error: ClusterError) -> None:
        """It has failed. What fails again while it rests does not rest for longer."""
        if isinstance(error, _OlderMetadata):
            self._rests[address] = (self._network.clock.now_s() + OLDER_REST_S, FAILED_REST_S / 2)
        elif not self._is_resting(address):
            _, last_s = self._rests.get(address, (0.0, FAILED_REST_S / 2))
            rest_s = min(2 * last_s, FAILED_REST_MAX_S)
            self._rests[address] = (self._network.clock.now_s() + rest_s, rest_s)

    def _broker_addresses(self) -> list[Address]:
        return [self.brokers[node].address for node in sorted(self.brokers)]

    def _check_metadata(
        self, cluster_id: str, topics: Collection[str] | None, address: Address, response: Metadata
    ) -> None:
        if not response.brokers:
            raise ClusterUnreachable(
                self.cluster, f"{join_address(address)}: it knows no brokers yet, as while it starts"
            )
        found = response.cluster_id
        if are_two_clusters(cluster_id, found):
            # The next connection to the same address may lead elsewhere.
            self._connections[address].close()
            what = f"expected Kafka's cluster id {cluster_id}, found {found}"
            raise _AnotherCluster(self.cluster, f"{join_address(address)}: it leads to another Kafka cluster: {what}")
        if are_two_clusters(self._cluster_id, found):
            self._newest = Newest()
        if older := self._newest.take(response.only(topics)):
            raise _OlderMetadata(self.cluster, f"{join_address(address)}: {older}")

    def _learn(self, response: Metadata, *, of_all: bool) -> None:
        """Keep what an answer says. `of_all`: it has all topics that there are."""
        self._cluster_id = response.cluster_id
        self.brokers = {
            one.node_id: Broker(one.node_id, one.host, one.port, one.rack or "") for one in response.brokers
        }
        known = {*self.settings.addresses, *self._broker_addresses()}
        self._rests = {address: rest for address, rest in self._rests.items() if address in known}
        if of_all:
            self._leaders, self._epochs, self._topic_ids = {}, {}, {}
        for topic in response.topics:
            self._leaders[topic.name] = {one.partition_index: one.leader_id for one in topic.partitions}
            self._epochs[topic.name] = {one.partition_index: one.leader_epoch for one in topic.partitions}
            self._topic_ids[topic.name] = topic.topic_id

    def _give_up_or_pause(self, failures: Mapping[Address, ClusterError], deadline: Deadline, backoff: Backoff) -> None:
        distrust = [error for error in failures.values() if isinstance(error, AuthenticationError)]
        if distrust:
            # No broker let us in, and one has said why. The others may be away, but that is no better.
            details = "; ".join(dict.fromkeys(error.detail for error in distrust))
            raise AuthenticationError(self.cluster, details)
        details = self.trouble = _joined(failures.values())
        misled = {address for address, error in failures.items() if isinstance(error, _AnotherCluster)}
        # Where one server of several is another cluster's, the right one may be about to start.
        if misled and (deadline.passed or misled.issuperset(self.settings.addresses)):
            raise ClusterError(self.cluster, f"{details}. Offsets mean nothing in another one: {_CORRECTION}")
        older = [error for error in failures.values() if isinstance(error, _OlderMetadata)]
        if older and deadline.passed:
            raise ClusterUnreachable(self.cluster, f"{_OLDER}: {details}. {_RESTORED}")
        hopeless = all(isinstance(error, UnsupportedBroker) for error in failures.values())
        if hopeless or deadline.passed:
            kind = UnsupportedBroker if hopeless else ClusterUnreachable
            raise kind(self.cluster, f"no broker could be asked. {details}. Please {_ADVICE}")
        backoff.pause(deadline)


def _joined(failures: Collection[ClusterError]) -> str:
    """List the failures, the first ones in full: metadata can name any number of brokers."""
    told = [error.detail for error in failures][:FAILURES_TOLD_MAX]
    more = len(failures) - len(told)
    return "; ".join(told) + (f"; and {more:,} more addresses" if more else "")
