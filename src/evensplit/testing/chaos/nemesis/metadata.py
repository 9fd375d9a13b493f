"""Faults of the metadata: clusters that leave, return and change names; a service that is down, slow or wrong."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from evensplit.testing.chaos.metadata_service import LIES
from evensplit.testing.chaos.nemesis.base import Harm, nemesis

if TYPE_CHECKING:
    from evensplit.testing.chaos.arena import Arena


def _out(arena: Arena, *clusters: str) -> Iterator[Harm]:
    arena.metadata.remove(*clusters)
    try:
        yield Harm(f"{' and '.join(clusters)} {'is' if len(clusters) == 1 else 'are'} not in the metadata", clusters)
    finally:
        for cluster in clusters:
            arena.metadata.rename(cluster, cluster)


@nemesis("cluster-out", "metadata", "A cluster leaves the metadata, and comes back", lasts_s=(5, 25), needs="evensplit")
def cluster_out(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _out(arena, dice.choice([*arena.clusters]))


@nemesis(
    "clusters-out", "metadata", "All clusters leave the metadata, and come back", lasts_s=(5, 25), needs="evensplit"
)
def clusters_out(arena: Arena, dice: Random) -> Iterator[Harm]:
    yield from _out(arena, *arena.clusters)


@nemesis("cluster-renamed", "metadata", "A cluster has another name for a while", lasts_s=(5, 25), needs="evensplit")
def cluster_renamed(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = dice.choice([*arena.clusters])
    name = f"{cluster}-{dice.randrange(1_000)}"
    arena.metadata.rename(cluster, name)
    try:
        yield Harm(f"{cluster} is called {name} in the metadata", (cluster,))
    finally:
        arena.metadata.rename(cluster, cluster)


@nemesis(
    "cluster-twice",
    "metadata",
    "The metadata name a cluster twice",
    lasts_s=(5, 25),
    ends_process=True,
    needs="evensplit",
)
def cluster_twice(arena: Arena, dice: Random) -> Iterator[Harm]:
    cluster = dice.choice([*arena.clusters])
    name = f"{cluster}-again"
    arena.metadata.list_again(cluster, name)
    try:
        yield Harm(f"{cluster} is called {name} in the metadata as well", (cluster,))
    finally:
        arena.metadata.rename(cluster, cluster)


@nemesis("metadata-down", "metadata", "The metadata service gives no answer", lasts_s=(5, 25), needs="evensplit")
def metadata_down(arena: Arena, dice: Random) -> Iterator[Harm]:
    arena.metadata.is_down = True
    try:
        yield Harm("the metadata service gives no answer")
    finally:
        arena.metadata.is_down = False


@nemesis("metadata-slow", "metadata", "The metadata service takes seconds", lasts_s=(5, 25), needs="evensplit")
def metadata_slow(arena: Arena, dice: Random) -> Iterator[Harm]:
    arena.metadata.slow_s = round(dice.uniform(0.5, 8.0), 1)
    try:
        yield Harm(f"the metadata service takes {arena.metadata.slow_s:g} s for an answer")
    finally:
        arena.metadata.slow_s = 0.0


@nemesis("metadata-lying", "metadata", "The metadata service answers nonsense", lasts_s=(5, 25), needs="evensplit")
def metadata_lying(arena: Arena, dice: Random) -> Iterator[Harm]:
    arena.metadata.lie = dice.choice([*LIES])
    try:
        yield Harm(f"the metadata service answers {arena.metadata.lie}")
    finally:
        arena.metadata.lie = ""


NEMESES = (
    cluster_out,
    clusters_out,
    cluster_renamed,
    cluster_twice,
    metadata_down,
    metadata_slow,
    metadata_lying,
)
