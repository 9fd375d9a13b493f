"""What a worker does to write: rows that cost little to make, or those of a topic, into a topic.

Rows are made of numbers: keys and values are cut out of two runs of bytes, so that making one is a copy of its bytes.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from bench.processes import cpu_s, descendants

POOL_BYTES = 1 << 20
"""More costs Spark tenths of a second for each job, and memory for its plan as text; less would repeat values within a
long record batch."""

KEY_BYTES = 10


class Writes:
    """Writes for one session."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._directory = directory
        self._queries = 0

    def rows(self, frame: DataFrame, value_bytes: int) -> DataFrame:
        """A key and a value for each `id`."""
        from pyspark.sql import functions

        keys, values = pool(value_bytes)
        count = len(values) // value_bytes

        def cut(text: bytes, number: Column, size: int) -> Column:
            place = (number.cast("int") * size + 1).cast("int")
            return functions.substring(functions.lit(bytearray(text)), place, functions.lit(size))

        number = functions.col("id")
        # Keys go round in other cycles than values, so that a value comes with another key each time.
        key = cut(keys, number % (count - 1), KEY_BYTES)
        return frame.select(key.alias("key"), cut(values, number % count, value_bytes).alias("value"))

    def write(self, frame: DataFrame, ask: dict[str, Any]) -> dict[str, Any]:
        """Seconds to write `frame`, and the processor time of this session's processes."""
        began, used = time.perf_counter(), processor_s()
        frame.write.format(ask["sink"]).mode("append").options(**ask["sink_options"]).save()
        return {"seconds": time.perf_counter() - began, "cpu_s": processor_s() - used}

    def stream(self, ask: dict[str, Any]) -> dict[str, Any]:
        """Write `batches` micro-batches of `rows` rows each; seconds of all but the first, as Spark reports them."""
        self._queries += 1
        files = self._numbers(ask["rows"], ask["batches"], ask["tasks"])
        reader = self._spark.readStream.schema("id long").option("maxFilesPerTrigger", ask["tasks"])
        frame = self.rows(reader.parquet(files), ask["value_bytes"])
        options = {"checkpointLocation": f"{self._directory}/written-{self._queries}", **ask["sink_options"]}
        writer = frame.writeStream.format(ask["sink"]).options(**options).trigger(availableNow=True)
        used = processor_s()
        query = writer.start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
        found = [one for one in query.recentProgress if one["numInputRows"]]
        if [one["numInputRows"] for one in found] != [ask["rows"]] * ask["batches"]:
            raise RuntimeError(f"batches of {[one['numInputRows'] for one in found]} rows, expected {ask['rows']} each")
        took = [one["durationMs"]["triggerExecution"] / 1e3 for one in found[1:]]
        return {"seconds": sum(took) / len(took), "cpu_s": (processor_s() - used) / ask["batches"]}

    def _numbers(self, rows: int, batches: int, tasks: int) -> str:
        """Files with numbers, as many for each batch as there are tasks."""
        directory = f"{self._directory}/numbers-{rows}-{batches}"
        if not Path(directory).exists():
            self._spark.range(0, rows * batches, 1, batches * tasks).write.parquet(directory)
        return directory


@cache
def pool(value_bytes: int) -> tuple[bytes, bytes]:
    """Keys and values, one behind the other."""
    # Only who writes needs it, and what it loads.
    from bench.peer.data import records

    made = records(value_bytes, POOL_BYTES // value_bytes)
    return b"".join(key for key, _ in made), b"".join(value for _, value in made)


def processor_s() -> float:
    """What this process and those below it have used."""
    total = time.process_time()
    for pid in descendants():
        try:
            total += cpu_s(pid)
        except OSError:
            continue
    return total
