"""The result of one poll of one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from evensplit.core.model import EpochTable, ListedPartition
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import ClusterError
from evensplit.kafka.admin.protocol import Listing
from evensplit.spark.poll.agreement import Words


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The partitions of one cluster and the bounds of their logs, as a poll found them."""

    listing: Listing
    whole: bool
    """It was a discovery that found everything, with both offsets of every partition."""
    earliest: Mapping[TopicPartition, int]
    """Where logs begin: now, if starts are watched; otherwise when the partition was first seen. A partition whose
    leader does not answer is left out, here and in `latest`."""
    latest: Mapping[TopicPartition, int]
    """The log end offsets; under read_committed, the last stable offsets."""
    number: int
    """Number of the poll, from 1 on. Consumers ignore a snapshot whose number they have processed."""
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Under read_committed, the log end offset of each log with open transactions, where it is after the last stable
    offset."""
    discovery: int = 0
    """Number of the poll that `whole` rests on, which can be an earlier one; 0 where it is not whole."""
    epochs: Mapping[TopicPartition, EpochTable] = field(default_factory=dict)
    """The leader epochs of the logs in `latest`, where brokers tell them (KIP-320)."""
    turned: bool = field(default=True, compare=False)
    """Another broker was asked than in the poll before."""
    words: Words = field(default_factory=dict, compare=False)
    """The topic ids that each broker has named so far."""

    def same(self, other: object) -> bool:
        """Whether another snapshot has the same partitions and offsets, whether it was a discovery or not."""
        if not isinstance(other, ClusterSnapshot):
            return False
        return replace(other, number=self.number, whole=self.whole, discovery=self.discovery) == self

    @property
    def fully(self) -> bool:
        """Whether both offsets of every partition are known."""
        return len(self.listing.partitions) == len(self.latest) == len(self.earliest)

    @property
    def bounded(self) -> tuple[ListedPartition, ...]:
        """The partitions with both offsets."""
        if self.fully:
            return self.listing.partitions
        return tuple(one for one in self.listing.partitions if self._is_bounded(one))

    @property
    def unbounded(self) -> tuple[ListedPartition, ...]:
        """The partitions without one of the offsets."""
        if self.fully:
            return ()
        return tuple(one for one in self.listing.partitions if not self._is_bounded(one))

    def _is_bounded(self, one: ListedPartition) -> bool:
        return (one.topic, one.partition) in self.earliest and (one.topic, one.partition) in self.latest


PollResult = ClusterSnapshot | ClusterError
