"""How the ranges of a batch become tasks: the inputs of `KafkaOffsetRangeCalculatorSuite`, and what holds here.

Spark's calculator starts from one task for each partition and cuts partitions in proportion to `minPartitions`; it
never puts two into one task. Here each reader has its ranges (plans, docs/adr/0017-plans.md), and `plan_tasks` cuts
what a reader has into equal parts, across its ranges, where there have to be more tasks. So numbers of tasks and cuts
differ. The guarantees are the same, and checked on the same inputs: every offset once and in order, as many tasks as
were asked for wherever there are as many offsets, and none larger than `maxRecordsPerPartition`.
"""

from __future__ import annotations

import pytest

from evensplit.core.batch.plan import BatchPlan, batch_ranges, plan_batch
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.model import ClusterState, Range, Split, SplitId
from evensplit.core.state.settings import OWNERS, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.oracle.plan_laws import check_tasks

Ranges = tuple[tuple[int, int], ...]
Cuts = list[list[tuple[int, int]]]

NEVER_DROP: Ranges = ((0, 10), (0, 10), (0, 1))

# The name, the ranges (one partition each), minPartitions, and the ranges that Spark's calculator makes of each.
SPARK: list[tuple[str, Ranges, int | None, Cuts]] = [
    ("no minPartitions", ((1, 2), (1, 2)), None, [[(1, 2)], [(1, 2)]]),
    ("no minPartitions, empty ranges", ((1, 2), (1, 1), (2, 1)), None, [[(1, 2)], [], []]),
    ("as many partitions", ((1, 2), (1, 2), (1, 2)), 3, [[(1, 2)], [(1, 2)], [(1, 2)]]),
    ("one partition", ((1, 5),), 4, [[(1, 2), (2, 3), (3, 4), (4, 5)]]),
    ("skewed", ((1, 5), (1, 21)), 4, [[(1, 5)], [(1, 7), (7, 14), (14, 21)]]),
    ("very skewed", ((1, 2), (1, 1001)), 4, [[(1, 2)], [(1, 334), (334, 667), (667, 1001)]]),
    ("fewer than partitions", ((1, 5), (1, 21), (1, 2)), 2, [[(1, 5)], [(1, 21)], [(1, 2)]]),
    ("no multiple", ((1, 11),), 3, [[(1, 4), (4, 7), (7, 11)]]),
    ("empty ranges", ((1, 3), (1, 1)), 2, [[(1, 2), (2, 3)], []]),
    ("never drop", NEVER_DROP, 6, [[(0, 3), (3, 6), (6, 10)], [(0, 3), (3, 6), (6, 10)], [(0, 1)]]),
    (
        "nothing small",
        ((0, 10_000), (0, 15_000), (0, 20_000)),
        9,
        [[(n, n + 5000) for n in range(0, end, 5000)] for end in (10_000, 15_000, 20_000)],
    ),
    (
        "one small",
        ((0, 500), (0, 12_000), (0, 15_001)),
        6,
        [[(0, 500)], [(0, 6000), (6000, 12_000)], [(0, 5000), (5000, 10_000), (10_000, 15_001)]],
    ),
    (
        "two small",
        ((0, 1), (0, 1), (0, 10_000)),
        6,
        [[(0, 1)], [(0, 1)], [(n, n + 2500) for n in range(0, 10_000, 2500)]],
    ),
]
CASES = [pytest.param(*case, id=name) for name, *case in SPARK]


def planned(ranges: Ranges, readers: int) -> tuple[BatchPlan, tuple[Range, ...]]:
    """The plan of a batch with these ranges, dealt to readers in turn, and its ranges that are not empty."""
    keys = [SplitId("c", "t", number) for number in range(len(ranges))]

    def state(positions: list[int]) -> EnumeratorState:
        splits = {
            key: Split(key, "", position, None, number % readers)
            for number, (key, position) in enumerate(zip(keys, positions, strict=True))
        }
        clusters = {"c": ClusterState("c", ("h:1",), initial=False, discovered=True)}
        return EnumeratorState(readers, clusters, splits, Settings(plan=OWNERS), assigned_readers=tuple(range(readers)))

    # A range that goes back is one of a log that was cut; it never comes to a plan.
    start = state([begin for begin, _ in ranges])
    end = state([max(begin, end) for begin, end in ranges])
    return plan_batch(start, end), batch_ranges(start, end)


@pytest.mark.parametrize("readers", [1, 2, 3])
@pytest.mark.parametrize("ranges, tasks_min, spark", CASES)
def test_what_holds_of_tasks(ranges: Ranges, tasks_min: int | None, spark: Cuts, readers: int) -> None:
    plan, expected = planned(ranges, readers)
    tasks = plan_tasks(plan, tasks_min=tasks_min)
    check_tasks(tasks, plan, expected)
    assert len(tasks) >= min(tasks_min or 0, plan.offsets)
    # What is read is what Spark would read.
    offsets = [
        (part.split.partition, at) for task in tasks for part in task.ranges for at in range(part.start, part.end)
    ]
    assert sorted(offsets) == [
        (number, at) for number, cuts in enumerate(spark) for begin, end in cuts for at in range(begin, end)
    ]
    # No more tasks than asked for, unless there are more readers; Spark has up to one for each partition more.
    assert len(tasks) == max(min(tasks_min or 0, plan.offsets), len(plan.readers))


@pytest.mark.parametrize("readers", [1, 2, 3])
@pytest.mark.parametrize("most", [7, 1000, 5000])
@pytest.mark.parametrize("ranges, tasks_min, spark", CASES)
def test_no_task_is_larger_than_it_may_be(
    ranges: Ranges, tasks_min: int | None, spark: Cuts, most: int, readers: int
) -> None:
    """`maxRecordsPerPartition`, alone and with `minPartitions`."""
    plan, expected = planned(ranges, readers)
    for least in (None, tasks_min):
        tasks = plan_tasks(plan, tasks_min=least, offsets_max=most)
        check_tasks(tasks, plan, expected)
        assert max((task.offsets for task in tasks), default=0) <= most
        assert len(tasks) >= min(least or 0, plan.offsets)


@pytest.mark.parametrize("ranges, tasks_min, spark", CASES)
def test_with_a_reader_for_each_partition_tasks_are_those_of_spark(
    ranges: Ranges, tasks_min: int | None, spark: Cuts
) -> None:
    """Scenarios 21 and 22, cut for cut.

    One differs: of ranges of 10, 10 and 1 offsets for six tasks Spark makes seven, since it rounds the part of each
    partition by itself; here there are six.
    """
    plan, _ = planned(ranges, len(ranges))
    found: Cuts = [[] for _ in ranges]
    for task in plan_tasks(plan, tasks_min=tasks_min):
        (part,) = task.ranges
        found[part.split.partition].append((part.start, part.end))
    assert found == ([spark[0], [(0, 5), (5, 10)], spark[2]] if ranges == NEVER_DROP else spark)
