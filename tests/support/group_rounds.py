"""Consumer groups without a broker: members built by hand, and the owners of partitions after each round."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from evensplit.consumer_group import BalancedAssignor, CooperativeBalancedAssignor, GroupAssignor
from tests.support.groups import Brokers

Owned = dict[str, list[str]]


class Group:
    """Members that go through a protocol as kafka-python runs it, bytes included.

    `kind`: the assignor of all. `held`: what each member holds under the cooperative protocol.
    """

    def __init__(self, topics: Mapping[str, int], kind: type[GroupAssignor] = BalancedAssignor) -> None:
        self.topics = dict(topics)
        self.kind = kind
        self.held: dict[str, set[TopicPartition]] = {}
        self.members: dict[str, tuple[GroupAssignor, tuple[str, ...]]] = {}
        self.brokers: dict[str, Brokers] = {}
        self.generation = 0

    def join(self, member: str, *topics: str) -> None:
        assignor = self.kind()
        self.held[member] = set()
        if isinstance(assignor, CooperativeBalancedAssignor):
            assignor.bind(lambda: self.held[member])
        self.members[member] = (assignor, topics)
        self.brokers[member] = Brokers({})

    def subscribe(self, member: str, *topics: str) -> None:
        self.members[member] = (self.members[member][0], topics)

    def leave(self, member: str) -> None:
        del self.members[member]

    def rebalance(
        self, leader: str = "", *, knows: Mapping[str, int] | None = None, deaf: tuple[str, ...] = ()
    ) -> Owned:
        """One round; the members in `deaf` do not hear its result.

        `knows`: the topics that the leader knows, if the brokers' answer to its last request has not come yet.
        """
        leader = leader or min(self.members)
        if knows is None:
            self.brokers[leader].answer(self.topics)
        else:
            self.brokers[leader].know(knows)
        self.generation += 1
        sent = [
            SimpleNamespace(
                member_id=member,
                group_instance_id=None,
                metadata=ConsumerProtocolSubscription.decode(assignor.metadata(set(topics)).encode()),
            )
            for member, (assignor, topics) in self.members.items()
        ]
        plans = self.assignor(leader).assign(self.brokers[leader], sent)
        assert set(plans) == set(self.members)
        owned: Owned = {}
        for member, plan in plans.items():
            heard = ConsumerProtocolAssignment.decode(plan.encode())
            owned[member] = sorted(f"{topic}-{number}" for topic, number in heard.partitions())
            if member not in deaf:
                self.held[member] = set(heard.partitions())
                self.assignor(member).on_assignment(heard, self.generation)
        return owned

    def assignor(self, member: str) -> GroupAssignor:
        return self.members[member][0]


def loads(owned: Owned) -> list[int]:
    return sorted(map(len, owned.values()), reverse=True)


def moved(before: Owned, after: Owned) -> int:
    """How many partitions went from one member that is still there to another."""
    owner = {name: member for member, names in after.items() for name in names}
    return sum(
        name in owner and owner[name] != member for member, names in before.items() if member in after for name in names
    )


def names(*parts: tuple[str, int]) -> list[str]:
    return sorted(f"{topic}-{number}" for topic, count in parts for number in range(count))
