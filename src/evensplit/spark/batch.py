"""The batch reader: one look at the clusters, one plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from evensplit.core.enumerator import step
from evensplit.core.events import BatchPlanned
from evensplit.core.model import SplitId
from evensplit.core.plan import plan_batch
from evensplit.core.starting import Earliest, Latest, resolve
from evensplit.core.state import EnumeratorState
from evensplit.errors import SubscriptionError
from evensplit.spark.coordinator import Coordinator
from evensplit.spark.options import SourceOptions
from evensplit.spark.partition import input_partitions
from evensplit.spark.read import read_partition


class EvenSplitReader(DataSourceReader):
    """Reads what there is, from `startingOffsets` (default: earliest) to `endingOffsets` (default: latest)."""

    def __init__(self, options: SourceOptions, readers_default: int) -> None:
        self._options = options
        self._readers_default = readers_default

    def partitions(self) -> Sequence[InputPartition]:
        """One input partition for each reader that has work.

        Raises SubscriptionError for topics, partitions and offsets that do not exist, all at once.
        """
        coordinator = Coordinator(self._options, readers_default=self._readers_default, starting_default=Earliest())
        try:
            start = coordinator.observe(EnumeratorState(), fix_ends=True)
            end = step(start, BatchPlanned(self._ends(start, coordinator))).state
        finally:
            coordinator.close()
        return input_partitions(plan_batch(start, end), end, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one reader, on an executor."""
        return read_partition(partition)

    def _ends(self, start: EnumeratorState, coordinator: Coordinator) -> Mapping[SplitId, int]:
        ends: dict[SplitId, int] = {}
        problems: list[str] = []
        for cluster in self._options.clusters:
            strategy = cluster.ending or Latest()
            own = [key for key in start.splits if key.cluster == cluster.id]
            bounds = coordinator.bounds(cluster.id, [(key.topic, key.partition) for key in own])
            found = resolve(strategy, bounds)
            problems.extend(f"cluster {cluster.id!r}, endingOffsets: {problem}" for problem in found.problems)
            for key in own:
                position, end = start.splits[key].position, found.offsets.get((key.topic, key.partition))
                if end is not None and position is not None and end < position:
                    problems.append(
                        f"cluster {cluster.id!r}: topic {key.topic!r}, partition {key.partition} would be read from "
                        f"{position} to {end}; expected startingOffsets at or before endingOffsets"
                    )
                elif end is not None:
                    ends[key] = end
        if problems:
            raise SubscriptionError(problems)
        return ends
