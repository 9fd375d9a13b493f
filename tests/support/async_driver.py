"""A Spark driver in a process of its own that tracks its progress asynchronously: most offsets are never logged.

    python -m tests.support.async_driver '{"options": {…}, "checkpoint": …, "sink": …, "interval_ms": …, "die": …}'

Each batch's rows are appended to the file `sink`: number of the batch, topic, partition, value. While the file `die` is
there, the process kills itself in the first batch whose offset is logged, before it keeps a row of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

LOGGED_WITHIN_S = 0.5
"""So long a batch waits for its offset to be logged, which happens in the background, if it does."""


def main(arguments: dict[str, Any]) -> None:
    """Run the query until it is killed."""
    checkpoint, sink, die = (Path(arguments[name]) for name in ("checkpoint", "sink", "die"))
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .getOrCreate()
    )

    def keep(frame: DataFrame, number: int) -> None:
        rows = frame.selectExpr("topic", "partition", "cast(value as string)").collect()
        deadline = time.monotonic() + LOGGED_WITHIN_S
        while die.exists() and time.monotonic() < deadline:
            if (checkpoint / "offsets" / str(number)).exists():
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        with sink.open("a") as file:
            file.writelines(f"{number} {topic} {partition} {value}\n" for topic, partition, value in rows)

    frame = session.readStream.format("evensplit").options(**arguments["options"]).load()
    query = (
        frame.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .option("asyncProgressTrackingEnabled", "true")
        .option("asyncProgressTrackingCheckpointIntervalMs", str(arguments["interval_ms"]))
        # Spark allows it for its own Kafka sink alone.
        .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
