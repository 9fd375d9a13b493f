"""What one cluster looked like when it was asked."""

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
    """One cluster's answer.

    `listing`: the partitions. `whole`: it says all that there is, and with offsets for all of them; otherwise it lacks
    something, or was not a discovery.
    `earliest`, `latest`: (topic, partition) -> the start of its log, as it was when the partition was first seen or, if
    starts are watched, as it is now; and the end of it now, or where it is decided up to. A partition whose leader
    gives neither is not in them.
    `undecided`: under read_committed, the end of each log that goes on behind that, with transactions that are open.
    `epochs`: the leader epochs of the logs in `latest`, where brokers tell them (KIP-320).
    `turned`: other brokers were asked than the one that answered before. `words`: what each of them has said so far.
    `number`: the how-manieth answer of all it is, since one answer can be looked at several times. `discovery`: the
    number of the discovery that `whole` rests on, which can be an earlier answer; 0 where it is not whole.
    """

    listing: Listing
    whole: bool
    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    number: int
    undecided: Mapping[TopicPartition, int] = field(default_factory=dict)
    discovery: int = 0
    epochs: Mapping[TopicPartition, EpochTable] = field(default_factory=dict)
    turned: bool = field(default=True, compare=False)
    words: Words = field(default_factory=dict, compare=False)

    def same(self, other: object) -> bool:
        """Whether another answer says the same, whether it was a discovery or not."""
        if not isinstance(other, ClusterSnapshot):
            return False
        return replace(other, number=self.number, whole=self.whole, discovery=self.discovery) == self

    @property
    def fully(self) -> bool:
        """Whether both offsets of all partitions are known."""
        return len(self.listing.partitions) == len(self.latest) == len(self.earliest)

    @property
    def bounded(self) -> tuple[ListedPartition, ...]:
        """The partitions that both offsets are known of."""
        if self.fully:
            return self.listing.partitions
        return tuple(one for one in self.listing.partitions if self._is_bounded(one))

    @property
    def unbounded(self) -> tuple[ListedPartition, ...]:
        """The other ones."""
        if self.fully:
            return ()
        return tuple(one for one in self.listing.partitions if not self._is_bounded(one))

    def _is_bounded(self, one: ListedPartition) -> bool:
        return (one.topic, one.partition) in self.earliest and (one.topic, one.partition) in self.latest


PollResult = ClusterSnapshot | ClusterError
