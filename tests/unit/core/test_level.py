"""Work that can be cut anywhere, shared out by the least bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evensplit.core.batch.split_ranges import Kind, least_bound, level, without_cycles


def test_work_moves_on_by_way_of_another_reader() -> None:
    """Reader 0 can only give to 1, which has to give to 2."""
    kinds = [Kind((0, 1), {0: 12}), Kind((1, 2), {1: 6})]
    bound, shares = level(kinds, 1)
    assert bound == 6
    assert shares == ({0: 6, 1: 6}, {2: 6})


def test_no_work_needs_no_readers() -> None:
    assert level([], 1) == (1, ())
    assert least_bound([], 0) == 0


@st.composite
def works(draw: st.DrawFn) -> list[Kind]:
    readers = draw(st.integers(1, 6))
    kinds = []
    for _ in range(draw(st.integers(1, 5))):
        able = draw(st.sets(st.integers(0, readers - 1), min_size=1))
        owned = draw(st.dictionaries(st.sampled_from(sorted(able)), st.integers(1, 60), max_size=len(able)))
        kinds.append(Kind(tuple(sorted(able)), owned))
    return kinds


@pytest.mark.lengthy
@settings(max_examples=400)
@given(works(), st.integers(1, 30))
def test_the_bound_is_the_least_by_halls_condition_and_few_shares_change(kinds: list[Kind], bound_min: int) -> None:
    bound, shares = level(kinds, bound_min)
    readers = sorted({reader for kind in kinds for reader in kind.readers})
    expected = bound_min
    for count in range(1, len(readers) + 1):
        for group in combinations(readers, count):
            own = sum(sum(kind.owned.values()) for kind in kinds if set(kind.readers) <= set(group))
            expected = max(expected, -(-own // count))
    assert bound == expected == least_bound(kinds, bound_min)
    loads = dict.fromkeys(readers, 0)
    for kind, share in zip(kinds, shares, strict=True):
        assert sum(share.values()) == sum(kind.owned.values())
        assert set(share) <= set(kind.readers)
        assert list(share) == sorted(share)
        assert all(amount > 0 for amount in share.values())
        for reader, amount in share.items():
            loads[reader] += amount
    assert max(loads.values()) <= bound
    check_forest(kinds, shares)


def check_forest(kinds: list[Kind], shares: Sequence[Mapping[int, int]]) -> None:
    """Shares that have changed and are not empty form a forest: fewer of them than kinds and readers together."""
    changed = [
        (-number - 1, reader)
        for number, (kind, share) in enumerate(zip(kinds, shares, strict=True))
        for reader, amount in share.items()
        if amount and amount != kind.owned.get(reader, 0)
    ]
    group_of = {node: node for edge in changed for node in edge}

    def root(node: int) -> int:
        while group_of[node] != node:
            node = group_of[node]
        return node

    for kind_node, reader in changed:
        assert root(kind_node) != root(reader), f"a cycle in {changed}"
        group_of[root(kind_node)] = root(reader)


def test_a_cycle_is_undone() -> None:
    kinds = [Kind((0, 1), {0: 10, 1: 10}), Kind((0, 1), {0: 10, 1: 10})]
    assert without_cycles(kinds, [{0: 7, 1: 13}, {0: 13, 1: 7}]) == [{0: 10, 1: 10}] * 2
    assert without_cycles(kinds, [{0: 13, 1: 7}, {0: 7, 1: 13}]) == [{0: 10, 1: 10}] * 2


@pytest.mark.lengthy
@settings(max_examples=300)
@given(st.data())
def test_cycles_are_broken_and_nothing_else_changes(data: st.DataObject) -> None:
    readers, count = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 5))
    everybody = tuple(range(readers))
    amounts = st.lists(st.integers(0, 40), min_size=readers, max_size=readers)
    kinds = [
        Kind(everybody, {reader: amount for reader, amount in enumerate(data.draw(amounts)) if amount})
        for _ in range(count)
    ]
    shares = [{reader: kind.owned.get(reader, 0) for reader in everybody} for kind in kinds]
    for _ in range(data.draw(st.integers(0, 8))):
        one, other = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
        left, right = data.draw(st.lists(st.integers(0, readers - 1), min_size=2, max_size=2, unique=True))
        size = data.draw(st.integers(0, min(shares[one][left], shares[other][right])))
        for number, reader, by in ((one, left, -size), (one, right, size), (other, right, -size), (other, left, size)):
            shares[number][reader] += by
    found = without_cycles(kinds, shares)
    check_forest(kinds, found)
    assert [sum(share.values()) for share in found] == [sum(share.values()) for share in shares]
    assert all(amount >= 0 for share in found for amount in share.values())
    for reader in everybody:
        assert sum(share[reader] for share in found) == sum(share[reader] for share in shares)

    def moved(shares: Sequence[Mapping[int, int]]) -> int:
        return sum(
            abs(share[reader] - kind.owned.get(reader, 0))
            for kind, share in zip(kinds, shares, strict=True)
            for reader in everybody
        )

    assert moved(found) <= moved(shares)


@given(works())
def test_a_reader_under_the_bound_gives_nothing_away_for_good(kinds: list[Kind]) -> None:
    """Where nobody is above the bound, nothing moves at all."""
    own: dict[int, int] = {}
    for kind in kinds:
        for reader, amount in kind.owned.items():
            own[reader] = own.get(reader, 0) + amount
    bound, shares = level(kinds, max(own.values(), default=1))
    assert bound == max(own.values(), default=1)
    assert [dict(share) for share in shares] == [dict(sorted(kind.owned.items())) for kind in kinds]
