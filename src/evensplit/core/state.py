"""All that the enumerator knows: one immutable value, which is also what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from evensplit.core.model import Cluster, Split, SplitId

BALANCED = "balanced"
"""The assignment policy: as even as possible, then with the fewest moves."""

OWNERS = "owners"
"""The kind of batch plan: every split is read by its owner."""


@dataclass(frozen=True, slots=True)
class EnumeratorState:
    """What the enumerator knows.

    `readers`: parallelism; 0 only before it has been decided.
    `clusters`: by id, in the order of their ids.
    `splits`: by id, in the order of their ids; never changed in place.
    `begun`: a first batch has been planned; only such a state is ever written down.
    `policy`, `plan`: how splits are assigned and batches planned; kept here so that a batch that has to be
    planned again after a restart is planned in the same way.
    """

    readers: int = 0
    clusters: Mapping[str, Cluster] = field(default_factory=lambda: MappingProxyType({}))
    splits: Mapping[SplitId, Split] = field(default_factory=lambda: MappingProxyType({}))
    policy: str = BALANCED
    plan: str = OWNERS
    begun: bool = False

    @property
    def settled(self) -> bool:
        """Batches may be planned: every first discovery by the user's strategy is done, starts included.

        What is discovered after the first batch does not hold the others back: it joins when its start is known.
        """
        return self.begun or (
            not any(cluster.initial for cluster in self.clusters.values())
            and all(split.position is not None for split in self.splits.values())
        )
