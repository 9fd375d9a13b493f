"""`kafka.isolation.level` and `columns` through Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.queries import batch, run_available, stream, written
from tests.support.records import Draft, produce
from tests.support.transactions import Writer, decided

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_only_what_is_committed_and_only_when_it_is_decided(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic)
    first, second = Writer(east, topic), Writer(east, topic)
    first.write(b"committed")
    first.end(commit=True)
    first.write(b"aborted")
    first.end(commit=False)
    second.write(b"open")
    first.write(b"behind")
    first.end(commit=True)
    decided(east, topic, 4)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", **COMMITTED)
    run_available(frame, checkpoint, tmp_path / "out")
    assert written(spark, tmp_path / "out") == [(topic, 0, 0, "committed")]
    second.end(commit=True)
    decided(east, topic, 8)
    isolated = batch(spark, east.bootstrap_servers, subscribe=topic, **COMMITTED)
    found = [(row.offset, bytes(row.value)) for row in isolated.collect()]
    assert found == [(0, b"committed"), (4, b"open"), (5, b"behind")]


def test_columns_are_those_that_were_chosen(spark: SparkSession, east: LocalKafka, topic: str) -> None:
    east.create_topic(topic, partitions=2)
    headers = [("trace", b"1")]
    produce(
        east.bootstrap_servers,
        topic,
        [Draft(b"v%d" % n, key=b"k%d" % n, partition=n % 2, headers=headers) for n in range(10)],
    )
    everything = batch(
        spark, east.bootstrap_servers, subscribe=topic, includeHeaders="true", includeCluster="true"
    ).orderBy("partition", "offset")
    rows = everything.collect()
    chosen = batch(spark, east.bootstrap_servers, subscribe=topic, columns="headers, Offset,partition, cluster, key")
    assert chosen.columns == ["key", "partition", "offset", "headers", "cluster"]
    assert [tuple(row) for row in chosen.orderBy("partition", "offset").collect()] == [
        tuple(row[name] for name in chosen.columns) for row in rows
    ]
    for name in ("value", "timestamp"):
        one = batch(spark, east.bootstrap_servers, subscribe=topic, columns=name)
        assert one.schema == everything.select(name).schema
        assert sorted(map(str, one.collect())) == sorted(str(row) for row in everything.select(name).collect())
    with pytest.raises(PySparkException, match="expected one or more of key, value, topic, partition, offset"):
        batch(spark, east.bootstrap_servers, subscribe=topic, columns="value, payload")
