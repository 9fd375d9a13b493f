"""`spark.readStream`: each record once, whatever happens between batches."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evensplit.explain.changes import loads
from evensplit.spark.listen.progress import batch_progress
from tests.support.queries import committed, document, kept_progress, offset_files, states
from tests.support.records import cut
from tests.support.starting import started
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


def test_available_now_reads_what_there_is_in_limited_batches(world: World) -> None:
    topic = world.default.topic(partitions=5)
    topic.write(15, partition=0)
    assert world.run(maxOffsetsPerTrigger=5).values() == topic.values
    assert len(committed(world.checkpoint)) == 3


def test_a_restart_neither_loses_nor_repeats(world: World) -> None:
    topic = world.default.topic(partitions=3)
    for _ in range(3):
        values = topic.write(100)
        assert world.run().values() == values


@pytest.mark.slow
def test_a_run_with_nothing_new_writes_no_batch(world: World) -> None:
    world.default.topic(records=10)
    for _ in range(3):
        world.run()
    assert committed(world.checkpoint) == [0]


@pytest.mark.slow
def test_a_run_that_declares_losses_ends_with_a_batch_by_which_nothing_is_left_to_be_looked_at(world: World) -> None:
    """So what retention removes until the next run was read, and is no loss."""
    topic = world.default.topic()
    for day in range(3):
        cut(topic.cluster.servers, topic.name, {0: 10 * day})
        values = topic.write(10)
        batches = world.run(failOnDataLoss=False)
        assert (batches.values(), batches.numbers) == (values, [2 * day, 2 * day + 1])
    assert world.run(failOnDataLoss=False).numbers == []
    assert committed(world.checkpoint) == list(range(6))
    documents = [document(path)["clusters"]["default"]["topics"][topic.name] for path in offset_files(world.checkpoint)]
    assert ["read" in one for one in documents] == [True, False] * 3
    assert not any(state.losses for state in states(world.checkpoint))


def test_latest_delivers_only_what_comes_after_the_start(world: World) -> None:
    topic = world.default.topic(partitions=2, records=10)
    with world.running(startingOffsets=None) as batches:
        wait_for(lambda: committed(world.checkpoint) == [0])
        batches.wait_for(topic.write(10))


def test_what_appears_during_the_run_starts_at_earliest(world: World) -> None:
    """FLIP-288: a later partition or topic is read from its beginning, whatever the starting offsets."""
    topic = world.default.topic(records=5)
    with world.running(subscribePattern=f"^{topic.name}(-.*)?$", startingOffsets=None) as batches:
        wait_for(lambda: committed(world.checkpoint) == [0])
        other = world.default.topic("b", records=10)
        topic.grow(2)
        batches.wait_for([*topic.write(10), *other.values])
    assert sorted(loads(states(world.checkpoint)[-1])) == [1, 2]


def test_a_pattern_that_first_matches_nothing_reads_the_first_topic_from_its_beginning(world: World) -> None:
    """An empty first discovery is a discovery: it is in the log, and what comes later starts at earliest."""
    cluster = world.default
    options: dict[str, Any] = {"subscribePattern": f"{world.name}$", "startingOffsets": None}
    assert world.run(**options).rows == []
    assert committed(world.checkpoint) == [0]
    topic = cluster.topic(records=5)
    assert world.run(**options).values() == topic.values


def test_owners_are_even_and_stay(world: World) -> None:
    topic = world.default.topic(partitions=7)
    with kept_progress(world.spark, 5_000), world.running(readers=3) as batches:
        for _ in range(10):
            topic.write(7)
            batches.wait_for(topic.values)

        def read() -> int:
            reported = [batch for event in batches.query.recentProgress for batch in batch_progress(event)]
            return sum(plan.offsets for batch in reported for plan in batch.plan().readers)

        wait_for(lambda: read() == 70, what="the progress of the last batch")
    owners = [{key: split.owner for key, split in state.splits.items()} for state in states(world.checkpoint)]
    assert len(owners) > 5
    assert all(one == owners[0] for one in owners)
    assert sorted(Counter(owners[0].values()).values()) == [2, 2, 3]


def test_an_unchanged_world_leaves_the_offset_as_it_is(world: World) -> None:
    """Law S16: an idle query with a fast trigger logs nothing."""
    world.default.topic(partitions=2, records=4)
    with world.running() as batches:
        wait_for(lambda: committed(world.checkpoint) == [0])

        def idle() -> bool:
            return len([event for event in batches.query.recentProgress if event["batchId"] > 0]) >= 3

        wait_for(idle, what="idle triggers")
    assert [path.name for path in offset_files(world.checkpoint)] == ["0"]


def test_the_default_number_of_readers_is_stored(world: World) -> None:
    world.default.topic(records=3)
    world.run(startingOffsets=None)
    assert document(offset_files(world.checkpoint)[0])["readers"] >= 1


def test_partitions_and_ends_are_fixed_when_available_now_begins(world: World) -> None:
    """What arrives while it runs waits for the next run, partitions included."""
    topic = world.default.topic(records=10)
    first = list(topic.values)
    frame = world.frame(maxOffsetsPerTrigger=5)
    seen: list[int] = []

    def grow(rows: object, number: int) -> None:
        if number == 0:
            topic.grow(2)
            topic.write(10)
        seen.extend(int(row.v) for row in rows.selectExpr("cast(value as string) v").collect())  # type: ignore[attr-defined]

    for expected in (first, topic.values):
        writer = frame.writeStream.foreachBatch(grow).option("checkpointLocation", str(world.checkpoint))
        assert started(writer.trigger(availableNow=True)).awaitTermination(240)
        assert sorted(seen) == expected
    assert set(states(world.checkpoint)[-1].splits) == set(topic.splits)


def test_two_clusters_with_options_of_their_own(world: World) -> None:
    east, west = world.both(partitions=2, records=50)
    own = {
        "east": {"subscribe": east.name},
        "west": {"assign": {west.name: [1]}, "startingOffsets": {west.name: {"1": 20}}},
    }
    options: dict[str, Any] = {"own": own, "subscribe": None, "readers": "2"}
    reader = world.spark.readStream.format("evensplit").options(**world.options(**options))
    assert reader.load().columns[-1] == "cluster"
    assert world.run(**options).values() == [*east.values, *west.values[41::2]]


def test_an_unknown_topic_is_an_error_only_without_a_state(world: World) -> None:
    topic = world.default.topic(records=3)
    both = f"{topic.name},{topic.name}-not-there"
    assert f"{topic.name}-not-there" in world.fail(subscribe=both)
    assert offset_files(world.checkpoint) == []
    assert world.run().values() == topic.values
    assert world.run(subscribe=both).values() == []


def test_offsets_that_do_not_exist_are_all_named(world: World) -> None:
    topic = world.default.topic(partitions=2, records=10)
    error = world.fail(startingOffsets=json.dumps({topic.name: {"0": 6}, "other": {"0": 1}}))
    assert "/0: reading was to start at offset 6, but its log begins at offset 0 and ends at 5; with" in error
    assert "topic 'other', partition 0 has an offset but is not read" in error


def test_an_end_has_no_place_in_a_stream(world: World) -> None:
    world.default.topic()
    assert "endingOffsets is given, but a streaming query has no end" in world.fail(endingOffsets="latest")


def rewrite(path: Path, offset: object) -> None:
    """Put another source's offset into a file of the offset log."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], json.dumps(offset)]))
    path.with_name(f".{path.name}.crc").unlink()


def test_a_foreign_checkpoint_is_refused(world: World) -> None:
    world.default.topic(records=3)
    world.run()
    rewrite(offset_files(world.checkpoint)[0], {"logOffset": 4})
    assert "was not written by this source" in world.fail()


def test_a_checkpoint_of_sparks_own_source_goes_on(world: World) -> None:
    """From where it stands, and not from where the options would begin; new partitions from their beginning."""
    topic = world.default.topic(records=3)
    assert world.run(startingOffsets=None).rows == []
    rewrite(offset_files(world.checkpoint)[0], {topic.name: {"0": 1}})
    topic.grow(2)
    topic.write(4)
    batches = world.run(startingOffsets=None)
    assert committed(world.checkpoint) == [0, 1]
    rows = sorted((row.partition, row.value) for row in batches.rows)
    assert rows == [(0, 1), (0, 2), (0, 3), (0, 5), (1, 4), (1, 6)]
