"""The errors of a read: records that are gone, do not come or cannot be decoded; and how losses are skipped.

The first sentence of each error says what was expected and what was found, and the rest says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from evensplit._kernel import KernelError
from evensplit.core import loss_text
from evensplit.core.loss_text import CURE, CUT_OFF, RECREATED
from evensplit.core.model import SplitId
from evensplit.errors import (
    BatchTooLarge,
    BrokerError,
    ClusterError,
    ClusterUnreachable,
    ConditionFailed,
    CorruptRecordsError,
    DataLossError,
    OldMessageFormat,
    TimestampOutOfRange,
    UndecodableRecord,
)
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.options.client import Address, join_address

EVERYTHING = 2**63 - 1
"""After all offsets."""

DAMAGED = "the records are damaged in the broker's log or on the way from it"

_MAGIC_AT = 16
_OLD_FORMATS = (0, 1)
_SEE_OTHERS = (
    "The records are damaged in the broker's log or on the way from it; see what another consumer reads there, and "
    "start behind them to go on without them"
)
_OTHER_UNIT = (
    "Its producer seems to write another unit than milliseconds. With onTimestampOverflow=null such a timestamp is "
    "null, and with columns that leave timestamp out it is not looked at"
)

_DEAD_LETTERS = (
    "With onDecodeError=column the query goes on, and such records have null there and the reason beside it; with "
    "onDecodeError=null they only have null"
)
_TRY = (
    "As in Spark this ends the query. Put what leaves such records out before it, as in value.n <> 0 AND 10 / value.n "
    "> 1; of what cannot be cast TRY_CAST makes null"
)

log = logging.getLogger("evensplit")


def pass_over(read: PartitionRead, error: DataLossError, behind: int, now_s: float) -> None:
    """Let `read` continue at offset `behind`, or end before it, and log `error` with the number of offsets.

    Some of them may never have had a record, so this is the most that can be lost.
    """
    found, _, _ = error.detail.partition(". ")
    skipped = read.skip(behind, now_s)
    log.warning("cluster %r, topic %r, partition %d: %s. At most %d offsets were skipped", *read.split, found, skipped)


def take_back(read: PartitionRead, now_s: float) -> None:
    """Drop the loss that metadata told of `read`, since it has the partition again. That counts as no progress yet.

    What its leader says of its log from now on is looked into anew, for as long as is left.
    """
    assert read.search is not None
    read.search.begin_anew(now_s)
    if isinstance(read.trouble, DataLossError):
        detail = f"{read}: brokers did not know the topic or the partition, and do again; its leader is asked next"
        read.trouble = ClusterUnreachable(read.split.cluster, detail)


def absent(read: PartitionRead) -> DataLossError:
    """The topic or partition is not in the metadata."""
    return _lost(
        read,
        f"the topic or the partition does not exist (any more). To go on without it, {CURE}",
    )


def created_anew(read: PartitionRead, expected: str, found: str) -> DataLossError:
    """The topic of that name has another id."""
    return _lost(
        read,
        f"{RECREATED} after the batch was planned: expected the topic id {expected}, found "
        f"{found}. To read the new topic, {CURE}",
    )


def begun_anew(read: PartitionRead, expected: int, found: int) -> DataLossError:
    """The topic of that name, which has no id, has earlier leader epochs than were known of it."""
    return _lost(
        read,
        f"{RECREATED} after the batch was planned: expected the leader epoch {expected} or a later one, found {found}. "
        f"To read the new topic, {CURE}",
    )


def mixed(read: PartitionRead, expected: str, found: str) -> DataLossError:
    """The topic was read by its name, and has another id afterwards."""
    return DataLossError(
        *read.split,
        f"{RECREATED} while it was read: expected the topic id {expected}, found {found}. "
        "Brokers before Kafka 3.1 give records by the topic's name only, so rows that were handed out may be of the "
        "new topic: the task fails, with failOnDataLoss=false too, and has to be run again",
    )


def vanished(read: PartitionRead) -> DataLossError:
    """The topic was read by its name, and is gone afterwards."""
    return DataLossError(
        *read.split,
        "the topic was deleted while it was read. Brokers before Kafka 3.1 give records by the topic's name only, so "
        "rows that were handed out may be of another topic that had its name in between: the task fails, with "
        "failOnDataLoss=false too, and has to be run again",
    )


def unsure(read: PartitionRead, brokers: Sequence[Address], timeout_ms: int) -> ClusterUnreachable:
    """The topic was read by its name, and not all brokers that gave records could confirm its id afterwards."""
    return ClusterUnreachable(
        read.split.cluster,
        f"topic {read.split.topic!r}: it was read by its name, and whether it still was the same topic is not sure, "
        f"since within {timeout_ms} ms (kafkaConsumer.pollTimeoutMs, or kafka.request.timeout.ms) these brokers, which "
        f"gave the records, did not confirm it: {', '.join(map(join_address, brokers))}. See whether they run and can "
        "be reached from this host, and run the task again",
    )


def replaced(read: PartitionRead, offset: int) -> DataLossError:
    """By its leader epochs, the log is another one from offset `offset` on than when the batch was planned."""
    return _lost(
        read,
        f"{loss_text.replaced('the records', offset)} after the batch was planned. Set "
        "unclean.leader.election.enable=false for topics that must not lose records; to go on with what there is, "
        f"{CURE}",
    )


def unheard(
    read: PartitionRead, error: DataLossError, brokers: Sequence[Address], timeout_ms: int
) -> ClusterUnreachable:
    """It seems to be lost, but some brokers have not confirmed that."""
    found, _, _ = error.detail.partition(". ")
    return ClusterUnreachable(
        read.split.cluster,
        f"{read}: {found}; but that is not sure, since within {timeout_ms} ms (kafkaConsumer.pollTimeoutMs, or "
        f"kafka.request.timeout.ms) these brokers did not confirm it: {', '.join(map(join_address, brokers))}. See "
        "whether they run and can be reached from this host",
    )


def starts_later(read: PartitionRead, first: int, behind: int) -> DataLossError:
    """The log has offsets `first` to `behind` (exclusive), and begins after the position."""
    return _lost(
        read,
        f"its log now has {_offsets(first, behind)}: earlier records were deleted, by retention or on request. Let "
        f"retention be longer than a query may lag behind; to go on with what there is, {CURE}",
    )


def ends_before(read: PartitionRead, first: int, behind: int) -> DataLossError:
    """The log has offsets `first` to `behind` (exclusive), and ends before the position."""
    return _lost(
        read,
        f"its log now has {_offsets(first, behind)}: {CUT_OFF}. To go on with what there is, {CURE}",
    )


def stands_still(read: PartitionRead) -> ClusterUnreachable:
    """All records that came are before the requested offset."""
    detail = f"{read}: the broker sent only records before offset {read.position}, which it was asked for"
    return ClusterUnreachable(read.split.cluster, detail)


def does_not_grow(read: PartitionRead, behind: int) -> DataLossError:
    """The log ends at offset `behind`, before the end of the range, and has not grown while the reader waited."""
    return _lost(
        read,
        f"its log ends at offset {behind} and did not grow: {CUT_OFF}. To go on with what there is, {CURE}",
    )


def remote(read: PartitionRead, local: int) -> ClusterUnreachable:
    """The records are in remote storage, as all before offset `local`, and do not come. Nothing is lost."""
    return ClusterUnreachable(
        read.split.cluster,
        f"{read}: the broker gave no records. They are in remote storage (all before offset {local} are), and did "
        "not come from there in time; see the broker's log and its remote.fetch.max.wait.ms",
    )


def led_anew(read: PartitionRead, epoch: int) -> ClusterUnreachable:
    """The broker had no records, and another one leads the partition by now. Nothing is lost yet."""
    return ClusterUnreachable(
        read.split.cluster,
        f"{read}: the broker gave no records, and is not the leader any more: expected the leader epoch "
        f"{read.leader_epoch}, found {epoch}. The new leader is asked next",
    )


def undecided(read: PartitionRead, stable: int) -> ClusterUnreachable:
    """Transactions are open from offset `stable` on. Nothing is lost; the records may not be read yet."""
    return ClusterUnreachable(
        read.split.cluster,
        f"{read}: {wanted(read)}, but from offset {stable} on there is a transaction that is neither committed nor "
        "aborted yet, and kafka.isolation.level is read_committed. The batch was planned under read_uncommitted: wait "
        "for the transaction, end it (kafka-transactions.sh finds and aborts one that hangs), or read this batch as it "
        "was planned",
    )


def wanted(read: PartitionRead) -> str:
    """The rest of the present range, for errors."""
    return f"offsets {read.position} to {read.end - 1} were to be read"


def _lost(read: PartitionRead, found: str) -> DataLossError:
    return DataLossError(*read.split, f"{wanted(read)}, but {found}")


def _offsets(first: int, behind: int) -> str:
    return f"{first} to {behind - 1}" if first < behind else f"nothing before offset {behind}"


def overdue(read: PartitionRead, trouble: ClusterError, timeout_ms: int) -> ClusterError:
    """`trouble` has kept `read` from making progress for `timeout_ms`."""
    late = f"{read}: nothing came within {timeout_ms} ms (kafkaConsumer.pollTimeoutMs, or kafka.request.timeout.ms)"
    if isinstance(trouble, BrokerError):
        return BrokerError(trouble.cluster, f"{late}. {trouble.detail}", trouble.code)
    return ClusterUnreachable(trouble.cluster, f"{late}. {trouble.detail}")


def too_long(split: SplitId, offset: int, length: int, batch_bytes_max: int) -> BatchTooLarge:
    """A record batch claims a length of `length` bytes, as the broker keeps it."""
    return BatchTooLarge(
        *split,
        offset,
        f"a record batch claims a length of {length} bytes, and maxBatchBytes is {batch_bytes_max}. Raise "
        "maxBatchBytes to read it, in a worker with memory for several times as much; if the topic's max.message.bytes "
        f"does not allow so much, {DAMAGED}",
    )


def refused_by_kernel(
    split: SplitId, offset: int, data: bytearray, begin: int, error: KernelError, batch_bytes_max: int
) -> CorruptRecordsError:
    """The kernel refused the records in `data` from `begin` on, when it was at `offset`."""
    kind, base, detail = error.args
    at = base if base >= 0 else offset
    if kind == "too_large":
        return BatchTooLarge(
            *split,
            at,
            f"{detail} ({kind}), and maxBatchBytes is {batch_bytes_max}. Raise maxBatchBytes to read it, in a worker "
            "with memory for several times as much, and let producers send smaller batches (batch.size)",
        )
    if kind == "unsupported_magic" and _magic(data, begin) in _OLD_FORMATS:
        return OldMessageFormat(*split, at, detail)
    if kind == "timestamp":
        return TimestampOutOfRange(*split, at, f"{detail}. {_OTHER_UNIT}")
    if kind == "undecodable":
        return UndecodableRecord(*split, at, f"{detail}. {_DEAD_LETTERS}")
    if kind == "condition":
        return ConditionFailed(*split, at, f"its condition (where) cannot be evaluated: {detail}. {_TRY}")
    return CorruptRecordsError(*split, at, f"{detail} ({kind}). {_SEE_OTHERS}")


def _magic(data: bytearray, begin: int) -> int:
    """The version of the message format, which is at the same place in all formats; -1 if `data` is too short."""
    return data[begin + _MAGIC_AT] if begin + _MAGIC_AT < len(data) else -1
