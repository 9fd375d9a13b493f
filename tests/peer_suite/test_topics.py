"""Topics that are deleted, created anew, or come later, under a pattern."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.core.model import Cause, SplitId
from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, begin
from tests.support.live import LiveQuery
from tests.support.queries import document, offset_files, states
from tests.support.records import consume, spread
from tests.support.steps import Acting, Stepped, finish, source
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.usefixtures("no_query_left")]


@pytest.mark.parametrize(
    "fails", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["failOnDataLoss", "loss is declared"]
)
def test_a_topic_that_was_created_anew_between_two_runs_ends_the_second(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, fails: bool
) -> None:
    """Scenario 9.

    Spark says that the "offset was changed from 2 to 1", which it can only where the new log is shorter than the
    position. Here the topic id tells, so the new log may be of any length; while a query runs, a topic that had been
    read to its end is no loss at all. Where losses are declared, a run says with an empty batch that it found no other.
    """
    empty: list[list[int]] = [] if fails else [[]]
    one, other = f"{topic}-a", f"{topic}-b"
    for name, values in ((one, [1, 2]), (other, [3, 4])):
        east.create_topic(name)
        spread(east.bootstrap_servers, name, {0: values})
    frame = source(
        spark, east, subscribePattern=f"^{topic}-", startingOffsets="earliest", failOnDataLoss=str(fails).lower()
    )
    assert finish(frame, checkpoint, Batches()) == [[1, 2, 3, 4], *empty]
    east.delete_topic(other)
    east.create_topic(other)
    spread(east.bootstrap_servers, other, {0: [5]})
    again = Batches()
    if fails:
        with pytest.raises(PySparkException) as caught:
            finish(frame, checkpoint, again)
        assert f"topic '{other}', partition 0: the topic was deleted and created anew" in str(caught.value)
        assert "failOnDataLoss=false" in str(caught.value)
        assert again.rows == []
    else:
        assert finish(frame, checkpoint, again) == [[5], *empty]
        (loss,) = {one for state in states(checkpoint) for one in state.losses}
        assert (loss.split, loss.cause, loss.position) == (SplitId("default", other, 0), Cause.RECREATED, 2)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True], ids=["loss is declared", "failOnDataLoss"])
def test_a_topic_of_a_pattern_is_deleted_and_another_one_comes(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, fails: bool
) -> None:
    """Scenario 10. Spark needs `failOnDataLoss=false` for this; here a topic that was read to its end may go."""
    one, other = f"{topic}-a", f"{topic}-b"
    east.create_topic(one)
    spread(east.bootstrap_servers, one, {0: [1, 2, 3]})
    frame = source(spark, east, subscribePattern=f"^{topic}-", startingOffsets="earliest", failOnDataLoss=fails)
    with Stepped(frame, checkpoint) as query:
        query.expect([1, 2, 3])
        east.delete_topic(one)
        east.create_topic(other)
        spread(east.bootstrap_servers, other, {0: [4, 5, 6]})
        query.expect([1, 2, 3, 4, 5, 6])
    assert not any(state.losses for state in states(checkpoint))


@pytest.mark.slow
def test_an_empty_world_is_never_an_empty_offset(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 11 (SPARK-41375): the only topic goes, and what is logged then still has its position."""
    east.create_topic(topic)
    spread(east.bootstrap_servers, topic, {0: [1, 2, 3]})
    frame = source(spark, east, subscribePattern=f"^{topic}$", startingOffsets="earliest", failOnDataLoss=False)
    key = SplitId("default", topic, 0)
    with Stepped(frame, checkpoint) as query:
        query.expect([1, 2, 3])
        east.delete_topic(topic)
        wait_for(lambda: query.next_batch() == [] and states(checkpoint)[-1].splits[key].removed_at_ms is not None)
    assert all(document(path) for path in offset_files(checkpoint))
    assert states(checkpoint)[-1].splits[key].position == 3


@pytest.mark.slow
def test_a_topic_that_comes_later_may_be_left_out_of_topic_level_offsets(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """Scenario 12 (SPARK-58774)."""
    one, other = f"{topic}-a", f"{topic}-b"
    east.create_topic(one)
    spread(east.bootstrap_servers, one, {0: [1]})
    start = json.dumps({one: "earliest"})
    with Stepped(source(spark, east, subscribePattern=f"^{topic}-", startingOffsets=start), checkpoint) as query:
        query.expect([1])
        east.create_topic(other)
        spread(east.bootstrap_servers, other, {0: [2]})
        query.expect([1, 2])


@pytest.mark.slow
def test_a_topic_that_is_deleted_while_a_task_is_to_read_it_does_not_end_a_query_that_declares_losses(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """The batch is planned, and its records are gone before it is read."""
    east.create_topic(topic)
    spread(east.bootstrap_servers, topic, {0: range(10)})
    sink = Acting(before=lambda: east.delete_topic(topic))
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    query = begin(frame, checkpoint, sink)
    wait_for(lambda: query.exception() is not None or any(state.losses for state in states(checkpoint)))
    assert query.exception() is None
    query.stop()
    assert sink.rows == []
    losses = [loss for state in states(checkpoint) for loss in state.losses]
    assert (losses[0].split, losses[0].cause, losses[0].offsets_max) == (
        SplitId("default", topic, 0),
        Cause.DELETED,
        10,
    )


STRESS_STEPS = 40


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_topics_and_partitions_come_and_go_at_random(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, seed: int
) -> None:
    """The stress test: topics are added, deleted and created anew, partitions and records added, without a pause.

    Every record of what is there in the end arrives once, those of what was deleted once at most.
    """
    dice = random.Random(seed)
    topic = f"{topic}-{seed}"
    alive: dict[str, int] = {}
    written: list[int] = []
    options: dict[str, Any] = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribePattern": f"^{topic}-"}

    def write(name: str) -> None:
        values = range(len(written), len(written) + dice.randint(1, 100))
        spread(
            east.bootstrap_servers,
            name,
            {
                partition: [value for value in values if value % alive[name] == partition]
                for partition in range(alive[name])
            },
        )
        written.extend(values)

    with LiveQuery(spark, checkpoint, failOnDataLoss=False, **options) as query:
        for _ in range(STRESS_STEPS):
            action = dice.choice(("topic", "delete", "partitions", "write", "write", "write"))
            name = dice.choice(sorted(alive)) if alive else ""
            if not alive or action == "topic":
                # Of ten names, so that some come again.
                name = f"{topic}-{dice.randrange(10)}"
                if name not in alive:
                    alive[name] = dice.randint(1, 5)
                    east.create_topic(name, alive[name])
            elif action == "delete" and len(alive) > 1:
                east.delete_topic(name)
                del alive[name]
            elif action == "partitions":
                alive[name] += dice.randint(1, 3)
                east.add_partitions(name, alive[name])
            else:
                write(name)
            query.check()
        for name in sorted(alive):
            write(name)
        kept = {
            int((record.value or b"").decode())
            for name, partitions in alive.items()
            for record in consume(east.bootstrap_servers, name, range(partitions))
        }

        def is_there() -> bool:
            query.check()
            return kept <= {int(row.value) for row in query.rows()}

        wait_for(is_there, what="all records that are still there")
        query.settle()
        counts = Counter(int(row.value) for row in query.rows())
        assert [value for value, times in counts.items() if times > 1] == []
        assert counts.keys() <= set(written)
