"""`df.writeStream.format("evensplit")`: each row once, whatever happens to tasks, drivers and commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from evensplit.testing import LocalKafka
from tests.support.dying import MOMENTS, DyingSink
from tests.support.queries import committed, stream
from tests.support.records import spread
from tests.support.transactions import UNCOMMITTED, ends
from tests.support.written import values

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


def run(
    frame: DataFrame,
    checkpoint: Path,
    kafka: LocalKafka,
    *,
    mode: str = "append",
    sink: str = "evensplit",
    **options: object,
) -> str:
    """Write all that there is; what the query died of, or nothing."""
    query = (
        frame.writeStream.format(sink)
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .options(**{name: str(value) for name, value in options.items()})
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        return str(error)
    return ""


def source(spark: SparkSession, kafka: LocalKafka, topic: str, **options: object) -> DataFrame:
    frame = stream(spark, kafka.bootstrap_servers, subscribe=topic, startingOffsets="earliest", **options)
    return frame.selectExpr("cast(value as string) value")


@pytest.fixture
def target(east: LocalKafka, topic: str) -> str:
    """A topic to write to, beside `topic`, which has numbers from 0 to 99."""
    east.create_topic(topic, 2)
    east.create_topic(f"{topic}-copy")
    spread(east.bootstrap_servers, topic, {0: range(50), 1: range(50, 100)})
    return f"{topic}-copy"


def texts(count: int) -> list[str]:
    return sorted(map(str, range(count)))


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_batches_and_a_restart(
    spark: SparkSession, east: LocalKafka, topic: str, target: str, checkpoint: Path, delivery: str
) -> None:
    frame = source(spark, east, topic, maxOffsetsPerTrigger=40)
    assert run(frame, checkpoint, east, topic=target, delivery=delivery, ledger=f"{topic}-ledger") == ""
    assert committed(checkpoint) == [0, 1, 2]
    assert values(east, target) == texts(100)
    spread(east.bootstrap_servers, topic, {0: range(100, 110)})
    assert run(frame, checkpoint, east, topic=target, delivery=delivery, ledger=f"{topic}-ledger") == ""
    assert values(east, target) == texts(110)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_dies_in_a_commit(
    spark: SparkSession, east: LocalKafka, topic: str, target: str, checkpoint: Path, tmp_path: Path, moment: str
) -> None:
    """Before the decision all is written again; after it nothing is, and the batch becomes visible."""
    spark.dataSource.register(DyingSink)
    frame = source(spark, east, topic)
    (tmp_path / "moment").write_text(moment)
    options = {"topic": target, "ledger": f"{topic}-ledger", "kafka.transaction.timeout.ms": "600000"}
    said = run(frame, checkpoint, east, sink="evensplit-dying", path=tmp_path / "moment", **options)
    assert said
    assert not (tmp_path / "moment").exists()
    assert committed(checkpoint) == []
    assert run(frame, checkpoint, east, **options) == ""
    assert values(east, target) == texts(100)
    # Those of the attempt that was not decided are there, aborted; after the decision nobody writes again.
    written = values(east, target, isolation=UNCOMMITTED)
    assert len(written) == (200 if moment == "before Append" else 100)


@pytest.mark.slow
def test_a_task_that_fails_leaves_nothing(
    spark: SparkSession, east: LocalKafka, topic: str, target: str, checkpoint: Path, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not failed.exists():
            failed.touch()
            raise RuntimeError("the task fails once")

    frame = source(spark, east, topic, plan="owners").mapInArrow(fail_once, "value string")
    options = {"topic": target, "ledger": f"{topic}-ledger"}
    assert "the task fails once" in run(frame, checkpoint, east, **options)
    # Its transaction is open until the next run: no task has told the driver which query it is.
    assert ends(east, target)[0] == [0]
    assert run(frame, checkpoint, east, **options) == ""
    assert values(east, target) == texts(100)


@pytest.mark.slow
def test_output_modes(spark: SparkSession, east: LocalKafka, topic: str, target: str, tmp_path: Path) -> None:
    """As with Spark's own sink, `complete` writes all rows each time. Spark lets no Python sink have `update`."""
    counts = source(spark, east, topic).groupBy((F.col("value") % 10).cast("string").alias("key")).count()
    rows = counts.selectExpr("key", "cast(count as string) as value")
    for number in (1, 2):
        said = run(rows, tmp_path / "complete", east, mode="complete", topic=target, ledger=f"{topic}-ledger")
        assert said == ""
        assert values(east, target) == sorted(["10"] * 10 + (["11"] * 10 if number > 1 else []))
        spread(east.bootstrap_servers, topic, {0: range(100, 110)})
    said = run(rows, tmp_path / "update", east, mode="update", topic=target, ledger=f"{topic}-ledger")
    assert "does not support Update mode" in said
