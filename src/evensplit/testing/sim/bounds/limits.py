"""S18: what holds of the limits of every batch, checked without the code that shares batches out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evensplit.core.batch.limits import BatchLimits, Caps, Scope
from evensplit.core.model import Cluster, Held, SplitId, Topic
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.bounds.chosen import record_bytes
from evensplit.testing.sim.failure import Broken

Ends = Mapping[SplitId, int]

ROUNDED = 33 / 32
"""Sizes are known up to so much."""


def check_within(ends: Ends, positions: Ends, limits: BatchLimits, sizes: Mapping[SplitId, int]) -> None:
    """No limit is exceeded by more than one offset of each split that it is for. `sizes`: the bytes of an offset."""
    for cap, scope, is_bytes in _all(limits):
        read = [key for key, end in ends.items() if end > positions[key] and _is_of(scope, key)]
        each = {key: sizes[key] if is_bytes else 1 for key in read}
        taken = sum((ends[key] - positions[key]) * each[key] for key in read)
        if taken > cap + sum(each.values()):
            unit = "bytes" if is_bytes else "offsets"
            raise Broken("S18", f"a batch has {taken} {unit} of {scope or 'all'}, from {len(read)} splits; limit {cap}")


def check_true_bytes(ends: Ends, positions: Ends, limits: BatchLimits, known: Mapping[SplitId, int]) -> None:
    """Where tasks have told how long records are, the bytes that are really read are within the limits.

    `known`: the splits whose sizes were told.
    """
    for cap, scope, is_bytes in _all(limits):
        read = [key for key, end in ends.items() if end > positions[key] and _is_of(scope, key)]
        if not is_bytes or not all(known.get(key) for key in read):
            continue
        taken = sum((ends[key] - positions[key] - 1) * record_bytes(key) for key in read)
        if taken > cap * ROUNDED:
            raise Broken("S18", f"a batch has {taken} bytes of {scope or 'all'} and one record of each; limit {cap}")


def check_all_read(ends: Ends, positions: Ends, latest: Ends) -> None:
    """No split that has something to read starves: each of them gets on in every batch."""
    for key, end in latest.items():
        if key in positions and end > positions[key] and ends.get(key, 0) <= positions[key]:
            raise Broken("S18", f"{key} is at {positions[key]} of {end}, and nothing of it is read", key)


def check_held(
    held: Sequence[Held],
    ends: Ends,
    positions: Ends,
    latest: Ends,
    limits: BatchLimits,
    sizes: Mapping[SplitId, int],
) -> None:
    """A limit is named where it held something back, and nowhere else.

    What is left is under a limit that is named. One that is named has something left under it, and is used up but for
    what rounding leaves: less than an offset of each split.
    """
    behind = [key for key, end in latest.items() if key in positions and end > positions[key]]
    left = [key for key in behind if ends.get(key, positions[key]) < latest[key]]
    caps = {_told(scope, is_bytes): (cap, scope, is_bytes) for cap, scope, is_bytes in _all(limits)}
    for one in held:
        if one not in caps:
            raise Broken("S18", f"{one} is said to have held the batch back, and there is no such limit")
        cap, scope, is_bytes = caps[one]
        under = [key for key in behind if _is_of(scope, key)]
        each = {key: sizes[key] if is_bytes else 1 for key in under}
        taken = sum((ends.get(key, positions[key]) - positions[key]) * each[key] for key in under)
        if not any(_is_of(scope, key) for key in left):
            raise Broken("S18", f"{one} is said to have held the batch back, and nothing of it is left")
        if taken <= cap - sum(each.values()):
            raise Broken("S18", f"{one} is said to have held the batch back, and {taken} of {cap} are used")
    for key in left:
        if not any(_is_of(caps[one][1], key) for one in held):
            raise Broken("S18", f"{key} is not read to its end, and no limit is said to have held it back", key)


def told_of(
    state: EnumeratorState, positions: Ends, measured: Mapping[SplitId, tuple[int, int]]
) -> Mapping[SplitId, int]:
    """Split -> whether tasks have told how long its records are: more than 0."""
    return {key: state.splits[key].record_bytes or measured.get(key, (0, 0))[0] for key in positions}


def _all(limits: BatchLimits) -> Iterator[tuple[int, Scope | None, bool]]:
    """Every limit: how much it is, what it is of, and whether it is in bytes."""
    of_units: tuple[tuple[bool, Caps], ...] = ((False, limits.offsets), (True, limits.bytes))
    for is_bytes, caps in of_units:
        if caps.batch is not None:
            yield caps.batch, None, is_bytes
        for scope, cap in caps.of.items():
            yield cap, scope, is_bytes


def _is_of(scope: Scope | None, key: SplitId) -> bool:
    if isinstance(scope, Topic):
        return (scope.cluster, scope.name) == (key.cluster, key.topic)
    return scope is None or scope.id == key.cluster


def _told(scope: Scope | None, is_bytes: bool) -> Held:
    of = f"{scope.cluster}/{scope.name}" if isinstance(scope, Topic) else scope.id if isinstance(scope, Cluster) else ""
    return Held("maxBytesPerTrigger" if is_bytes else "maxOffsetsPerTrigger", of)
