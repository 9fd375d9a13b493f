"""Transactions: which records a batch has, and where it ends."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.core.model import SplitId
from evensplit.testing import LocalKafka
from tests.support.fleets import begin
from tests.support.queries import batch, states
from tests.support.steps import Acting, Stepped, contents, source
from tests.support.transactions import COMMITTED, UNCOMMITTED, Writer, decided
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


def write(writer: Writer, values: range, *, commit: bool = True) -> None:
    """One transaction; each value is the offset that its record gets."""
    writer.write(*(b"%d" % value for value in values))
    writer.end(commit=commit)


def position(checkpoint: Path, topic: str) -> int | None:
    """Where the last batch that was planned ends."""
    return states(checkpoint)[-1].splits[SplitId("default", topic, 0)].position


def small_ones(writer: Writer) -> None:
    """Three transactions of one, one and two records."""
    for values in (range(18, 19), range(20, 21), range(22, 24)):
        write(writer, values)


@pytest.mark.slow
def test_what_is_committed_in_limited_batches(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 18. Markers and aborted records count as offsets, but there is no row of them."""
    east.create_topic(topic)
    writer = Writer(east, topic)
    writer.write(*(b"%d" % value for value in range(5)))
    options = {"kafka.isolation.level": COMMITTED, "maxOffsetsPerTrigger": 3, "startingOffsets": "earliest"}
    with Stepped(source(spark, east, subscribe=topic, **options), checkpoint) as query:
        assert (query.next_batch(), position(checkpoint, topic)) == ([], 0)
        query.idle()
        writer.end(commit=True)
        assert query.next() == [0, 1, 2]
        assert (query.next(), position(checkpoint, topic)) == ([3, 4], 6)
        write(writer, range(6, 11), commit=False)
        decided(east, topic, 12)
        assert (query.next_batch(), position(checkpoint, topic)) == ([], 9)
        assert (query.next_batch(), position(checkpoint, topic)) == ([], 12)
        write(writer, range(12, 17))
        decided(east, topic, 18)
        assert query.next() == [12, 13, 14]
        assert (query.next(), position(checkpoint, topic)) == ([15, 16], 18)
        small_ones(writer)
        decided(east, topic, 25)
        assert query.next() == [18, 20]
        assert query.next() == [22, 23]
        assert (query.next_batch(), position(checkpoint, topic)) == ([], 25)
        query.idle()


@pytest.mark.slow
def test_all_that_is_written_in_limited_batches(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 19: aborted records are read too, and those of a transaction that is open."""
    east.create_topic(topic)
    writer = Writer(east, topic)
    writer.write(*(b"%d" % value for value in range(5)))
    options = {"kafka.isolation.level": UNCOMMITTED, "maxOffsetsPerTrigger": 3, "startingOffsets": "earliest"}
    with Stepped(source(spark, east, subscribe=topic, **options), checkpoint) as query:

        def read_to(end: int) -> list[int]:
            """What comes until everything before `end` is read: what was looked for before it came is in two parts."""
            found: list[int] = []
            while (position(checkpoint, topic) or 0) < end:
                found += query.next_batch()
                assert len(query.batches.numbers) <= end
            return found

        assert query.next_batch() == [0, 1, 2]
        writer.end(commit=True)
        assert read_to(6) == [3, 4]
        write(writer, range(6, 11), commit=False)
        assert read_to(12) == [6, 7, 8, 9, 10]
        write(writer, range(12, 17))
        assert read_to(18) == [12, 13, 14, 15, 16]
        small_ones(writer)
        assert read_to(25) == [18, 20, 22, 23]
        query.idle()
        steps = [state.splits[SplitId("default", topic, 0)].position or 0 for state in states(checkpoint)]
        assert max(after - before for before, after in pairwise([0, *steps])) == 3


def test_what_comes_while_a_batch_is_read_is_not_in_it(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 20 (SPARK-25495): what was fetched beyond the end of a batch is for the next one."""
    east.create_topic(topic)
    writer = Writer(east, topic)
    for value in range(4):
        writer.write(b"%d" % value)
    writer.end(commit=True)

    def more() -> None:
        writer.write(*(b"%d" % value for value in range(4, 8)))
        writer.end(commit=True)
        decided(east, topic, 10)

    sink = Acting(before=more)
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": COMMITTED})
    query = begin(frame, checkpoint, sink)
    wait_for(lambda: query.exception() is not None or len(sink.rows) >= 8)
    query.stop()
    assert contents(sink) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    ends = [state.splits[SplitId("default", topic, 0)].position for state in states(checkpoint)]
    assert ends == [5, 10]


@pytest.mark.slow
@pytest.mark.parametrize("isolation", [COMMITTED, UNCOMMITTED])
def test_a_batch_query_reads_what_its_isolation_lets_it_see(
    spark: SparkSession, east: LocalKafka, topic: str, isolation: str
) -> None:
    """Nothing of an open transaction, then all of it, and never of an aborted one; or all at once. By one DataFrame."""
    east.create_topic(topic)
    writer = Writer(east, topic)
    options = {"subscribe": topic, "kafka.isolation.level": isolation}
    frame = batch(spark, east.bootstrap_servers, **options).selectExpr("cast(value as string) value")

    def values() -> list[int]:
        return sorted(int(row.value) for row in frame.collect())

    sees_all = isolation == UNCOMMITTED
    writer.write(*(b"%d" % value for value in range(5)))
    assert values() == ([*range(5)] if sees_all else [])
    writer.end(commit=True)
    decided(east, topic, 6)
    assert values() == [*range(5)]
    write(writer, range(6, 11), commit=False)
    decided(east, topic, 12)
    assert values() == ([*range(5), *range(6, 11)] if sees_all else [*range(5)])
    write(writer, range(12, 17))
    decided(east, topic, 18)
    assert values() == ([*range(5), *range(6, 11), *range(12, 17)] if sees_all else [*range(5), *range(12, 17)])
