"""The balanced assignment for Kafka consumer groups, and a consumer for them, on top of kafka-python.

    from evensplit.consumer_group import BalancedAssignor, GroupConsumer

    GroupConsumer("orders", group_id="billing", partition_assignment_strategy=[BalancedAssignor])

**Assignors.** The leader of the group assigns each partition to a member that subscribes to its topic, by a policy of
`evensplit.assign`: `BalancedAssignor`, `StickyAssignor`, `FairAssignor`. Each has a protocol name of its own, so
members with different policies never share a plan.

**The consumer.** `GroupConsumer` is kafka-python's `KafkaConsumer`, but it finishes every rebalance that it has begun,
and reports which partitions it lost, kept and gained. The eager assignors also work in a plain `KafkaConsumer`, but
that can fall out of its group without noticing. `CooperativeBalancedAssignor` works in a `GroupConsumer` only.
"""

from evensplit.consumer_group.assignors import (
    BalancedAssignor,
    CooperativeBalancedAssignor,
    FairAssignor,
    GroupAssignor,
    StickyAssignor,
)
from evensplit.consumer_group.consumer import GroupConsumer

__all__ = [
    "BalancedAssignor",
    "CooperativeBalancedAssignor",
    "FairAssignor",
    "GroupAssignor",
    "GroupConsumer",
    "StickyAssignor",
]
