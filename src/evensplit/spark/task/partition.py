"""One task: the ranges of one reader in one batch, how to reach their clusters, and reading them on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from evensplit.core.batch.plan import ReaderPlan
from evensplit.core.model import Range, RangeEpochs, Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.kafka.fetch.look_ahead import LookAhead, Spare
from evensplit.kafka.fetch.reader import Counts, LaneLimits, Sizes, read_ranges
from evensplit.kafka.options.client import ClientSettings
from evensplit.registry.settings import RegistrySettings
from evensplit.spark.options.reading import ReadOptions
from evensplit.spark.task.deferred_bounds import DeferredBounds, bind, looking_up
from evensplit.typed.decoding import FAIL, Decodings

if TYPE_CHECKING:
    from evensplit.spark.task.telling import Destination, Telling


class ReaderPartition(InputPartition):
    """One task: ranges of one reader, and how they are read.

    `task`: its number in the batch, from 0. `settings`: of each cluster in the ranges.

    `topic_ids`: (cluster, topic) -> the id of the topic that the ranges were planned for; empty where it has none.
    `cluster_ids`: cluster -> what it called itself when the ranges were planned; empty where that is not known.
    `epochs`: split -> what is known of the leader epochs around what the whole batch reads of it.
    `registries`: cluster -> the schema registry of its producers, where that is needed.
    `telling`: how the task tells what it counts; None: it cannot. `sizes_to`: where it tells how many bytes the offsets
    of its splits have; None: nowhere. Both are set by who knows.
    `late`: which of the ranges begin and end where their logs do when they are read; these may be empty here.
    """

    def __init__(
        self,
        *,
        task: int,
        reader: int,
        ranges: tuple[Range, ...],
        settings: Mapping[str, ClientSettings],
        topic_ids: Mapping[tuple[str, str], str],
        cluster_ids: Mapping[str, str],
        reading: ReadOptions,
        late: DeferredBounds | None = None,
        epochs: Mapping[SplitId, RangeEpochs] | None = None,
        registries: Mapping[str, RegistrySettings] | None = None,
    ) -> None:
        super().__init__(task)
        self.task = task
        self.reader = reader
        self.ranges = ranges
        self.settings = settings
        self.topic_ids = topic_ids
        self.cluster_ids = cluster_ids
        self.reading = reading
        self.late = late or DeferredBounds()
        self.epochs = epochs or {}
        self.registries = registries or {}
        self.telling: Telling | None = None
        self.sizes_to: Destination | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state: plain tuples, since pickle calls Python code for each named one."""
        ranges = [(*split, start, end) for split, start, end in self.ranges]
        return {**self.__dict__, "ranges": ranges, "epochs": [(*split, *one) for split, one in self.epochs.items()]}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        ranges = tuple(Range(SplitId(*row[:3]), *row[3:]) for row in state["ranges"])
        epochs = {SplitId(*row[:3]): RangeEpochs(*row[3:]) for row in state["epochs"]}
        self.__dict__.update({**state, "ranges": ranges, "epochs": epochs})

    def __repr__(self) -> str:
        return (
            f"ReaderPartition(task={self.task}, reader={self.reader}, ranges={[str(one.split) for one in self.ranges]})"
        )


def input_partitions(
    tasks: Sequence[ReaderPlan],
    end: EnumeratorState,
    settings: Mapping[str, ClientSettings],
    reading: ReadOptions,
    *,
    late: DeferredBounds | None = None,
    start: EnumeratorState | None = None,
    registries: Mapping[str, RegistrySettings] | None = None,
) -> list[ReaderPartition]:
    """One input partition for each of `tasks`.

    `start`, `end`: the states between which the batch lies; `start` may be left out, with what it knows of epochs.
    `settings`: how each cluster of `end` is reached. `registries`: cluster -> its schema registry, if it has one. Since
    they have logins, each task gets only those of its clusters, and none where it needs none.
    """
    found = late or DeferredBounds()
    epochs = _epochs(tasks, start, end)
    if reading.poll_timeout_ms is not None:
        settings = {name: replace(one, poll_timeout_ms=reading.poll_timeout_ms) for name, one in settings.items()}
    if not reading.by_writer:
        reading, registries = replace(reading, registry=None), None
    known = registries or {}
    made: list[ReaderPartition] = []
    for number, task in enumerate(tasks):
        names = sorted({one.split.cluster for one in task.ranges})
        own = {name: known[name] for name in names if name in known}
        one = ReaderPartition(
            task=number,
            reader=task.reader,
            ranges=task.ranges,
            settings={name: settings[name] for name in names},
            topic_ids={one.split[:2]: end.splits[one.split].topic_id for one in task.ranges},
            cluster_ids={one.split.cluster: end.clusters[one.split.cluster].kafka_id for one in task.ranges},
            reading=_for_registries(reading, own),
            late=found.among(task.ranges),
            epochs={one.split: epochs[one.split] for one in task.ranges if one.split in epochs},
            registries=own,
        )
        made.append(one)
    return made


def _for_registries(reading: ReadOptions, registries: Mapping[str, RegistrySettings]) -> ReadOptions:
    """What a task needs of `reading`: the registry that its schemas are from only if it may ask that one."""
    home = reading.registry
    if home is None or home.identity in {one.identity for one in registries.values()}:
        return reading
    return replace(reading, registry=None)


def _epochs(
    tasks: Sequence[ReaderPlan], start: EnumeratorState | None, end: EnumeratorState
) -> dict[SplitId, RangeEpochs]:
    """The leader epochs before and in the batch, for each split of which the states know any."""
    bounds: dict[SplitId, tuple[int, int]] = {}
    for task in tasks:
        for key, first, stop in task.ranges:
            part = bounds.get(key)
            # Most splits are not cut.
            bounds[key] = (first, stop) if part is None else (min(part[0], first), max(part[1], stop))
    earlier, revision = ({}, 0) if start is None else (start.splits, start.revision)
    found: dict[SplitId, RangeEpochs] = {}
    for split, (first, stop) in bounds.items():
        known = end.splits[split]
        # Where reading began anew after the start, what was read before that need not be in this log.
        same = earlier.get(split) if known.since <= revision else None
        before = _epoch_before(first, same, known.topic_id)
        last = _epoch_before(stop, known, known.topic_id)
        if before >= 0 or last >= 0:
            found[split] = RangeEpochs(first, before, stop, last)
    return found


def _epoch_before(offset: int, known: Split | None, topic_id: str) -> int:
    """The leader epoch of the record before `offset`, if it is where `known` stands in the same topic; -1 otherwise."""
    if known is None or known.position != offset or known.topic_id != topic_id:
        return -1
    return -1 if known.epoch is None else known.epoch


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read the records of `partition`, in the order of offsets within each range.

    Where a batch query has nothing to read, Spark passes a plain InputPartition, which has no rows.
    """
    if not isinstance(partition, ReaderPartition):
        return iter(())
    ranges = bind(partition.ranges, partition.late, looking_up(partition.settings, partition.cluster_ids))
    reading = partition.reading
    batches = read_ranges(
        ranges,
        partition.settings,
        columns=reading.columns,
        decodings=_decodings(reading, partition.registries),
        topic_ids=partition.topic_ids,
        cluster_ids=partition.cluster_ids,
        epochs=partition.epochs,
        skip_lost=not reading.fail_on_data_loss,
        null_timestamps=reading.null_timestamps,
        limits=LaneLimits(batch_bytes_max=reading.batch_bytes_max),
        count=_count(partition) if reading.counts else None,
        measure=None if partition.sizes_to is None else _measure(partition.sizes_to),
    )
    return iter(LookAhead(batches, Spare()))


def _count(partition: ReaderPartition) -> Callable[[Counts], None]:
    """What takes the counts of the task."""
    from evensplit.spark.task.telling import tell

    return partial(tell, partition.telling, partition.task)


def _measure(to: Destination) -> Callable[[Sizes], None]:
    """What takes the sizes of the splits of the task."""
    from evensplit.spark.task.telling import tell_sizes

    return partial(tell_sizes, to)


def _decodings(reading: ReadOptions, registries: Mapping[str, RegistrySettings]) -> Decodings:
    found = Decodings(reading.key, reading.value, reading.on_decode_error != FAIL, reading.where)
    if not reading.by_writer:
        return found
    from evensplit.spark.task.writers import SideDecodings, Writers

    where = reading.where
    key = SideDecodings(reading.key, None if where is None else where.key)
    value = SideDecodings(reading.value, None if where is None else where.value)
    return found._replace(writers=Writers(key, value, registries, reading.registry))
