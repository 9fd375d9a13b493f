"""Checkpoints of this source that are edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
)
from evensplit.core.model import ListedPartition, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import checkpoint

ENDS: tuple[Mapping[int, int], ...] = ({0: 10, 1: 10}, {0: 20, 1: 10}, {0: 30, 1: 25})
"""Where batches 0 to 2 end, by partition."""


def states(cluster: str = "default", topic: str = "orders", servers: str = "host:9092") -> list[EnumeratorState]:
    """The ends of these batches, of one topic with two partitions, over two readers."""
    keys = [SplitId(cluster, topic, number) for number in (0, 1)]
    events: list[Event] = [
        BatchOpened(),
        ParallelismChanged(2),
        ClustersListed((ListedCluster(cluster, (servers,)),)),
        PartitionsListed(cluster, tuple(ListedPartition(topic, key.partition, "id") for key in keys)),
        OffsetsResolved(dict.fromkeys(keys, 0)),
        ReaderRegistered(0),
        ReaderRegistered(1),
    ]
    state, found = EnumeratorState(), []
    for ends in ENDS:
        for event in (*events, BatchPlanned({key: ends[key.partition] for key in keys})):
            state = step(state, event).state
        found.append(state)
        events = [BatchOpened()]
    return [decode(encode(one)) for one in found]


def lines(of: EnumeratorState) -> list[str]:
    return [json.dumps(encode(of))]


def ours(place: Path, *, committed: int | None = 2, **how: str) -> Path:
    """A checkpoint of three batches, done up to `committed`, written a while ago."""
    return checkpoint(place, *map(lines, states(**how)), committed=committed)
