"""The lane when records are gone and that is no error: what is passed over, and what is said of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from evensplit.core.model import Range, SplitId
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.routing import GONE_AFTER_S
from evensplit.testing import LocalKafka
from tests.support.lanes import delete_records, lane, spread, topic_id, values, whole
from tests.support.records import numbers
from tests.support.waiting import SLACK_S

pytestmark = pytest.mark.kafka

BRIEF_MS = 1500
"""How long what seems to be gone is looked for, where it is gone."""
BRIEF_S = BRIEF_MS / 1000

Warned = Callable[[], list[str]]


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Warned:
    """What was logged since the last call; all of it are warnings of the one logger."""

    def take() -> list[str]:
        records = list(caplog.records)
        caplog.clear()
        assert {(record.name, record.levelno) for record in records} <= {("evensplit", logging.WARNING)}
        return [record.getMessage() for record in records]

    return take


def recreate(kafka: LocalKafka, topic: str, count: int) -> None:
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(count))


def of(topic: str, *bounds: tuple[int, int]) -> list[Range]:
    return [Range(SplitId("east", topic, 0), start, end) for start, end in bounds]


def test_reading_goes_on_where_the_log_now_starts(kafka: LocalKafka, topic: str, pool: Pool, warned: Warned) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(20))
    delete_records(kafka, topic, 12)
    assert values(lane(kafka, whole(topic, 20), pool, skip_lost=True)) == [b"%d" % n for n in range(12, 20)]
    assert warned() == [
        f"cluster 'east', topic {topic!r}, partition 0: offsets 0 to 19 were to be read, but its log now has 12 to 19: "
        "earlier records were deleted, by retention or on request. At most 12 offsets were skipped"
    ]
    # Several ranges of one split; one that ends before the log starts; one from there on; one that is not touched.
    found = values(lane(kafka, of(topic, (0, 5), (8, 15), (16, 18)), pool, skip_lost=True))
    assert found == [b"12", b"13", b"14", b"16", b"17"]
    (warning,) = warned()
    assert "offsets 0 to 4 were to be read" in warning
    assert "At most 9 offsets" in warning
    assert values(lane(kafka, of(topic, (3, 8)), pool, skip_lost=True)) == []
    (warning,) = warned()
    assert "At most 5 offsets" in warning
    assert values(lane(kafka, of(topic, (12, 14)), pool, skip_lost=True)) == [b"12", b"13"]
    delete_records(kafka, topic, 20)
    assert values(lane(kafka, of(topic, (12, 14)), pool, skip_lost=True)) == []
    (warning,) = warned()
    assert "its log now has nothing before offset 20: " in warning


def test_records_that_are_deleted_while_they_are_read(
    kafka: LocalKafka, topic: str, pool: Pool, warned: Warned
) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    batches = lane(kafka, whole(topic, len(expected)), pool, skip_lost=True)
    found = values(iter([next(batches)]))
    delete_records(kafka, topic, 3000)
    found += values(batches)
    # What was asked for already came, then there is one gap, up to where the log starts.
    before = len(found) - 1000
    assert 0 < before < 3000
    assert found == expected[:before] + expected[3000:]
    (warning,) = warned()
    assert f"offsets {before} to 3999 were to be read, but its log now has 3000 to 3999" in warning
    assert warning.endswith(f"At most {3000 - before} offsets were skipped")


def test_log_that_ends_before_the_position(kafka: LocalKafka, topic: str, pool: Pool, warned: Warned) -> None:
    kafka.create_topic(topic)
    kafka.create_topic(f"{topic}-b")
    numbers(kafka.bootstrap_servers, topic, range(3))
    expected = spread(kafka, f"{topic}-b", 500)
    begun = time.monotonic()
    ranges = [*of(topic, (7, 10), (20, 21)), *whole(f"{topic}-b", 500)]
    assert values(lane(kafka, ranges, pool, timeout_ms=BRIEF_MS, skip_lost=True)) == expected
    assert time.monotonic() - begun < BRIEF_S + SLACK_S
    assert warned() == [
        f"cluster 'east', topic {topic!r}, partition 0: offsets 7 to 9 were to be read, but its log now has 0 to 2: it "
        "was cut off by an unclean leader election, or the topic was created anew. At most 4 offsets were skipped"
    ]


@pytest.mark.parametrize("count", [3, 10, 30])
def test_nothing_of_a_topic_that_was_created_anew_is_read(
    kafka: LocalKafka, topic: str, pool: Pool, warned: Warned, count: int
) -> None:
    for name in (topic, f"{topic}-b"):
        kafka.create_topic(name)
        numbers(kafka.bootstrap_servers, name, range(10))
    planned = topic_id(kafka, topic, pool)
    ids = {("east", topic): planned}
    ranges = [*of(topic, (2, 10), (15, 17)), *whole(f"{topic}-b", 10)]
    recreate(kafka, topic, count)
    begun = time.monotonic()
    found = values(lane(kafka, ranges, pool, timeout_ms=BRIEF_MS, topic_ids=ids, skip_lost=True))
    assert time.monotonic() - begun < BRIEF_S + SLACK_S
    assert found == [b"%d" % n for n in range(10)]
    assert warned() == [
        f"cluster 'east', topic {topic!r}, partition 0: offsets 2 to 9 were to be read, but the topic was deleted and "
        f"created anew after the batch was planned: expected the topic id {planned}, found "
        f"{topic_id(kafka, topic, pool)}. At most 10 offsets were skipped"
    ]


def test_a_deleted_topic_is_passed_over_long_before_the_time_is_over_where_brokers_know_others(
    kafka: LocalKafka, topic: str, pool: Pool
) -> None:
    for name in (topic, f"{topic}-b"):
        kafka.create_topic(name)
        numbers(kafka.bootstrap_servers, name, range(3))
    assert len(values(lane(kafka, whole(topic, 3), pool))) == 3
    kafka.delete_topic(topic)
    begun = time.monotonic()
    ranges = [*whole(topic, 3), *whole(f"{topic}-b", 3)]
    assert values(lane(kafka, ranges, pool, timeout_ms=120_000, skip_lost=True)) == [b"0", b"1", b"2"]
    assert GONE_AFTER_S < time.monotonic() - begun < GONE_AFTER_S + 2 * SLACK_S


@pytest.mark.parametrize("partition", [0, 5])
def test_topic_or_partition_that_is_gone(
    kafka: LocalKafka, topic: str, pool: Pool, warned: Warned, partition: int
) -> None:
    for name in (topic, f"{topic}-b"):
        kafka.create_topic(name)
        numbers(kafka.bootstrap_servers, name, range(3))
    # What is known of leaders is from before.
    assert len(values(lane(kafka, whole(topic, 3), pool))) == 3
    if not partition:
        kafka.delete_topic(topic)
    begun = time.monotonic()
    ranges = [*whole(topic, 3, partition), *whole(f"{topic}-b", 3)]
    assert values(lane(kafka, ranges, pool, timeout_ms=BRIEF_MS, skip_lost=True)) == [b"0", b"1", b"2"]
    assert time.monotonic() - begun < BRIEF_S + SLACK_S
    assert warned() == [
        f"cluster 'east', topic {topic!r}, partition {partition}: offsets 0 to 2 were to be read, but the topic or the "
        "partition does not exist (any more). At most 3 offsets were skipped"
    ]
