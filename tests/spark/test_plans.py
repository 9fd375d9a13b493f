"""Plans of a batch, on a real topic in which one partition has nearly all records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.queries import batch
from tests.support.records import Draft, produce

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HOT, COLD = 60_000, 300


@pytest.fixture(scope="module")
def hot(east: LocalKafka) -> str:
    """A topic whose partition 1 has most of the records, in batches of many."""
    name = "plans-hot"
    east.create_topic(name, partitions=4)
    drafts = [Draft(b"%d" % n, partition=1) for n in range(HOT)]
    drafts += [Draft(b"%d" % (HOT + n), partition=(0, 2, 3)[n % 3]) for n in range(COLD)]
    produce(east.bootstrap_servers, name, drafts)
    return name


def tasks(spark: SparkSession, east: LocalKafka, topic: str, **options: object) -> list[dict[int, list[int]]]:
    """For each task that has rows, in the order of tasks: partition -> offsets, as they come."""
    frame = batch(spark, east.bootstrap_servers, subscribe=topic, **options)
    rows: list[Any] = frame.selectExpr("spark_partition_id() task", "partition", "offset").collect()
    found: dict[int, dict[int, list[int]]] = {}
    for row in rows:
        found.setdefault(row.task, {}).setdefault(row.partition, []).append(row.offset)
    return [found[task] for task in sorted(found)]


def in_order(found: list[dict[int, list[int]]]) -> dict[int, list[int]]:
    """Partition -> its offsets, tasks one after another; within each task they have to ascend one by one."""
    whole: dict[int, list[int]] = {}
    for task in found:
        for partition, offsets in task.items():
            assert all(after == before + 1 for before, after in pairwise(offsets))
            whole.setdefault(partition, []).extend(offsets)
    return whole


EVERYTHING = {0: COLD // 3, 1: HOT, 2: COLD // 3, 3: COLD // 3}


@pytest.mark.parametrize(
    "options, sizes",
    [
        ({"plan": "owners", "readers": 3}, [HOT, 2 * COLD // 3, COLD // 3]),
        ({"plan": "whole", "readers": 3}, [HOT, COLD]),
        ({"plan": "level", "readers": 3}, [(HOT + COLD) // 3] * 3),
        ({"minPartitions": 6, "readers": 2}, None),
        ({"maxRecordsPerPartition": 7_000, "readers": 2}, None),
    ],
    ids=["owners", "whole", "level", "minPartitions", "maxRecordsPerPartition"],
)
def test_every_plan_reads_everything_once_and_in_order(
    spark: SparkSession, east: LocalKafka, hot: str, options: dict[str, object], sizes: list[int] | None
) -> None:
    found = tasks(spark, east, hot, **options)
    assert in_order(found) == {partition: list(range(count)) for partition, count in EVERYTHING.items()}
    loads = [sum(map(len, task.values())) for task in found]
    if options.get("plan") == "whole":
        assert max(loads) == HOT
    elif sizes is not None:
        assert sorted(loads, reverse=True) == sizes
    elif "minPartitions" in options:
        assert len(loads) == 6
    else:
        assert max(loads) <= 7_000
