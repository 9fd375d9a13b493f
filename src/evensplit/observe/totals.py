"""Sums over all batches of a source, which stay small however many clusters and readers come and go."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

from evensplit.core.model import SplitId
from evensplit.explain.batch import Explanation

K = TypeVar("K", str, int)

CLUSTERS_MAX = 1_000
"""How many clusters of a source have sums of their own: the first ones, for good. All others share one sum."""

READERS_MAX = 10_000
"""How many readers of a source have a sum of their own, in the same way."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all batches that were seen. None of them ever goes down.

    By cluster or by reader; the key None is for all that came after the first `CLUSTERS_MAX` or `READERS_MAX`.
    """

    batches: int = 0
    rows: int = 0
    """Records that Spark was given, as far as that is known."""
    moving: int = 0
    """Batches in which any split moved."""
    work: Mapping[int | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Reader -> the offsets that it had to go through."""
    offsets: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> offsets read."""
    moves: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> splits that went to another reader."""
    discoveries: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> splits that were discovered."""
    losses: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> losses."""
    lost_offsets: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> offsets lost at most, in the losses whose size is known."""
    losses_unknown: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> losses whose size is not known."""
    clusters: tuple[str, ...] = ()
    """The clusters with sums of their own, first come first."""
    counted: bool = False
    """Whether any batch has counts of records."""
    uncounted: int = 0
    """Batches with counts that are not complete."""
    filtered: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> records that the condition left out, as far as they were counted."""
    undecodable: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> keys and values that could not be decoded, in the same way."""


def added(totals: Totals, rows: int | None, explanation: Explanation, read: Mapping[str, int]) -> Totals:
    """Add one batch. `rows`: how many records Spark was given; None: not known. `read`: cluster -> offsets."""
    found, counts = explanation.changes, explanation.counts
    by_cluster = {} if counts is None else counts.clusters
    known = dict.fromkeys((*totals.clusters, *(one.id for one in explanation.clusters)))
    clusters = tuple(islice(known, CLUSTERS_MAX))
    own = dict.fromkeys(clusters)
    room = READERS_MAX - len(totals.work)
    new = (one.reader for one in explanation.readers if one.reader not in totals.work)
    readers = {key: None for key in (*totals.work, *islice(new, max(0, room))) if key is not None}

    def of_splits(sums: Mapping[str | None, int], keys: Iterable[SplitId]) -> Mapping[str | None, int]:
        return _sums(sums, ((key.cluster, 1) for key in keys), own)

    return replace(
        totals,
        batches=totals.batches + 1,
        rows=totals.rows + (rows or 0),
        moving=totals.moving + bool(found.moves),
        work=_sums(totals.work, ((one.reader, one.offsets) for one in explanation.readers), readers),
        offsets=_sums(totals.offsets, read.items(), own),
        moves=of_splits(totals.moves, (one.split for one in found.moves)),
        discoveries=of_splits(totals.discoveries, (one.split for one in found.discoveries)),
        losses=of_splits(totals.losses, (one.split for one in found.losses)),
        lost_offsets=_sums(
            totals.lost_offsets,
            ((loss.split.cluster, loss.offsets_max) for loss in found.losses if loss.offsets_max is not None),
            own,
        ),
        losses_unknown=of_splits(
            totals.losses_unknown, (loss.split for loss in found.losses if loss.offsets_max is None)
        ),
        counted=totals.counted or counts is not None,
        uncounted=totals.uncounted + (counts is not None and not counts.complete),
        filtered=_sums(totals.filtered, ((name, one.filtered) for name, one in by_cluster.items()), own),
        undecodable=_sums(totals.undecodable, ((name, one.undecodable) for name, one in by_cluster.items()), own),
        clusters=clusters,
    )


def _sums(sums: Mapping[K | None, int], more: Iterable[tuple[K, int]], own: Container[K]) -> Mapping[K | None, int]:
    """Add `more`: to the sum of each key in `own`, and of all others to that of None. Sums of those gone stay."""
    found = dict(sums)
    for key, count in more:
        place = key if key in own else None
        found[place] = found.get(place, 0) + count
    return MappingProxyType(found)
