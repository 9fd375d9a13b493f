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
        "by work, the busiest reader has 2,880 offsets a minute, where no owners are below 2,650 (8.7% above it); "
        "by counts, as even as possible; no partition moved that could have stayed"
    )


def test_a_bound_is_not_rounded_up() -> None:
    one = proven(rated([0, 0, 0, 1], [58, 50, 30, 29], capacities=((0, 2),)))
    assert one.work is not None
    assert one.work.bound == Fraction(167, 3)
    assert "69 offsets a minute for each part of its capacity, where no owners are below 55.6 (24.0% above it)" in (
        one.statement()
    )
