"""The words of an assignment: policies by name, readers and scopes as types."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evensplit.core.model import Cluster, SplitId, Topic

Reader = int | str
Scope = Cluster | Topic | SplitId
Eligible = Mapping[Reader, Collection[Scope]]
Base = Mapping[Reader, int]

BALANCED, STICKY, FAIR = "balanced", "sticky", "fair"
HASH, ROUND_ROBIN, GLOBAL = "hash", "round-robin", "global"

POLICIES = (BALANCED, STICKY, FAIR, HASH, ROUND_ROBIN, GLOBAL)
"""balanced: as even as possible, then the fewest moves. sticky: no valid owner loses a split, then as even as possible.
fair: as even as possible, whatever was before. hash, round-robin, global: the rules of Flink's sources, see `rules`."""

EXACT = (BALANCED, STICKY, FAIR)
"""The policies that are solved exactly. They depend neither on the order of the splits nor on that of the readers; for
the others, a reader's place among the readers matters."""
