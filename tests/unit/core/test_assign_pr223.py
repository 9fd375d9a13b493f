"""The run that PR 223 shows for its global mode, literally: seven readers, four clusters of four partitions, then five.

The counter begins at 0, so the first table tells that Flink found local-1 first there, then local-0, then local-2.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest

from evensplit.core.assign import by_cluster, owners
from evensplit.core.assign.rules import by_parts
from evensplit.core.assign.solver.problem import NOBODY, Problem
from evensplit.core.assign.terms import Reader
from evensplit.core.model import Cluster, SplitId

BEFORE_ADD = """
    local-0/3 local-1/0
    local-1/1 local-2/0
    local-1/2 local-2/1
    local-1/3 local-2/2
    local-0/0 local-2/3
    local-0/1
    local-0/2
"""
AFTER_ADD = """
    local-0/3 local-1/0 local-3/2
    local-1/1 local-2/0 local-3/3
    local-1/2 local-2/1
    local-1/3 local-2/2
    local-0/0 local-2/3
    local-0/1 local-3/0
    local-0/2 local-3/1
"""
AFTER_REMOVE = """
    local-0/3 local-1/0 local-3/2
    local-1/1 local-3/3
    local-1/2
    local-1/3
    local-0/0
    local-0/1 local-3/0
    local-0/2 local-3/1
"""
AFTER_READD = """
    local-0/3 local-1/0 local-2/2 local-3/2
    local-1/1 local-2/3 local-3/3
    local-1/2
    local-1/3
    local-0/0
    local-0/1 local-2/0 local-3/0
    local-0/2 local-2/1 local-3/1
"""
AFTER_RESCALE = """
    local-0/3 local-1/0 local-2/2 local-3/2
    local-1/1 local-2/3 local-3/3
    local-0/0 local-1/2 local-1/3
    local-0/1 local-2/0 local-3/0
    local-0/2 local-2/1 local-3/1
"""
"""A line for each reader, from 0 on."""


def cluster(number: int) -> list[SplitId]:
    return [SplitId(f"local-{number}", "example-topic", partition) for partition in range(4)]


def shown(owner: Mapping[SplitId, Reader], readers: int) -> list[str]:
    """As the tables above."""
    lists: list[list[str]] = [[] for _ in range(readers)]
    for split in sorted(owner):
        lists[int(owner[split])].append(f"{split.cluster}/{split.partition}")
    return [" ".join(own) for own in lists]


def lines(table: str) -> list[str]:
    return [line.strip() for line in table.strip().splitlines()]


def test_the_run_of_pr_223() -> None:
    now: dict[SplitId, Reader] = {}

    def listed(*clusters: int, readers: int = 7) -> list[str]:
        nonlocal now
        splits = [split for number in clusters for split in cluster(number)]
        now = owners(splits, readers, previous=now, policy="global")
        return shown(now, readers)

    listed(1)
    listed(1, 0)
    assert listed(1, 0, 2) == lines(BEFORE_ADD)
    assert listed(0, 1, 2, 3) == lines(AFTER_ADD)
    assert listed(0, 1, 3) == lines(AFTER_REMOVE)
    assert listed(0, 1, 2, 3) == lines(AFTER_READD)
    assert listed(0, 1, 2, 3, readers=5) == lines(AFTER_RESCALE)
    # With the same readers, nothing is cut again.
    assert listed(0, 1, 2, 3, readers=5) == lines(AFTER_RESCALE)


def test_its_other_mode_has_four_of_seven_readers_do_everything() -> None:
    """There each cluster goes by the formula, which does not look at the cluster; here the loads are levelled."""
    splits = [split for number in range(3) for split in cluster(number)]
    theirs = shown(by_cluster(splits, 7, policy="hash"), 7)
    assert sorted(len(own.split()) for own in theirs) == [0, 0, 0, 3, 3, 3, 3]
    ours = shown(by_cluster(splits, 7), 7)
    assert sorted(len(own.split()) for own in ours) == [1, 1, 2, 2, 2, 2, 2]


def free(readers: int, former: list[int]) -> Problem:
    """Splits of one topic that everybody may read."""
    none, everybody = np.zeros(len(former), dtype=np.int32), np.ones((1, 1), dtype=bool)
    previous = np.full(len(former), NOBODY, dtype=np.int64)
    return Problem(readers, none, np.zeros(1, dtype=np.int32), previous, None, None, everybody)


@pytest.mark.parametrize(
    "readers, former, expected",
    [
        (2, [0, 1, 2, 0, 1, 2, 0], [0, 0, 1, 0, 1, 1, 0]),
        (3, [1, 0, 1, 0], [1, 0, 2, 0]),
        (5, [0, 1], [0, 1]),
        (1, [3, 2, 1], [0, 0, 0]),
        (2, [5, NOBODY, 5, NOBODY, 2], [0, 1, 1, 0, 0]),
        (3, [], []),
    ],
)
def test_the_lists_one_behind_the_other_are_cut_anew(readers: int, former: list[int], expected: list[int]) -> None:
    assert by_parts(free(readers, former), np.array(former, dtype=np.int64)).tolist() == expected


def restored(lists: list[list[int]], readers: int) -> list[list[int]]:
    """Flink's loop: each new reader takes what it lacks from the list at hand, and what is left stays for the next."""
    base, odd = divmod(sum(map(len, lists)), readers)
    left, found = [list(own) for own in lists], []
    for reader in range(readers):
        own: list[int] = []
        wanted = base + (reader < odd)
        while len(own) < wanted:
            take = left[0][: wanted - len(own)]
            own += take
            left[0] = left[0][len(take) :]
            if not left[0]:
                left.pop(0)
        found.append(sorted(own))
    return found


def test_it_is_what_flinks_loop_gives() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        before, readers = rng.randint(1, 9), rng.randint(1, 9)
        former = [rng.randrange(before) for _ in range(rng.randint(0, 30))]
        lists = [[split for split, owner in enumerate(former) if owner == reader] for reader in range(before)]
        owner = by_parts(free(readers, former), np.array(former, dtype=np.int64)).tolist()
        found = [[split for split, own in enumerate(owner) if own == reader] for reader in range(readers)]
        assert found == restored([own for own in lists if own], readers), seed


def test_a_part_goes_on_to_the_next_reader_that_may_read_it() -> None:
    splits = cluster(0) + cluster(1)
    previous = {split: 7 + place // 3 for place, split in enumerate(splits)}
    found = owners(splits, 3, previous=previous, eligible={1: [Cluster("local-1")]}, policy="global")
    # The parts are local-0 0-2, then local-0 3 with local-1 0-1, then local-1 2-3; reader 1 may not read local-0.
    assert list(found.values()) == [0, 0, 0, 2, 1, 1, 2, 2]


def test_what_nobody_may_read_is_in_no_part() -> None:
    splits = cluster(0) + cluster(1)
    previous = dict.fromkeys(splits, 9)
    able = {reader: [Cluster("local-1")] for reader in range(2)}
    found = owners(splits, 2, previous=previous, eligible=able, policy="global")
    assert found == dict(zip(cluster(1), [0, 0, 1, 1], strict=True))
