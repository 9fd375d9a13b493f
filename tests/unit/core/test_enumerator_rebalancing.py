"""When owners change: on a rescale, always or never, by every policy, and among those that may read a split."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import Assign, Revoke
from evensplit.core.machine.events import (
    BatchPlanned,
    ClustersListed,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRemoved,
    SettingsChanged,
    SplitsGivenBack,
    TimePassed,
)
from evensplit.core.machine.rebalance import unreadable_splits
from evensplit.core.model import Cluster, SplitId, Topic, Topics
from evensplit.core.policies import POLICIES
from evensplit.core.state.settings import Settings
from tests.support.enumeration import EAST, ONE, WEST, Enumeration, listed


def test_under_on_rescale_the_same_readers_get_the_same_and_others_a_new_assignment() -> None:
    one = Enumeration(3, Settings(rebalance="on-rescale"))
    one.discover(EAST, t=9)
    one.register()
    gone = ListedCluster("east", ("e:9092",), subscription=Topics(("u",)))
    one.discover(WEST, EAST, t=9)
    for now_ms in (0, 30_000):
        one.tell(TimePassed(now_ms), ClustersListed((gone, WEST)))
    uneven = one.owners()
    one.restart(one.commit())
    one.register()
    one.discover(gone, WEST, t=9)
    assert one.owners() == uneven
    one.restart(one.commit(), readers=2)
    one.register()
    assert abs(one.loads()[0] - one.loads()[1]) <= 1


def test_a_rescale_is_not_forgotten_in_a_crash_before_the_assignment() -> None:
    one = Enumeration(2, Settings(rebalance="on-rescale"))
    one.discover(EAST, t=6)
    one.register()
    one.restart(one.commit(), readers=3)
    one.restart(one.checkpoint())
    one.register()
    assert one.loads() == [2, 2, 2]


def test_under_never_only_void_owners_are_replaced() -> None:
    one = Enumeration(3, Settings(rebalance="never"))
    one.discover(EAST, t=6)
    one.register()
    before = one.owners()
    one.tell(ReaderRemoved(2))
    after = one.owners()
    assert all(after[key] == owner for key, owner in before.items() if owner != 2)
    assert one.loads() == [3, 3, 0]
    one.tell(ParallelismChanged(5))
    assert one.owners() == after
    one.tell(PartitionsListed("east", listed("t", 8, "id-t")))
    new = {SplitId("east", "t", 6): 0, SplitId("east", "t", 7): 0}
    one.tell(OffsetsResolved(new))
    assert one.loads() == [3, 3, 0, 1, 1]


@pytest.mark.parametrize("rebalance", ["on-rescale", "never"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("scope", ["global", "per-cluster"])
def test_a_new_state_moves_nothing_that_a_reader_reports(policy: str, rebalance: str, scope: str) -> None:
    """Law S5: the checkpoint is gone and the readers are not. That is neither a rescale nor a lost owner."""
    one = Enumeration(2, Settings(policy=policy, rebalance=rebalance, scope=scope))
    one.register(0, 1, reports={1: {SplitId("east", "t", partition): 5 for partition in range(3)}})
    one.discover(EAST, t=4)
    assert one.owners() == {"east/t/0": 1, "east/t/1": 1, "east/t/2": 1, "east/t/3": one.owners()["east/t/3"]}
    if policy in ("balanced", "sticky", "fair"):
        assert one.loads() == [1, 3]
    dealt = one.owners()
    one.restart(one.commit())
    one.register()
    assert one.owners() == dealt


def test_a_new_state_is_levelled_under_always_and_where_nobody_reports_anything() -> None:
    one = Enumeration(2)
    one.register(0, 1, reports={1: {SplitId("east", "t", partition): 5 for partition in range(4)}})
    one.discover(EAST, t=4)
    assert one.loads() == [2, 2]
    for rebalance in ("on-rescale", "never"):
        one = Enumeration(2, Settings(rebalance=rebalance))
        one.register()
        one.discover(EAST, t=4)
        assert one.loads() == [2, 2]


def test_a_rescale_after_a_first_assignment_from_reports_levels() -> None:
    for rebalance, levelled in (("on-rescale", [2, 1, 1]), ("never", [0, 4, 0])):
        one = Enumeration(2, Settings(rebalance=rebalance))
        one.register(0, 1, reports={1: {SplitId("east", "t", partition): 5 for partition in range(4)}})
        one.discover(EAST, t=4)
        assert one.loads() == [0, 4]
        one.tell(ParallelismChanged(3))
        one.register(2)
        assert sorted(one.loads()) == sorted(levelled)


def test_under_on_rescale_a_removal_and_the_return_are_two_rescales() -> None:
    one = Enumeration(2, Settings(rebalance="on-rescale"))
    one.discover(EAST, t=4)
    one.register()
    one.tell(ReaderRemoved(1))
    assert one.loads() == [4, 0]
    one.register(1)
    assert one.loads() == [2, 2]


@pytest.mark.parametrize("policy", ["hash", "round-robin", "global"])
@pytest.mark.parametrize("rebalance", ["on-rescale", "never"])
def test_between_triggers_new_splits_go_by_the_rule_and_others_stay(policy: str, rebalance: str) -> None:
    one = Enumeration(3, Settings(policy=policy, rebalance=rebalance))
    one.discover(EAST, t=4)
    one.register()
    before = one.owners()
    assert (
        before
        == {
            # "t" starts at (116 * 31) % 3 = 2 by Flink's formula.
            "hash": {"east/t/0": 2, "east/t/1": 0, "east/t/2": 1, "east/t/3": 2},
            "round-robin": {"east/t/0": 0, "east/t/1": 1, "east/t/2": 2, "east/t/3": 0},
            "global": {"east/t/0": 0, "east/t/1": 1, "east/t/2": 2, "east/t/3": 0},
        }[policy]
    )
    one.discover(EAST, t=5)
    assert {key: one.owners()[key] for key in before} == before
    assert one.owners()["east/t/4"] == {"hash": 0, "round-robin": 1, "global": 1}[policy]


def test_per_cluster_balances_each_cluster_on_its_own() -> None:
    """PR 223's first mode, with the policy of this project: each cluster even, and ties by what readers have in sum."""
    one = Enumeration(4, Settings(scope="per-cluster"))
    one.discover(EAST, WEST, t=2)
    one.register()
    for cluster in ("east", "west"):
        owners = [owner for key, owner in one.owners().items() if key.startswith(cluster)]
        assert len(set(owners)) == 2
    assert one.loads() == [1, 1, 1, 1]


def test_a_lost_reader_keeps_its_splits_and_a_removed_one_loses_them() -> None:
    one = Enumeration(3)
    one.discover(EAST, t=3)
    one.register()
    before = one.owners()
    assert one.tell(ReaderLost(1, one.epoch(1))) == ()
    assert one.state.session.lost == (1,)
    assert one.owners() == before
    effects = one.tell(ReaderRemoved(1))
    assert [type(effect) for effect in effects] == [Assign]
    assert one.state.session.removed == (1,)
    assert list(one.state.session.lost) == []
    assert one.loads()[1] == 0
    effects = one.register(1)
    assert [type(effect) for effect in effects] == [Revoke, Assign]
    assert one.loads() == [1, 1, 1]


def test_when_nobody_is_left_splits_wait() -> None:
    one = Enumeration(1)
    one.discover(EAST, t=2)
    one.register()
    one.tell(ReaderRemoved(0))
    assert set(one.lives().values()) == {"unassigned"}
    one.register(0)
    assert one.loads() == [2]


def test_a_reader_is_revoked_what_it_has_and_no_other() -> None:
    one = Enumeration(2)
    one.discover(EAST, t=4)
    one.register()
    effects = one.tell(ParallelismChanged(4))
    assert sorted(effect.reader for effect in effects if isinstance(effect, Revoke)) == [0, 1]
    assert not any(isinstance(effect, Assign) for effect in effects)
    assert len([effect for effect in one.register(2, 3) if isinstance(effect, Assign)]) == 2


def test_readers_get_only_what_they_may_read() -> None:
    one = Enumeration(3)
    pins = {0: (Cluster("east"),), 1: (Topic("west", "t"), SplitId("east", "t", 0)), 2: ()}
    one.tell(SettingsChanged(Settings(), eligible=pins))
    one.discover(EAST, WEST, t=2)
    one.discover(EAST, WEST, t=2, u=1)
    one.register()
    assert one.owners() == {
        "east/t/0": 0,
        "east/t/1": 0,
        "east/u/0": 0,
        "west/t/0": 1,
        "west/t/1": 1,
        "west/u/0": None,
    }
    assert unreadable_splits(one.state) == {SplitId("west", "u", 0)}
    one.tell(SplitsGivenBack(0, {SplitId("west", "u", 0): 0}))
    assert one.owners()["west/u/0"] is None
    one.tell(SettingsChanged(Settings()))
    assert one.loads() == [2, 2, 2]
    one.tell(SettingsChanged(Settings(), eligible={2: ()}))
    assert one.loads() == [3, 3, 0]
    assert not unreadable_splits(one.state)


def test_splits_go_to_their_last_owner_and_not_to_one_before_it() -> None:
    """Law S6: reader 1 had all splits; reader 0 gave them back since, and is gone. Reader 1 has no claim any more."""
    one = Enumeration(2, Settings(policy="sticky"))
    one.register(0, 1, reports={1: {SplitId("east", "t", partition): 5 for partition in range(4)}})
    one.discover(EAST, t=4)
    assert one.loads() == [0, 4]
    one.restart(one.commit(), readers=1)
    one.tell(SplitsGivenBack(0, {SplitId("east", "t", partition): 5 for partition in range(4)}))
    one.tell(ParallelismChanged(3))
    one.register(1, 2)
    one.tell(ReaderRemoved(0))
    assert one.loads() == [0, 2, 2]


def test_generations_go_up_with_every_change_of_an_owner_and_only_then() -> None:
    one = Enumeration(2)
    one.discover(EAST, t=4)
    assert one.state.generation == 0
    one.register()
    assert one.state.generation == 1
    one.tell(BatchPlanned({ONE: 5}), ReaderLost(0, one.epoch(0)))
    assert one.state.generation == 1
    one.tell(ParallelismChanged(3))
    assert one.state.generation == 2
