"""Faults of topics: they are deleted, created again and grown, lose records, and are written to with wrong clocks."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from evensplit.errors import ChaosError
from evensplit.testing.chaos.nemesis.base import Harm, nemesis
from evensplit.testing.chaos.workload.topics import PLAIN, SHORT_LIVED, TRANSACTIONAL, Topic

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena

PARTITIONS_MAX = 12
HOUR_MS = 3_600_000
KEPT_MAX = 20


def _steady(arena: Arena) -> list[Topic]:
    """The topics that are never deleted, and in which nothing else removes records."""
    return arena.workload.topics(kind=PLAIN) + arena.workload.topics(kind=TRANSACTIONAL)


def _deleted(arena: Arena, dice: Random, *, drained: bool) -> Iterator[Harm]:
    # One that could not be deleted, or not be created again, is left alone.
    there = [one for one in arena.workload.topics(kind=SHORT_LIVED) if one.is_there]
    if not there:
        raise ChaosError("no topic is left that lives for a short time")
    topic = dice.choice(there)
    life = arena.workload.life
    # The job reads undisturbed meanwhile.
    drained = drained and life.drain(topic)
    since_s = arena.recorder.now_s
    life.delete(topic)
    how = "when all of it has been read" if drained else "with what is unread"
    try:
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
    small = [topic for topic in _steady(arena) if topic.partitions < PARTITIONS_MAX]
    if not small:
        raise ChaosError(f"no topic can get more partitions, since all have {PARTITIONS_MAX}")
    topic = dice.choice(small)
    partitions = min(PARTITIONS_MAX, topic.partitions + dice.randint(1, 3))
    arena.workload.life.grow(topic, partitions)
    yield Harm(f"{topic.name} of {topic.cluster} has {partitions} partitions now", (topic.cluster,))


@nemesis(
    "delete-records", "topics", "The records of some partitions are deleted up to their ends, or nearly", lasts_s=(0, 1)
)
def delete_records(arena: Arena, dice: Random) -> Iterator[Harm]:
    topic = dice.choice(_steady(arena))
    chosen = dice.sample(range(topic.partitions), dice.randint(1, topic.partitions))
    # The newest records are the unread ones.
    kept = dice.choice([0, dice.randint(1, KEPT_MAX)])
    ends = arena.workload.life.ends(topic)
    before = {partition: max(0, ends[partition] - kept) for partition in sorted(chosen)}
    arena.workload.life.delete_records(topic, before)
    said = ", ".join(f"{partition} before {offset}" for partition, offset in before.items())
    yield Harm(f"records of {topic.name} of {topic.cluster} are deleted, in partitions {said}", (topic.cluster,))


@nemesis("retention", "topics", "Brokers remove the records of a topic as soon as they may", lasts_s=(5.0, 20.0))
def retention(arena: Arena, dice: Random) -> Iterator[Harm]:
    topic = dice.choice(_steady(arena))
    limit = dice.choice([{"retention.ms": "500"}, {"retention.bytes": "1"}])
    with arena.workload.life.retained_by(topic, {**limit, "segment.ms": "1000"}):
        said = ", ".join(f"{name}={value}" for name, value in limit.items())
        yield Harm(f"{topic.name} of {topic.cluster} has {said}", (topic.cluster,))


@nemesis("clock-skew", "topics", "Records have timestamps of another time")
def clock_skew(arena: Arena, dice: Random) -> Iterator[Harm]:
    # Brokers take no records of more than an hour ahead.
    hours = dice.choice([-100.0, -1.0, 0.8])
    arena.workload.clock_skew_ms = int(hours * HOUR_MS)
    try:
        yield Harm(f"the clocks of writers are {abs(hours):g} h {'ahead' if hours > 0 else 'late'}")
    finally:
        arena.workload.clock_skew_ms = 0


NEMESES = (topic_deleted, topic_deleted_unread, topic_recreated, topic_grown, delete_records, retention, clock_skew)
