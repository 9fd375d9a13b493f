"""The streaming reader: Spark's calls on the driver, and what of it goes to the tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from evensplit.garbage import uncollected
from evensplit.kafka.options.option import LONG_MAX
from evensplit.spark.task.task_reader import TaskReader, pickled

if TYPE_CHECKING:
    import pyarrow as pa

    from evensplit.spark.driver.coordinator import Coordinator
    from evensplit.spark.micro_batches import MicroBatches
    from evensplit.spark.options.parse import SourceOptions
    from evensplit.spark.task.receiving import Receive
    from evensplit.spark.task.telling import Destination


class EvenSplitStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches.

    Everything that must survive a crash is in the end offset of each batch (see `core.codec`), for nothing else
    does: Spark does not keep the initial offset, so a start that was resolved there would be resolved again, to
    something else, after a crash before the first commit. The initial offset is therefore a constant, and the first
    end offset carries where each split begins.

    Spark makes one in each of several processes, and most only pickle it for the tasks. So it loads what plans batches,
    and opens connections, when it is asked for an offset; and it is pickled as a `TaskReader`.
    """

    def __init__(
        self,
        options: SourceOptions,
        readers_default: int,
        coordinate: Callable[[SourceOptions, int], Coordinator] | None = None,
        counts_to: Destination | None = None,
        receive: Receive | None = None,
    ) -> None:
        """`coordinate`: makes the coordinator; None: `micro_batches.coordinate`. The rest: as in `MicroBatches`."""
        self._options = options
        self._readers_default = readers_default
        self._coordinate = coordinate
        self._counts_to = counts_to
        self._receive = receive
        self._batches: MicroBatches | None = None

    def __reduce__(self) -> tuple[Callable[[str], TaskReader], tuple[str]]:
        return pickled()

    @property
    def batches(self) -> MicroBatches:
        """What plans the batches, made when it is first needed."""
        if self._batches is None:
            with uncollected():
                from evensplit.spark.micro_batches import MicroBatches, coordinate

            if self._coordinate is None:
                coordinator = coordinate(self._options, self._readers_default, self._counts_to)
            else:
                coordinator = self._coordinate(self._options, self._readers_default)
            given = {} if self._receive is None else {"receive": self._receive}
            self._batches = MicroBatches(self._options, coordinator, self._counts_to, **given)
        return self._batches

    def initialOffset(self) -> dict[str, Any]:
        """Return a constant: no state yet."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit on offsets or bytes of the batch, or `minOffsetsPerTrigger`; Spark replaces it by no limit under
        Trigger.Once.

        There is no limit that says all of them: the first one stands for all, and the options say what they are.
        """
        limits = self._options.limits
        if limits.offsets.batch is not None:
            return ReadMaxRows(limits.offsets.batch)
        if limits.bytes.batch is not None:
            return ReadMaxBytes(limits.bytes.batch)
        if limits.batch or limits.alignment_ms is not None:
            # Only clusters, topics or times are limited: this tells such a batch from one that reads everything.
            return ReadMaxRows(LONG_MAX)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def prepareForTriggerAvailableNow(self) -> None:
        """From here on, partitions and ends are those of the first `latestOffset`."""
        self.batches.is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """See `MicroBatches.latest_offset`."""
        return self.batches.latest_offset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """See `MicroBatches.report_latest_offset`; None before the first `latestOffset`."""
        return None if self._batches is None else self._batches.report_latest_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See `MicroBatches.partitions`."""
        return self.batches.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one reader. In a task, a `TaskReader` does."""
        return TaskReader().read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """See `MicroBatches.commit`."""
        if self._batches is not None:
            self._batches.commit(end)

    def stop(self) -> None:
        """Drop all connections. Spark calls it after an error only."""
        if self._batches is not None:
            self._batches.stop()
