"""What a user reads when options are wrong: our own error, and nothing of PySpark's behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOBODY = "127.0.0.1:1"
SCHEMA = "schema is struct<a:int>; expected struct<key:binary"
ENDING = "endingOffsets is given, but a streaming query has no end"


def read(spark: SparkSession, *, streaming: bool, schema: str = "", **options: str) -> DataFrame:
    reader = (spark.readStream if streaming else spark.read).format("evensplit")
    if schema:
        reader = reader.schema(schema)
    return reader.options(**{"kafka.bootstrap.servers": NOBODY, "subscribe": "orders", **options}).load()


def alone(error: PySparkException, expected: str) -> None:
    """The text of `error` has `expected`, the id to look up, and one traceback."""
    text = str(error)
    assert expected in text
    assert "ES-101: `evensplit explain ES-101`" in text
    assert text.count("Traceback (most recent call last)") == 1, text
    assert "another exception occurred" not in text
    assert "UnboundLocalError" not in text


@pytest.mark.parametrize(
    "options, schema, expected",
    [
        ({"endingOffsets": "latest"}, "", ENDING),
        ({}, "a int", SCHEMA),
        ({"readers": "none"}, "a int", "readers is 'none'; expected a whole number"),
    ],
    ids=["an end", "a schema", "a schema and an option"],
)
@pytest.mark.parametrize("available_now", [False, True], ids=["always on", "available now"])
def test_a_stream(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], schema: str, expected: str, available_now: bool
) -> None:
    """Its reader is made inside a `try … finally` of PySpark that takes for granted that there is one."""
    writer = read(spark, streaming=True, schema=schema, **options).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path))
    query = (writer.trigger(availableNow=True) if available_now else writer).start()
    try:
        with pytest.raises(PySparkException) as caught:
            query.awaitTermination(120)
    finally:
        query.stop()
    alone(caught.value, expected)


@pytest.mark.parametrize(
    "options, schema, expected",
    [
        ({"startingOffsets": "latest"}, "", "startingOffsets is latest (-1)"),
        ({"commitGroup": "reports"}, "", "commitGroup is given, but it is for streaming queries only"),
        ({}, "a int", SCHEMA),
    ],
    ids=["a start", "a group", "a schema"],
)
def test_a_batch(spark: SparkSession, options: dict[str, str], schema: str, expected: str) -> None:
    with pytest.raises(PySparkException) as caught:
        read(spark, streaming=False, schema=schema, **options).collect()
    alone(caught.value, expected)


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_both_say_what_is_wrong_when_the_frame_is_made(spark: SparkSession, *, streaming: bool) -> None:
    """What is wrong for either is said at once, by `load()`."""
    with pytest.raises(PySparkException) as caught:
        read(spark, streaming=streaming, readers="none")
    alone(caught.value, "readers is 'none'; expected a whole number")
