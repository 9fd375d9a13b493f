"""The offsets of every format there has been (tests/data/checkpoints/v…), and clusters that are as they say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    LogsObserved,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderRegistered,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import EpochStart, ListedPartition, Split, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.reader_schema import ReaderSchema
from evensplit.core.state.settings import DECLARE
from evensplit.core.state.state import EnumeratorState
from evensplit.spark.options.parse import parse_options
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.enumeration import run

PLACE = Path(__file__).parents[1] / "data" / "checkpoints"
GOLDEN = tuple(sorted(str(path.relative_to(PLACE)) for path in PLACE.glob("v[0-9]*/*.json")))
"""The files, each `v` with its format, a slash, and its name."""

AFTER = PLACE / "after"
"""What the next batch makes of each of them."""

NOW_MS = 1_700_000_000_003
"""Before the shortest retention among them ends."""
NEW = 10
"""So many records more than its position each log has."""


def document(name: str) -> dict[str, Any]:
    found = json.loads((PLACE / name).read_text())
    assert isinstance(found, dict)
    return found


def golden(name: str) -> EnumeratorState:
    return decode(document(name))


def written_now() -> Mapping[str, dict[str, Any]]:
    """Name -> an offset as it is written now: what the next batch makes of each golden one, and settings that are
    written only where they are not the default."""
    usual = golden("v4/usual.json")
    schema = ReaderSchema('["struct",[["a","long"]]]', "", "json", "none")
    default = parse_options({"kafka.bootstrap.servers": "east:1", "subscribe": "orders"}).settings
    settings = {
        "the defaults of a query": default,
        "readerOffsetsMin": replace(usual.settings, reader_offsets_min=250),
        "valueSchema": replace(usual.settings, value_schema=schema),
    }
    after = {f"after {name}": encode(next_batch(golden(name))) for name in GOLDEN}
    return {**after, **{f"with {name}": encode(replace(usual, settings=one)) for name, one in settings.items()}}


def is_read(state: EnumeratorState, split: Split) -> bool:
    """Whether a cluster is there for it, and it is to be read."""
    cluster = state.clusters[split.id.cluster]
    return bool(cluster.bootstrap_servers) and cluster.removed_at_ms is None and split.active


def new_ends(state: EnumeratorState) -> dict[SplitId, int]:
    """Where the logs of what is to be read end: `NEW` records behind the position, or behind 0."""
    return {key: (split.position or 0) + NEW for key, split in state.splits.items() if is_read(state, split)}


def planned_ends(state: EnumeratorState) -> dict[SplitId, int]:
    """The ends of the next batch: those of the logs, or the stops before them."""
    return {
        key: end if (stop := state.splits[key].stop) is None else min(end, stop) for key, end in new_ends(state).items()
    }


def next_batch(state: EnumeratorState) -> EnumeratorState:
    """The state after a batch that reads all there is, in a new process: every step is checked against the laws."""
    return run(*_events(state), state=state)[0]


def _events(state: EnumeratorState) -> Iterator[Event]:
    yield TimePassed(NOW_MS)
    yield SettingsChanged(state.settings, dict(state.eligible), loss=DECLARE)
    yield BatchOpened()
    yield ParallelismChanged(state.readers)
    ends = new_ends(state)
    there = [name for name, one in state.clusters.items() if one.bootstrap_servers and one.removed_at_ms is None]
    yield ClustersListed(tuple(ListedCluster(name, state.clusters[name].bootstrap_servers) for name in there))
    for name in there:
        mine = [state.splits[key] for key in ends if key.cluster == name]
        others = [split for key, split in state.splits.items() if key.cluster == name and not split.active]
        listed, seen = _listed([*mine, *(one for one in others if one.finished)]), _listed(others)
        kafka_id = state.clusters[name].kafka_id or f"kafka-{name}"
        yield PartitionsListed(name, listed, kafka_id=kafka_id, seen=seen)
        starts = {split.id: 0 for split in mine if split.position is None}
        if starts:
            yield OffsetsResolved(starts)
        epochs = {split.id: (EpochStart(split.epoch or 0, 0),) for split in mine}
        yield LogsObserved(name, {split.id: ends[split.id] for split in mine}, epochs=epochs)
    for reader in range(state.readers):
        yield ReaderRegistered(reader)
    yield BatchPlanned(planned_ends(state))


def _listed(splits: Sequence[Split]) -> tuple[ListedPartition, ...]:
    return tuple(ListedPartition(split.id.topic, split.id.partition, split.topic_id) for split in splits)


class Restored(FakeKafka):
    """A cluster with the topics that a state has of it, by their ids and epochs, and `new` records in each partition
    that is to be read."""

    def __init__(self, name: str, state: EnumeratorState, new: int = NEW) -> None:
        super().__init__(name, cluster_id=state.clusters[name].kafka_id or f"kafka-{name}")
        mine = [split for key, split in state.splits.items() if key.cluster == name and split.removed_at_ms is None]
        ends = {key: end - NEW + new for key, end in new_ends(state).items()}
        for split in mine:
            topic, number = split.id.topic, split.id.partition
            if topic not in self._topics:
                self.create_topic(topic)
                self._topics[topic].topic_id = split.topic_id
            if number >= len(self._topics[topic].logs):
                self.add_partitions(topic, number + 1)
            self.append(topic, number, ends.get(split.id, split.position or 0))
            self._topics[topic].logs[number].epochs = [EpochStart(split.epoch or 0, 0)]


def clusters_of(state: EnumeratorState, new: int = NEW) -> Mapping[str, Restored]:
    """Those that are to be read, by name, each with so many new records in every partition."""
    there = [name for name, one in state.clusters.items() if one.bootstrap_servers and one.removed_at_ms is None]
    return {name: Restored(name, state, new) for name in there}
