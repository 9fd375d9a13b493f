"""States that offset documents are made of: one for each version of the format, with all that it can hold."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from evensplit.core.model import Cause, Cluster, ClusterState, Loss, Readable, Split, SplitId, Topic
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState


def example() -> EnumeratorState:
    """A state with everything in it that one of version 1 could have."""
    splits = [
        Split(SplitId("east", "orders", 0), "id-1", 120, None, 0),
        Split(SplitId("east", "orders", 1), "id-1", 98, None, 1),
        Split(SplitId("east", "orders", 2), "id-1", 7, 0, 0),
        Split(SplitId("east", "returns", 5), "", 0, None, 1),
        Split(SplitId("west", "orders", 0), "id-2", None, None, None),
    ]
    clusters = {
        "east": ClusterState("east", ("10.0.0.1:9092", "10.0.0.2:9092"), initial=False, discovered=True),
        "north": ClusterState("north", ("10.2.0.1:9092",), initial=True),
        "west": ClusterState("west", ("10.1.0.1:9092",), initial=False, discovered=True),
    }
    by_id = MappingProxyType({split.id: split for split in splits})
    return EnumeratorState(
        2, MappingProxyType(clusters), by_id, Settings(plan="owners"), begun=True, assigned_readers=(0, 1)
    )


def usual() -> EnumeratorState:
    """The same as it is written now: with a generation."""
    return replace(example(), generation=3)


def unusual() -> EnumeratorState:
    """A state with everything in it that is usually left out."""
    splits = [
        Split(SplitId("east", "orders", 0), "id-1", 120, None, 0, stop=500),
        Split(SplitId("east", "orders", 1), "id-1", 98, stop=98, finished=True),
        Split(SplitId("east", "orders", 2), "id-0", 7, removed_at_ms=1_700_000_000_000),
        Split(SplitId("east", "orders", 4), "id-1", initial=True),
        Split(SplitId("west", "orders", 0), "id-2", 4, removed_at_ms=1_700_000_000_007),
        Split(SplitId("west", "orders", 1), "id-2", 5, removed_at_ms=1_700_000_000_007),
        *(
            Split(SplitId("west", "payments", partition), "id-3", 70 + partition, 70, stop=80, removed_at_ms=time)
            for partition, time in enumerate([1_700_000_000_007, None, 1_700_000_000_000, 1_700_000_000_007])
        ),
        *(
            Split(SplitId("west", "returns", partition), "id-4", position, first, stop=90 + position % 10)
            for partition, (position, first) in enumerate([(70, 68), (81, 79), (82, None), (83, 79), (84, 82)])
        ),
        *(
            Split(SplitId("west", "users", partition), "id-5", 7, 5, stop=stop)
            for partition, stop in enumerate([16, None, None, None, 9, None, None, 9])
        ),
    ]
    clusters = {
        "east": ClusterState("east", ("10.0.0.1:9092",), initial=True),
        "west": ClusterState("west", (), initial=False, discovered=True, removed_at_ms=1_700_000_000_007),
    }
    by_id = MappingProxyType({split.id: split for split in splits})
    settings = Settings("hash", "on-rescale", "per-cluster", "owners", retention_ms=5, bounded=True)
    return EnumeratorState(3, MappingProxyType(clusters), by_id, settings, 12, begun=False, assigned_readers=(0, 2))


LOSSES = (
    Loss(SplitId("east", "orders", 0), Cause.RECREATED, 98),
    Loss(SplitId("east", "orders", 7), Cause.AGED_OUT, 98, 120, 22),
    Loss(SplitId("north", "gone", 3), Cause.DELETED, 5, 9, 4),
    Loss(SplitId("west", "orders", 0), Cause.TRUNCATED, 10, 4),
    Loss(SplitId("west", "orders", 1), Cause.OUT_OF_RANGE, 0, 5),
    Loss(SplitId("east", "orders", 7), Cause.AGED_OUT, 120, 121, 1),
)
"""In the order in which they were noticed, which is not sorted."""


def usual_now() -> EnumeratorState:
    """The same as `usual`, with what its clusters call themselves, and the usual plan."""
    clusters = {name: replace(one, kafka_id=f"kafka-{name}") for name, one in usual().clusters.items()}
    return replace(usual(), clusters=MappingProxyType(clusters), settings=Settings())


def unusual_now() -> EnumeratorState:
    """The same as `unusual`, with losses, pins and tasks; of one cluster, Kafka's cluster id is not known."""
    clusters = dict(unusual().clusters)
    clusters["west"] = replace(clusters["west"], kafka_id="WGmXqK1vTOSsXh7hk2P9zQ")
    settings = replace(unusual().settings, plan="level", tasks_min=12, task_offsets_max=5_000)
    pins: dict[int, tuple[Readable, ...]] = {
        0: (Cluster("east"), Topic("west", "users"), SplitId("west", "orders", 1)),
        1: (),
        2: (Cluster("east"), Topic("west", "users"), SplitId("west", "orders", 1)),
    }
    return replace(
        unusual(),
        clusters=MappingProxyType(clusters),
        settings=settings,
        losses=LOSSES,
        eligible=MappingProxyType(pins),
    )


def through_json(document: dict[str, Any]) -> dict[str, Any]:
    """A document after Spark has written it as JSON and read it again."""
    found = json.loads(json.dumps(document))
    assert isinstance(found, dict)
    return found
