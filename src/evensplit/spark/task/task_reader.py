"""The reader of a query, as far as its tasks need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from evensplit.garbage import uncollected
from evensplit.spark.task.installed import check_installed, release
from evensplit.spark.task.process import COLLECTIONS, acknowledge_at_once

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition


class TaskReader:
    """Reads partitions, each of which has all that reading it takes.

    Spark pickles a reader into every task, and it is unpickled there for each of them. Every reader of this package is
    pickled as one of these, so that no task has to load, or is told, more than it needs.
    """

    def __init__(self, sent_by: str = "") -> None:
        """`sent_by`: the version of the process that sends the tasks, as `installed.release` has it."""
        self._sent_by = sent_by

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one reader, on an executor. Raises InstallationError if it has another evensplit."""
        check_installed(self._sent_by)
        with uncollected():
            from evensplit.spark.task.partition import read_partition

        COLLECTIONS.begin_task()
        return read_partition(partition)


def task_reader(sent_by: str = "") -> TaskReader:
    """A reader that was unpickled, just before Spark sends the partition."""
    acknowledge_at_once()
    return TaskReader(sent_by)


def pickled() -> tuple[Callable[[str], TaskReader], tuple[str]]:
    """What `__reduce__` of a reader returns."""
    return task_reader, (release(),)
