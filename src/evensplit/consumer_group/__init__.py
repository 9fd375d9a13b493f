"""The balanced assignment for Kafka consumer groups, and a consumer for them, on top of kafka-python.

    from evensplit.consumer_group import BalancedAssignor, GroupConsumer

    GroupConsumer("orders", group_id="billing", partition_assignment_strategy=[BalancedAssignor])

**Assignors.** The leader of the group gives every partition to one member that subscribes to its topic. How is the
policy, and policies mean what they mean in `evensplit.assign`: `BalancedAssignor`, `StickyAssignor`, `FairAssignor`.
Each has a protocol name of its own, so members with different policies never share a plan.

**The consumer.** `GroupConsumer` is kafka-python's `KafkaConsumer`, but finishes every rebalance that it has begun, and
tells what it lost, kept and gained. The eager assignors work in a plain `KafkaConsumer`, too, but that can fall out of
its group for good. `CooperativeBalancedAssignor` works in a `GroupConsumer` only.
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
