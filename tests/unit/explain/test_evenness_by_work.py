"""How even readers are by work: what is proven is said as that, and counts judge only what is balanced by counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

from evensplit.core.state.settings import RATE, Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.evenness import Evenness, evenness
from tests.support.ownership import only, state_of

EVERY = tuple(product((0, 1), repeat=4))


def rated(owners: Sequence[int], rates: Sequence[int], **settings: object) -> EnumeratorState:
    """Partitions of one topic with these owners and rates."""
    named = {f"a{at}": owner for at, owner in enumerate(owners)}
    found = state_of(2, named, Settings(balance=RATE, **settings))  # type: ignore[arg-type]
    splits = zip(found.splits.items(), rates, strict=True)
    return replace(found, splits={key: split._replace(rate=rate) for (key, split), rate in splits})


def proven(state: EnumeratorState) -> Evenness:
    return only(evenness(state, state))


def test_the_least_possible_is_said_only_of_what_is_proven_to_be_that() -> None:
    """No owners are at the bound here, and none is better than these; but nothing proves that."""
    rates = [2400, 480, 1200, 1220]
    one = proven(rated([0, 0, 1, 1], rates))
    loads = [[sum(rates[at] for at in range(4) if owners[at] == reader) for reader in (0, 1)] for owners in EVERY]
    assert one.work is not None
    assert one.work.level_max == min(map(max, loads))
    assert one.work.bound == 2650
    assert one.statement() == (
        "by work, the busiest reader has 2,880 offsets a minute, where no assignment gets below 2,650 (8.7% above it); "
        "by counts, as even as possible; no partition moved that could have stayed"
    )


def test_a_bound_is_not_rounded_up() -> None:
    one = proven(rated([0, 0, 0, 1], [58, 50, 30, 29], capacities=((0, 2),)))
    assert one.work is not None
    assert one.work.bound == Fraction(167, 3)
    assert (
        "69 offsets a minute for each part of its capacity, where no assignment gets below 55.6 (24.0% above it)"
        in (one.statement())
    )


def test_counts_do_not_judge_what_is_balanced_by_work() -> None:
    before, after = rated([0, 1, 1, 0], [900, 300, 300, 300]), rated([0, 1, 1, 1], [900, 300, 300, 300])
    one = only(evenness(before, after))
    assert one.statement() == (
        "by work, the busiest reader has 900 offsets a minute, where 900 is the least possible (0.0% above it); "
        "1 partition moved that could have stayed; by counts, 1 to 3 partitions per reader (balance=rate allows this)"
    )
    assert one.even


def test_with_capacities_partitions_weigh_the_same_until_rates_are_known() -> None:
    """Of eight, a reader of twice the capacity takes five or six: below 3 for each part there is room for 5 and 2."""
    at_first = "no rates are known yet, so each partition weighs the same: the fullest reader has "
    for owners, said, even in (
        (
            [0] * 5 + [1] * 3,
            "3 partitions for each part of its capacity, where 3 is the least possible (0.0% above it)",
            1,
        ),
        (
            [0] * 7 + [1],
            "3.5 partitions for each part of its capacity, where no assignment gets below 3 (16.7% above it)",
            0,
        ),
    ):
        one = proven(rated(owners, [0] * 8, capacities=((0, 2),)))
        assert one.statement() == f"{at_first}{said}; no partition moved that could have stayed"
        assert (one.even, one.work, one.to_json()["work"]) == (bool(even), None, None)
    one = proven(rated([0], [0], capacities=((0, 1),)))
    assert one.statement().startswith(f"{at_first}1 partition for each part of its capacity, where 1 is the least")


def test_where_nothing_is_weighed_yet_partitions_are_counted() -> None:
    one = proven(rated([0, 0, 1, 1], [0] * 4))
    assert one.statement() == "as even as possible; no partition moved that could have stayed"


def test_rates_once_known_go_on_to_count_when_most_partitions_are_new() -> None:
    few = rated([0, 1, 1, 1, 1], [400, 100, 0, 0, 0])
    assert proven(few).work is None
    found = proven(replace(few, rate_moves=()))
    assert found.work is not None
    assert found.work.level_max == 850


def test_even_by_work_is_what_is_proven_to_be_within_the_gain() -> None:
    for gain, even in ((8, False), (9, True)):
        assert proven(rated([0, 0, 1, 1], [2400, 480, 1200, 1220], gain_percent=gain)).even == even
