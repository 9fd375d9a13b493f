"""`spark.read`: where it starts and ends, and what a DataFrame that is used again sees."""

from __future__ import annotations

import json
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evensplit.testing import LocalKafka
from tests.support.queries import batch
from tests.support.records import Draft, cut, produce, spread

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

T0_MS = int(time.time() * 1000) - 3_600_000
"""When records 0 to 9 were written; 10 to 19 a second later, 20 to 29 another one. Record r is in partition r % 3."""
LONG_MAX = 2**63 - 1


@pytest.fixture(scope="module")
def timed(east: LocalKafka) -> str:
    """A topic with thirty records of three times."""
    name = "peer-suite-timed"
    east.create_topic(name, 3)
    for second in range(3):
        values = range(10 * second, 10 * second + 10)
        by_partition = {partition: [value for value in values if value % 3 == partition] for partition in range(3)}
        spread(east.bootstrap_servers, name, by_partition, timestamp_ms=T0_MS + 1000 * second)
    return name


def values(frame: DataFrame) -> list[int]:
    """The values of a DataFrame, ascending. It is collected as it is, so that the same plan is run each time."""
    return sorted(int(row.value) for row in frame.collect())


def read(spark: SparkSession, east: LocalKafka, **options: object) -> DataFrame:
    return batch(spark, east.bootstrap_servers, **options).selectExpr("cast(value as string) value")


def at(topic: str, *seconds: int) -> str:
    """Times by partition, as JSON: so many seconds after the first."""
    return json.dumps({topic: {str(number): T0_MS + 1000 * second for number, second in enumerate(seconds)}})


def test_which_of_several_starts_and_ends_holds(spark: SparkSession, east: LocalKafka, timed: str) -> None:
    """Scenario 24: one time for all goes before times by partition, and these before offsets; for ends likewise."""
    by_offset = {"startingOffsets": "earliest"}
    by_time = {**by_offset, "startingOffsetsByTimestamp": at(timed, 1, 1, 1)}
    assert values(read(spark, east, subscribe=timed, **by_time, startingTimestamp=T0_MS + 2000)) == [*range(20, 30)]
    assert values(read(spark, east, subscribe=timed, **by_time)) == [*range(10, 30)]
    until = json.dumps({timed: {"0": T0_MS + 1000, "1": T0_MS + 1000, "2": LONG_MAX}})
    ends = {"endingOffsets": "latest", "endingOffsetsByTimestamp": until}
    assert values(read(spark, east, subscribe=timed, **ends)) == [n for n in range(30) if n < 10 or n % 3 == 2]
    assert values(read(spark, east, subscribe=timed, **ends, endingTimestamp=T0_MS + 2000)) == [*range(20)]


@pytest.mark.slow
def test_times_and_offsets_as_starts_and_ends(spark: SparkSession, east: LocalKafka, timed: str) -> None:
    """The six tests of `KafkaRelationSuite` about times, where there is a record at each."""
    start, end = {"startingOffsetsByTimestamp": at(timed, 1, 1, 1)}, {"endingOffsetsByTimestamp": at(timed, 2, 2, 2)}
    from_offsets = {"startingOffsets": json.dumps({timed: {"0": -2, "1": -2, "2": 0}})}
    to_offsets = {"endingOffsets": json.dumps({timed: {"0": -1, "1": -1, "2": 1}})}
    for options, expected in (
        ({**start, **end}, range(10, 20)),
        (
            {"startingOffsetsByTimestamp": at(timed, 0, 0, 0), **to_offsets},
            [n for n in range(30) if n % 3 < 2 or n == 2],
        ),
        ({**from_offsets, **end}, range(20)),
        (start, range(10, 30)),
        (end, range(20)),
        ({"startingTimestamp": T0_MS + 1000, "endingTimestamp": T0_MS + 2000}, range(10, 20)),
    ):
        assert values(read(spark, east, subscribe=timed, **options)) == [*expected], options


@pytest.mark.slow
def test_times_without_a_record(spark: SparkSession, east: LocalKafka, timed: str) -> None:
    """A start is an error unless it may be the end of the log; an end is the end of the log."""
    by_partition = json.dumps({timed: {"0": T0_MS + 1000, "1": T0_MS + 1000, "2": LONG_MAX}})
    for start, none, found in (
        ({"startingTimestamp": T0_MS + 3000}, T0_MS + 3000, []),
        ({"startingOffsetsByTimestamp": by_partition}, LONG_MAX, [n for n in range(10, 30) if n % 3 < 2]),
    ):
        with pytest.raises(PySparkException, match=f"topic '{timed}', partition 2 has no record at {none}"):
            values(read(spark, east, subscribe=timed, **start))
        assert values(read(spark, east, subscribe=timed, **start, startingOffsetsByTimestampStrategy="latest")) == found
    for end in ({"endingTimestamp": T0_MS + 3000}, {"endingOffsetsByTimestamp": at(timed, 3, 3, 3)}):
        assert values(read(spark, east, subscribe=timed, **end)) == [*range(30)]


@pytest.fixture
def three(east: LocalKafka, topic: str) -> str:
    """A topic with 0 to 9 in its first partition, 10 to 19 in the second, and 20 in the third."""
    east.create_topic(topic, 3)
    spread(east.bootstrap_servers, topic, {0: range(10), 1: range(10, 20), 2: [20]})
    return topic


def test_a_dataframe_that_is_collected_again_sees_what_came_meanwhile(
    spark: SparkSession, east: LocalKafka, three: str
) -> None:
    """Scenario 25: `latest` is where the log ends when it is read, also where that was not said."""
    said = read(spark, east, subscribe=three, startingOffsets="earliest", endingOffsets="latest")
    default = read(spark, east, subscribe=three)
    assert values(said) == values(default) == [*range(21)]
    spread(east.bootstrap_servers, three, {2: range(21, 30)})
    assert values(said) == [*range(30)]
    assert values(default) == [*range(30)]


def test_a_dataframe_that_is_collected_again_begins_where_the_log_does(
    spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    """Scenario 25: `earliest` is where the log begins when it is read; what was cut off by then is no loss."""
    east.create_topic(topic)
    spread(east.bootstrap_servers, topic, {0: range(10)})
    frame = read(spark, east, subscribe=topic, startingOffsets="earliest", endingOffsets="latest")
    assert values(frame) == [*range(10)]
    cut(east.bootstrap_servers, topic, {0: 10})
    spread(east.bootstrap_servers, topic, {0: range(10, 20)})
    assert values(frame) == [*range(10, 20)]


@pytest.mark.slow
def test_offsets_that_are_given_stay_what_they_are(spark: SparkSession, east: LocalKafka, three: str) -> None:
    """What is behind an end that was given is never read, what is behind `latest` (-1) is."""
    start, end = {"0": -2, "1": -2, "2": 0}, {"0": -1, "1": -1, "2": 1}
    frame = read(
        spark, east, subscribe=three, startingOffsets=json.dumps({three: start}), endingOffsets=json.dumps({three: end})
    )
    assert values(frame) == [*range(21)]
    spread(east.bootstrap_servers, three, {2: [31]})
    assert values(frame) == [*range(21)]
    spread(east.bootstrap_servers, three, {1: range(21, 31)})
    assert values(frame) == [*range(31)]


@pytest.mark.slow
def test_a_dataframe_twice_in_one_query(spark: SparkSession, east: LocalKafka, three: str) -> None:
    frame = read(spark, east, subscribe=three)
    assert values(frame.union(frame)) == sorted([*range(21), *range(21)])


@pytest.mark.slow
def test_more_tasks_than_partitions(spark: SparkSession, east: LocalKafka, three: str) -> None:
    """SPARK-30656: six tasks for three partitions, and the same rows; what comes later is in the last of them."""
    frame = batch(spark, east.bootstrap_servers, subscribe=three, minPartitions=6)
    numbered = frame.selectExpr("cast(value as string) value", "spark_partition_id() task")
    for end in (21, 31):
        assert values(numbered) == [*range(end)]
        assert len({row.task for row in numbered.collect()}) == 6
        spread(east.bootstrap_servers, three, {2: range(21, 31)})


@pytest.mark.slow
def test_headers_in_their_order_with_those_of_one_name_and_none(
    spark: SparkSession, east: LocalKafka, topic: str
) -> None:
    """A record without headers has null, not an empty list; several of one name stay several."""
    east.create_topic(topic)
    headers = [[("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", b"g")], None]
    produce(east.bootstrap_servers, topic, [Draft(b"%d" % n, headers=own) for n, own in enumerate(headers)])
    rows = batch(spark, east.bootstrap_servers, subscribe=topic, includeHeaders=True).orderBy("offset").collect()
    found = [row.headers and [(header.key, bytes(header.value)) for header in row.headers] for row in rows]
    assert found == headers
