"""The executor's side of a source: from a reader's ranges to Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.spark.task.deferred_bounds import bind, looking_up
from evensplit.spark.task.partition import ReaderPartition


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The records of `partition`, in the order of offsets within each range.

    Spark hands a plain InputPartition over where a batch query has nothing to read; it has no rows.
    """
    if not isinstance(partition, ReaderPartition):
        return iter(())
    ranges = bind(partition.ranges, partition.late, looking_up(partition.settings, partition.cluster_ids))
    reading = partition.reading
    return read_ranges(
        ranges,
        partition.settings,
        columns=reading.columns,
        topic_ids=partition.topic_ids,
        cluster_ids=partition.cluster_ids,
        epochs=partition.epochs,
        skip_lost=not reading.fail_on_data_loss,
        null_timestamps=reading.null_timestamps,
        limits=LaneLimits(batch_bytes_max=reading.batch_bytes_max),
    )
