"""Windows with a watermark: the mean of each sensor per quarter of an hour, by event time.

    python examples/windows.py
    python examples/windows.py --bootstrap-servers broker-1:9092 --topic readings

A record is a reading in JSON: {"sensor": "attic", "time": "2026-03-01T08:00:00Z", "celsius": 18.5}. Readings arrive
in any order. Spark keeps a window until it has seen a reading ten minutes after the window's end. Then it writes the
window once and forgets it, so that its state stays small. Readings that come later are dropped and counted.

The broker that is started here has an hour of readings. Some are a few minutes late, which is fine, and three are too
late. Windows that are open at the end are not written; a query that keeps running would write them later.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F  # noqa: N812

from _support import command_line, kafka, spark_session

SENSORS = {"attic": 18.0, "cellar": 11.0, "garden": 4.0}
BEGIN = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def readings() -> Iterator[bytes]:
    """An hour of readings, one per sensor every 10 s, up to two minutes late; then three from the first minute."""
    chance = random.Random(7)
    times = [(BEGIN + timedelta(seconds=10 * n), sensor) for n in range(360) for sensor in SENSORS]
    times.sort(key=lambda reading: reading[0] + timedelta(seconds=chance.uniform(0, 120)))
    for time, sensor in [*times, *((BEGIN, sensor) for sensor in SENSORS)]:
        celsius = round(SENSORS[sensor] + chance.gauss(0, 0.5), 2)
        yield json.dumps({"sensor": sensor, "time": time.isoformat(), "celsius": celsius}).encode()


def main() -> None:
    given = command_line(__doc__, topic="readings").parse_args()
    with kafka(given.bootstrap_servers, {given.topic: readings()}) as servers, spark_session("windows") as spark:
        records = (
            spark.readStream.format("evensplit")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", given.topic)
            .option("startingOffsets", "earliest")
            # The watermark moves between batches, so make several.
            .option("maxOffsetsPerTrigger", 300)
            .load()
        )
        reading = F.from_json(F.col("value").cast("string"), "sensor string, time timestamp, celsius double")
        means = (
            records.select(reading.alias("reading"))
            .select("reading.*")
            .withWatermark("time", "10 minutes")
            .groupBy(F.window("time", "15 minutes"), "sensor")
            .agg(F.count("*").alias("readings"), F.avg("celsius").alias("celsius"))
        )
        query = (
            means.writeStream.outputMode("append")
            .format("memory")
            .queryName("means")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        late = sum(one.numRowsDroppedByWatermark for event in query.recentProgress for one in event.stateOperators)
        closed = spark.table("means").selectExpr(
            "date_format(window.start, 'HH:mm') AS begin", "date_format(window.end, 'HH:mm') AS end", "*"
        )
        for row in closed.orderBy("window.start", "sensor").collect():
            print(f"{row.begin}-{row.end}  {row.sensor:<10} {row.celsius:6.2f} °C  from {row.readings} readings")
    # Spark counts them after aggregating: several of one sensor in one window and batch are one.
    print(f"{late} came too late")


if __name__ == "__main__":
    main()
