"""How far behind a query is.

Spark's source has `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` in the progress of a
query. A Python source has no metrics there; the same numbers are in what `evensplit.register` gives.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import evensplit
from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state.observation import Report, lag
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import explain
from evensplit.spark.listen.progress import BatchProgress, batch_progress
from evensplit.spark.listen.registration import Registration
from evensplit.testing import LocalKafka
from tests.support.fleets import Batches, begin, uncommit
from tests.support.records import spread
from tests.support.steps import finish, source
from tests.support.waiting import wait_for

ONE, TWO = SplitId("c", "t1", 0), SplitId("c", "t2", 0)


def consumed(positions: dict[SplitId, int]) -> EnumeratorState:
    return EnumeratorState(
        1,
        {"c": ClusterState("c", ("host:1",), False, True)},
        {key: Split(key, "id", position, None, 0) for key, position in positions.items()},
        generation=1,
        begun=True,
        assigned_readers=(0,),
    )


def test_how_far_each_partition_is_behind() -> None:
    """Scenario 23: Spark says min "2", max "4", avg "3.0"."""
    state, report = consumed({ONE: 1, TWO: 2}), Report({ONE: 3, TWO: 6})
    assert list(lag(state, report).values()) == [2, 4]
    (cluster,) = explain(state, state, report).clusters
    assert (cluster.lag_max, cluster.lag_sum, cluster.lag_unknown) == (4, 6, 0)


def test_what_is_not_known_is_no_number() -> None:
    """Spark gives an empty map where it has no offset, or no latest one."""
    state = consumed({ONE: 1, TWO: 2})
    (cluster,) = explain(state, state, Report()).clusters
    assert (cluster.lag_max, cluster.lag_sum, cluster.lag_unknown) == (None, None, 2)
    assert explain(EnumeratorState(), EnumeratorState(), Report({ONE: 3})).clusters == ()


def lags(registration: Registration, name: str) -> list[tuple[int | None, int | None, int]]:
    """Sum, greatest and unknown lag of each batch of a query."""
    return [
        (cluster.lag_sum, cluster.lag_max, cluster.lag_unknown)
        for one in registration.progress(name)
        for cluster in one.explanation.clusters
    ]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("no_query_left")
@pytest.mark.parametrize("limit", [1, None], ids=["limited", "unlimited"])
def test_lags_of_a_query(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, limit: int | None
) -> None:
    """With a limit, some batch leaves something of every partition; without, none leaves anything."""
    topic = f"{topic}-{limit}"
    east.create_topic(topic, 2)
    spread(east.bootstrap_servers, topic, {0: range(5), 1: range(5, 10)})
    registration = evensplit.register(spark)
    options = {} if limit is None else {"maxOffsetsPerTrigger": limit}
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest", **options)
    query = begin(frame, checkpoint, Batches(), availableNow=True)
    assert query.awaitTermination(120)
    found: list[BatchProgress] = [one for event in query.recentProgress for one in batch_progress(event)]
    behind = [[value or 0 for value in lag(one.end, one.report).values()] for one in found]
    wait_for(lambda: len(lags(registration, str(query.id))) == len(found), what="the progress of all batches")
    assert [(sum(one), max(one), 0) for one in behind] == lags(registration, str(query.id))
    if limit is None:
        assert all(one == [0, 0] for one in behind)
    else:
        # One offset of each partition in each batch.
        assert [one for one in behind if any(one)] == [[left, left] for left in (4, 3, 2, 1)]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("no_query_left")
def test_a_batch_that_is_repeated_has_progress_too(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path
) -> None:
    """SPARK-57438: for a batch that was logged before, nobody asks where the logs end."""
    east.create_topic(topic, 2)
    spread(east.bootstrap_servers, topic, {0: range(5), 1: range(5, 10)})
    frame = source(spark, east, subscribe=topic, startingOffsets="earliest")
    finish(frame, checkpoint, Batches())
    uncommit(checkpoint, 0)
    registration = evensplit.register(spark)
    batches = Batches()
    query = begin(frame, checkpoint, batches, availableNow=True)
    assert query.awaitTermination(120)
    assert sorted(batches.values()) == [*range(10)]
    found = wait_for(lambda: registration.progress(str(query.id)))
    assert found[0].explanation.offsets == 10
    assert lags(registration, str(query.id))[0] in ((None, None, 2), (0, 0, 0))
