"""Edits of checkpoints in simulated runs: all of them happen, and what has to come of them is counted right."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.model import Range, SplitId
from evensplit.testing.sim import simulate
from evensplit.testing.sim.edits.counts import Counts, is_within, joined, without
from evensplit.testing.sim.edits.deliveries import Deliveries
from evensplit.testing.sim.edits.deliveries import given as given_to
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.profile import profile

COMMANDS = ("rewind", "skip", "drop", "rename-cluster", "fork", "undo")
END = 12
SPLIT = SplitId("a", "t", 0)

parts = st.tuples(st.integers(0, END), st.integers(0, END)).map(lambda part: (min(part), max(part)))
several = st.lists(parts, max_size=6)


def counted(which: list[tuple[int, int]]) -> list[int]:
    return [sum(start <= at < end for start, end in which) for at in range(END + 2)]


@given(several, several, parts)
def test_counts_are_those_of_each_offset(
    ones: list[tuple[int, int]], others: list[tuple[int, int]], put: tuple[int, int]
) -> None:
    one, other = Counts(*ones), Counts(*others)
    both = [left - right for left, right in zip(counted(ones), counted(others), strict=True)]
    assert [one.plus(other, -1).at(at) for at in range(END + 2)] == both
    assert bool(one.plus(one, -1)) is False
    assert (one == other) == (counted(ones) == counted(others))
    one.put(*put, other)
    expected = [
        of_other if put[0] <= at < put[1] else of_one
        for at, (of_one, of_other) in enumerate(zip(counted(ones), counted(others), strict=True))
    ]
    assert [one.at(at) for at in range(END + 2)] == expected


@given(several, parts)
def test_parts_are_joined_and_taken_out(which: list[tuple[int, int]], taken: tuple[int, int]) -> None:
    there = [times > 0 for times in counted(which)]
    whole = joined(which)
    assert [times > 0 for times in counted(whole)] == there
    assert all(one[1] < other[0] for one, other in pairwise(whole))
    left = list(without(whole, taken))
    assert counted(left) == [int(is_there and not taken[0] <= at < taken[1]) for at, is_there in enumerate(there)]
    assert is_within(taken, which) == all(there[taken[0] : taken[1]])


def model(mark: int, edited: Counts | None = None) -> Model:
    found = Model(known={SPLIT: ""}, marks={SPLIT: mark}, runs={SPLIT: (1, 5)})
    if edited is not None:
        found.edited[1] = edited
    return found


@pytest.mark.parametrize(
    "read, edited, says",
    [
        ([(5, 9)], None, ""),
        ([(5, 8)], None, "has been read in 5..8; expected 5..9"),
        ([(5, 9), (7, 9)], None, "has been read in 5..7, 7..9 2 times; expected 5..9"),
        ([(5, 9), (7, 9)], Counts((7, 9)), ""),
        ([(5, 9)], Counts((7, 9)), "expected 5..7, 7..9 2 times"),
    ],
)
def test_what_is_read_too_often_or_never_breaks_the_law(
    read: list[tuple[int, int]], edited: Counts | None, says: str
) -> None:
    of, deliveries = model(9, edited), Deliveries()
    deliveries.begin(())
    given_parts = given_to([Range(SPLIT, *part) for part in read], of)
    if not says:
        deliveries.read(given_parts, of)
        return
    with pytest.raises(Broken) as caught:
        deliveries.read(given_parts, of)
    assert caught.value.law == "S21"
    assert says in caught.value.detail


def test_every_command_is_carried_out_and_refused() -> None:
    """In the seeds with edits, and in no others."""
    edited = [seed for seed in range(100) if profile(seed, Random(seed)).edited]
    others = [seed for seed in range(6) if seed not in edited]
    assert not any(simulate(seed, 300).edits for seed in others)
    done: Counter[str] = Counter()
    for seed in edited[:14]:
        done.update(simulate(seed, 400).edits)
    assert all(done[command] for command in COMMANDS), done
    assert all(done[f"{command} refused"] for command in ("rewind", "skip", "drop", "undo")), done
    assert done["other"], done
