"""What the sink has written reaches the user's process: explanations, metrics, and queries over other sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import evensplit
from evensplit.explain.written import WriteOutcome, WriteReport
from evensplit.observe.metrics import samples
from evensplit.spark.listen.registration import Progress, Registration
from evensplit.testing import LocalKafka
from tests.support.queries import stream
from tests.support.records import spread
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


def run(frame: DataFrame, name: str, checkpoint: Path, options: Mapping[str, object]) -> str:
    """Write all that there is; what the query died of, or nothing."""
    writer = frame.writeStream.format("evensplit").queryName(name).option("checkpointLocation", str(checkpoint))
    query = started(writer.options(**{key: str(value) for key, value in options.items()}).trigger(availableNow=True))
    try:
        assert query.awaitTermination(240)
    except Exception as error:
        return str(error)
    return ""


def told(registration: Registration, name: str, count: int) -> list[WriteReport]:
    """What was told of the batches that had rows, once there are so many."""

    def found() -> list[WriteReport]:
        return [one for one in registration.written(name) if one.outcome is not WriteOutcome.EMPTY]

    wait_for(lambda: len(found()) >= count)
    return found()


@pytest.mark.parametrize("delivery", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.slow)])
def test_each_batch_says_what_it_has_written(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, delivery: str
) -> None:
    east.create_topic(topic, 2)
    east.create_topic(f"{topic}-copy")
    spread(east.bootstrap_servers, topic, {0: range(50), 1: range(50, 100)})
    registration = evensplit.register(spark)
    name = topic.replace("-", "_")
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 60, "readers": 2}
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, **limits).selectExpr("cast(value as string) value")
    options = {"kafka.bootstrap.servers": east.bootstrap_servers, "topic": f"{topic}-copy", "delivery": delivery}
    assert run(frame, name, checkpoint, {**options, "ledger": f"{topic}-ledger"}) == ""
    reports = told(registration, name, 2)
    exactly_once = delivery == "exactly-once"
    assert [one.outcome for one in reports] == [WriteOutcome.DECIDED if exactly_once else WriteOutcome.WRITTEN] * 2
    assert [one.all.records for one in reports] == [60, 40]
    assert [one.all.committed > 0 for one in reports] == [exactly_once] * 2
    assert all(one.all.bytes > one.all.records and one.at_ms for one in reports)
    assert all((one.took_ms is not None, one.age_ms is not None) == (exactly_once, exactly_once) for one in reports)

    def batches() -> list[Progress]:
        return [one for one in registration.progress(name) if one.explanation.offsets]

    wait_for(lambda: len(batches()) >= 2, what="the progress of both batches")
    assert [one.explanation.written for one in batches()] == reports
    assert batches()[0].explanation.sentences()[-1] == reports[0].sentence()

    def ended() -> bool:
        (sink,) = [one for one in registration.recorder.sinks.all() if one.view.name == name]
        return not sink.runs

    wait_for(ended, what="the end of the query")
    (sink,) = [one for one in registration.recorder.sinks.all() if one.view.name == name]
    assert sum(one.records for one in sink.view.clusters.values()) == 100


def test_a_query_over_another_source_is_seen_too(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, tmp_path: Path
) -> None:
    east.create_topic(topic)
    registration = evensplit.register(spark)
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "one.json").write_text("\n".join(json.dumps({"value": str(one)}) for one in range(7)))
    frame = spark.readStream.schema("value string").json(str(directory))
    name = topic.replace("-", "_")
    writer = frame.writeStream.format("evensplit").queryName(name).option("checkpointLocation", str(checkpoint))
    writer = writer.option("kafka.bootstrap.servers", east.bootstrap_servers).option("topic", topic)
    query = started(writer.option("ledger", f"{topic}-ledger"))
    (report,) = told(registration, name, 1)
    assert (report.outcome, report.all.records) == (WriteOutcome.DECIDED, 7)
    assert registration.progress(name) == ()
    recorder = registration.recorder
    exported = {one.name: one.value for one in samples(recorder.watched(), recorder.begun(), recorder.sinks.all())}
    query.stop()
    assert exported["evensplit_sink_records_total"] == 7


@pytest.mark.slow
def test_what_fails_is_seen_as_well(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    """A batch whose transactions are about to expire is given up; and the next run writes it."""
    east.create_topic(topic, 2)
    east.create_topic(f"{topic}-copy")
    spread(east.bootstrap_servers, topic, {0: range(50), 1: range(50, 100)})
    registration = evensplit.register(spark)
    name = topic.replace("-", "_")
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=1)
    text = frame.selectExpr("cast(value as string) value")
    slow = {
        "kafka.bootstrap.servers": east.bootstrap_servers,
        "topic": f"{topic}-copy",
        "ledger": f"{topic}-ledger",
        # Less than what a transaction must have left when its batch is decided, as soon as it is a millisecond old.
        "kafka.transaction.timeout.ms": 5_001,
    }
    assert "ES-" in run(text, name, checkpoint, slow)
    first = told(registration, name, 2)
    assert [one.outcome for one in first] == [WriteOutcome.TOO_OLD, WriteOutcome.GIVEN_UP]
    assert run(text, name, checkpoint, {**slow, "kafka.transaction.timeout.ms": 60_000}) == ""
    assert told(registration, name, 3)[2].outcome is WriteOutcome.DECIDED
    (sink,) = [one for one in registration.recorder.sinks.all() if one.view.name == name]
    assert sink.view.outcomes[WriteOutcome.TOO_OLD] == 1
    assert sum(one.records for one in sink.view.clusters.values()) == 100
