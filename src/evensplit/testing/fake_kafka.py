"""A Kafka cluster in memory: a `ClusterPort` (`evensplit.kafka.admin.protocol`) that fails when told to.

It has no clock, threads or sockets: the same calls give the same answers. It holds how far the logs reach, the records'
times, where transactions are open and what groups have committed, not the records.
"""

from __future__ import annotations

import base64
import copy
import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from evensplit.core.model import EpochStart, EpochTable, Subscription
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, TopicPartition
from evensplit.errors import BrokerError, ClusterError
from evensplit.kafka.admin.epoch_lookup import EpochWalk
from evensplit.kafka.admin.protocol import (
    EndsAndEpochs,
    Listing,
    LogSize,
    TimedOffset,
    TopicState,
    check_commit,
    explain_refused_commit,
    list_subscribed,
)
from evensplit.kafka.wire.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, describe_code


@dataclass(slots=True)
class _Log:
    """Offsets `start` (inclusive) to `end` (exclusive); `times` has (first offset, time in ms) of each append.

    `open`: the first offsets of the transactions that are open.
    `epochs`: those of the leaders, the latest first, each with the offset at which it began.
    `bytes`: all that was appended, on the disk.
    """

    start: int = 0
    end: int = 0
    times: list[tuple[int, int]] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    epochs: list[EpochStart] = field(default_factory=lambda: [EpochStart(0, 0)])
    bytes: int = 0

    @property
    def stable(self) -> int:
        """The last stable offset: everything before it is decided."""
        return min(self.open, default=self.end)

    def elect(self) -> None:
        """Let another leader go on from the end."""
        epoch = self.epochs[0].epoch + 1
        # An epoch without a record leaves no trace.
        self.epochs = [EpochStart(epoch, self.end), *(one for one in self.epochs if one.start < self.end)]

    def epoch_end(self, wanted: int) -> tuple[int, int]:
        """What a broker answers to OffsetForLeaderEpoch: the latest epoch up to `wanted`, and where it ends."""
        if wanted == self.epochs[0].epoch:
            return wanted, self.end
        # What was deleted at the beginning of the log took its epochs along.
        kept = [one for one in self.epochs if one.start > self.start]
        kept += [one._replace(start=self.start) for one in self.epochs[len(kept) : len(kept) + 1]]
        after = [one for one in kept if one.epoch > wanted]
        if not after:
            return -1, -1
        upto = next((one.epoch for one in kept if one.epoch <= wanted), wanted)
        return upto, after[-1].start

    def offset_at(self, timestamp_ms: int) -> int:
        """The first offset whose record has this time or a later one; -1 if none has."""
        for number, (first, time_ms) in enumerate(self.times):
            behind = self.times[number + 1][0] if number + 1 < len(self.times) else self.end
            if time_ms >= timestamp_ms and behind > self.start:
                return max(first, self.start)
        return -1

    def time_of(self, offset: int) -> int:
        """The timestamp of the record at `offset`; -1 for offset -1."""
        return next((time_ms for first, time_ms in reversed(self.times) if first <= offset), -1)


@dataclass(slots=True)
class _Topic:
    topic_id: str
    internal: bool
    logs: list[_Log]


class FakeKafka:
    """One cluster. `cluster` is the id in errors, `cluster_id` what the cluster calls itself.

    The methods that change it raise `KeyError` for a topic, and `IndexError` for a partition, that does not exist.
    """

    def __init__(self, cluster: str = "fake", *, cluster_id: str | None = None) -> None:
        self.cluster = cluster
        self.cluster_id = cluster if cluster_id is None else cluster_id
        self.closed = 0
        """How often `close` was called."""
        self.read_committed = False
        """The isolation level of those who ask for offsets."""
        self.tells_epochs = True
        """Whether leaders tell their epochs; those from before Kafka 2.1 do not."""
        self._topics: dict[str, _Topic] = {}
        self._created = 0
        self._failure: ClusterError | None = None
        self._topic_errors: dict[str, int] = {}
        self._leaderless: set[TopicPartition] = set()
        self._committed: dict[str, dict[TopicPartition, int]] = {}
        self._commit_error = 0
        self._size_error = 0

    # What a test does to the cluster.

    def create_topic(self, topic: str, partitions: int = 1, *, internal: bool = False) -> str:
        """Add a topic with so many (at least 1) empty partitions. Returns its id, which no other topic ever has."""
        if topic in self._topics:
            raise ValueError(f"topic {topic!r} exists already")
        if partitions < 1:
            raise ValueError(f"topic {topic!r} cannot have {partitions} partitions; expected at least 1")
        self._created += 1
        digest = hashlib.sha256(f"{self.cluster_id}/{topic}/{self._created}".encode()).digest()[:16]
        topic_id = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        self._topics[topic] = _Topic(topic_id, internal, [_Log() for _ in range(partitions)])
        return topic_id

    def add_partitions(self, topic: str, total: int) -> None:
        """Let the topic have `total` partitions, more than it has."""
        logs = self._topics[topic].logs
        if total <= len(logs):
            raise ValueError(
                f"topic {topic!r} has {len(logs)} partitions already; expected more than that, not {total}"
            )
        logs.extend(_Log() for _ in range(total - len(logs)))

    def delete_topic(self, topic: str) -> None:
        """Remove the topic, its records, and what groups have committed for it."""
        del self._topics[topic]
        for offsets in self._committed.values():
            for key in [key for key in offsets if key[0] == topic]:
                del offsets[key]

    def recreate_topic(self, topic: str, partitions: int | None = None) -> str:
        """Delete the topic and create it anew: empty, with a new id, and as many partitions unless told otherwise."""
        old = self._topics[topic]
        self.delete_topic(topic)
        return self.create_topic(topic, partitions or len(old.logs), internal=old.internal)

    def append(self, topic: str, partition: int, count: int, *, timestamp_ms: int = 0, record_bytes: int = 100) -> int:
        """Append `count` records with one time, each of so many bytes on the disk. Returns the new end of the log."""
        log = self._topics[topic].logs[partition]
        if count < 0:
            raise ValueError(f"{count} records cannot be appended")
        if count:
            log.times.append((log.end, timestamp_ms))
            log.end += count
            log.bytes += count * record_bytes
        return log.end

    def begin_transaction(self, topic: str, partition: int) -> int:
        """Let a transaction be open from the end of the log on. Returns that offset, for `end_transaction`."""
        log = self._topics[topic].logs[partition]
        log.open.append(log.end)
        return log.end

    def end_transaction(self, topic: str, partition: int, begun: int) -> int:
        """Append the marker that ends the transaction that began at offset `begun`. Returns the new end of the log."""
        log = self._topics[topic].logs[partition]
        log.open.remove(begun)
        log.end += 1
        return log.end

    def isolated(self) -> FakeKafka:
        """The same cluster, as those see it who read what is committed."""
        other = copy.copy(self)
        other.read_committed = True
        return other

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Let the log start at offset `before`, as retention does; never earlier than it does, nor behind its end."""
        log = self._topics[topic].logs[partition]
        log.start = max(log.start, min(before, log.end))

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Cut off what is at offset `end` and behind, as an unclean leader election does, which begins an epoch."""
        log = self._topics[topic].logs[partition]
        log.end = min(log.end, max(end, 0))
        log.start = min(log.start, log.end)
        log.open = [begun for begun in log.open if begun < log.end]
        del log.times[bisect_right(log.times, (log.end - 1, 2**63)) :]
        log.elect()

    def elect(self, topic: str, partition: int) -> None:
        """Let another replica, which has all that there is, lead from now on. It has a new epoch."""
        self._topics[topic].logs[partition].elect()

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Let a consumer of `group` have committed `offset`, whatever `refuse_commits` says."""
        self._topics[topic].logs[partition]
        self._committed.setdefault(group, {})[topic, partition] = offset

    def committed(self, group: str) -> Mapping[TopicPartition, int]:
        """All that `group` has committed, by topic and partition."""
        return dict(sorted(self._committed.get(group, {}).items()))

    def refuse_commits(self, code: int) -> None:
        """Let the cluster refuse every commit of offsets, until `recover`; they can still be read.

        `code` is Kafka's, such as 25 (`UNKNOWN_MEMBER_ID`), its answer while a group has live members.
        """
        if not code:
            raise ValueError("0 is no error")
        self._commit_error = code

    def refuse_sizes(self, code: int) -> None:
        """Let the cluster not tell the sizes of logs, until `recover`.

        `code` is Kafka's, such as 31 (`CLUSTER_AUTHORIZATION_FAILED`).
        """
        if not code:
            raise ValueError("0 is no error")
        self._size_error = code

    def fail_with(self, error: ClusterError) -> None:
        """Let every call raise `error`, until `recover`."""
        self._failure = error

    def hide_topic(self, topic: str, code: int) -> None:
        """Let the metadata have an error instead of the topic, so that listings are incomplete, until `recover`.

        `code` is Kafka's, such as 29 (`TOPIC_AUTHORIZATION_FAILED`).
        """
        if not code:
            raise ValueError("0 is no error")
        self._topic_errors[topic] = code

    def hide_leader(self, topic: str, partition: int) -> None:
        """Let one partition have no leader, so that nobody gives its offsets, until `recover`. It is still listed."""
        self._topics[topic].logs[partition]
        self._leaderless.add((topic, partition))

    def recover(self) -> None:
        """End all failures."""
        self._failure = None
        self._topic_errors.clear()
        self._leaderless.clear()
        self._commit_error = self._size_error = 0

    # What `ClusterPort` asks.

    @property
    def trouble(self) -> str:
        """See `ClusterPort.trouble`."""
        return "" if self._failure is None else self._failure.detail

    def list_partitions(self, subscription: Subscription) -> Listing:
        """See `ClusterPort.list_partitions`."""
        self._raise_failure()
        return list_subscribed(subscription, self.cluster_id, self._metadata())

    def turn(self) -> None:
        """See `ClusterPort.turn`. There is one word only."""

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True, undecided: bool = False
    ) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.list_offsets`. Nothing is tried again, since nothing changes meanwhile."""
        self._raise_failure()
        found: dict[TopicPartition, int] = {}
        for key, offset in wanted.items():
            try:
                found[key] = self._offset(key, offset, undecided=undecided or not self.read_committed)
            except BrokerError:
                if complete:
                    raise
        return found

    def list_ends(
        self, partitions: Collection[TopicPartition], *, complete: bool = True, undecided: bool = False
    ) -> EndsAndEpochs:
        """See `ClusterPort.list_ends`. The offsets are those of `list_offsets`."""
        found = self.list_offsets(dict.fromkeys(partitions, LATEST), complete=complete, undecided=undecided)
        return EndsAndEpochs(found, {key: self._leader_epoch(key) for key in found})

    def list_times(
        self, wanted: Mapping[TopicPartition, int], *, complete: bool = True
    ) -> Mapping[TopicPartition, TimedOffset]:
        """See `ClusterPort.list_times`."""
        found = self.list_offsets(wanted, complete=complete)
        return {key: TimedOffset(at, self._topics[key[0]].logs[key[1]].time_of(at)) for key, at in found.items()}

    def log_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSize]:
        """See `ClusterPort.log_sizes`. What is deleted stays on the disk."""
        self._raise_failure()
        if self._size_error:
            what = f"the sizes of its logs are not told: {describe_code(self._size_error)}"
            raise BrokerError(self.cluster, what, self._size_error)
        known = [key for key in partitions if self._exists(key) and key not in self._leaderless]
        logs = {key: self._topics[key[0]].logs[key[1]] for key in known}
        return {key: LogSize(log.bytes, log.end - log.start) for key, log in logs.items()}

    def list_epochs(
        self,
        leader_epochs: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        known: Mapping[TopicPartition, EpochTable] | None = None,
    ) -> Mapping[TopicPartition, EpochTable]:
        """See `ClusterPort.list_epochs`. Nothing is tried again, since nothing changes meanwhile."""
        self._raise_failure()
        found: dict[TopicPartition, EpochTable] = {}
        for key, epoch in leader_epochs.items():
            walk = EpochWalk(epoch, starts.get(key, 0), (known or {}).get(key, ()))
            if walk.asks is not None and (key in self._leaderless or self._leader_epoch(key) != epoch):
                continue
            while walk.asks is not None:
                walk.take(*self._topics[key[0]].logs[key[1]].epoch_end(walk.asks))
            if walk.is_doubtful:
                walk.settle(self._topics[key[0]].logs[key[1]].start)
            found[key] = walk.table
        return found

    def committed_offsets(self, group: str, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `ClusterPort.committed_offsets`."""
        self._raise_failure()
        offsets = self._committed.get(group, {})
        return {key: offsets[key] for key in partitions if key in offsets}

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `ClusterPort.commit_offsets`. Nothing is tried again, since nothing changes meanwhile."""
        check_commit(offsets)
        self._raise_failure()
        refused: dict[TopicPartition, int] = {}
        for key in sorted(offsets):
            if self._commit_error:
                refused[key] = self._commit_error
            elif not self._exists(key):
                refused[key] = UNKNOWN_TOPIC_OR_PARTITION
            else:
                self._committed.setdefault(group, {})[key] = offsets[key]
        if refused:
            raise explain_refused_commit(self.cluster, group, refused, len(offsets))

    def close(self) -> None:
        """See `ClusterPort.close`."""
        self.closed += 1

    def _metadata(self) -> Iterable[TopicState]:
        for name in sorted(self._topics.keys() | self._topic_errors.keys()):
            if name in self._topic_errors:
                yield TopicState(name, "", False, (), self._topic_errors[name])
            else:
                topic = self._topics[name]
                yield TopicState(name, topic.topic_id, topic.internal, range(len(topic.logs)))

    def _exists(self, key: TopicPartition) -> bool:
        topic = self._topics.get(key[0])
        return topic is not None and 0 <= key[1] < len(topic.logs)

    def _leader_epoch(self, key: TopicPartition) -> int:
        known = self.tells_epochs and self._exists(key)
        return self._topics[key[0]].logs[key[1]].epochs[0].epoch if known else -1

    def _offset(self, key: TopicPartition, wanted: int, *, undecided: bool) -> int:
        if not self._exists(key):
            raise self._no_offset(key, UNKNOWN_TOPIC_OR_PARTITION)
        if key in self._leaderless:
            raise self._no_offset(key, LEADER_NOT_AVAILABLE)
        log = self._topics[key[0]].logs[key[1]]
        if wanted == EARLIEST:
            return log.start
        if wanted == LATEST:
            return log.end if undecided else log.stable
        offset = log.offset_at(wanted)
        return offset if undecided or offset < log.stable else -1

    def _no_offset(self, key: TopicPartition, code: int) -> BrokerError:
        where = f"topic {key[0]!r}, partition {key[1]}"
        return BrokerError(self.cluster, f"{where}: its offset is not known: {describe_code(code)}", code)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
