"""The executor's side of a source: from a reader's ranges to Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from evensplit.kafka.lane import read_ranges
from evensplit.spark.partition import ReaderPartition


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The records of `partition`, in the order of offsets within each range.

    Spark hands a plain InputPartition over where a batch query has nothing to read; it has no rows.
    """
    if not isinstance(partition, ReaderPartition):
        return iter(())
    return read_ranges(
        partition.ranges,
        partition.settings,
        headers=partition.headers,
        with_cluster=partition.with_cluster,
        topic_ids=partition.topic_ids,
    )
