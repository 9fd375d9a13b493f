"""The balanced assignment for Kafka consumer groups, as a plug-in for kafka-python.

    from kafka import KafkaConsumer
    from evensplit.consumer_group import BalancedAssignor

    KafkaConsumer("orders", group_id="billing", partition_assignment_strategy=[BalancedAssignor])

The leader of the group gives every partition to one member that subscribes to its topic: as evenly as the subscriptions
allow, and among all plans that are this even the one in which the fewest partitions change their owner. KIP-54 asks for
this and settles for less; here both are exact.

**What members say.** Each member tells the leader which partitions it owns, and since which generation of the group.
A member that missed a rebalance says something old: the highest generation is right, and a partition that two members
claim in it counts as nobody's. What cannot be read as such a claim counts as none, so members that come from elsewhere
and damaged bytes cost moves, never the group.

**Topics that the leader does not know yet.** A consumer asks the brokers for the partitions of its own topics, and a
leader for those of all members, but only when it makes its first plan for them. kafka-python rebalances again once it
has the answer. Until then nothing moves: claims on such topics hold, and what is free is dealt for the time being.
Otherwise a change of the leader alone would move partitions there and back.

**The protocol** is the eager one: a member gives up all that it owns while the group rebalances, and most of it comes
back. To change a running group to this assignor, add it in front of the present one in every member
(`[BalancedAssignor, RangePartitionAssignor]`), one after the other, and then take the other one out in the same way.
The group changes over when the last member offers it, starting without claims.
"""

from __future__ import annotations

import json
import logging
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from evensplit.core.assign import Assignment, Claim, assign, resolve_claims
from evensplit.core.assign.checks import PARTITION_MAX
from evensplit.core.assign.terms import Reader
from evensplit.core.model import SplitId, Topic

log = logging.getLogger(__name__)

CLUSTER = ""
"""A consumer group lives in one cluster, which needs no name."""

NO_GENERATION = -1
"""Before every generation."""

PROTOCOL_VERSION = 0
"""Of Kafka's envelope around the user data; later versions add fields for the cooperative protocol."""

USER_DATA_VERSION = 1
USER_DATA_HEAD = struct.Struct(">4sBI")  # MAGIC, version, CRC-32 of the JSON that follows
MAGIC = b"EVSP"


class BalancedAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python comes without types
    """Assigns a group's partitions evenly, with the fewest moves.

    kafka-python makes one for each consumer when it is given the class. An instance that is given instead must not be
    shared between consumers, since it remembers what its consumer owns.
    """

    name = "evensplit-balanced"

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
        """What this member tells the leader: its topics, and in the user data what it owns since when."""
        self._settled = None
        subscribed = sorted(topics)
        for topic in subscribed:
            self._answers_due.setdefault(topic, 0)
        return ConsumerProtocolSubscription(PROTOCOL_VERSION, subscribed, encode_claim(self._owned, self._generation))

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
        owned: dict[str, dict[str, list[int]]] = {member: {} for member in wanted}
        for split, member in plan.owner.items():
            owned[str(member)].setdefault(split.topic, []).append(split.partition)
        return {
            member: ConsumerProtocolAssignment(PROTOCOL_VERSION, list(topics.items()), b"")
            for member, topics in owned.items()
        }

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
            policy="balanced" if settled else "sticky",
        )
        log.info(
            "%d partitions over %d members: from %d to %d each, %d moved%s",
            len(splits), len(wanted), min(plan.loads.values()), max(plan.loads.values()), plan.moved,
            "" if settled else ", until the brokers have named the partitions of new topics",
        )  # fmt: skip
        return plan

    def _claim(self, member: Any) -> Claim:
        """What a member says that it owns, without what it got for the time being only."""
        try:
            owned, generation = decode_claim(member.metadata.user_data)
        except ValueError as error:
            log.warning("what member %s owns counts as free, since its user data is %s", member.member_id, error)
            owned, generation = (), None
        if self._dealt and generation is not None and generation > self._dealt_after:
            owned = tuple(split for split in owned if (split, member.member_id) not in self._dealt)
        return Claim(member.member_id, owned, generation)


def encode_claim(owned: Sequence[SplitId], generation: int | None) -> bytes:
    """The user data that says: these partitions are mine since this generation. Empty without partitions."""
    if not owned:
        return b""
    by_topic: dict[str, list[int]] = {}
    for split in owned:
        by_topic.setdefault(split.topic, []).append(split.partition)
    body = json.dumps({"generation": generation, "owned": by_topic}, separators=(",", ":")).encode()
    return USER_DATA_HEAD.pack(MAGIC, USER_DATA_VERSION, zlib.crc32(body)) + body


def decode_claim(user_data: bytes | memoryview | None) -> tuple[tuple[SplitId, ...], int | None]:
    """The partitions and the generation in a member's user data; no partitions where it is empty.

    Raises ValueError, saying why, where it is not user data of this assignor, or damaged, or of a newer version.
    """
    data = bytes(user_data or b"")
    if not data:
        return (), None
    if not data.startswith(MAGIC):
        raise ValueError("of another assignor")
    if len(data) < USER_DATA_HEAD.size:
        raise ValueError("cut off")
    _, version, checksum = USER_DATA_HEAD.unpack_from(data)
    if version != USER_DATA_VERSION:
        raise ValueError(f"of version {version}; expected {USER_DATA_VERSION}")
    body = data[USER_DATA_HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise ValueError("damaged: its checksum is wrong")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"damaged: {error}") from error
    match found:
        case {"generation": int() | None as generation, "owned": dict(by_topic)}:
            if all(map(_are_partitions, by_topic.values())):
                owned = (SplitId(CLUSTER, topic, number) for topic, numbers in by_topic.items() for number in numbers)
                return tuple(owned), generation
    raise ValueError("damaged: it has no partitions by topic")


def _are_partitions(found: Any) -> bool:
    return isinstance(found, list) and all(type(number) is int and 0 <= number <= PARTITION_MAX for number in found)
