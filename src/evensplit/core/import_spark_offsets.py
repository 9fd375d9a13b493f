"""Positions that another source has read up to, as a state of this one, and the way back.

A state that was made of positions has no readers yet: they are for the options of the query that goes on from it to
say. So it can be the start of a batch as it is; before it can be the end of one that is planned again, it has to be
dealt out (`ParallelismChanged`, `ReaderRegistered`), which no other state ever needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    PartitionsListed,
)
from evensplit.core.model import Cause, ListedPartition, Loss, SplitId
from evensplit.core.state.edits import jumps_of
from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.core.state.state import EnumeratorState, Session, as_named, edits_between

Positions = Mapping[TopicPartition, int]

NEW_PARTITION_START = 0
"""Where a partition begins that the batch before did not know: at its earliest offset, which is this one as long as it
is new. Spark's source takes another one for a loss, and so does a task that finds nothing there."""


def state_of_positions(
    cluster: str,
    bootstrap_servers: tuple[str, ...],
    positions: Positions,
    firsts: Positions = MappingProxyType({}),
) -> EnumeratorState:
    """The state at the end of a batch that ended at `positions`, all of one cluster, and was planned by another source.

    The cluster counts as discovered: partitions that are not in it are new, and begin at earliest. Topic ids and
    Kafka's id of the cluster are not known; the first answer of the cluster tells them.
    `firsts`: where partitions of `positions` begin that begin with this batch; see `firsts_between`.
    """
    begun = _begun(cluster, bootstrap_servers, tuple(positions))
    splits = {
        key: split._replace(position=(at := positions[key[1:]]), first=_least(firsts.get(key[1:]), at))
        for key, split in begun.splits.items()
    }
    return replace(begun, splits=MappingProxyType(splits))


@lru_cache(maxsize=4)
def _begun(cluster: str, bootstrap_servers: tuple[str, ...], keys: tuple[TopicPartition, ...]) -> EnumeratorState:
    """The state after a batch in which `keys` were discovered, all at 0, and nothing was read.

    One checkpoint has the same partitions in many batches, and the table takes its time for many of them.
    """
    events: tuple[Event, ...] = (
        ClustersListed((ListedCluster(cluster, bootstrap_servers),)),
        PartitionsListed(cluster, tuple(ListedPartition(*key) for key in keys)),
        OffsetsResolved({SplitId(cluster, *key): 0 for key in keys}),
        BatchPlanned({}),
        BatchOpened(),
    )
    state = EnumeratorState()
    for event in events:
        state = step(state, event).state
    # Which answers led to it is over: who goes on from it asks anew.
    return replace(state, revision=0, session=Session())


def _least(first: int | None, position: int) -> int | None:
    return None if first is None else min(first, position)


def firsts_between(before: Positions, after: Positions) -> dict[TopicPartition, int]:
    """Where partitions begin in the batch from `before` to `after`, as far as that is not where they were before.

    What is new begins at its earliest offset. What has gone back, as the log of a topic that was created anew can make
    it, has nothing to be read: that is how Spark's source reads such a batch.
    """
    return {
        key: NEW_PARTITION_START if key not in before else offset
        for key, offset in after.items()
        if key not in before or offset < before[key]
    }


def positions_of_state(state: EnumeratorState) -> dict[str, dict[TopicPartition, int]]:
    """Cluster -> the positions of what is read there, or was read to its end; both ascending.

    What is retained is not in it, and neither is what has no start yet.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    for key, split in state.splits.items():
        if split.position is not None and split.removed_at_ms is None:
            found.setdefault(key.cluster, {})[key.topic, key.partition] = split.position
    return found


def begins(start: EnumeratorState, end: EnumeratorState) -> dict[str, dict[TopicPartition, int]]:
    """Cluster -> where the batch from `start` to `end` begins in what is read there: as `positions_of_state` of `end`.

    From these positions to those of `end`, another source reads the same ranges, but for the `gaps`. Raises
    CheckpointError if the two states are not those of one batch.
    """
    starts: dict[SplitId, int] = {}
    for part in batch_ranges(start, end):
        starts.setdefault(part.split, part.start)
    return {
        cluster: {key: starts.get(SplitId(cluster, *key), at) for key, at in positions.items()}
        for cluster, positions in positions_of_state(end).items()
    }


def gaps(start: EnumeratorState, end: EnumeratorState) -> dict[SplitId, tuple[tuple[int, int], ...]]:
    """Split -> the ranges that the batch from `start` to `end` reads of it, where they are not one range up to the
    position in `end`: a command has left something out, or gone back. Each: start, end (exclusive); all ascending.

    Another source, which has positions only, cannot read such a batch. Raises as `begins`.
    """
    found: dict[SplitId, list[tuple[int, int]]] = {}
    for part in batch_ranges(start, end):
        found.setdefault(part.split, []).append((part.start, part.end))
    return {
        key: tuple(ones)
        for key, ones in found.items()
        if ones[-1][1] != end.splits[key].position or any(one[1] != after[0] for one, after in pairwise(ones))
    }


def lost_between(start: EnumeratorState, end: EnumeratorState) -> tuple[Loss, ...]:
    """What the batch from `start` to `end`, which another source planned, leaves out although it was to be read.

    What a command has changed in it is no loss.
    """
    found: list[Loss] = []
    edits = edits_between(start, end)
    jumps = jumps_of(edits)
    for key, split in as_named(start, end).items():
        is_edited = key in jumps or any(edit.drops(key) for edit in edits)
        if split.position is None or not split.active or is_edited:
            continue
        after = end.splits.get(key)
        if after is None:
            found.append(Loss(key, Cause.DELETED, split.position))
        elif after.position is not None and after.position < split.position:
            found.append(Loss(key, Cause.TRUNCATED, split.position, after.position))
    return tuple(found)
