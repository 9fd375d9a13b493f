"""Records that were to be read and are not there: what is said of them, and how they are passed over.

The first sentence of each error says what was expected and what was found, what follows it says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from evensplit.errors import BrokerError, ClusterError, ClusterUnreachable, DataLossError
from evensplit.kafka.fetch.request import PartitionRead
from evensplit.kafka.options.client import Address, join_address

EVERYTHING = 2**63 - 1
"""Behind all offsets."""

_CURE = "set failOnDataLoss=false, or start with a new checkpoint"

log = logging.getLogger("evensplit")


def pass_over(read: PartitionRead, error: DataLossError, behind: int, now_s: float) -> None:
    """Let `read` go on at offset `behind`, or end before it, and log `error` as a warning with the number of offsets.

    Some of them may never have had a record, so that it is the most that can be lost.
    """
    found, _, _ = error.detail.partition(". ")
    skipped = read.skip(behind, now_s)
    log.warning("cluster %r, topic %r, partition %d: %s. At most %d offsets were skipped", *read.split, found, skipped)


def absent(read: PartitionRead) -> DataLossError:
    """The metadata does not have it."""
    return _lost(
        read,
        f"the topic or the partition does not exist (any more). To go on without it, {_CURE}",
    )


def created_anew(read: PartitionRead, expected: str, found: str) -> DataLossError:
    """What has the topic's name has another id."""
    return _lost(
        read,
        f"the topic was deleted and created anew after the batch was planned: expected the topic id {expected}, found "
        f"{found}. To read the new topic, {_CURE}",
    )


def mixed(read: PartitionRead, expected: str, found: str) -> DataLossError:
    """What was read by its name has another id now that it was read."""
    return DataLossError(
        *read.split,
        f"the topic was deleted and created anew while it was read: expected the topic id {expected}, found {found}. "
        "Brokers before Kafka 3.1 give records by the topic's name only, so rows that were handed out may be of the "
        "new topic: the task fails, with failOnDataLoss=false too, and has to be run again",
    )


def unsure(read: PartitionRead, brokers: Sequence[Address], timeout_ms: int) -> ClusterUnreachable:
    """It was read by its name, and whose records these were, not all can say who gave them."""
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
        f"an unclean leader election replaced the records from offset {offset} on after the batch was planned. Set "
        "unclean.leader.election.enable=false for topics that must not lose records; to go on with what there is, "
        f"{_CURE}",
    )


def unheard(
    read: PartitionRead, error: DataLossError, brokers: Sequence[Address], timeout_ms: int
) -> ClusterUnreachable:
    """It would be lost, but some brokers may know better."""
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
        f"its log now has {_offsets(first, behind)}: what comes before was deleted, by retention or on request. Let "
        f"retention be longer than a query may lag behind; to go on with what there is, {_CURE}",
    )


def ends_before(read: PartitionRead, first: int, behind: int) -> DataLossError:
    """The log has offsets `first` to `behind` (exclusive), and ends before the position."""
    return _lost(
        read,
        f"its log now has {_offsets(first, behind)}: it was cut off by an unclean leader election, or the topic was "
        f"created anew. To go on with what there is, {_CURE}",
    )


def stands_still(read: PartitionRead) -> ClusterUnreachable:
    """What was sent is before what was asked for."""
    detail = f"{read}: the broker sent only records before offset {read.position}, which it was asked for"
    return ClusterUnreachable(read.split.cluster, detail)


def does_not_grow(read: PartitionRead, behind: int) -> DataLossError:
    """The log ends at offset `behind`, before the end of the range, which is waited for."""
    return _lost(
        read,
        f"its log ends at offset {behind} and did not grow: it was cut off by an unclean leader election, or the topic "
        f"was created anew. To go on with what there is, {_CURE}",
    )


def remote(read: PartitionRead, local: int) -> ClusterUnreachable:
    """It is in remote storage, where everything before offset `local` is, and does not come. Nothing is lost."""
    return ClusterUnreachable(
        read.split.cluster,
        f"{read}: the broker gave no records. They are in remote storage (all before offset {local} are), and did "
        "not come from there in time; see the broker's log and its remote.fetch.max.wait.ms",
    )


def undecided(read: PartitionRead, stable: int) -> ClusterUnreachable:
    """Transactions are open from offset `stable` on. Nothing is lost; it is not to be read yet."""
    return ClusterUnreachable(
        read.split.cluster,
        f"{read}: {wanted(read)}, but from offset {stable} on there is a transaction that is neither committed nor "
        "aborted yet, and kafka.isolation.level is read_committed. The batch was planned under read_uncommitted: wait "
        "for the transaction, end it (kafka-transactions.sh finds and aborts one that hangs), or read this batch as it "
        "was planned",
    )


def wanted(read: PartitionRead) -> str:
    """What is still to be read of the present range."""
    return f"offsets {read.position} to {read.end - 1} were to be read"


def _lost(read: PartitionRead, found: str) -> DataLossError:
    return DataLossError(*read.split, f"{wanted(read)}, but {found}")


def _offsets(first: int, behind: int) -> str:
    return f"{first} to {behind - 1}" if first < behind else f"nothing before offset {behind}"


def overdue(read: PartitionRead, trouble: ClusterError, timeout_ms: int) -> ClusterError:
    """What is to be raised where `trouble` has kept `read` from getting on for `timeout_ms`."""
    late = f"{read}: nothing came within {timeout_ms} ms (kafkaConsumer.pollTimeoutMs, or kafka.request.timeout.ms)"
    if isinstance(trouble, BrokerError):
        return BrokerError(trouble.cluster, f"{late}. {trouble.detail}", trouble.code)
    return ClusterUnreachable(trouble.cluster, f"{late}. {trouble.detail}")
