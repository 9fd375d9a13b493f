"""The assignors: what a leader deals to the members of its group, by policy.

**What members say.** Each member tells the leader which partitions it owns, and since which generation of the group.
A member that missed a rebalance says something old: the highest generation is right, and a partition that two members
claim in it counts as nobody's. What cannot be read as such a claim counts as none, so members that come from elsewhere
and damaged bytes cost moves, never the group.

**Topics that the leader does not know yet.** A consumer asks the brokers for the partitions of its own topics, and a
leader for those of all members, but only when it makes its first plan for them. kafka-python rebalances again once it
has the answer. Until then nothing moves: claims on such topics hold, and what is free is dealt for the time being.
Otherwise a change of the leader alone would move partitions there and back.

**Two protocols.** Under the eager one a member gives up all that it owns when the group rebalances, and most of it
comes back. Under the cooperative one (KIP-429) it holds on to what it owns, and says so in a field of the subscription;
what it is to give up has no owner in that round, and goes to the next owner in the round after.
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
from evensplit.core.assign.terms import BALANCED, FAIR, STICKY, Reader
from evensplit.core.model import SplitId, Topic
from evensplit.core.text import short

log = logging.getLogger(__name__)

NO_GENERATION = -1
"""Before every generation."""

EAGER_VERSION = 0
COOPERATIVE_VERSION = 1
"""Of Kafka's envelope around the user data; from 1 on it has a field for what a member holds."""


class GroupAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python comes without types
    """The base of the assignors of this package. A consumer is given one of them.

    kafka-python makes one for each consumer when it is given the class. An instance that is given instead must not be
    shared between consumers, since it remembers what its consumer owns.
    """

    policy: str
    """Of `evensplit.assign`."""

    def __init__(self) -> None:
        self._owned: tuple[SplitId, ...] = ()
        self._generation: int | None = None
        # Topic -> how many answers from the brokers must still come before its absence from them means anything.
        self._answers_due: dict[str, int] = {}
        self._listens = False
        # What plans for the time being have dealt out beyond the claims, and the generation after which that was.
        self._dealt: set[tuple[SplitId, Reader]] = set()
        self._dealt_after = NO_GENERATION
        # Whether the plan that this member made in the present round is more than that; None if it made none.
        self._settled: bool | None = None
        self._latest: Assignment | None = None

    @property
    def latest(self) -> Assignment | None:
        """The last plan that this member made as the leader, with its certificate; None if it never led."""
        return self._latest

    def metadata(self, topics: Iterable[str]) -> Any:
        """This member's message to the leader: its topics, and in the user data which partitions it owns since when."""
        self._settled = None
        subscribed = sorted(topics)
        for topic in subscribed:
            self._answers_due.setdefault(topic, 0)
        return ConsumerProtocolSubscription(EAGER_VERSION, subscribed, encode_claim(self._owned, self._generation))

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Remember what this member owns from now on."""
        self._owned = tuple(sorted(SplitId(CLUSTER, topic, number) for topic, number in assignment.partitions()))
        self._generation = generation
        if self._settled is not False:
            self._dealt.clear()

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        """The plan of the leader: member id -> what it gets.

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
            # Added, since members that hear of one plan may miss the next.
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
        """What its owner to be does not get in this round: nothing, as eager members have given up everything."""
        return ()

    def _await_answers(self, cluster: Any, topics: Iterable[str]) -> None:
        if not self._listens:
            self._listens = True
            cluster.add_listener(self._on_answer)
        # kafka-python has just been told to ask for all of them. What is under way was asked before.
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
    """As even as the subscriptions allow, and of all plans that are this even the one with the fewest moves.

    No member has two partitions more than another that could take one of them. KIP-54 asks for this and settles for
    less; here both are exact.
    """

    name = "evensplit-balanced"
    policy = BALANCED


class StickyAssignor(GroupAssignor):
    """No member loses a partition as long as it is there and subscribes to its topic; then as even as that allows.

    What is free goes where it makes the loads most even. A member that joins gets nothing until something is free.
    """

    name = "evensplit-sticky"
    policy = STICKY


class FairAssignor(GroupAssignor):
    """As even as the subscriptions allow, whatever was before: what a group gets depends on its members alone.

    The plan does not depend on history, so it may move any partition. Members are ordered by their ids.
    """

    name = "evensplit-fair"
    policy = FAIR


class CooperativeBalancedAssignor(GroupAssignor):
    """As `BalancedAssignor`, but a partition moves only after its owner has given it up and knows it (KIP-429).

    A partition that moves has no owner for one round: its owner gives it up, and joins again at once, which makes the
    round in which the next owner gets it. `latest` is the plan that both rounds lead to. What does not move is not
    revoked.

    It works in a `GroupConsumer` only, which tells it what the consumer holds; elsewhere joining raises RuntimeError.
    """

    name = "evensplit-balanced-cooperative"
    policy = BALANCED

    def __init__(self) -> None:
        super().__init__()
        self._held: Callable[[], Collection[TopicPartition]] | None = None

    def bind(self, held: Callable[[], Collection[TopicPartition]]) -> None:
        """Ask `held` at each join what the consumer holds on to meanwhile: nothing under the eager protocol."""
        self._held = held

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Both, so that a group can change over from an eager assignor; see the page on consumer groups."""
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> Any:
        """As of the others, and in the field of KIP-429 what the member holds."""
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
        """What another member still has to give up, and will, since it is not assigned to it.

        An owner that stays the owner does not wait: who else holds the partition has missed that it was thrown out.
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
