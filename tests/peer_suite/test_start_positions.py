"""Where a new query starts, and that a restart goes on where the one before ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.peer_suite.timed import FIRST, FIRST_MS, SECOND, SECOND_MS, write_timed
from tests.support.fleets import Batches
from tests.support.records import spread
from tests.support.steps import Stepped, finish, flat, source

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]

THREE_EACH = {0: [-20, -21, -22], 1: [-10, -11, -12], 2: [0, 1, 2], 3: [10, 11, 12], 4: [20, 21, 22]}
START = {"0": -2, "1": -1, "2": 0, "3": 1, "4": 2}
"""Earliest, latest, and offsets."""
FROM_START = [-22, -21, -20, 0, 1, 2, 11, 12, 22]

SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
STARTS = ("latest", "earliest", "offsets", "timestamps", "one timestamp")


def subscription(kind: str, topic: str) -> dict[str, str]:
    """The option that asks for the topic, and its five partitions."""
    wanted = {"assign": json.dumps({topic: [*range(5)]}), "subscribe": topic, "subscribePattern": f"^{topic}$"}
    return {kind: wanted[kind]}


def test_offsets_of_each_partition_with_words_for_the_ends_among_them(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 14."""
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, THREE_EACH)
    frame = source(spark, east, subscribe=topic, startingOffsets=json.dumps({topic: START}))
    with Stepped(frame, checkpoint) as query:
        query.expect(FROM_START)
        query.restart()
        query.idle()
        spread(east.bootstrap_servers, topic, {partition: [30 + partition] for partition in range(5)})
        query.expect([*FROM_START, *range(30, 35)])


@pytest.mark.slow
def test_one_topic_from_its_beginning_and_another_from_its_end(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 13."""
    one, other = f"{topic}-a", f"{topic}-b"
    east.create_topic(one, 3)
    east.create_topic(other)
    spread(east.bootstrap_servers, one, {0: [1], 1: [2], 2: [3]})
    spread(east.bootstrap_servers, other, {0: [11]})
    start = json.dumps({one: "earliest", other: "LATEST"})
    with Stepped(source(spark, east, subscribe=f"{one},{other}", startingOffsets=start), checkpoint) as query:
        query.expect([1, 2, 3])
        spread(east.bootstrap_servers, other, {0: [12]})
        spread(east.bootstrap_servers, one, {0: [4]})
        query.expect([1, 2, 3, 4, 12])
        query.restart()
        query.idle()
        spread(east.bootstrap_servers, other, {0: [13]})
        query.expect([1, 2, 3, 4, 12, 13])


@pytest.mark.slow
def test_from_the_end_on_with_partitions_that_are_added(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 15."""
    east.create_topic(topic, 5)
    spread(east.bootstrap_servers, topic, {0: [-1]})
    with Stepped(source(spark, east, subscribe=topic), checkpoint) as query:
        assert query.next_batch() == []
        spread(east.bootstrap_servers, topic, {1: [1], 2: [2], 3: [3]})
        query.expect([1, 2, 3])
        query.stop()
        spread(east.bootstrap_servers, topic, {4: [4], 0: [5], 1: [6]})
        query.start()
        query.expect([*range(1, 7)])
        east.add_partitions(topic, 10)
        spread(east.bootstrap_servers, topic, {value % 10: [value] for value in range(9, 17)})
        query.expect([*range(1, 7), *range(9, 17)])


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", SUBSCRIPTIONS)
@pytest.mark.parametrize("fails", [True, False], ids=["failOnDataLoss", "loss is declared"])
def test_every_subscription_with_every_start(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, fails: bool, kind: str, start: str
) -> None:
    """The thirty tests of `KafkaSourceSuiteBase`: what there is, a restart, and all that comes later.

    With `assign`, a partition that is added later is none of the query's.
    """
    topic = f"{topic}-{kind}-{start.replace(' ', '-')}-{fails}"
    east.create_topic(topic, 5)
    options: dict[str, object] = {"failOnDataLoss": fails, **subscription(kind, topic)}
    if start in ("timestamps", "one timestamp"):
        write_timed(east.bootstrap_servers, topic)
        # One partition has no record of the second time, so it is asked for an earlier one, or may start at its end.
        times = {str(partition): FIRST_MS if partition == 4 else SECOND_MS for partition in range(5)}
        options |= (
            {"startingTimestamp": SECOND_MS, "startingOffsetsByTimestampStrategy": "latest"}
            if start == "one timestamp"
            else {"startingOffsetsByTimestamp": json.dumps({topic: times})}
        )
        expected = sorted([*flat(SECOND.values()), *([] if start == "one timestamp" else FIRST[4])])
    else:
        spread(east.bootstrap_servers, topic, THREE_EACH)
        options["startingOffsets"] = json.dumps({topic: START}) if start == "offsets" else start
        everything = sorted(flat(THREE_EACH.values()))
        expected = {"latest": [], "earliest": everything, "offsets": FROM_START}[start]
    frame = source(spark, east, **options)
    assert flat(finish(frame, checkpoint, Batches())) == expected
    assert finish(frame, checkpoint, Batches()) == []
    east.add_partitions(topic, 10)
    later = {partition: [100 + partition, 200 + partition] for partition in range(10)}
    spread(east.bootstrap_servers, topic, later)
    read = [value for partition, values in later.items() if kind != "assign" or partition < 5 for value in values]
    assert flat(finish(frame, checkpoint, Batches())) == sorted(read)
