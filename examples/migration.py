"""From Spark's own Kafka source to evensplit with the checkpoint: nothing is lost, nothing is repeated.

    python examples/migration.py
    python examples/migration.py --bootstrap-servers broker-1:9092 --topic orders \\
        --checkpoint checkpoints/orders --migrated checkpoints/orders-evensplit

A query with format("kafka") has read a part of a topic and was stopped. `evensplit migrate` makes a copy of its
checkpoint with the same positions for evensplit. From the copy, the query continues with format("evensplit") at the
next record, with the next batch number, its state and its watermark. `evensplit migrate --to kafka` leads back.

Without arguments, this program writes a checkpoint as Spark's source would. With arguments it uses yours, which is not
changed, and only prints what the query would read next.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from _support import command_line, kafka, spark_session


def checkpoint_of_spark(place: Path, topic: str) -> None:
    """Write the checkpoint that Spark's Kafka source leaves after two batches."""
    for name in ("offsets", "commits", "sources/0"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    (place / "sources" / "0" / "0").write_bytes(b"\0v1\n" + json.dumps({topic: {"0": 0, "1": 0, "2": 0}}).encode())
    for batch, offset in ((0, 20), (1, 40)):
        about = {"batchWatermarkMs": 0, "batchTimestampMs": 1772352000000 + batch, "conf": {}}
        positions = {topic: {"0": offset, "1": offset, "2": offset}}
        (place / "offsets" / f"{batch}").write_text(f"v1\n{json.dumps(about)}\n{json.dumps(positions)}")
        (place / "commits" / f"{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')


def tell(rows: DataFrame, batch: int) -> None:
    """Print the offsets of a batch."""
    ranges = rows.groupBy("partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    for row in ranges.orderBy("partition").collect():
        print(f"batch {batch}: partition {row.partition}, offsets {row.first} to {row.last}", flush=True)


def main() -> None:
    parser = command_line(__doc__, topic="orders")
    parser.add_argument("--checkpoint", type=Path, help="the checkpoint of a query with format('kafka')")
    parser.add_argument("--migrated", type=Path, help="where to put the copy (a temporary directory)")
    given = parser.parse_args()
    orders = {given.topic: (b'{"id": %d}' % number for number in range(300))}
    with (
        tempfile.TemporaryDirectory() as temporary,
        kafka(given.bootstrap_servers, orders) as servers,
        spark_session("migration") as spark,
    ):
        migrated = given.migrated or Path(temporary) / "migrated"
        old = given.checkpoint
        if old is None:
            old = Path(temporary) / "checkpoint"
            checkpoint_of_spark(old, given.topic)
        # On a command line, `evensplit migrate OLD NEW --bootstrap-servers ...` shows what it would do; --yes does it.
        # --assume-stopped: the checkpoint was written just now, but no query uses it.
        command = [sys.executable, "-m", "evensplit.cli", "migrate", str(old), str(migrated)]
        subprocess.run([*command, "--bootstrap-servers", servers, "--assume-stopped", "--yes"], check=True)
        records = (
            spark.readStream.format("evensplit")  # It was "kafka".
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", given.topic)
            # Only for a new query: this one has positions.
            .option("startingOffsets", "earliest")
            .load()
        )
        query = (
            records.writeStream.foreachBatch(tell)
            .option("checkpointLocation", str(migrated))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    main()
