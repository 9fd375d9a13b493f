"""Stops that a checkpoint has, beside what the options say by now."""

from __future__ import annotations

from collections.abc import Iterable

from evensplit.core.state.offset_strategies import named_offset
from evensplit.core.state.state import EnumeratorState
from evensplit.core.text import counted
from evensplit.spark.options.parse import ClusterOptions

SHOWN_MAX = 3


def stops_that_differ(state: EnumeratorState, clusters: Iterable[ClusterOptions]) -> tuple[str, ...]:
    """One sentence for each of `clusters` with splits that stop elsewhere than at the offset that its options name.

    A stop is final, so that is not changed; but nobody shall wait for records that will not come.
    """
    endings = {cluster.id: cluster.ending if cluster.ends_stream else None for cluster in clusters}
    found: dict[str, list[str]] = {}
    for key, split in state.splits.items():
        if split.stop is None or split.removed_at_ms is not None or key.cluster not in endings:
            continue
        ending = endings[key.cluster]
        wanted = named_offset(ending, (key.topic, key.partition)) if ending is not None else None
        if ending is None:
            said = "without a stop now"
        elif wanted is None or wanted == split.stop:
            continue
        else:
            said = f"not {wanted}"
        found.setdefault(key.cluster, []).append(f"{key.topic}/{key.partition} at {split.stop}, {said}")
    return tuple(
        f"cluster {name!r}: the options name another stop now for {counted(len(splits), 'partition')}: "
        f"{'; '.join(splits[:SHOWN_MAX])}{'; …' if len(splits) > SHOWN_MAX else ''}. A stop that has been found is "
        "final, and one that had been passed is where reading stood; to read on, start a query with another checkpoint"
        for name, splits in found.items()
    )
