"""Faults of brokers and controllers: their processes, and who leads which partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from evensplit.errors import ChaosError
from evensplit.testing.admin import requests
from evensplit.testing.admin.requests import wait_until
from evensplit.testing.broker.local_broker import LocalBroker
from evensplit.testing.broker.local_kafka import LocalKafka
from evensplit.testing.chaos.nemesis.base import Harm, nemesis
from evensplit.testing.chaos.workload.topics import SHORT_LIVED, UNCLEAN
from evensplit.testing.process.ports import HOST

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena
    from evensplit.testing.chaos.clusters import ChaosCluster

SEEN_WITHIN_S = 30.0
"""So soon the rest of a cluster has to notice a fault."""

BACK_WITHIN_S = 120.0
"""So soon all replicas have to be in sync again."""

ASK_S = 3.0


def _some_broker(arena: Arena, dice: Random) -> tuple[ChaosCluster, LocalBroker]:
    cluster = arena.clusters[dice.choice(sorted(arena.clusters))]
    return cluster, cluster.kafka.broker(dice.randrange(len(cluster.kafka.brokers)))


def _several(arena: Arena) -> ChaosCluster:
    """The cluster of several brokers."""
    found = [one for one in arena.clusters.values() if len(one.kafka.brokers) > 1]
    if not found:
        raise ChaosError("this fault needs a cluster of several brokers")
    return found[0]


def _named(cluster: ChaosCluster, broker: LocalBroker) -> str:
    return f"broker {broker.node_id} of {cluster.name}"


def _partitions(kafka: LocalKafka, left_s: float, topic: str | None = None) -> list[Any]:
    """All partitions, or those of a topic, once for each broker that can be asked, as it has them."""
    named = None if topic is None else [topic]
    timeout_s = min(left_s, ASK_S)
    answers = [requests.metadata(address, named, timeout_s=timeout_s) for address in kafka.addresses()]
    return [partition for answer in answers for one in answer.topics for partition in one.partitions]


def wait_for_replicas(kafka: LocalKafka) -> None:
    """Wait until every partition has a leader, and all its replicas are in sync, as each broker knows."""

    def whole(left_s: float) -> bool:
        if len(kafka.addresses()) < len(kafka.brokers):
            return False
        return all(
            one.leader_id >= 0 and set(one.isr_nodes) == set(one.replica_nodes) for one in _partitions(kafka, left_s)
        )

    wait_until(whole, f"all replicas of {kafka!r} are in sync", BACK_WITHIN_S)


def _wait_for_other_leaders(kafka: LocalKafka, node: int) -> None:
    """Wait until the rest of a cluster takes nothing for led by this node; a broker alone has no rest."""
    if len(kafka.brokers) > 1:
        what = f"no partition of {kafka!r} is led by broker {node}"
        wait_until(lambda left_s: all(one.leader_id != node for one in _partitions(kafka, left_s)), what, SEEN_WITHIN_S)


@contextmanager
def _back(kafka: LocalKafka, brokers: Sequence[LocalBroker]) -> Iterator[None]:
    """At the end, start those of the brokers that do not run, and wait until their replicas are in sync."""
    # Each is started, whatever becomes of the others.
    with ExitStack() as stack:
        stack.callback(wait_for_replicas, kafka)
        for broker in brokers:
            stack.callback(broker.start)
            stack.callback(broker.resume)
        yield


@nemesis("broker-kill", "brokers", "SIGKILL of a broker")
def broker_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _some_broker(arena, dice)
    with _back(cluster.kafka, [broker]):
        broker.kill()
        yield Harm(f"SIGKILL of {_named(cluster, broker)}", (cluster.name,))


@nemesis("broker-pause", "brokers", "A broker is held for less than its session lasts", lasts_s=(0.3, 2.0))
def broker_pause(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _some_broker(arena, dice)
    with _back(cluster.kafka, [broker]):
        broker.pause()
        yield Harm(f"{_named(cluster, broker)} is held for a moment", (cluster.name,))


@nemesis(
    "broker-freeze",
    "brokers",
    "A broker is held until others lead in its place, and wakes up with its old view",
    lasts_s=(5.0, 20.0),
)
def broker_freeze(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _some_broker(arena, dice)
    with _back(cluster.kafka, [broker]):
        broker.pause()
        _wait_for_other_leaders(cluster.kafka, broker.node_id)
        yield Harm(f"{_named(cluster, broker)} is frozen, and others lead in its place", (cluster.name,))


@nemesis("broker-stop", "brokers", "A broker is shut down in order")
def broker_stop(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster, broker = _some_broker(arena, dice)
    with _back(cluster.kafka, [broker]):
        broker.stop()
        yield Harm(f"{_named(cluster, broker)} is shut down", (cluster.name,))


@nemesis(
    "rolling-bounce",
    "brokers",
    "All brokers of a cluster are shut down and started, one after the other",
    lasts_s=(0.0, 3.0),
)
def rolling_bounce(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _several(arena)
    first, *rest = dice.sample(cluster.kafka.brokers, len(cluster.kafka.brokers))
    with _back(cluster.kafka, [first]):
        first.stop()
        yield Harm(f"the brokers of {cluster.name} are bounced, {first.node_id} first", (cluster.name,))
    for broker in rest:
        with _back(cluster.kafka, [broker]):
            broker.stop()


@nemesis("controller-kill", "brokers", "SIGKILL of a controller that is no broker")
def controller_kill(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _several(arena)
    try:
        cluster.kafka.controller.kill()
        # Leaders can be read without it.
        yield Harm(f"SIGKILL of the controller of {cluster.name}")
    finally:
        cluster.kafka.controller.start()


@nemesis("cluster-down", "brokers", "SIGKILL of all brokers of a cluster, and of its controller")
def cluster_down(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = arena.clusters[dice.choice(sorted(arena.clusters))]
    try:
        cluster.kafka.kill()
        yield Harm(f"SIGKILL of all brokers of {cluster.name}", (cluster.name,))
    finally:
        cluster.kafka.start()
        wait_for_replicas(cluster.kafka)


@nemesis("reassignment", "brokers", "Partitions are taken from their leaders and moved to other brokers, and back")
def reassignment(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _several(arena)
    kafka = cluster.kafka
    # Other faults delete those that live for a short time; and where records may be lost, this is not to be why.
    steady = [one.name for one in arena.workload.topics(cluster.name) if one.kind not in (SHORT_LIVED, UNCLEAN)]
    topic = dice.choice(sorted(steady))
    found = requests.metadata(kafka.addresses()[0], [topic], timeout_s=ASK_S).topics[0].partitions
    everyone = [broker.node_id for broker in kafka.brokers]
    to, back = {}, {}
    for one in dice.sample(found, dice.randint(1, len(found))):
        others = [node for node in everyone if node != one.leader_id]
        to[one.partition_index] = dice.sample(others, len(others))
        back[one.partition_index] = dice.sample(everyone, len(everyone))
    try:
        kafka.reassign(topic, to)
        said = ", ".join(f"{number} to {nodes}" for number, nodes in sorted(to.items()))
        yield Harm(f"partitions of {cluster.name} {topic} are moved: {said}", (cluster.name,))
    finally:
        kafka.reassign(topic, back)


@nemesis(
    "unclean-election",
    "brokers",
    "A replica without the newest records becomes leader, of a topic that prefers to lose records",
    lasts_s=(1.0, 10.0),
)
def unclean_election(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = _several(arena)
    kafka = cluster.kafka
    topics = sorted(one.name for one in arena.workload.topics(cluster.name, kind=UNCLEAN))
    if not topics:
        raise ChaosError(f"{cluster.name} has no topic that may lose records")
    topic = dice.choice(topics)
    partition = dice.choice(requests.metadata(kafka.addresses()[0], [topic], timeout_s=ASK_S).topics[0].partitions)
    number, leader = partition.partition_index, kafka.broker(partition.leader_id)
    followers = [
        kafka.broker(node) for node in dice.sample(sorted(partition.replica_nodes), 3) if node != leader.node_id
    ]
    named = f"partition {number} of {cluster.name} {topic}"

    def its(left_s: float) -> list[Any]:
        return [one for one in _partitions(kafka, left_s, topic) if one.partition_index == number]

    with _back(kafka, kafka.brokers):
        for follower in followers:
            follower.kill()
        wait_until(
            lambda left_s: all(one.isr_nodes == [leader.node_id] for one in its(left_s)),
            f"broker {leader.node_id} is alone in sync with {named}",
            SEEN_WITHIN_S,
        )
        end = _log_end(leader, topic, number, ASK_S)
        wait_until(
            lambda left_s: _log_end(leader, topic, number, min(left_s, ASK_S)) > end,
            f"{named} gets records that broker {leader.node_id} has alone",
            SEEN_WITHIN_S,
        )
        leader.kill()
        for follower in followers:
            follower.start()
        wait_until(
            lambda left_s: all(0 <= one.leader_id != leader.node_id for one in its(left_s)),
            f"{named} has another leader, without its newest records",
            SEEN_WITHIN_S,
        )
        yield Harm(
            f"unclean election: {named} is led without records that broker {leader.node_id} has", (cluster.name,)
        )


def _log_end(broker: LocalBroker, topic: str, partition: int, timeout_s: float) -> int:
    """The offset after the last committed record, as the broker that leads has it."""
    return requests.end_offset((HOST, broker.internal_port), topic, partition, timeout_s=timeout_s)


NEMESES = (
    broker_kill,
    broker_pause,
    broker_freeze,
    broker_stop,
    rolling_bounce,
    controller_kill,
    reassignment,
    unclean_election,
    cluster_down,
)
