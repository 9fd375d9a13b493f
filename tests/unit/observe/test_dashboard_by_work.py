"""The dashboard's page where owners are balanced by work, and readers have capacities."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from evensplit.core.state.settings import RATE, Settings
from evensplit.observe.recorder import Recorder
from tests.support.browsers import shown
from tests.support.markup import Page
from tests.support.views import feed, keys_of, state


def page(sizes: Sequence[int], owners: Sequence[int], readers: int = 2, **settings: Any) -> Page:
    """After a batch with so many offsets of each partition."""
    keys = keys_of({("east", "orders"): len(sizes)})
    owned = dict(zip(keys, owners, strict=True))
    found = Settings(balance=RATE, **settings)
    begin = state(owned, dict.fromkeys(keys, 5), readers, found)
    end = state(owned, {key: 5 + size for key, size in zip(keys, sizes, strict=True)}, readers, found)
    recorder = Recorder()
    feed(recorder, [begin, end])
    return shown(recorder)


def busiest(found: Page) -> str:
    inside = re.search(r"Busiest reader (.*?) Moves", found.text)
    assert inside
    return inside[1]


def test_the_busiest_reader_is_the_one_with_the_most_for_its_capacity() -> None:
    fair = page([200, 200, 200], [0, 0, 1], plan="owners", capacities=((0, 2),))
    assert busiest(fair) == "100% of its share by capacity 400 of 600 offsets, reader 0"
    slow = page([300, 300], [0, 1], plan="owners", capacities=((0, 2),))
    assert busiest(slow) == "150% of its share by capacity 300 of 600 offsets, reader 1"
    assert busiest(page([0, 0], [0, 1], capacities=((0, 2),))) == "- 0 of 0 offsets"


def test_what_the_share_by_capacity_explains_needs_no_other_plan() -> None:
    """Reader 0 has twice an equal share of three, and 120 % of what its capacity is for."""
    fair = busiest(page([60_000, 20_000, 10_000], [0, 1, 2], 3, plan="owners", capacities=((0, 4),)))
    assert fair == "133% of its share by capacity 20,000 of 90,000 offsets, reader 1"
    far = busiest(page([1_000, 80_000], [0, 1], plan="owners", capacities=((0, 4),)))
    assert far == "494% of its share by capacity 80,000 of 81,000 offsets, reader 1; plan=level would cut them"


@pytest.mark.parametrize(
    "settings, told",
    [
        ({}, "balance rate"),
        ({"gain_percent": 5, "moves_per_hour": 0}, "balance rate, rebalanceGain 5, rebalanceMovesPerHour 0"),
        (
            {"capacities": ((0, 2), (1, 2), (2, 2), (4, 2), (5, 3))},
            "balance rate, capacity 2 of reader 0-2, 2 of reader 4, 3 of reader 5",
        ),
        (
            {"capacities": tuple((at, 2 + at) for at in range(20))},
            "balance rate, capacity 2 of reader 0, 3 of reader 1, 4 of reader 2, 5 of reader 3, … 20 in all",
        ),
    ],
)
def test_the_settings_are_all_told(settings: dict[str, Any], told: str) -> None:
    assert f"Policy balanced, rebalance always, plan whole, global, {told}. In all" in page([1], [0], **settings).text


def test_the_best_possible_is_said_only_where_the_busiest_reader_is_at_the_bound() -> None:
    """Of three partitions of 100 offsets, some reader reads two: nothing is below 150, and nothing reaches that."""
    text = page([100, 100, 100], [0, 0, 1]).text
    assert "Busiest reader: 200 of 300 offsets; without cutting partitions, no plan is below 150." in text
