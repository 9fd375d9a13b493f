"""A replay that is aligned in time, on real brokers and real Spark, while partitions and clusters come and go."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.howfar.replay import Replay, Scale, hard_times
from evensplit.testing import LocalKafka

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("no_query_left"),
]

SMALL = Scale(records=16_000, batch=6_000, rounds=0)
PAUSE_S, IDLE, LIMIT_S = 8.0, "4s", 200.0


def test_nothing_is_late_while_one_is_idle_one_is_added_and_a_cluster_is_paused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each record is in its window once, and the query ends in time. It would hang if anybody was waited for in vain.

    Half a day in two clusters, read with a watermark of ten minutes; no two partitions have their records at the same
    hours. The partition that is added has records of the last hours, which the others have not reached by then.
    """
    with LocalKafka() as east, LocalKafka() as west:
        one = Replay(spark, str(tmp_path), SMALL, LIMIT_S)
        one.clusters = {"east": east, "west": west}
        one.fill()
        found = hard_times(one, PAUSE_S, idleTimeout=IDLE)
    assert found["late"] == 0
    assert found["records"] == one.written == sum(one.wanted.values())
    assert one.counted == one.wanted
    assert found["batches"] > 5


def test_without_alignment_the_same_replay_loses_records(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise that nothing is late would say little."""
    with LocalKafka() as east, LocalKafka() as west:
        one = Replay(spark, str(tmp_path), SMALL, LIMIT_S)
        one.clusters = {"east": east, "west": west}
        one.fill()
        found = one.count(one.ours())
    assert found["records"] == one.written
    assert found["late"] > one.written / 20
