"""The reader of a streaming query that cannot begin: it raises the error at Spark's first call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from evensplit.errors import OptionError, RegistryError


class RefusedStreamReader(DataSourceStreamReader):
    """Raises `error` from each call of Spark that needs an answer.

    PySpark makes the reader of a stream inside `try … finally: reader.stop()`. An error that is raised there is
    followed by an UnboundLocalError about `reader`, which is then the last thing that the user reads.
    """

    def __init__(self, error: OptionError | RegistryError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        """Asked first by a new query."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:
        """Asked first by a query with a checkpoint."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Asked first by a query whose last batch has to be repeated."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Never called, since there are no partitions."""
        raise self._error
