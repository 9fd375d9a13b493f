"""Write each record to DuckDB exactly once, even if a run fails between the sink's commit and Spark's.

    python examples/duckdb_exactly_once.py
    python examples/duckdb_exactly_once.py --bootstrap-servers broker-1:9092 --topic orders \\
        --database orders.duckdb --checkpoint checkpoints/orders

Spark commits a batch after the sink has written it. If a run ends in between, the next one repeats the batch, with the
same number and, since evensplit reads it from the offsets in the checkpoint, the same rows. So it is enough to write
the batch number in one transaction with the rows, and to skip a batch whose number is there.

Without arguments, the first run fails right after the rows of batch 1 are committed, and a second one continues. With
arguments, a run reads to the end of the topic, and the next one with the same checkpoint continues there;
`--fail-after-batch 1` makes it fail as well.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from _support import command_line, kafka, spark_session

TABLES = """
CREATE TABLE IF NOT EXISTS orders (topic VARCHAR, kafka_partition INTEGER, kafka_offset BIGINT, value VARCHAR);
CREATE TABLE IF NOT EXISTS batches (checkpoint VARCHAR, id BIGINT, PRIMARY KEY (checkpoint, id));
"""


class DuckDBSink:
    """Writes each batch to a database once.

    Batches are numbered from 0 in each checkpoint, so a batch is identified by its checkpoint and its number.
    `fail_after`: the batch after which to fail, or None.
    """

    def __init__(self, database: Path, checkpoint: Path, fail_after: int | None = None) -> None:
        self._database = str(database)
        self._checkpoint = str(checkpoint.resolve())
        self._fail_after = fail_after

    def __call__(self, rows: DataFrame, batch: int) -> None:
        with duckdb.connect(self._database) as db:
            db.execute(TABLES)
            known = "SELECT 1 FROM batches WHERE checkpoint = ? AND id = ?"
            if db.execute(known, [self._checkpoint, batch]).fetchone():
                print(f"batch {batch}: already written, skipped", flush=True)
                return
            arrived = rows.toArrow()
            db.register("arrived", arrived)
            # Closing the connection before COMMIT, as an error does, undoes everything.
            db.execute("BEGIN")
            db.execute("INSERT INTO orders SELECT * FROM arrived")
            db.execute("INSERT INTO batches VALUES (?, ?)", [self._checkpoint, batch])
            db.execute("COMMIT")
        print(f"batch {batch}: {arrived.num_rows} rows written", flush=True)
        if batch == self._fail_after:
            raise RuntimeError("the rows are written, but Spark does not know")


def run(spark: SparkSession, servers: str, topic: str, checkpoint: Path, sink: DuckDBSink) -> None:
    """Read from the position of the checkpoint to the end of the topic."""
    records = (
        spark.readStream.format("evensplit")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # A batch must fit into the driver's memory.
        .option("maxOffsetsPerTrigger", 100)
        .load()
    )
    query = (
        records.selectExpr("topic", "partition", "offset", "CAST(value AS STRING)")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    parser = command_line(__doc__, topic="orders")
    parser.add_argument("--database", type=Path, help="the DuckDB file (a temporary one)")
    parser.add_argument("--checkpoint", type=Path, help="Spark's checkpoint (a temporary one)")
    parser.add_argument("--fail-after-batch", type=int, metavar="N", help="fail after writing batch N, then continue")
    given = parser.parse_args()
    fail_after = 1 if given.bootstrap_servers is None else given.fail_after_batch
    orders = {given.topic: (b'{"id": %d}' % number for number in range(350))}
    with (
        tempfile.TemporaryDirectory() as temporary,
        kafka(given.bootstrap_servers, orders) as servers,
        spark_session("duckdb") as spark,
    ):
        database = given.database or Path(temporary) / "orders.duckdb"
        checkpoint = given.checkpoint or Path(temporary) / "checkpoint"
        if fail_after is not None:
            try:
                run(spark, servers, given.topic, checkpoint, DuckDBSink(database, checkpoint, fail_after))
            except StreamingQueryException:
                print("the run failed; the next one continues from its checkpoint", flush=True)
        run(spark, servers, given.topic, checkpoint, DuckDBSink(database, checkpoint))
        with duckdb.connect(str(database)) as db:
            one = "SELECT count(*), count(DISTINCT (topic, kafka_partition, kafka_offset)) FROM orders"
            rows, different = db.execute(one).fetchall()[0]
    print(f"{rows} rows, {different} distinct records")


if __name__ == "__main__":
    main()
