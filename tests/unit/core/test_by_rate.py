"""Owners by work, case by case: reliefs of several splits, exchanges, pins, and that nothing moves for nothing."""

from __future__ import annotations

import pytest

from evensplit.core.assign.by_rate import RateOwners, by_rate
from evensplit.core.model import Cluster, Readable, SplitId


def splits(clusters: str) -> list[SplitId]:
    """One split of each cluster that is named by a letter."""
    return [SplitId(name, "t", place) for place, name in enumerate(clusters)]


def dealt(
    keys: list[SplitId],
    weights: list[int],
    owners: list[int],
    readers: int = 2,
    *,
    moves_max: int | None,
    gain_percent: int = 2,
    capacity: dict[int, int] | None = None,
    eligible: dict[int, tuple[Readable, ...]] | None = None,
    per_cluster: bool = False,
) -> RateOwners:
    return by_rate(
        sorted(keys),
        range(readers),
        dict(zip(keys, weights, strict=True)),
        previous=dict(zip(keys, owners, strict=False)),
        eligible=eligible or {},
        capacity=capacity or {},
        per_cluster=per_cluster,
        gain_percent=gain_percent,
        moves_max=moves_max,
    )


def loads(found: RateOwners, keys: list[SplitId], weights: list[int], readers: int = 2) -> list[int]:
    weight = dict(zip(keys, weights, strict=True))
    return [sum(weight[key] for key, owner in found.owner.items() if owner == reader) for reader in range(readers)]


def test_several_splits_that_are_worth_it_together_go_to_readers_that_stay_low_enough() -> None:
    """Of 8, 6 and 0 equal splits: a split more for the second reader, and it would be as high as the first one."""
    keys = splits("bbaccccaaabbbb")
    owners = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    found = dealt(keys, [1] * 14, owners, 3, moves_max=1000, gain_percent=30)
    assert loads(found, keys, [1] * 14, 3) == [6, 6, 2]


def test_an_exchange_of_the_only_splits_of_two_readers_is_made_if_it_is_worth_it() -> None:
    keys = splits("aa")
    found = dealt(keys, [3, 2], [0, 1], moves_max=4, gain_percent=30, capacity={1: 2})
    assert [found.owner[key] for key in keys] == [1, 0]
    assert found.level


def test_one_move_is_not_enough_to_say_that_more_would_change_nothing() -> None:
    keys, weights = splits("aaa"), [3, 2, 9]
    one = dealt(keys, weights, [1, 0, 0], moves_max=1, gain_percent=10, capacity={0: 5})
    assert [one.owner[key] for key in keys] == [1, 0, 0]
    assert not one.level
    two = dealt(keys, weights, [1, 0, 0], moves_max=2, gain_percent=10, capacity={0: 5})
    assert [two.owner[key] for key in keys] == [0, 1, 0]


@pytest.mark.parametrize(
    "clusters, weights, owners",
    [("aaa", [1, 1, 1], [0, 1, 1]), ("aabb", [2, 8, 4, 7], [0, 1, 0, 1])],
)
def test_with_any_number_of_moves_none_is_made_for_nothing(
    clusters: str, weights: list[int], owners: list[int]
) -> None:
    keys = splits(clusters)
    found = dealt(keys, weights, owners, moves_max=None)
    for _ in range(3):
        again = dealt(keys, weights, [found.owner[key] for key in keys], moves_max=None)
        assert again.owner == found.owner
        found = again
    assert max(loads(found, keys, weights)) <= max(
        loads(RateOwners(dict(zip(keys, owners, strict=True)), True), keys, weights)
    )


def test_what_is_worth_exactly_the_gain_is_not_worth_more() -> None:
    keys, weights = splits("aaaaaaaaaa"), [1] * 10
    found = dealt(keys, weights, [0] * 6 + [1] * 4, moves_max=1, gain_percent=20)
    assert loads(found, keys, weights) == [6, 4]
    found = dealt(keys, weights, [0] * 6 + [1] * 4, moves_max=1, gain_percent=19)
    assert loads(found, keys, weights) == [5, 5]


@pytest.mark.parametrize("moves_max", [None, 1000])
@pytest.mark.parametrize("each, readers, clusters", [(625, 50, 4), (100, 8, 4), (6, 4, 2), (50, 2, 2)])
def test_with_pins_loads_are_even_from_the_first_deal(
    each: int, readers: int, clusters: int, moves_max: int | None
) -> None:
    """Every other reader may read one cluster only: the others make up for it."""
    keys = splits("".join(name * each for name in "abcd"[:clusters]))
    pins: dict[int, tuple[Readable, ...]] = {
        reader: (Cluster("abcd"[reader // 2 % clusters]),) for reader in range(1, readers, 2)
    }
    found = dealt(keys, [1] * len(keys), [], readers, moves_max=moves_max, eligible=pins)
    assert max(loads(found, keys, [1] * len(keys), readers)) <= len(keys) / readers * 1.02 + 0.5
    assert found.level


def test_clusters_that_are_balanced_on_their_own_do_not_give_their_heaviest_splits_to_one_reader() -> None:
    keys, weights = splits("aaabbbccc"), [90, 20, 10] * 3
    found = dealt(keys, weights, [], 3, moves_max=None, per_cluster=True)
    assert sorted(found.owner[key] for key in keys[::3]) == [0, 1, 2]
