"""The reads of partitions, the requests for them, and how far a response brings them. No I/O."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterError, DataLossError
from evensplit.kafka.fetch.second_opinion import Search
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.wire.requests import FetchPartition, write_fetch

FETCH_BYTES_MIN = 64 << 10
"""The least that is requested of a partition; less would gain nothing."""

BATCHES_WALKED_MAX = 5_000
"""How many batches of a response are walked, at about a microsecond each. If it has more, it is decoded first."""

READS_ASKED_MAX = 1_000
"""The most partitions in one request."""

_BYTES_PER_OFFSET = 1024.0
_PARTITIONS_BYTES_MAX = 1 << 20
_BATCH_PREFIX = struct.Struct(">qi")
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_BATCH_OVERHEAD = 12
_BATCH_HEADER = 61
# Of fewer bytes, neither this module nor the kernel can say more than that they begin a batch.
_BATCH_PEEK = 17


class PartitionRead:
    """How far one split was fetched: its ranges, one after the other, in ascending order.

    - position: the next offset to request. end: where the present range ends, exclusive.
    - stamp_s: when this split last made progress, on the clock of `Waiting`.
    - trouble: the error that has kept it from making progress since then, if any.
    - search: the answers of brokers since the partition seems to be gone; None while it does not.
    - topic_id: the id by which its topic is fetched; empty if not known.
    - begun: whether something was fetched, after which only the same topic may follow.
    - leader_epoch: that of its leader, or -1 if not known. A broker that knows only an earlier one refuses the request.
    - epoch_seen: the latest epoch that a leader or a record of it had under this topic id, or -1.
    - leader: where the broker listens that was last asked as its leader. epoch_refused_by: the last of them that has
      not known an epoch as late as the one it was sent; None where none has since the last progress.
    - epoch: the leader epoch of the last record before `position`, or -1 if not known; no later record has an earlier
      one. epoch_behind: for positions up to this offset, it is exactly the epoch of the record before.
    - epoch_last: no record before offset `epoch_last_end` has a later epoch; -1 if not known.
    - replaced: whether the last response was of another log than was read so far, which may also be damage in transit.
    - fetch_bytes_min: the least to request; raised if a record batch did not fit into a response.
    - follows: whether it is read from a follower, to which the leader has redirected it (KIP-392).
    - leader_only: whether that failed before, so that a follower is not tried again.
    - probing: whether nothing came although the log goes on. It is then requested alone until that is settled.
    - empty_responses: how many responses in a row had nothing when it was requested alone.
    - remote: whether its records are known to be in remote storage.
    """

    __slots__ = (
        "_ranges",
        "begun",
        "bytes_per_offset",
        "empty_responses",
        "end",
        "epoch",
        "epoch_behind",
        "epoch_last",
        "epoch_last_end",
        "epoch_refused_by",
        "epoch_seen",
        "fetch_bytes_min",
        "follows",
        "leader",
        "leader_epoch",
        "leader_only",
        "position",
        "probing",
        "remote",
        "replaced",
        "search",
        "split",
        "stamp_s",
        "topic_id",
        "trouble",
    )

    def __init__(self, split: SplitId, ranges: Iterable[Range], epochs: RangeEpochs | None = None) -> None:
        self.split = split
        self._ranges = deque(ranges)
        first = self._ranges.popleft()
        self.position, self.end = first.start, first.end
        self.stamp_s = 0.0
        self.trouble: ClusterError | DataLossError | None = None
        self.search: Search | None = None
        self.topic_id = ""
        self.begun = False
        self.leader_epoch = self.epoch_seen = -1
        self.epoch = self.epoch_behind = self.epoch_last = self.epoch_last_end = -1
        self.replaced = False
        self.leader: Address | None = None
        self.epoch_refused_by: Address | None = None
        if epochs is not None and epochs.start <= self.position:
            self.epoch, self.epoch_last, self.epoch_last_end = epochs.before, epochs.last, epochs.end
            # If both are the same, so are all in between.
            self.epoch_behind = epochs.end if epochs.before == epochs.last else epochs.start
        self.fetch_bytes_min = 0
        self.follows = False
        self.leader_only = False
        self.probing = False
        self.empty_responses = 0
        self.remote = False
        self.bytes_per_offset = _BYTES_PER_OFFSET

    @property
    def key(self) -> TopicPartition:
        """Topic and partition number."""
        return self.split.topic, self.split.partition

    @property
    def finished(self) -> bool:
        """Whether everything has been fetched."""
        return self.position >= self.end

    def advance(self, position: int, now_s: float) -> None:
        """Note that everything before `position` was fetched; begins the next range if this one is done."""
        assert self.position <= position <= self.end
        self.position, self.stamp_s, self.trouble = position, now_s, None
        self.search, self.begun, self.replaced, self.epoch_refused_by = None, True, False, None
        self.reset_probe()
        while self._ranges and self.finished:
            following = self._ranges.popleft()
            self.position, self.end = following.start, following.end

    def skip(self, behind: int, now_s: float) -> int:
        """Pass over everything before offset `behind`, in this range and later ones. Returns the number of offsets."""
        skipped = 0
        while not self.finished and self.position < behind:
            position = min(behind, self.end)
            skipped += position - self.position
            self.advance(position, now_s)
        return skipped

    def reset_probe(self) -> None:
        """Forget earlier empty responses."""
        self.probing, self.empty_responses, self.remote = False, 0, False

    @property
    def last_fetched_epoch(self) -> int:
        """The leader epoch of the record just before `position`; -1 if not known."""
        return self.epoch if self.position <= self.epoch_behind else -1

    def expected_bytes(self) -> float:
        """About how many bytes are left, estimated from those that have come so far."""
        return (self.end - self.position) * self.bytes_per_offset

    def fetch_bytes(self, partition_bytes_max: int) -> int:
        """How many bytes to request: the expected ones with a margin, within bounds."""
        wanted = max(FETCH_BYTES_MIN, int(1.25 * self.expected_bytes()))
        return max(self.fetch_bytes_min, min(wanted, partition_bytes_max))

    def __str__(self) -> str:
        return f"topic {self.split.topic!r}, partition {self.split.partition}, offset {self.position}"


def reads_of(ranges: Iterable[Range], epochs: Mapping[SplitId, RangeEpochs] | None = None) -> list[PartitionRead]:
    """One read for each split that has something to read, in the order of the splits.

    Raises:
        ValueError: a range ends before it starts, or two ranges of a split overlap.
    """
    by_split: dict[SplitId, list[Range]] = {}
    for one in sorted(ranges):
        if not 0 <= one.start <= one.end:
            raise ValueError(f"{one.split} cannot be read from {one.start} to {one.end}")
        if not one.size:
            continue
        listed = by_split.setdefault(one.split, [])
        if listed and one.start < listed[-1].end:
            raise ValueError(f"{one.split} has two ranges with offset {one.start}")
        listed.append(one)
    known = epochs or {}
    return [PartitionRead(split, listed, known.get(split)) for split, listed in by_split.items()]


def choose(queue: deque[PartitionRead], response_bytes_max: int) -> list[PartitionRead]:
    """Take reads from the front of `queue` that are expected to fill a response, at least one, grouped by topic.

    Twice as much is chosen as fits, since less may come than expected. The read at the front stays the first. A read
    that is probed is chosen alone, so that no other can be the reason for an empty response.
    """
    chosen: dict[str, list[PartitionRead]] = {}
    expected, count = 0.0, 0
    while queue and count < READS_ASKED_MAX and expected < 2 * response_bytes_max:
        if count and queue[0].probing:
            break
        read = queue.popleft()
        if read.finished:
            continue
        if read.probing:
            return [read]
        chosen.setdefault(read.split.topic, []).append(read)
        expected += read.expected_bytes()
        count += 1
    return [read for listed in chosen.values() for read in listed]


def answer_bytes_max(reads: Sequence[PartitionRead], response_bytes_max: int, batch_bytes_max: int) -> int:
    """How long the response to a request for `reads` may be: the requested bytes, one record batch, and the envelope.

    A broker sends one batch whole, whatever the limits (KIP-74). The envelope has the partitions and the aborted
    transactions, each of which takes less than a quarter of the bytes of its records.
    """
    asked = _records_bytes_max(reads, response_bytes_max)
    return asked + asked // 4 + batch_bytes_max + _PARTITIONS_BYTES_MAX


def _records_bytes_max(reads: Sequence[PartitionRead], response_bytes_max: int) -> int:
    return max(response_bytes_max, *(read.fetch_bytes_min for read in reads))


def fetch_request(
    reads: Sequence[PartitionRead],
    settings: ClientSettings,
    response_bytes_max: int,
    wait_ms: int,
    version: int,
) -> bytearray:
    """A request for all of `reads`, in their order, outside of fetch sessions (KIP-227).

    Topics are named up to `FETCH_BY_NAME_VERSION`; later versions have the topic ids of the reads.
    """
    topics: dict[tuple[str, str], list[FetchPartition]] = {}
    for read in reads:
        topics.setdefault((read.split.topic, read.topic_id), []).append(
            FetchPartition(
                partition=read.split.partition,
                current_leader_epoch=read.leader_epoch,
                fetch_offset=read.position,
                last_fetched_epoch=read.last_fetched_epoch,
                partition_max_bytes=read.fetch_bytes(settings.max_partition_fetch_bytes),
            )
        )
    return write_fetch(
        topics,
        version,
        max_wait_ms=wait_ms,
        max_bytes=_records_bytes_max(reads, response_bytes_max),
        isolation_level=int(settings.read_committed),
        rack_id="" if any(read.leader_only for read in reads) else settings.client_rack,
    )


class Walked(NamedTuple):
    """The result of walking over the headers of the record batches in a response.

    - position: the offset to continue from; None if there are more batches than may be walked.
    - batches: how many whole batches were walked. used: how many bytes they have.
    - cut_bytes: the claimed length of the batch after them that is cut off; 0 if none is.
    - ended_by: the first offset of the batch that begins after the range and so ends it; -1 if there is none.
    """

    position: int | None
    batches: int
    used: int
    cut_bytes: int
    ended_by: int = -1


def walk(data: bytearray, begin: int, end: int, position: int, offset_end: int, batches_max: int) -> Walked:
    """Walk over the headers of the record batches in `data[begin:end]`, without decoding their records.

    When the kernel decodes them, it comes to the same position, or to an error if a header is wrong.
    """
    at, batches = begin, 0
    while at + _BATCH_PEEK <= end:
        base, length = _BATCH_PREFIX.unpack_from(data, at)
        behind = at + _BATCH_OVERHEAD + length
        if batches == batches_max:
            return Walked(None, batches, at - begin, 0)
        if base >= offset_end:
            # Even if it is cut off: everything before it was compacted away.
            return Walked(offset_end, batches, at - begin, 0, base)
        if behind > end:
            return Walked(position, batches, at - begin, _BATCH_OVERHEAD + length)
        if behind < at + _BATCH_HEADER:
            break
        batches += 1
        position = max(position, base + _LAST_OFFSET_DELTA.unpack_from(data, at + _LAST_OFFSET_DELTA_AT)[0] + 1)
        at = behind
        if position >= offset_end:
            return Walked(offset_end, batches, at - begin, 0)
    return Walked(position, batches, at - begin, _BATCH_HEADER if 0 < end - at < _BATCH_PEEK else 0)


def batch_lengths(data: bytearray, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The first offset and the length of each record batch in `data[begin:end]`, as they claim; the last may be cut."""
    at = begin
    while at + _BATCH_OVERHEAD <= end:
        base, length = _BATCH_PREFIX.unpack_from(data, at)
        yield base, _BATCH_OVERHEAD + length
        if length <= 0:
            return
        at += _BATCH_OVERHEAD + length
