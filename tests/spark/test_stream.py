"""`spark.readStream`: each record once, whatever happens between batches."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evensplit.core.model import SplitId
from evensplit.explain.changes import loads
from evensplit.spark.listen.progress import batch_progress
from evensplit.testing import LocalKafka
from tests.support.queries import (
    committed,
    document,
    kept_progress,
    offset_files,
    run_available,
    states,
    stream,
    written,
)
from tests.support.records import cut, numbers
from tests.support.starting import started
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


def to_memory(frame: object, name: str, checkpoint: Path, **trigger: object) -> StreamingQuery:
    """Start a query that keeps its rows in a table in memory."""
    writer = frame.selectExpr("topic", "partition", "offset", "cast(value as string) value")  # type: ignore[attr-defined]
    return started(
        writer.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"processingTime": "50 milliseconds"}))
    )


def table(spark: SparkSession, name: str) -> list[int]:
    """The values in a table in memory."""
    return sorted(int(row.value) for row in spark.table(name).collect())


def test_available_now_reads_what_there_is_in_limited_batches(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=5)
    numbers(east.bootstrap_servers, topic, range(0, 75, 5), partitions=5)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    run_available(frame, checkpoint, tmp_path / "out")
    assert len(committed(checkpoint)) == 3
    assert [int(row[3]) for row in written(spark, tmp_path / "out")] == list(range(0, 75, 5))


def test_a_restart_neither_loses_nor_repeats(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=3)
    sink = tmp_path / "out"
    for start in (0, 100, 200):
        numbers(east.bootstrap_servers, topic, range(start, start + 100), partitions=3)
        frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
        run_available(frame, checkpoint, sink)
    assert sorted(int(row[3]) for row in written(spark, sink)) == list(range(300))


@pytest.mark.slow
def test_a_run_with_nothing_new_writes_no_batch(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    for _ in range(3):
        frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
        run_available(frame, checkpoint, tmp_path / "out")
    assert committed(checkpoint) == [0]


@pytest.mark.slow
def test_a_run_that_declares_losses_ends_with_a_batch_by_which_nothing_is_left_to_be_looked_at(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """So what retention removes until the next run was read, and is no loss."""
    east.create_topic(topic)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    rows: list[int] = []

    def run() -> None:
        query = started(
            frame.writeStream.foreachBatch(lambda batch, _: rows.append(batch.count()))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(240), "the query did not end"

    for day in range(3):
        cut(east.bootstrap_servers, topic, {0: 10 * day})
        numbers(east.bootstrap_servers, topic, range(10))
        run()
    run()
    assert rows == [10, 0, 10, 0, 10, 0]
    assert committed(checkpoint) == list(range(6))
    reads = ["read" in document(path)["clusters"]["default"]["topics"][topic] for path in offset_files(checkpoint)]
    assert reads == [True, False] * 3
    assert not any(state.losses for state in states(checkpoint))


def test_latest_delivers_only_what_comes_after_the_start(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(10), partitions=2)
    query = to_memory(stream(spark, east.bootstrap_servers, subscribe=topic), "latest", checkpoint)
    wait_for(lambda: committed(checkpoint) == [0])
    numbers(east.bootstrap_servers, topic, range(10, 20), partitions=2)
    wait_for(lambda: table(spark, "latest") == list(range(10, 20)))
    query.stop()


def test_what_appears_during_the_run_starts_at_earliest(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """FLIP-288: a later partition or topic is read from its beginning, whatever the starting offsets."""
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(5))
    frame = stream(spark, east.bootstrap_servers, subscribePattern=f"^{topic}(-.*)?$", discoveryInterval="300ms")
    query = to_memory(frame, "later", checkpoint)
    wait_for(lambda: committed(checkpoint) == [0])
    east.create_topic(f"{topic}-b")
    numbers(east.bootstrap_servers, f"{topic}-b", range(100, 110))
    east.add_partitions(topic, 2)
    numbers(east.bootstrap_servers, topic, range(11, 31, 2), partitions=2)
    wait_for(lambda: table(spark, "later") == sorted([*range(11, 31, 2), *range(100, 110)]))
    query.stop()
    assert sorted(loads(states(checkpoint)[-1])) == [1, 2]


def test_a_pattern_that_first_matches_nothing_reads_the_first_topic_from_its_beginning(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    """An empty first discovery is a discovery: it is in the log, and what comes later starts at earliest."""
    frame = stream(spark, east.bootstrap_servers, subscribePattern=f"{topic}$")
    run_available(frame, checkpoint, tmp_path / "out")
    assert committed(checkpoint) == [0]
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(5))
    run_available(frame, checkpoint, tmp_path / "out")
    assert [int(row[3]) for row in written(spark, tmp_path / "out")] == list(range(5))


def test_owners_are_even_and_stay(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    east.create_topic(topic, partitions=7)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", readers=3)
    with kept_progress(spark, 5_000):
        query = to_memory(frame, "owners", checkpoint)
    for start in range(0, 70, 7):
        numbers(east.bootstrap_servers, topic, range(start, start + 7), partitions=7)
        wait_for(lambda end=start + 7: table(spark, "owners") == list(range(end)))  # type: ignore[misc]

    def read() -> int:
        batches = [batch for event in query.recentProgress for batch in batch_progress(event)]
        return sum(plan.offsets for batch in batches for plan in batch.plan().readers)

    wait_for(lambda: read() == 70, what="the progress of the last batch")
    query.stop()
    owners = [{key: split.owner for key, split in state.splits.items()} for state in states(checkpoint)]
    assert len(owners) > 5
    assert all(one == owners[0] for one in owners)
    assert sorted(Counter(owners[0].values()).values()) == [2, 2, 3]


@pytest.mark.slow
def test_another_number_of_readers_moves_as_little_as_it_can(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=6)
    for start, readers in ((0, 2), (60, 3), (120, 0)):
        numbers(east.bootstrap_servers, topic, range(start, start + 60), partitions=6)
        options = {"readers": readers} if readers else {}
        frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", **options)
        run_available(frame, checkpoint, tmp_path / "out")
    two, three, kept = states(checkpoint)
    moved = [key for key, split in three.splits.items() if two.splits[key].owner != split.owner]
    assert (two.readers, three.readers, kept.readers) == (2, 3, 3)
    assert len(moved) == 2
    assert sorted(loads(three)) == [2, 2, 2]
    assert sorted(int(row[3]) for row in written(spark, tmp_path / "out")) == list(range(180))


def test_an_unchanged_world_leaves_the_offset_as_it_is(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Law S16: an idle query with a fast trigger logs nothing."""
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(4), partitions=2)
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    query = to_memory(frame, "idle", checkpoint)
    wait_for(lambda: committed(checkpoint) == [0])
    wait_for(lambda: len([event for event in query.recentProgress if event["batchId"] > 0]) >= 3, what="idle triggers")
    query.stop()
    assert [path.name for path in offset_files(checkpoint)] == ["0"]


def test_the_default_number_of_readers_is_stored(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(3))
    run_available(stream(spark, east.bootstrap_servers, subscribe=topic), checkpoint, tmp_path / "out")
    assert document(offset_files(checkpoint)[0])["readers"] >= 1


def test_partitions_and_ends_are_fixed_when_available_now_begins(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    """What arrives while it runs waits for the next run, partitions included."""
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    seen: list[int] = []

    def grow(rows: object, number: int) -> None:
        if number == 0:
            east.add_partitions(topic, 2)
            numbers(east.bootstrap_servers, topic, range(10, 20), partitions=2)
        seen.extend(int(row.v) for row in rows.selectExpr("cast(value as string) v").collect())  # type: ignore[attr-defined]

    for expected in (list(range(10)), list(range(20))):
        writer = frame.writeStream.foreachBatch(grow).option("checkpointLocation", str(checkpoint))
        query = started(writer.trigger(availableNow=True))
        assert query.awaitTermination(240)
        assert sorted(seen) == expected
    assert set(states(checkpoint)[-1].splits) == {SplitId("default", topic, 0), SplitId("default", topic, 1)}


def test_two_clusters_with_options_of_their_own(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    for broker, start in ((east, 0), (west, 1000)):
        broker.create_topic(topic, partitions=2)
        numbers(broker.bootstrap_servers, topic, range(start, start + 50), partitions=2)
    clusters = {
        "east": {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic},
        "west": {
            "kafka.bootstrap.servers": west.bootstrap_servers,
            "assign": {topic: [1]},
            "startingOffsets": {topic: {"1": 20}},
        },
    }
    frame = (
        spark.readStream.format("evensplit")
        .options(clusters=json.dumps(clusters), startingOffsets="earliest", readers="2")
        .load()
    )
    assert frame.columns[-1] == "cluster"
    run_available(frame, checkpoint, tmp_path / "out")
    values = sorted(int(row[3]) for row in written(spark, tmp_path / "out"))
    assert values == [*range(50), *range(1041, 1050, 2)]


def test_an_unknown_topic_is_an_error_only_without_a_state(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(3))
    both = f"{topic},{topic}-not-there"
    with pytest.raises(PySparkException, match=f"{topic}-not-there"):
        run_available(stream(spark, east.bootstrap_servers, subscribe=both), checkpoint, tmp_path / "out")
    assert offset_files(checkpoint) == []
    for names in (topic, both):
        frame = stream(spark, east.bootstrap_servers, subscribe=names, startingOffsets="earliest")
        run_available(frame, checkpoint, tmp_path / "out")
    assert [int(row[3]) for row in written(spark, tmp_path / "out")] == [0, 1, 2]


def test_offsets_that_do_not_exist_are_all_named(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic, partitions=2)
    numbers(east.bootstrap_servers, topic, range(10), partitions=2)
    frame = stream(
        spark, east.bootstrap_servers, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 6}, "other": {"0": 1}})
    )
    with pytest.raises(PySparkException) as caught:
        run_available(frame, checkpoint, tmp_path / "out")
    text = str(caught.value)
    assert "/0: reading was to start at offset 6, but its log begins at offset 0 and ends at 5; with" in text
    assert "topic 'other', partition 0 has an offset but is not read" in text


def test_an_end_has_no_place_in_a_stream(spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path) -> None:
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, endingOffsets="latest")
    with pytest.raises(PySparkException, match="endingOffsets is given, but a streaming query has no end"):
        to_memory(frame, "end", checkpoint).awaitTermination(240)


def rewrite(path: Path, offset: object) -> None:
    """Put another source's offset into a file of the offset log."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], json.dumps(offset)]))
    path.with_name(f".{path.name}.crc").unlink()


def test_a_foreign_checkpoint_is_refused(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(3))
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    run_available(frame, checkpoint, tmp_path / "out")
    rewrite(offset_files(checkpoint)[0], {"logOffset": 4})
    with pytest.raises(PySparkException, match="was not written by this source"):
        run_available(frame, checkpoint, tmp_path / "out")


def test_a_checkpoint_of_sparks_own_source_goes_on(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    """From where it stands, and not from where the options would begin; new partitions from their beginning."""
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(3))
    frame = stream(spark, east.bootstrap_servers, subscribe=topic)
    run_available(frame, checkpoint, tmp_path / "out")
    rewrite(offset_files(checkpoint)[0], {topic: {"0": 1}})
    east.add_partitions(topic, 2)
    numbers(east.bootstrap_servers, topic, range(3, 7), partitions=2)
    run_available(frame, checkpoint, tmp_path / "out")
    assert committed(checkpoint) == [0, 1]
    rows = [(row[1], int(row[3])) for row in written(spark, tmp_path / "out")]
    assert rows == [(0, 1), (0, 2), (0, 4), (0, 6), (1, 3), (1, 5)]


def test_a_recreated_topic_is_a_loss(
    spark: SparkSession, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path
) -> None:
    """Also when the new log is longer than the old position, so that offsets alone would not tell."""
    frame = stream(spark, east.bootstrap_servers, subscribe=topic, startingOffsets="earliest")
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(3))
    run_available(frame, checkpoint, tmp_path / "out")
    east.delete_topic(topic)
    east.create_topic(topic)
    numbers(east.bootstrap_servers, topic, range(10))
    with pytest.raises(PySparkException, match=f"topic '{topic}', partition 0: the topic was deleted and created anew"):
        run_available(frame, checkpoint, tmp_path / "out")
