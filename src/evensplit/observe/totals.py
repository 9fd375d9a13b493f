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
"""So many clusters of a source have sums of their own: those that came first, for good. Those of others are one."""

READERS_MAX = 10_000
"""So many readers of a source have a sum of their own, in the same way."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all batches that were seen, none of which ever goes down.

    `offsets`, `moves`, `discoveries`, `losses`: cluster -> how many; `lost_offsets`: offsets that were lost at most, of
    the losses of which that is known; `losses_unknown`: of how many it is not, so that "at least" is to be said.
    `rows`: records that Spark was given, as far as that is known. `moving`: batches in which any split moved. `work`:
    reader -> the offsets that it had to go through. `clusters`: those that have sums of their own, in the order in
    which they came. None as cluster or reader: all those together that came when there were `CLUSTERS_MAX` or
    `READERS_MAX` already.
    """

    batches: int = 0
    rows: int = 0
    moving: int = 0
    work: Mapping[int | None, int] = field(default_factory=lambda: MappingProxyType({}))
    offsets: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    moves: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    discoveries: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    losses: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    lost_offsets: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    losses_unknown: Mapping[str | None, int] = field(default_factory=lambda: MappingProxyType({}))
    clusters: tuple[str, ...] = ()


def added(totals: Totals, rows: int | None, explanation: Explanation, read: Mapping[str, int]) -> Totals:
    """The sums with one batch more. `rows`: how many Spark was given; None: not known. `read`: cluster -> offsets."""
    found = explanation.changes
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
        clusters=clusters,
    )


def _sums(sums: Mapping[K | None, int], more: Iterable[tuple[K, int]], own: Container[K]) -> Mapping[K | None, int]:
    """The sums with `more` added: of each that is in `own`, and of all others together. Who has gone keeps its own."""
    found = dict(sums)
    for key, count in more:
        place = key if key in own else None
        found[place] = found.get(place, 0) + count
    return MappingProxyType(found)
