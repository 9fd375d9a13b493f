"""What stands in for the reader of a streaming query that cannot be: it raises the error at Spark's first call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from evensplit.errors import OptionError


class RefusedStreamReader(DataSourceStreamReader):
    """Raises `error` from each call that has to have an answer.

    PySpark makes the reader of a stream inside `try … finally: reader.stop()`. An error that is raised there is
    followed by an UnboundLocalError about `reader`, which is then the last thing that the user reads.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        """Where a new query begins."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:
        """Where a query begins that has a checkpoint."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Where a query begins whose last batch has to be done again."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Never called: there is no partition."""
        raise self._error
