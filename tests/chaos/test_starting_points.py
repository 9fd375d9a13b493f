"""Where reading starts and stops, on two clusters: what is found first by the strategies, all that is later in full."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.core.model import Cause, Lifecycle, SplitId
from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, clusters, fleet, run, running, uncommit
from tests.support.group_offsets import commit_offsets
from tests.support.queries import committed, states
from tests.support.records import Draft, numbers, produce
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HOUR_MS = 3_600_000


def aged(broker: LocalKafka, topic: str, values: range, ages_h: range, now_ms: int) -> None:
    """Write values to partition 0, each with the timestamp of so many hours ago."""
    drafts = [
        Draft(b"%d" % value, timestamp_ms=now_ms - age * HOUR_MS) for value, age in zip(values, ages_h, strict=True)
    ]
    produce(broker.bootstrap_servers, topic, drafts)


@pytest.mark.slow
def test_each_strategy_on_two_clusters_and_earliest_for_all_that_is_later(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    now_ms = int(time.time() * 1000)
    east_topics = [f"{topic}-{name}" for name in ("at", "ago", "count", "offsets", "latest")]
    at, ago, count, offsets, latest = east_topics
    for name in east_topics:
        east.create_topic(name, 2)
    west.create_topic(topic, 2)
    # Ten records from 19 to 10 hours ago, so that an age of 14.5 hours is between the fifth and the sixth.
    aged(east, at, range(10), range(19, 9, -1), now_ms)
    aged(east, ago, range(100, 110), range(19, 9, -1), now_ms)
    numbers(east.bootstrap_servers, count, range(200, 220), partitions=2)
    numbers(east.bootstrap_servers, offsets, range(300, 320), partitions=2)
    numbers(east.bootstrap_servers, latest, range(400, 420), partitions=2)
    numbers(west.bootstrap_servers, topic, range(1000, 1020), partitions=2)
    commit_offsets(west, f"{topic}-group", topic, {0: 7})
    start = {
        at: f"timestamp:{now_ms - 29 * HOUR_MS // 2}",
        ago: "-52200s",
        count: "-3",
        # The end of the log is a place to wait at.
        offsets: {"0": 4, "1": 10},
        latest: "latest",
    }
    own: dict[str, dict[str, Any]] = {
        "east": {"subscribePattern": f"^{topic}-", "start": start},
        "west": {"subscribe": topic, "startingGroup": f"{topic}-group", "start": "-2"},
    }
    options: dict[str, Any] = {"clusters": clusters({"east": east, "west": west}, own), "readers": 2}
    first = run(fleet(spark, **options), checkpoint)
    assert first.values("east") == [
        *range(5, 10),
        *range(105, 110),
        *range(214, 220),
        *range(308, 320, 2),
    ]
    # Where the group has no commit, the other strategy holds.
    assert first.values("west") == [1014, 1016, 1017, 1018, 1019]
    for name in (offsets, latest):
        east.add_partitions(name, 3)
    east.create_topic(f"{topic}-later")
    west.add_partitions(topic, 3)
    later: list[int] = []
    for broker, name, value in (
        (east, offsets, 500),
        (east, latest, 510),
        (east, f"{topic}-later", 520),
        (west, topic, 1500),
    ):
        partitions = 1 if name.endswith("later") else 3
        numbers(broker.bootstrap_servers, name, range(value, value + 9), partitions=partitions)
        later.extend(range(value, value + 9))
    assert run(fleet(spark, **options), checkpoint).values() == later


@pytest.mark.slow
def test_a_start_is_final_once_it_is_logged(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """A crash before the first commit: the same records again, and all that came later, new partitions included."""
    brokers = {"east": east, "west": west}
    for place, broker in enumerate(brokers.values()):
        broker.create_topic(topic)
        numbers(broker.bootstrap_servers, topic, range(100 * place, 100 * place + 10))
    own = {"east": {"start": "-3"}, "west": {"start": "latest"}}
    frame = fleet(spark, clusters=clusters(brokers, own), subscribe=topic)
    assert run(frame, checkpoint).values() == [7, 8, 9]
    uncommit(checkpoint, 0)
    for place, broker in enumerate(brokers.values()):
        broker.add_partitions(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(100 * place + 10, 100 * place + 20), partitions=2)
    again = run(frame, checkpoint)
    assert [row[3] for row in again.of_batch(0)] == [7, 8, 9]
    assert again.values() == [*range(7, 20), *range(110, 120)]


@pytest.mark.slow
def test_an_offset_beyond_the_end(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """An error before anything is logged; or, where losses are declared, the beginning of the log."""
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(20), partitions=2)
    own = {"west": {"start": {topic: {"0": 11, "1": 9}}}}
    options = {"clusters": clusters(brokers, own), "subscribe": topic, "start": "latest"}
    with pytest.raises(PySparkException) as caught:
        run(fleet(spark, **options), checkpoint)
    assert f"west/{topic}/0: reading was to start at offset 11" in str(caught.value)
    assert f"west/{topic}/1" not in str(caught.value)
    assert committed(checkpoint) == []
    batches = run(fleet(spark, **options, failOnDataLoss="false"), checkpoint)
    assert batches.values() == sorted([*range(0, 20, 2), 19])
    (loss,) = states(checkpoint)[0].losses
    assert (loss.split, loss.cause, loss.position, loss.found) == (SplitId("west", topic, 0), Cause.OUT_OF_RANGE, 11, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["available now", "running"])
def test_reading_that_stops(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path, kind: str
) -> None:
    """A split is finished at its stop; what is written behind it is never read, by this run or by a later one."""
    brokers = {"east": east, "west": west}
    for place, broker in enumerate(brokers.values()):
        broker.create_topic(topic, 2)
        numbers(broker.bootstrap_servers, topic, range(100 * place, 100 * place + 20), partitions=2)
    own: dict[str, dict[str, Any]] = {"east": {"stop": {topic: {"0": 4, "1": 12}}}, "west": {"stop": "latest"}}
    options = {"clusters": clusters(brokers, own), "subscribe": topic, "startingOffsets": "earliest"}
    frame = fleet(spark, **options)
    # One stop is two records behind the end.
    expected = sorted([*range(0, 8, 2), *range(1, 20, 2), *range(100, 120)])
    open_split = SplitId("east", topic, 1)

    def finished() -> list[SplitId]:
        return [key for key, split in states(checkpoint)[-1].splits.items() if split.lifecycle is Lifecycle.FINISHED]

    def write_more() -> None:
        for place, broker in enumerate(brokers.values()):
            numbers(broker.bootstrap_servers, topic, range(100 * place + 20, 100 * place + 40), partitions=2)

    if kind == "available now":
        assert run(frame, checkpoint).values() == expected
        assert len(finished()) == 3
        write_more()
        # The batch in which most splits both began and came to their end.
        uncommit(checkpoint, 0)
        again = run(fleet(spark, **options, readers=5), checkpoint)
        assert sorted(row.value for row in again.rows if row.batch == 0) == expected
        assert again.values() == sorted([*expected, 21, 23])
        assert len(finished()) == 4
    else:
        batches = Batches()
        with running(frame, checkpoint, batches) as query:
            wait_for(lambda: len(batches.rows) == len(expected))
            assert batches.values() == expected
            wait_for(lambda: len(finished()) == 3)
            assert open_split not in finished()
            write_more()
            wait_for(lambda: len(finished()) == 4)
            seen = query.lastProgress
            assert seen is not None
            wait_for(lambda: len([one for one in query.recentProgress if one["timestamp"] > seen["timestamp"]]) >= 3)
            assert batches.values() == sorted([*expected, 21, 23])
    assert len(finished()) == 4
    assert run(frame, checkpoint).rows == []
