"""The floor: a Python source with a new, empty batch whenever Spark asks, and one row for who reads it as a whole.

Neither its making nor its processes load more than PySpark does: what they take is Spark's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
    "timestampType": "integer",
}
"""Those of Kafka's records."""


def floor_schema() -> StructType:
    """Its schema."""
    schema = StructType()
    for name, kind in COLUMNS.items():
        schema.add(name, kind)
    return schema


def floor_source() -> type[DataSource]:
    """The source; made in a function, so that Spark pickles it by value. `tasks`: tasks per batch."""
    columns = floor_schema()

    class Empty(DataSourceStreamReader):
        def __init__(self, tasks: int) -> None:
            self.tasks = tasks

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802
            return {"batch": 0}

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
            return {"batch": start["batch"] + 1}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [InputPartition(task) for task in range(self.tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            return iter(())

    class Row(DataSourceReader):
        def __init__(self, tasks: int) -> None:
            self.tasks = tasks

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(task) for task in range(self.tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            # Spark has loaded them where this runs, and only there.
            import pyarrow as pa
            from pyspark.sql.pandas.types import to_arrow_schema

            row = {"key": b"key", "value": b"value", "topic": "floor", "partition": 0, "offset": 0, "timestampType": 0}
            yield pa.RecordBatch.from_pylist([{**row, "timestamp": 0}], schema=to_arrow_schema(columns, timezone="UTC"))

    class Floor(DataSource):
        @classmethod
        def name(cls) -> str:
            return "floor"

        def schema(self) -> StructType:
            return columns

        def reader(self, schema: StructType) -> DataSourceReader:
            return Row(int(self.options["tasks"]))

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return Empty(int(self.options["tasks"]))

    return Floor
