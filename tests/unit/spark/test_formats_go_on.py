"""A query goes on from an offset of every format, as its own coordinator plans it, over clusters in memory."""

from __future__ import annotations

import pytest

from evensplit.checkpoint.formats import OLDEST_WRITTEN, lasting
from evensplit.core.model import SplitId
from evensplit.core.state.codec import SIGNATURE, encode
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState, new_losses
from tests.support.goldens import GOLDEN, NEW, clusters_of, document, golden, planned_ends
from tests.support.hosts import Source, ranges, restored

pytestmark = pytest.mark.usefixtures("no_waiting")


def host(before: EnumeratorState, pattern: str = ".", new: int = NEW) -> Source:
    """What reads the topics of the clusters that are there, with so many new records in each partition."""
    return Source(*clusters_of(before, new).values(), subscribePattern=pattern)


def expected(before: EnumeratorState) -> dict[str, tuple[int, int]]:
    """Split -> what follows its position, for all that have one."""
    return {
        str(key): (position, end)
        for key, end in planned_ends(before).items()
        if (position := before.splits[key].position) is not None and end > position
    }


@pytest.mark.parametrize("name", GOLDEN)
def test_a_query_goes_on_behind_what_was_read_and_an_idle_one_stays_as_it_is(name: str) -> None:
    before = golden(name)
    source = host(before)
    after = source.plan(before)
    read = ranges(before, after)
    known = {split: part for split, part in read.items() if split in expected(before)}
    assert known == expected(before)
    new = {split: part for split, part in read.items() if split not in known}
    assert all(start == 0 for start, _ in new.values()), "what had no position yet, or is new, begins at earliest"
    assert new_losses(before, after) == ()
    assert source.coordinator.partitions(before, after), "it has tasks"
    assert encode(after)[SIGNATURE] == max(lasting(document(name)), default=OLDEST_WRITTEN)
    once = restored(after)
    again = host(before).plan(once)
    assert encode(again) == encode(once), "byte for byte"


@pytest.mark.parametrize("name", [name for name in GOLDEN if "/usual" in name])
def test_readers_keep_what_they_had(name: str) -> None:
    before = golden(name)
    after = host(before, "orders").plan(before)
    keys = [SplitId("east", "orders", partition) for partition in range(3)]
    assert [after.splits[key].owner for key in keys] == [before.splits[key].owner for key in keys] == [0, 1, 0]


def test_where_nothing_is_new_an_older_format_ends_with_an_empty_batch_that_has_leader_epochs() -> None:
    before = golden("v3/default.json")
    after = host(before, new=0).plan(before)
    assert ranges(before, after) == {}
    assert after is not before
    assert encode(after)[SIGNATURE] == 4
    assert all(split.epoch is not None for split in after.splits.values() if split.active)
    again = host(before, new=0).plan(restored(after))
    assert encode(again) == encode(after), "and that is all"


def test_the_settings_are_those_of_the_options_and_no_longer_those_of_the_checkpoint() -> None:
    before = golden("v5/unusual.json")
    after = host(before).plan(before)
    assert after.settings.policy == Settings().policy
    assert (after.settings.balance, after.rate_moves, after.rated_ms) == ("count", None, None)
    assert not any(split.rate for split in after.splits.values())
