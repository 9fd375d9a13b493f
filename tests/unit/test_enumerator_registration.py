"""FLIP-537: readers report, the enumerator alone assigns, and no split is lost in between.

The document numbers its readers and splits 1 and 2; here they keep these numbers, and reader 0 is one without splits.
"""

from __future__ import annotations

import pytest

from evensplit.core.assign import POLICIES
from evensplit.core.effects import Assign, Revoke, SignalNoMoreSplits
from evensplit.core.events import (
    BatchPlanned,
    ClustersListed,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    SettingsChanged,
    SplitsFinished,
    SplitsGivenBack,
)
from evensplit.core.model import Cluster, SplitId, Topic, Topics
from evensplit.core.settings import Settings
from evensplit.core.state import EnumeratorState
from tests.support.enumeration import EAST, WEST, Enumeration, listed, run

ONE, TWO = SplitId("east", "t", 0), SplitId("east", "t", 1)


def restored(readers: int = 2) -> Enumeration:
    """A run over two splits, one for each of two readers, that ended after its first checkpoint."""
    one = Enumeration(readers)
    one.discover(EAST, at=10, t=2)
    one.register()
    one.restart(one.commit({ONE: 15, TWO: 16}))
    return one


def test_nothing_is_assigned_before_all_readers_have_registered() -> None:
    one = restored(3)
    assert [type(effect) for effect in one.register(0, 1)] == []
    assert [effect.position for effect in one.register(2) if isinstance(effect, Assign)] == [15, 16]


def test_the_global_assignment_takes_in_all_reports_and_what_is_pending() -> None:
    one = Enumeration(2)
    one.discover(EAST, t=2)
    pending = one.checkpoint()
    one.restart(pending)
    one.register(reports={1: {SplitId("east", "u", 0): 7}})
    one.discover(EAST, t=3, u=1)
    assert one.loads() == [2, 2]
    assert one.held[1][SplitId("east", "u", 0)] == 7


def test_a_checkpoint_between_report_and_assignment_loses_nothing() -> None:
    """(a): readers report, a checkpoint is made when they have nothing any more, and all is started again."""
    one = Enumeration(2)
    one.register(1, reports={1: {ONE: 5, TWO: 6}})
    one.restart(one.checkpoint())
    one.discover(EAST, t=2)
    one.register()
    assert {key: at for held in one.held.values() for key, at in held.items()} == {ONE: 5, TWO: 6}
    assert one.loads() == [1, 1]


def test_a_split_that_is_given_back_and_reported_is_read_once() -> None:
    """(b): reader 1 fails before a checkpoint; its split is given back, and its old report comes once more."""
    one = Enumeration(2)
    one.register(0, 1, reports={1: {ONE: 5, TWO: 6}})
    one.discover(EAST, t=2)
    kept = next(key for key, split in one.state.splits.items() if split.owner == 1)
    moved = TWO if kept == ONE else ONE
    assert one.state.splits[moved].owner == 0
    one.tell(ReaderLost(1, one.epoch(1)), SplitsGivenBack(1, {kept: 5}))
    effects = one.register(1, reports={1: {ONE: 5, TWO: 6}})
    assert [(effect.split, effect.reader) for effect in effects if isinstance(effect, Assign)] == [(kept, 1)]
    assert one.held == {0: {moved: one.held[0][moved]}, 1: {kept: one.held[1][kept]}}


def test_under_round_robin_a_split_waits_for_its_reader_after_the_first_checkpoint() -> None:
    """(c): split 2 goes to reader 2, which fails before the next checkpoint; it never goes to reader 1."""
    one = Enumeration(2, Settings(policy="round-robin", rebalance="on-rescale"))
    one.discover(EAST, t=1)
    one.register()
    one.commit()
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 0}))
    assert one.owners() == {"east/t/0": 0, "east/t/1": 1}
    assert one.tell(ReaderLost(1, one.epoch(1)), SplitsGivenBack(1, {TWO: 0})) == ()
    assert one.owners() == {"east/t/0": 0, "east/t/1": 1}
    effects = one.register(1)
    assert [(effect.split, effect.reader) for effect in effects if isinstance(effect, Assign)] == [(TWO, 1)]


def test_a_checkpoint_before_all_registrations_has_every_split() -> None:
    """(d)"""
    one = restored(3)
    one.register(0, reports={0: {SplitId("east", "u", 3): 9}})
    found = one.checkpoint()
    assert {str(key): split.position for key, split in found.splits.items()} == {
        "east/t/0": 15,
        "east/t/1": 16,
        "east/u/3": 9,
    }


@pytest.mark.parametrize("first", ["clusters", "reports"])
def test_splits_that_are_no_longer_subscribed_to_are_dropped(first: str) -> None:
    """(e): the subscription is narrowed at a restart; whether that or the report is heard of first does not matter."""
    one = Enumeration(2)
    one.discover(EAST, at=10, t=2, u=2)
    one.register()
    reports = {reader: dict(held) for reader, held in one.held.items()}
    one.restart(one.commit())
    narrowed = ListedCluster("east", ("e:9092",), subscription=Topics(("t",)))
    gone, unknown = SplitId("east", "u", 0), SplitId("east", "v", 0)
    if first == "clusters":
        one.discover(narrowed, t=2)
        one.register(reports={**reports, 1: {**reports[1], unknown: 4}})
    else:
        one.register(reports={**reports, 1: {**reports[1], unknown: 4}})
        one.discover(narrowed, t=2)
    assert one.lives() == {
        "east/t/0": "assigned",
        "east/t/1": "assigned",
        "east/u/0": "retained",
        "east/u/1": "retained",
        "east/v/0": "retained",
    }
    assert one.state.splits[gone].position == 10
    assert one.state.splits[unknown].position == 4
    assert one.loads() == [1, 1]


def test_a_finished_split_is_never_read_again_and_is_no_load() -> None:
    """(f)"""
    one = Enumeration(2, Settings(bounded=True))
    one.discover(EAST, t=4)
    one.tell(OffsetsResolved({}, stops={SplitId("east", "t", partition): 100 for partition in range(4)}))
    one.register()
    for key in [key for key, split in one.state.splits.items() if split.owner == 0]:
        one.tell(SplitsFinished(0, one.epoch(0), {key: 100}))
    assert sorted(one.lives().values()) == ["assigned", "assigned", "finished", "finished"]
    assert one.loads() == [1, 1]
    finished = {key: split for key, split in one.state.splits.items() if split.finished}
    assert {split.position for split in finished.values()} == {100}
    one.restart(one.commit())
    one.discover(EAST, t=4)
    one.register(reports={0: dict.fromkeys(finished, 7)})
    assert {key: one.state.splits[key] for key in finished} == finished
    assert not any(key in held for key in finished for held in one.held.values())


def test_two_topics_of_four_partitions_over_eight_readers() -> None:
    """FLINK-31762, first case: no reader has two while another has none."""
    one = Enumeration(8)
    one.discover(EAST, orders=4, returns=4)
    one.register()
    assert one.loads() == [1] * 8


def test_partitions_and_readers_that_are_added_at_a_restart() -> None:
    """FLINK-31762, second case: 3 partitions over 3 readers become 6 over 6, one each, without a move."""
    one = Enumeration(3)
    one.discover(EAST, t=3)
    one.register()
    before = one.owners()
    one.restart(one.commit(), readers=6)
    one.discover(EAST, t=6)
    one.register()
    assert one.loads() == [1] * 6
    assert {key: one.owners()[key] for key in before} == before


def test_a_checkpoint_inside_the_recovery_window_loses_nothing() -> None:
    """FLINK-40469: splits that readers have reported and not got back are in the state, with their positions."""
    one = Enumeration(2)
    one.discover(EAST, t=4)
    one.register()
    positions = {SplitId("east", "t", partition): 100 + partition for partition in range(4)}
    one.restart(one.commit(positions), readers=3)
    one.register(0, 1, reports={0: {ONE: 111}, 1: {TWO: 112, SplitId("east", "u", 0): 5}})
    window = one.checkpoint()
    one.restart(window)
    one.register()
    read = {key: at for held in one.held.values() for key, at in held.items()}
    assert read == {**positions, ONE: 111, TWO: 112, SplitId("east", "u", 0): 5}
    assert sorted(one.loads()) == [1, 2, 2]


def test_unassigned_splits_do_not_collapse_onto_one_reader() -> None:
    """Twelve splits that were discovered and never assigned, and six given back by readers that are no more."""
    one = Enumeration(8)
    one.discover(EAST, t=12)
    one.restart(one.checkpoint())
    one.discover(EAST, t=12)
    one.register()
    assert sorted(one.loads()) == [1, 1, 1, 1, 2, 2, 2, 2]
    one.tell(ClustersListed((EAST, WEST)))
    one.tell(*(SplitsGivenBack(9 + number, {SplitId("west", "u", number): 3}) for number in range(6)))
    assert sorted(one.loads()) == [2, 2, 2, 2, 2, 2, 3, 3]


def test_ids_that_look_the_same_when_they_are_joined() -> None:
    """Cluster `a` with topic `b-c`, cluster `a-b` with topic `c`: two splits."""
    one = Enumeration(2)
    clusters = tuple(ListedCluster(name, (f"{name}:1",)) for name in ("a", "a-b"))
    one.tell(ClustersListed(clusters))
    one.tell(PartitionsListed("a", listed("b-c", 1)), PartitionsListed("a-b", listed("c", 1)))
    left, right = SplitId("a", "b-c", 0), SplitId("a-b", "c", 0)
    one.tell(OffsetsResolved({left: 1, right: 2}))
    one.register()
    found = one.commit({left: 11, right: 22})
    assert {key: split.position for key, split in found.splits.items()} == {left: 11, right: 22}
    assert one.loads() == [1, 1]


def test_under_on_rescale_the_same_readers_get_the_same_and_others_a_new_assignment() -> None:
    one = Enumeration(3, Settings(rebalance="on-rescale"))
    one.discover(EAST, t=9)
    one.register()
    gone = ListedCluster("east", ("e:9092",), subscription=Topics(("u",)))
    one.discover(WEST, EAST, t=9)
    one.discover(gone, WEST, t=9)
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


def test_round_robin_deals_anew_at_a_new_parallelism() -> None:
    one = Enumeration(3, Settings(policy="round-robin"))
    one.discover(EAST, t=6)
    one.register()
    one.tell(ParallelismChanged(2))
    assert list(one.owners().values()) == [0, 1, 0, 1, 0, 1]


def test_per_cluster_balances_each_cluster_on_its_own() -> None:
    """PR 223's first mode, with the policy of this project: each cluster even, all of them together not."""
    one = Enumeration(4, Settings(scope="per-cluster"))
    one.discover(EAST, WEST, t=2)
    one.register()
    for cluster in ("east", "west"):
        assert max(list(one.owners().values()).count(reader) for reader in range(4)) == 2
        owners = [owner for key, owner in one.owners().items() if key.startswith(cluster)]
        assert len(set(owners)) == 2
    assert one.loads() == [2, 2, 0, 0]


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


def test_a_newer_report_wins_over_the_state_and_an_older_one_does_not() -> None:
    for generation, owner in ((None, 0), (0, 0), (99, 1)):
        one = Enumeration(2)
        one.discover(EAST, t=2)
        one.register()
        one.restart(one.commit(), readers=2)
        one.register(0, 1, reports={1: {ONE: 0}}, generation=generation)
        assert one.state.splits[ONE].owner == owner


def test_messages_that_are_late_or_come_twice_change_nothing() -> None:
    """S13"""
    one = Enumeration(2)
    one.discover(EAST, t=2)
    one.register()
    owner = one.state.splits[ONE].owner
    assert owner is not None
    old = one.epoch(owner)
    one.register(owner)
    before = one.state
    for event in (
        ReaderRegistered(owner, old, {ONE: 77}),
        ReaderRegistered(owner, one.epoch(owner), {ONE: 77}),
        ReaderLost(owner, old),
        ReaderLost(7, 0),
        ReaderRegistered(7, 0, {ONE: 77}),
        SplitsFinished(owner, old, {ONE: 77}),
        SplitsFinished(1 - owner, one.epoch(1 - owner), {ONE: 77}),
        SplitsFinished(owner, one.epoch(owner), {SplitId("east", "t", 9): 77}),
        SplitsFinished(7, 0, {ONE: 77}),
        SplitsGivenBack(1 - owner, {ONE: 77}),
        SplitsGivenBack(7, {ONE: 77}),
        ReaderRemoved(7),
        ReaderRemoved(7),
        ParallelismChanged(2),
    ):
        assert one.tell(event) == ()
    assert one.state == before
    assert one.state.session.registrations == before.session.registrations


def test_the_end_of_a_reader_can_be_heard_of_before_its_beginning() -> None:
    """S13: the registration that comes late is of a reader that is no more."""
    one = Enumeration(1)
    one.discover(EAST, t=1)
    one.tell(ReaderLost(0, 3), ReaderRegistered(0, 3))
    assert not one.state.session.assigned
    assert one.state.session.lost == ()
    one.tell(ReaderRegistered(0, 4))
    assert one.loads() == [1]


def test_a_reader_beyond_the_last_one_can_still_save_a_split() -> None:
    one = Enumeration(2)
    one.discover(EAST, t=2)
    one.register()
    one.tell(ReaderRegistered(5, 1, {SplitId("east", "u", 0): 8}))
    assert one.state.splits[SplitId("east", "u", 0)].position == 8
    assert 5 not in one.state.session.registrations


def test_splits_given_back_before_the_assignment_wait_for_their_reader() -> None:
    one = Enumeration(2)
    one.discover(EAST, WEST, t=1)
    one.tell(ClustersListed((EAST, WEST, ListedCluster("north", ("n:1",)))))
    other = SplitId("north", "u", 0)
    one.tell(SplitsGivenBack(1, {ONE: 99, other: 4}))
    assert one.state.splits[ONE].position == 0
    one.tell(PartitionsListed("north", listed("u", 2)), OffsetsResolved({SplitId("north", "u", 1): 0}))
    one.register()
    assert one.state.splits[ONE].owner == 1
    assert (one.state.splits[other].owner, one.state.splits[other].position) == (1, 4)


def test_a_report_of_another_incarnation_says_nothing_about_this_one() -> None:
    one = Enumeration(1)
    one.discover(EAST, t=1)
    one.tell(ReaderRegistered(0, 1, {ONE: 500}, topic_ids={ONE: "id-older"}))
    assert one.state.splits[ONE].position == 0
    one.tell(ReaderLost(0, 1), ReaderRegistered(0, 2, {ONE: 500}, topic_ids={ONE: "id-t"}))
    assert one.state.splits[ONE].position == 500


def test_a_report_gives_a_start_only_to_what_a_reader_can_have_read() -> None:
    """A later split without a start was never given to anybody; one of the first discovery may come from elsewhere."""
    one = Enumeration(1)
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1)))
    one.register(0, reports={0: {ONE: 5}})
    assert (one.state.splits[ONE].position, one.state.splits[ONE].first) == (5, 5)
    one.commit()
    one.tell(PartitionsListed("east", listed("t", 2)))
    one.register(0, reports={0: {TWO: 5}})
    assert one.state.splits[TWO].position is None
    one.tell(ReaderRegistered(0, 99, {TWO: 5}, topic_ids={TWO: "id-1"}))
    assert one.state.splits[TWO].position == 5


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
    one.tell(SplitsGivenBack(0, {SplitId("west", "u", 0): 0}))
    assert one.owners()["west/u/0"] is None
    one.tell(SettingsChanged(Settings()))
    assert one.loads() == [2, 2, 2]
    one.tell(SettingsChanged(Settings(), eligible={2: ()}))
    assert one.loads() == [3, 3, 0]


def test_no_more_splits_is_said_once_in_each_registration() -> None:
    one = Enumeration(2, discovery=False)
    one.register()
    effects = one.discover(EAST, t=2)
    assert [effect.reader for effect in effects if isinstance(effect, SignalNoMoreSplits)] == [0, 1]
    assert not any(isinstance(effect, SignalNoMoreSplits) for effect in one.tell(BatchPlanned({})))
    effects = one.register(1)
    assert [effect.reader for effect in effects if isinstance(effect, SignalNoMoreSplits)] == [1]
    one.restart(one.commit(), discovery=False)
    assert not any(isinstance(effect, SignalNoMoreSplits) for effect in one.register())
    effects = one.discover(EAST, t=2)
    assert [effect.reader for effect in effects if isinstance(effect, SignalNoMoreSplits)] == [0, 1]


def test_no_more_splits_is_not_said_while_there_is_something_to_come() -> None:
    def signalled(one: Enumeration) -> bool:
        return one.state.session.signalled != ()

    one = Enumeration(1)
    one.discover(EAST, t=1)
    one.register()
    assert not signalled(one), "discovery goes on"
    one.commit()
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), SettingsChanged(Settings(bounded=True)))
    assert not signalled(one), "a start is not known"
    one.tell(OffsetsResolved({TWO: 0}))
    assert signalled(one)


def test_a_reported_position_at_the_stop_is_the_end() -> None:
    one = Enumeration(1, Settings(bounded=True))
    one.discover(EAST, t=1)
    one.tell(OffsetsResolved({}, stops={ONE: 10}))
    one.register(0, reports={0: {ONE: 10}})
    assert one.lives() == {"east/t/0": "finished"}


def test_a_reported_position_beyond_the_stop_is_the_end_too() -> None:
    """The stop was found when the split had been read further."""
    one = Enumeration(1, Settings(bounded=True))
    one.discover(EAST, t=1)
    one.tell(OffsetsResolved({}, stops={ONE: 10}))
    one.register(0, reports={0: {ONE: 12}})
    assert (one.lives(), one.state.splits[ONE].stop) == ({"east/t/0": "finished"}, 12)


def test_a_reader_that_is_told_of_a_reset_begins_anew() -> None:
    """What a reader has is taken from it when its topic was created anew, and given again with the new start."""
    one = Enumeration(1, loss="declare")
    one.discover(EAST, t=1)
    one.register()
    effects = one.tell(PartitionsListed("east", listed("t", 1, "id-new")))
    assert Revoke(ONE, 0) in effects
    effects = one.tell(OffsetsResolved({ONE: 3}))
    assert [(effect.position, effect.topic_id) for effect in effects if isinstance(effect, Assign)] == [(3, "id-new")]


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


def test_an_empty_state_waits_for_its_first_readers() -> None:
    state, effects = run(ClustersListed((EAST,)), PartitionsListed("east", ()), state=EnumeratorState())
    assert not state.session.assigned
    assert effects == ()
