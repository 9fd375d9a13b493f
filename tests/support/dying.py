"""The sink, whose driver's process is killed once, at a moment of its protocol."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from evensplit.core.delivery.orders import Answer, Order
from evensplit.spark.source import EvenSplitDataSource

MOMENTS = ("before Append", "after Append", "after End")


class DyingSink(EvenSplitDataSource):
    """`path`: a file that says at which of MOMENTS; it is removed then."""

    @classmethod
    def name(cls) -> str:
        return "evensplit-dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from evensplit.kafka.produce.conduct import Conductor

        moment = Path(self.options["path"])
        carry_out = Conductor.carry_out

        def dying(conductor: Conductor, order: Order) -> Answer:
            wanted = moment.read_text() if moment.exists() else ""
            if wanted == f"before {type(order).__name__}":
                die(moment)
            answer = carry_out(conductor, order)
            if wanted == f"after {type(order).__name__}":
                die(moment)
            return answer

        Conductor.carry_out = dying  # type: ignore[method-assign, assignment]
        return super().streamWriter(schema, overwrite)


def die(moment: Path) -> None:
    """As if it were killed."""
    moment.unlink()
    os._exit(9)
