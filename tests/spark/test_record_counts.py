"""What tasks count of records that are left out or undecodable reaches the explanation of each batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import evensplit
from evensplit.explain.record_counts import Counted, RecordCounts
from evensplit.observe.metrics import samples
from evensplit.spark.listen.registration import Progress, Registration
from evensplit.testing import LocalKafka
from tests.support.queries import stream
from tests.support.records import Draft, produce
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]

OPTIONS = {
    "startingOffsets": "earliest",
    "readers": 2,
    "clusterWait": "20s",
    "value.format": "json",
    "value.schema": "id BIGINT",
}
WHERE = "value IS NULL OR value.id >= 10"


def write(east: LocalKafka, topic: str, ids: range, bad: int) -> None:
    """Write a document for each id, and `bad` of them that are none, in two partitions."""
    values = [json.dumps({"id": one}).encode() for one in ids] + [b"{"] * bad
    drafts = [Draft(value, partition=number % 2) for number, value in enumerate(values)]
    produce(east.bootstrap_servers, topic, drafts)


def with_offsets(registration: Registration, name: str) -> list[Progress]:
    return [one for one in registration.progress(name) if one.explanation.offsets]


def test_each_batch_has_the_counts_of_its_own_records(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=2)
    write(east, topic, range(25), bad=3)
    name = topic.replace("-", "_")
    registration = evensplit.register(spark)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, onDecodeError="column", where=WHERE, **OPTIONS)
    query = started(frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint)))
    wait_for(lambda: len(with_offsets(registration, name)) == 1)
    write(east, topic, range(4), bad=5)
    wait_for(lambda: len(with_offsets(registration, name)) == 2)
    (status,) = [one for one in registration.recorder.watched() if one.view.source.name == name]
    query.stop()
    first, second = (one.explanation.counts for one in with_offsets(registration, name))
    (cluster,) = with_offsets(registration, name)[0].explanation.clusters
    assert first == RecordCounts({cluster.id: Counted(10, 3)})
    assert second == RecordCounts({cluster.id: Counted(4, 5)})
    exported = {one.name: one.value for one in samples([status])}
    assert exported["evensplit_records_filtered_total"] == 14
    assert exported["evensplit_records_undecodable_total"] == 8
    assert exported["evensplit_uncounted_batches_total"] == 0


def test_a_query_without_these_options_counts_nothing(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=2)
    write(east, topic, range(4), bad=0)
    name = topic.replace("-", "_")
    registration = evensplit.register(spark)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, **OPTIONS)
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    query = started(writer.trigger(availableNow=True))
    assert query.awaitTermination(120)
    (one,) = wait_for(lambda: with_offsets(registration, name))
    assert one.explanation.counts is None
    assert one.to_json()["counts"] is None
