"""The batch reader: Spark's calls on the driver, and what of it goes to the tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from evensplit.garbage import uncollected
from evensplit.spark.task.task_reader import TaskReader, pickled

if TYPE_CHECKING:
    import pyarrow as pa

    from evensplit.spark.options.parse import SourceOptions
    from evensplit.spark.task.telling import Destination


class EvenSplitReader(DataSourceReader):
    """Reads a batch, from `startingOffsets` (default: earliest) to `endingOffsets` (default: latest).

    It is pickled as a `TaskReader`.
    """

    def __init__(self, options: SourceOptions, readers_default: int, ask: Destination | None = None) -> None:
        """`ask`: as in `micro_batches.coordinate`."""
        self._options = options
        self._readers_default = readers_default
        self._ask = ask

    def __reduce__(self) -> tuple[Callable[[str], TaskReader], tuple[str]]:
        return pickled()

    def partitions(self) -> Sequence[InputPartition]:
        """See `batch_query.plan_query`."""
        with uncollected():
            from evensplit.spark.batch_query import plan_query

        return plan_query(self._options, self._readers_default, self._ask)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one reader. In a task, a `TaskReader` does."""
        return TaskReader().read(partition)
