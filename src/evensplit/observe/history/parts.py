"""What a batch read of each cluster, and what it left there."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evensplit.core.batch.plan import BatchPlan, offsets_by_split
from evensplit.explain.batch import Explanation
from evensplit.explain.batch_rates import ClusterPart


def read_of(plan: BatchPlan) -> tuple[Mapping[str, int], int]:
    """Cluster -> the offsets of the batch, without those that it did not read; and the offsets of the largest split."""
    sizes: dict[str, int] = {}
    splits = offsets_by_split(part for one in plan.readers for part in one.ranges)
    for (cluster, _, _), size in splits.items():
        sizes[cluster] = sizes.get(cluster, 0) + size
    return MappingProxyType({cluster: sizes[cluster] for cluster in sorted(sizes)}), max(splits.values(), default=0)


def parts_of(explanation: Explanation, read: Mapping[str, int]) -> dict[str, ClusterPart]:
    """Cluster -> what of it was read, and is left; without those that are removed."""
    found: dict[str, ClusterPart] = {}
    for one in explanation.clusters:
        if one.removed_at_ms is None:
            known = sum(one.splits.values()) - one.lag_unknown
            found[one.id] = ClusterPart(read.get(one.id, 0), one.lag_sum, known)
    return found
