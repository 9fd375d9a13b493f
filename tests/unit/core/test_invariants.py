"""States that break a law: each is noticed, with the law's id."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.machine.events import BatchOpened, BatchPlanned, ReaderLost
from evensplit.core.machine.invariants import check, check_step
from evensplit.core.model import Split, SplitId
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from tests.support.enumeration import EAST, ONE, TWO, Enumeration


def sound(**settings: str) -> EnumeratorState:
    """Two readers with two splits each."""
    one = Enumeration(2, Settings(**settings))  # type: ignore[arg-type]
    one.discover(EAST, at=10, t=4)
    one.register()
    one.tell(BatchOpened(), BatchPlanned({}), BatchOpened(), BatchPlanned({}))
    return one.state


def with_split(state: EnumeratorState, key: SplitId, **fields: object) -> EnumeratorState:
    split = state.splits[key]._replace(**fields)  # type: ignore[arg-type]
    return replace(state, splits={**state.splits, key: split})


@pytest.mark.parametrize(
    "fields, law",
    [
        ({"finished": True}, "S1: split east/t/0 is finished, and owned by reader 0"),
        ({"removed_at_ms": 5}, "S1: split east/t/0 is retained, and owned by reader 0"),
        ({"finished": True, "removed_at_ms": 5, "owner": None}, "S1: split east/t/0 is finished, and retained"),
        ({"settled": True}, "S1: split east/t/0 is assigned, and settled"),
        ({"owner": 2}, "S2: split east/t/0 is owned by reader 2, of 2"),
        ({"position": None}, "S4: split east/t/0 has an owner but no start"),
        ({"initial": True}, "S4: split east/t/0 is at 10, and its start is still to be found"),
        ({"first": 11}, "S3: split east/t/0 begins at 11 and stands at 10"),
        ({"since": 1}, "S3: split east/t/0 began at None in revision 1 of 2"),
        ({"first": 10, "since": 4}, "S3: split east/t/0 began at 10 in revision 4 of 2"),
        ({"read_from": 10}, "S3: split east/t/0 was read from 10 and stands at 10"),
        ({"stop": 9}, "S3: split east/t/0 stops at 9 and stands at 10"),
        ({"owner": None}, "S6: split east/t/0 belongs to None, and there are readers for it"),
        ({"owner": 1}, "S6: loads are [1, 3]; they differ by more than one"),
        ({"id": TWO}, "S1: split east/t/0 is filed under its own id"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_a_split_that_breaks_a_law(fields: dict[str, object], law: str) -> None:
    state = sound()
    assert check(state) == ()
    assert any(sentence.startswith(law) for sentence in check(with_split(state, ONE, **fields)))


def test_a_split_of_no_cluster_and_splits_that_are_not_in_order() -> None:
    state = sound()
    assert "S1: split east/t/0 is filed under its own id, in a known cluster" in check(replace(state, clusters={}))
    turned = replace(state, splits=dict(sorted(state.splits.items(), reverse=True)))
    assert check(turned) == ("S10: clusters and splits are in the order of their ids",)


@pytest.mark.parametrize("settings", [{"rebalance": "never"}, {"policy": "hash"}, {"scope": "per-cluster"}])
def test_loads_have_to_be_even_only_where_the_settings_say_so(settings: dict[str, str]) -> None:
    state = sound(**settings)
    uneven = replace(state, splits={key: split._replace(owner=0) for key, split in state.splits.items()})
    assert check(uneven) == ()


def test_nobody_has_to_own_anything_where_there_are_no_readers() -> None:
    state = sound()
    alone = replace(state, splits={key: split._replace(owner=None) for key, split in state.splits.items()})
    assert check(replace(alone, session=replace(state.session, removed=(0, 1)))) == ()


def test_a_change_that_the_table_does_not_have() -> None:
    state = sound()
    taken = with_split(state, ONE, owner=None)
    assert check_step(state, ReaderLost(0), taken) == (
        "S1: split east/t/0 went from assigned to unassigned by ReaderLost",
    )
    gone = replace(state, splits={key: split for key, split in state.splits.items() if key != ONE})
    assert check_step(state, BatchOpened(), gone) == (
        "S1: split east/t/0 went from assigned to nothing by BatchOpened",
    )
    new = replace(state, splits={**state.splits, SplitId("east", "u", 0): Split(SplitId("east", "u", 0))})
    assert check_step(state, BatchOpened(), new) == (
        "S1: split east/u/0 went from nothing to unassigned by BatchOpened",
    )
