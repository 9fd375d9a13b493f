"""The assignors: how the leader of a group assigns partitions to its members, by policy.

**Claims.** Each member tells the leader which partitions it owns, and since which generation of the group. A member
that missed a rebalance sends an old claim: the claim with the highest generation wins, and a partition that two members
claim for that generation counts as free. Data that is no such claim, from other assignors or damaged, counts as an
empty claim: that costs moves, but never breaks the group.

**Topics that the leader does not know yet.** A consumer asks the brokers for the partitions of its own topics, and a
leader for those of all members, but only when it makes its first plan for them. kafka-python rebalances again once it
has the answer. Until then nothing moves: claims on such topics hold, and free partitions are assigned provisionally.
Otherwise a change of the leader alone would move partitions there and back.

**Two protocols.** Under the eager one, a member gives up all its partitions when the group rebalances, and gets most of
them back. Under the cooperative one (KIP-429) it keeps them, and lists them in a field of its subscription; a partition
that it must give up has no owner in that round, and goes to the next owner in the following round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from evensplit.consumer_group.user_data import CLUSTER, decode_claim, encode_claim
from evensplit.core.assign import Assignment, Claim, assign, resolve_claims
from evensplit.core.assign.terms import Reader
from evensplit.core.model import SplitId, Topic
from evensplit.core.policies import BALANCED, FAIR, STICKY
from evensplit.core.text import short

log = logging.getLogger(__name__)

NO_GENERATION = -1
"""Less than every generation."""

EAGER_VERSION = 0
COOPERATIVE_VERSION = 1
"""Versions of Kafka's envelope around the user data; from 1 on it has a field for partitions that a member holds."""


class GroupAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python comes without types
    """The base of the assignors of this package.

    Give a consumer the class, and kafka-python makes an instance for it. An instance must not be shared between
    consumers, since it remembers the partitions of its consumer.
    """

    policy: str
    """Its name in `evensplit.assign`."""

    def __init__(self) -> None:
        self._owned: tuple[SplitId, ...] = ()
        self._generation: int | None = None
        # Topic -> how many responses must still come before its absence from them means that it does not exist.
        self._answers_due: dict[str, int] = {}
        self._listens = False
        # Partitions that provisional plans have assigned beyond the claims, and the generation after which they did.
        self._dealt: set[tuple[SplitId, Reader]] = set()
        self._dealt_after = NO_GENERATION
        # Whether the plan that this member made in the present round is final, not provisional; None if it made none.
        self._settled: bool | None = None
        self._latest: Assignment | None = None

    @property
    def latest(self) -> Assignment | None:
        """The last plan that this member made as the leader, with its certificate; None if it never led."""
        return self._latest

    def metadata(self, topics: Iterable[str]) -> Any:
        """This member's message to the leader: its topics, and in the user data its claim."""
        self._settled = None
        subscribed = sorted(topics)
        for topic in subscribed:
            self._answers_due.setdefault(topic, 0)
        return ConsumerProtocolSubscription(EAGER_VERSION, subscribed, encode_claim(self._owned, self._generation))

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember the partitions that this member owns from now on."""
        self._owned = tuple(sorted(SplitId(CLUSTER, topic, number) for topic, number in assignment.partitions()))
        self._generation = generation
        if self._settled is not False:
            self._dealt.clear()

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """The plan of the leader: member id -> its partitions.

        Args:
            cluster: kafka-python's metadata of the cluster.
            members: one for each member, with `member_id` and the `metadata` that it sent, decoded.
        """
        wanted = {member.member_id: frozenset(member.metadata.topics) for member in members}
        topics = sorted(frozenset().union(*wanted.values()))
        partitions = {topic: cluster.partitions_for_topic(topic) or () for topic in topics}
        self._await_answers(cluster, topics)
        unseen = frozenset(topic for topic in topics if not partitions[topic] and self._answers_due[topic])
        exist = {SplitId(CLUSTER, topic, number) for topic in topics for number in partitions[topic]}

        def may_own(member: Reader, split: SplitId) -> bool:
            return split.topic in wanted.get(str(member), ()) and (split in exist or split.topic in unseen)

        claims = [self._claim(member) for member in members]
        previous = resolve_claims(claims, may_own)
        exist.update(previous)
        self._settled = not unseen
        plan = self._plan(sorted(exist), wanted, previous, settled=self._settled)
        if unseen:
            if not self._dealt:
                self._dealt_after = max(claim.generation or NO_GENERATION for claim in claims)
            # Added to earlier ones, since members that got one plan may miss the next.
            self._dealt.update((split, owner) for split, owner in plan.owner.items() if split not in previous)
        self._latest = plan
        waiting = self._waiting(plan.owner, previous, members)
        owned: dict[str, dict[str, list[int]]] = {member: {} for member in wanted}
        for split, member in plan.owner.items():
            if split in waiting:
                continue
            owned[str(member)].setdefault(split.topic, []).append(split.partition)
        return {
            member: ConsumerProtocolAssignment(EAGER_VERSION, list(topics.items()), b"")
            for member, topics in owned.items()
        }

    def _waiting(
        self, owner: Mapping[SplitId, Reader], previous: Mapping[SplitId, Reader], members: Sequence[Any]
    ) -> Collection[SplitId]:
        """Partitions that their new owner does not get in this round. None, since eager members have given up all."""
        return ()

    def _await_answers(self, cluster: Any, topics: Iterable[str]) -> None:
        if not self._listens:
            self._listens = True
            cluster.add_listener(self._on_answer)
        # kafka-python is about to ask for all of them. A request that is already under way does not count.
        due = 2 if cluster.metadata_refresh_in_progress else 1
        for topic in topics:
            self._answers_due.setdefault(topic, due)

    def _on_answer(self, cluster: Any) -> None:
        self._answers_due = {topic: max(0, due - 1) for topic, due in self._answers_due.items()}

    def _plan(
        self,
        splits: Sequence[SplitId],
        wanted: Mapping[str, frozenset[str]],
        previous: Mapping[SplitId, Reader],
        *,
        settled: bool,
    ) -> Assignment:
        there = frozenset(split.topic for split in splits)
        plan = assign(
            splits,
            sorted(wanted),
            previous=previous,
            eligible={
                member: [Topic(CLUSTER, topic) for topic in sorted(topics & there)] for member, topics in wanted.items()
            },
            policy=self.policy if settled else STICKY,
        )
        log.info(
            "%d partitions over %d members: from %d to %d each, %d moved%s",
            len(splits), len(wanted), min(plan.loads.values()), max(plan.loads.values()), plan.moved,
            "" if settled else ", until the brokers have named the partitions of new topics",
        )  # fmt: skip
        return plan

    def _claim(self, member: Any) -> Claim:
        """The partitions that a member claims to own, without those that it got provisionally."""
        try:
            owned, generation = decode_claim(member.metadata.user_data)
        except ValueError as error:
            log.warning(
                "what member %s owns counts as free, since its user data is %s",
                short(member.member_id),
                error,
            )
            owned, generation = (), None
        if self._dealt and generation is not None and generation > self._dealt_after:
            owned = tuple(split for split in owned if (split, member.member_id) not in self._dealt)
        return Claim(member.member_id, owned, generation)


class BalancedAssignor(GroupAssignor):
    """As even as the subscriptions allow, and of all plans that are as even, the one with the fewest moves.

    KIP-54 asks for this, but its algorithm is not exact; this one is.
    """

    name = "evensplit-balanced"
    policy = BALANCED


class StickyAssignor(GroupAssignor):
    """No member loses a partition that exists and whose topic it subscribes to; within that, as even as possible.

    Free partitions go where they make the loads most even. A new member gets nothing until a partition is free.
    """

    name = "evensplit-sticky"
    policy = STICKY


class FairAssignor(GroupAssignor):
    """As even as the subscriptions allow, regardless of previous owners.

    The plan depends on the members alone, so any partition may move. Members are ordered by their ids.
    """

    name = "evensplit-fair"
    policy = FAIR


class CooperativeBalancedAssignor(GroupAssignor):
    """As `BalancedAssignor`, but a partition is assigned only after its previous owner has given it up (KIP-429).

    A partition that moves has no owner for one round: its owner gives it up and joins again at once, and in that next
    round the new owner gets it. `latest` is the plan after both rounds. Partitions that do not move are not revoked.

    It works in a `GroupConsumer` only, which tells it what the consumer holds; elsewhere joining raises RuntimeError.
    """

    name = "evensplit-balanced-cooperative"
    policy = BALANCED

    def __init__(self) -> None:
        super().__init__()
        self._held: Callable[[], Collection[TopicPartition]] | None = None

    def bind(self, held: Callable[[], Collection[TopicPartition]]) -> None:
        """Call `held` at each join for the partitions that the consumer keeps; none under the eager protocol."""
        self._held = held

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Both, so that a group can change over from an eager assignor; see the page on consumer groups."""
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        """As of the other assignors, plus the partitions that the member holds, in the field of KIP-429."""
        if self._held is None:
            raise RuntimeError(
                f"{type(self).__name__} does not know what its consumer holds: expected it in the "
                "partition_assignment_strategy of an evensplit.consumer_group.GroupConsumer, found it elsewhere"
            )
        told = super().metadata(topics)
        held: dict[str, list[int]] = {}
        for topic, number in sorted(self._held()):
            held.setdefault(topic, []).append(number)
        owned = [ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=held[topic]) for topic in held]
        return ConsumerProtocolSubscription(COOPERATIVE_VERSION, told.topics, told.user_data, owned)

    def _waiting(
        self, owner: Mapping[SplitId, Reader], previous: Mapping[SplitId, Reader], members: Sequence[Any]
    ) -> Collection[SplitId]:
        """Partitions that another member holds and must give up first; it will, since they are not assigned to it.

        A partition whose owner stays does not wait: another member that holds it has missed its removal from the group.
        """
        holders: dict[SplitId, set[Reader]] = {}
        for member in members:
            for one in member.metadata.owned_partitions or ():
                for number in one.partitions:
                    holders.setdefault(SplitId(CLUSTER, one.topic, number), set()).add(member.member_id)
        return {
            split
            for split, holding in holders.items()
            if split in owner and owner[split] != previous.get(split) and holding != {owner[split]}
        }
