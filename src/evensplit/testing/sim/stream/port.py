"""The simulated clusters as the driver's side asks them: what `ClusterPort` and `MetadataService` promise, and lies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random

from evensplit.core.model import EpochTable, ListedPartition, SplitId, Subscription
from evensplit.core.state.offset_strategies import EARLIEST, TopicPartition
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.kafka.admin.protocol import (
    EndsAndEpochs,
    Listing,
    LogSize,
    TimedOffset,
    TopicState,
    list_subscribed,
)
from evensplit.kafka.wire.error_codes import (
    LEADER_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from evensplit.metadata import ClusterMetadata, Metadata, Stream
from evensplit.testing.sim.bounds.names import TOPICS
from evensplit.testing.sim.lookout import Lookout
from evensplit.testing.sim.profile import Profile
from evensplit.testing.sim.world import Log, SimCluster, World, first_from, record_ms

RECORD_BYTES = 100


class SimPort:
    """One cluster. Of its two brokers, one may lag behind; another one is asked after each `turn`."""

    def __init__(
        self,
        name: str,
        world: World,
        lookout: Lookout,
        faults: Callable[[], frozenset[str]],
        state: Callable[[], EnumeratorState],
    ) -> None:
        self._name = name
        self._world = world
        self._lookout = lookout
        self._faults = faults
        self._state = state
        self._lags = False

    @property
    def trouble(self) -> str:
        """See `ClusterPort.trouble`."""
        return "" if self._is_there else "no broker answered"

    @property
    def _cluster(self) -> SimCluster:
        return self._world.clusters[self._name]

    @property
    def _is_there(self) -> bool:
        return self._name in self._world.clusters and self._cluster.reachable

    def _check_there(self) -> None:
        if not self._is_there:
            raise ClusterUnreachable(self._name, "no broker answered")

    def turn(self) -> None:
        """See `ClusterPort.turn`."""
        self._lags = not self._lags

    def list_partitions(self, subscription: Subscription) -> Listing:
        """See `ClusterPort.list_partitions`."""
        self._check_there()
        faults = self._faults() if self._lags else self._faults() - {"stale-answer"}
        partitions, complete = self._world.answer(self._cluster, faults=faults)
        return list_subscribed(subscription, self._cluster.kafka_id, self._topics(partitions, complete=complete))

    def _topics(self, partitions: Collection[ListedPartition], *, complete: bool) -> list[TopicState]:
        listed: dict[str, list[ListedPartition]] = {}
        for one in partitions:
            listed.setdefault(one.topic, []).append(one)
        found = [
            TopicState(name, ones[0].topic_id, False, [one.partition for one in ones]) for name, ones in listed.items()
        ]
        if not complete:
            whole = {name: len(topic.logs) for name, topic in self._cluster.topics.items()}
            short = {name for name, count in whole.items() if len(listed.get(name, ())) < count}
            found = [one for one in found if one.name not in short]
            found.extend(TopicState(name, "", False, (), TOPIC_AUTHORIZATION_FAILED) for name in sorted(short))
        return found

    def _log(self, key: TopicPartition, *, complete: bool) -> Log | None:
        """The log, if its leader answers."""
        log = self._world.log(SplitId(self._name, *key))
        code = UNKNOWN_TOPIC_OR_PARTITION if log is None else LEADER_NOT_AVAILABLE
        if log is None or (not complete and self._lookout.unanswered(self._faults())):
            if complete:
                raise BrokerError(self._name, f"topic {key[0]!r}, partition {key[1]}: its offset is not known", code)
            return None
        return log

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.list_offsets`."""
        self._check_there()
        logs = {key: self._log(key, complete=complete) for key in wanted}
        return {key: log.start if wanted[key] == EARLIEST else log.end for key, log in logs.items() if log is not None}

    def list_times(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True
    ) -> Mapping[TopicPartition, TimedOffset]:
        """See `ClusterPort.list_times`."""
        self._check_there()
        found: dict[TopicPartition, TimedOffset] = {}
        for key, at_ms in wanted.items():
            log, split = self._log(key, complete=complete), SplitId(self._name, *key)
            if log is not None:
                offset = first_from(split, log, at_ms)
                found[key] = TimedOffset(offset, -1 if offset < 0 else record_ms(split, offset))
        return found

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        """See `ClusterPort.log_sizes`. Each record has RECORD_BYTES."""
        self._check_there()
        logs = {key: self._log(key, complete=False) for key in partitions}
        sizes = {key: log.end - log.start for key, log in logs.items() if log is not None}
        return {key: LogSize(offsets * RECORD_BYTES, offsets) for key, offsets in sizes.items()}

    def list_ends(
        self, partitions: Collection[TopicPartition], *, complete: bool = True, undecided: bool = False
    ) -> EndsAndEpochs:
        """See `ClusterPort.list_ends`."""
        self._check_there()
        ends: dict[TopicPartition, int] = {}
        epochs: dict[TopicPartition, int] = {}
        faults = frozenset() if complete else self._faults()
        for key in partitions:
            log = self._log(key, complete=complete)
            if log is not None:
                table, ends[key] = self._lookout.end(SplitId(self._name, *key), log, faults, self._state())
                epochs[key] = table[0].epoch if table else -1
        return EndsAndEpochs(ends, epochs)

    def list_epochs(
        self,
        leader_epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        known: Mapping[TopicPartition, EpochTable] | None = None,
    ) -> Mapping[TopicPartition, EpochTable]:
        """See `ClusterPort.list_epochs`."""
        self._check_there()
        found: dict[TopicPartition, EpochTable] = {}
        for key, epoch in leader_epochs.items():
            log = self._log(key, complete=False)
            if log is not None and log.epochs[-1].epoch == epoch:
                found[key] = tuple(reversed(log.epochs))
        return found

    def committed_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.committed_offsets`. No group has committed anything."""
        return {}

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `ClusterPort.commit_offsets`."""
        raise NotImplementedError

    def close(self) -> None:
        """See `ClusterPort.close`."""


class SimService:
    """Says which clusters are to be read, as the world has them; a cluster without topics is left out."""

    def __init__(
        self,
        world: World,
        profile: Profile,
        random: Random,
        faults: Callable[[], frozenset[str]],
        state: Callable[[], EnumeratorState],
    ) -> None:
        self._world = world
        self._profile = profile
        self._random = random
        self._faults = faults
        self._state = state
        self._port = 9092

    def read(self) -> Metadata:
        """See `MetadataService.read`."""
        if "slow-answer" in self._faults() and self._random.random() < 0.05:
            raise OSError("the simulated service cannot be reached")
        if "bootstrap-change" in self._faults() and self._random.random() < 0.1:
            self._port += 1
        known = [key for key in self._state().splits if self._state().splits[key].removed_at_ms is None]
        clusters: list[ClusterMetadata] = []
        for cluster in self._world.listed_clusters():
            # A topic that is read is asked for until somebody takes it out, whether it is there or not.
            names = {*cluster.topics, *(key.topic for key in known if key.cluster == cluster.id)}
            topics = tuple(name for name in TOPICS if name in names and name != self._world.narrowed)
            starting = ("latest" if self._profile.latest else "earliest") if cluster.id == "b-c" else None
            if topics:
                servers = (f"{cluster.id}:{self._port}",)
                clusters.append(ClusterMetadata(cluster.id, servers, topics, starting_offsets=starting))
        return Metadata((Stream("all", tuple(clusters)),))

    def close(self) -> None:
        """See `MetadataService.close`."""
