"""Faults of topics: they are deleted, created again, grown, and written to with wrong clocks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from evensplit.errors import ChaosError
from evensplit.testing.chaos.arena import Arena
from evensplit.testing.chaos.nemesis.base import Harm, nemesis
from evensplit.testing.chaos.workload.topics import PLAIN, SHORT_LIVED, TRANSACTIONAL

PARTITIONS_MAX = 12
HOUR_MS = 3_600_000


def _deleted(arena: Arena, dice: Random, *, drained: bool) -> Iterator[Harm]:
    topic = dice.choice(arena.workload.topics(kind=SHORT_LIVED))
    life = arena.workload.life
    try:
        if drained:
            # The job reads undisturbed meanwhile.
            life.drain(topic)
        since_s = arena.recorder.now_s
        life.delete(topic)
        how = "when all of it has been read" if drained else "with what is unread"
        yield Harm(f"{topic.name} of {topic.cluster} is deleted, {how}", (topic.cluster,), since_s)
    finally:
        life.create(topic)


@nemesis("topic-deleted", "topics", "A topic is deleted when it has been read, and created again later")
def topic_deleted(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _deleted(arena, dice, drained=True)


@nemesis("topic-deleted-unread", "topics", "A topic is deleted with unread records, and created again later")
def topic_deleted_unread(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _deleted(arena, dice, drained=False)


@nemesis("topic-recreated", "topics", "A topic is deleted and created again at once", lasts_s=(0, 1))
def topic_recreated(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _deleted(arena, dice, drained=dice.random() < 0.5)


@nemesis("topic-grown", "topics", "A topic gets more partitions", lasts_s=(0, 1))
def topic_grown(arena: Arena, dice: Random) -> Iterator[Harm]:
    topics = arena.workload.topics(kind=PLAIN) + arena.workload.topics(kind=TRANSACTIONAL)
    small = [topic for topic in topics if topic.partitions < PARTITIONS_MAX]
    if not small:
        raise ChaosError(f"no topic can get more partitions, since all have {PARTITIONS_MAX}")
    topic = dice.choice(small)
    partitions = min(PARTITIONS_MAX, topic.partitions + dice.randint(1, 3))
    arena.workload.life.grow(topic, partitions)
    yield Harm(f"{topic.name} of {topic.cluster} has {partitions} partitions now", (topic.cluster,))


@nemesis("clock-skew", "topics", "Records have timestamps of another time")
def clock_skew(arena: Arena, dice: Random) -> Iterator[Harm]:
    # Brokers take no records of more than an hour ahead.
    hours = dice.choice([-100.0, -1.0, 0.8])
    arena.workload.clock_skew_ms = int(hours * HOUR_MS)
    try:
        yield Harm(f"the clocks of writers are {abs(hours):g} h {'ahead' if hours > 0 else 'late'}")
    finally:
        arena.workload.clock_skew_ms = 0


NEMESES = (topic_deleted, topic_deleted_unread, topic_recreated, topic_grown, clock_skew)
