"""The floor of a micro-batch: a Python source that has a new, empty batch whenever Spark asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.columns import row_schema


def floor_source() -> type[DataSource]:
    """The source; made in a function, so that Spark pickles it by value. `tasks`: tasks per batch."""

    class Empty(DataSourceStreamReader):
        def __init__(self, tasks: int) -> None:
            self.tasks = tasks

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802
            return {"batch": 0}

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
            return {"batch": start["batch"] + 1}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [InputPartition(task) for task in range(self.tasks)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return iter(())

    class Floor(DataSource):
        @classmethod
        def name(cls) -> str:
            return "floor"

        def schema(self) -> StructType:
            return from_arrow_schema(row_schema(KAFKA_COLUMNS))

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return Empty(int(self.options["tasks"]))

    return Floor
