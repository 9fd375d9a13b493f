"""The options of Spark's own Kafka source, on a real broker: each has a test that fails when it is ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.spark.listen.progress import batch_progress
from evensplit.testing import LocalKafka
from tests.support.live import LiveQuery
from tests.support.queries import batch, committed, run_available, stream, written
from tests.support.records import Draft, produce
from tests.support.world import Topic, World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TIMED = "options-timed"
T0 = 1_700_000_000_000
NEVER = 2**63 - 1


@pytest.fixture(scope="module")
def timed(east: LocalKafka) -> LocalKafka:
    """Three partitions; 0 to 9 at T0, 10 to 19 a second later, 20 to 29 another one; number n in partition n % 3."""
    east.create_topic(TIMED, partitions=3)
    drafts = [Draft(b"%d" % n, partition=n % 3, timestamp_ms=T0 + n // 10 * 1000) for n in range(30)]
    produce(east.bootstrap_servers, TIMED, drafts)
    return east


def values(spark: SparkSession, broker: LocalKafka, **options: object) -> list[int]:
    """What a batch query reads."""
    frame = batch(spark, broker.bootstrap_servers, **{"subscribe": TIMED, **options})
    return sorted(int(row.v) for row in frame.selectExpr("cast(value as string) v").collect())


def each(*of: int) -> str:
    """A JSON about each partition."""
    return json.dumps({TIMED: {str(partition): one for partition, one in enumerate(of)}})


def at(*seconds: int) -> str:
    """A JSON with a time of each partition, in s after T0."""
    return each(*(T0 + 1000 * one for one in seconds))


def of(partition: int, *parts: range) -> list[int]:
    return [n for part in parts for n in part if n % 3 == partition]


EARLIEST, LATER, LAST = range(30), range(10, 30), range(20, 30)

RANGES: list[tuple[dict[str, object], list[int]]] = [
    ({}, list(EARLIEST)),
    ({"startingTimestamp": T0 + 2000}, list(LAST)),
    ({"startingTimestamp": T0 + 2000, "startingOffsetsByTimestamp": at(1, 1, 1)}, list(LAST)),
    ({"startingOffsetsByTimestamp": at(1, 1, 1), "startingOffsets": "earliest"}, list(LATER)),
    ({"startingOffsetsByTimestamp": at(0, 1, 2)}, sorted(of(0, EARLIEST) + of(1, LATER) + of(2, LAST))),
    ({"startingTimestamp": T0 + 9000, "startingOffsetsByTimestampStrategy": "latest"}, []),
    ({"startingOffsets": each(9, -2, 3)}, sorted([27, *of(1, EARLIEST), *range(11, 30, 3)])),
    ({"startingOffsets": json.dumps({TIMED: "EARLIEST"})}, list(EARLIEST)),
    ({"endingTimestamp": T0 + 1000}, list(range(10))),
    ({"endingTimestamp": T0 + 1000, "endingOffsetsByTimestamp": at(2, 2, 2)}, list(range(10))),
    ({"endingOffsetsByTimestamp": at(1, 1, 1), "endingOffsets": each(0, 0, 0)}, list(range(10))),
    (
        {"endingOffsetsByTimestamp": each(T0 + 1000, T0 + 1000, NEVER)},
        sorted(of(0, range(10)) + of(1, range(10)) + of(2, EARLIEST)),
    ),
    ({"endingOffsets": each(1, -1, 0)}, sorted([0, *of(1, EARLIEST)])),
    ({"startingOffsets": each(1, 1, 1), "endingOffsets": each(2, 2, 1)}, [3, 4]),
    ({"startingOffsets": each(8, 8, 8), "endingTimestamp": T0 + 9000}, list(range(24, 30))),
    ({"subscribe": None, "assign": json.dumps({TIMED: [1]})}, of(1, EARLIEST)),
    ({"subscribe": None, "subscribePattern": "tions-time"}, list(EARLIEST)),
]


@pytest.mark.parametrize("options, expected", RANGES, ids=lambda one: "-".join(one) if isinstance(one, dict) else "")
def test_what_a_batch_query_reads(
    spark: SparkSession, timed: LocalKafka, options: dict[str, object], expected: list[int]
) -> None:
    chosen = {name: value for name, value in {"subscribe": TIMED, **options}.items() if value is not None}
    frame = batch(spark, timed.bootstrap_servers, **chosen)
    assert sorted(int(row.v) for row in frame.selectExpr("cast(value as string) v").collect()) == expected


@pytest.mark.parametrize(
    "options, parts",
    [
        ({"startingTimestamp": T0 + 9000}, ["no offset matched", "startingOffsetsByTimestampStrategy=latest"]),
        (
            {"startingOffsets": json.dumps({TIMED: {"0": 1}, "other": {"0": 1}})},
            [
                f"topic '{TIMED}', partitions 1, 2 are not named; the partitions specified in startingOffsets don't",
                "you must specify all of them (-1 for latest, -2 for earliest)",
                "topic 'other', partition 0 has an offset but is not read",
            ],
        ),
        (
            {"endingOffsetsByTimestamp": json.dumps({TIMED: {"0": T0, "1": T0}})},
            [f"topic '{TIMED}', partition 2 is not named; the partitions specified in endingOffsetsByTimestamp don't"],
        ),
        (
            {"startingOffsets": each(1, 1, 1), "endingOffsets": json.dumps({TIMED: {"0": 0, "1": 0}})},
            [
                f"should have the same topic-partitions, but only the start names topic '{TIMED}', partition 2",
                f"The specified start offset 1 is greater than the end offset 0 for topic '{TIMED}', partition 0",
                f"The specified start offset 1 is greater than the end offset 0 for topic '{TIMED}', partition 1",
            ],
        ),
        (
            {"startingOffsets": each(3, 3, 9), "endingOffsetsByTimestamp": at(1, 1, 1)},
            ["The resolved start offset 9 is greater than the resolved end offset 3"],
        ),
    ],
    ids=["no record", "not all named", "not all ends named", "start and end", "found to be behind"],
)
def test_what_a_batch_query_refuses(
    spark: SparkSession, timed: LocalKafka, options: dict[str, object], parts: list[str]
) -> None:
    with pytest.raises(PySparkException) as caught:
        values(spark, timed, **options)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.slow
def test_a_stream_demands_the_names_of_all_partitions_and_a_group_does_not(
    spark: SparkSession, timed: LocalKafka, tmp_path: Path, checkpoint: Path
) -> None:
    options: dict[str, Any] = {"subscribe": TIMED, "startingOffsets": json.dumps({TIMED: {"0": 9, "1": 10}})}
    with pytest.raises(PySparkException, match=f"topic '{TIMED}', partition 2 is not named; the partitions specified"):
        run_available(stream(spark, timed.bootstrap_servers, **options), checkpoint, tmp_path / "out")
    assert committed(checkpoint) == []
    grouped = stream(spark, timed.bootstrap_servers, startingGroup="options-nobody", **options)
    run_available(grouped, checkpoint, tmp_path / "out")
    assert [int(row[3]) for row in written(spark, tmp_path / "out")] == [27, *of(2, EARLIEST)]


def test_headers_are_null_where_there_are_none_and_keep_their_order(
    spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    east.create_topic(topic)
    produce(east.bootstrap_servers, topic, [Draft(b"0"), Draft(b"1", headers=[("e", b"f"), ("e", b"g"), ("n", None)])])
    with_headers = batch(spark, east.bootstrap_servers, subscribe=topic, includeHeaders="true").orderBy("offset")
    headers = [row.headers for row in with_headers.collect()]
    found = [of_row and [(one.key, one.value and bytes(one.value)) for one in of_row] for of_row in headers]
    assert found == [None, [("e", b"f"), ("e", b"g"), ("n", None)]]
    assert "headers" not in batch(spark, east.bootstrap_servers, subscribe=topic, includeHeaders="false").columns


def test_what_has_no_meaning_stops_no_job(spark: SparkSession, timed: LocalKafka) -> None:
    """Options as a job has them that was written for Spark's own source, and shares them with a stream."""
    options = {
        "maxOffsetsPerTrigger": 1,
        "minOffsetsPerTrigger": 1,
        "maxTriggerDelay": "1h",
        "groupIdPrefix": "jobs",
        "fetchOffset.numRetries": 5,
        "fetchOffset.retryIntervalMs": 100,
        "kafkaConsumer.pollTimeoutMs": 60_000,
        "kafka.group.id": "job",
        "kafka.max.poll.records": 500,
        "kafka.session.timeout.ms": 30_000,
    }
    assert values(spark, timed, **options) == list(EARLIEST)


def write(topic: Topic, *counts: int) -> None:
    """Write so many records to each of the partitions; those of one become visible all at once."""
    for partition, count in enumerate(counts):
        topic.write(count, partition=partition)


def seen(query: LiveQuery) -> int:
    """How many records the source has seen to be there."""
    event = query.query.lastProgress
    return 0 if event is None else sum(end for one in batch_progress(event) for end in one.report.latest.values())


def waits(query: LiveQuery, total: int, read: int) -> None:
    """See that, of `total` records that are known to be there, no more than `read` are read."""
    query.wait_for_state(lambda _: seen(query) == total, f"{total} records to be seen")
    query.settle()
    assert len(query.rows()) == read


def reads(query: LiveQuery, count: int) -> None:
    """See that so many records are read in all."""
    query.wait_for_state(lambda _: len(query.rows()) == count, f"{count} records")


@pytest.mark.slow
def test_a_batch_waits_for_its_minimum(world: World) -> None:
    topic = world.default.topic(partitions=3)
    write(topic, 10, 5, 1)
    with world.live(minOffsetsPerTrigger=15, maxTriggerDelay="1h") as query:
        reads(query, 16)
        write(topic, 0, 6, 0)
        waits(query, 22, 16)
        write(topic, 12)
        reads(query, 34)
        query.wait_for_state(lambda _: committed(world.checkpoint) == [0, 1], "the commit of the second batch")
        write(topic, 5, 5, 0)
        waits(query, 44, 34)
        query.stop()
        # The first batch of each run does not wait.
        query.start()
        reads(query, 44)


def test_a_batch_waits_no_longer_than_it_may(world: World) -> None:
    topic = world.default.topic(records=3)
    with world.live(minOffsetsPerTrigger=1000, maxTriggerDelay="2s") as query:
        reads(query, 3)
        topic.write(5)
        reads(query, 8)


@pytest.mark.slow
def test_a_minimum_and_a_maximum(world: World) -> None:
    topic = world.default.topic(partitions=3)
    write(topic, 21, 11, 1)
    with world.live(minOffsetsPerTrigger=15, maxOffsetsPerTrigger=20, maxTriggerDelay="1h") as query:
        waits(query, 33, 19)
        write(topic, 19)
        waits(query, 52, 38)


def test_a_run_to_the_end_leaves_nothing_behind(world: World) -> None:
    topic = world.default.topic(records=12)
    limits = {"minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}
    assert world.run(**limits).values() == topic.values
    assert committed(world.checkpoint) == [0, 1]
