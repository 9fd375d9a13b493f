"""Checkpoints of this source that are edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evensplit.checkpoint.checkpoint import read_checkpoint
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
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, put

ENDS: tuple[Mapping[int, int], ...] = ({0: 10, 1: 10}, {0: 20, 1: 10}, {0: 30, 1: 25})
"""Where batches 0 to 2 end, by partition."""
HOUR_MS = 3_600_000
BEGUN_MS = 1_699_920_000_000
"""2023-11-14 00:00."""


def states(cluster: str = "default", topic: str = "orders", servers: str = "host:9092") -> list[EnumeratorState]:
    """The ends of these batches, of one topic with two partitions, over two readers.

    The topic is the first one of a FakeKafka that calls itself as `cluster`.
    """
    keys = [SplitId(cluster, topic, number) for number in (0, 1)]
    kafka = FakeKafka(cluster)
    topic_id = kafka.create_topic(topic)
    events: list[Event] = [
        BatchOpened(),
        ParallelismChanged(2),
        ClustersListed((ListedCluster(cluster, (servers,)),)),
        PartitionsListed(
            cluster,
            tuple(ListedPartition(topic, key.partition, topic_id) for key in keys),
            kafka_id=kafka.cluster_id,
        ),
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


def both(one: EnumeratorState, other: EnumeratorState) -> EnumeratorState:
    """One source that reads what two read."""
    return replace(one, clusters={**one.clusters, **other.clusters}, splits={**one.splits, **other.splits})


def lines(of: EnumeratorState) -> list[str]:
    return [json.dumps(encode(of))]


def ours(place: Path, *, committed: int | None = 2, **how: str) -> Path:
    """A checkpoint of three batches, done up to `committed`, written a while ago."""
    return checkpoint(place, *map(lines, states(**how)), committed=committed)


def after(state: EnumeratorState, ends: Mapping[SplitId, int]) -> EnumeratorState:
    """The end of the next batch of a query."""
    for event in (BatchOpened(), BatchPlanned(ends)):
        state = step(state, event).state
    return decode(encode(state))


def write(place: Path, number: int, *ends: EnumeratorState, done: bool = True) -> None:
    """A batch of a query, by where its sources end."""
    rows = [line for end in ends for line in lines(end)]
    put(place / "offsets" / str(number), "\n".join(["v1", "{}", *rows]).encode())
    do(place, number - (not done))


def do(place: Path, number: int) -> None:
    """The query has done its batch, a while ago."""
    put(place / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":0}')
    age(place)


def hourly() -> FakeKafka:
    """A cluster with the topic of the checkpoint, in which each record is an hour later than the one before."""
    cluster = FakeKafka("default")
    cluster.create_topic("orders", 3)
    for offset in range(40):
        for partition in (0, 1):
            cluster.append("orders", partition, 1, timestamp_ms=BEGUN_MS + offset * HOUR_MS)
    cluster.delete_records("orders", 1, 7)
    cluster.commit("billing", "orders", 0, 12)
    return cluster


def positions(place: Path) -> dict[str, int | None]:
    state = read_checkpoint(place).newest.ours["0"]
    return {str(key): split.position for key, split in state.splits.items()}


def shown_rows(text: str) -> list[list[str]]:
    """The cells of the rows that begin with a partition."""
    return [row.split() for row in text.splitlines() if row.strip().startswith("default/")]
