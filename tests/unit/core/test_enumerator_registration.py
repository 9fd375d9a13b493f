"""FLIP-537: readers report, the enumerator alone assigns, and no split is lost in between.

The document numbers its readers and splits 1 and 2; here they keep these numbers, and reader 0 is one without splits.
"""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import Assign, Revoke
from evensplit.core.machine.events import (
    ClustersListed,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    ReaderLost,
    ReaderRegistered,
    ReaderRemoved,
    SplitsFinished,
    SplitsGivenBack,
)
from evensplit.core.model import SplitId, Topics
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from tests.support.enumeration import EAST, ONE, THREE, TWO, WEST, Enumeration, listed, run


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


def test_the_end_of_a_former_incarnation_does_not_finish_the_one_that_is_read_now() -> None:
    """The reader's message was under way when its topic was found to have been created anew."""
    one = Enumeration(1, Settings(bounded=True), loss="declare")
    one.discover(EAST, t=1)
    one.tell(OffsetsResolved({}, stops={ONE: 42}))
    one.register()
    one.hear_twice(PartitionsListed("east", listed("t", 1, "id-2")))
    one.tell(OffsetsResolved({ONE: 5}, {ONE: 26}))
    reading = one.state.splits[ONE]
    assert (reading.topic_id, reading.position, reading.stop, reading.owner) == ("id-2", 5, 26, 0)
    for end in (42, 26, 7):
        assert one.tell(SplitsFinished(0, one.epoch(0), {ONE: end}, {ONE: "id-t"})) == ()
        assert one.state.splits[ONE] == reading
    one.tell(SplitsFinished(0, one.epoch(0), {ONE: 26}, {ONE: "id-2"}))
    assert one.state.splits[ONE].finished


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


def test_two_claims_of_one_generation_settle_each_other_when_a_reader_is_gone_with_the_same_event() -> None:
    """What the state says is of the generation before the event, although the event takes splits from a reader."""
    one = Enumeration(3)
    one.discover(EAST, t=3)
    one.register()
    assert one.owners() == {"east/t/0": 0, "east/t/1": 1, "east/t/2": 2}
    one.restart(one.commit(), readers=3)
    one.register(0, 1, reports={1: {ONE: 0}}, generation=one.state.generation)
    effects = one.tell(ParallelismChanged(2))
    previous = {effect.split: effect.previous for effect in effects if isinstance(effect, Assign)}
    assert previous == {ONE: None, TWO: 1, THREE: None}


@pytest.mark.parametrize("claimant", [0, 1])
def test_a_split_that_two_claim_is_nobodys_and_moves_nothing_when_the_number_of_readers_changed(claimant: int) -> None:
    """Law S6: the two splits of the other reader are claimed by this one, too, so its own two need not move."""
    one = Enumeration(2)
    one.discover(EAST, t=4)
    one.register()
    before = one.owners()
    others = {key: 0 for key, split in one.state.splits.items() if split.owner != claimant}
    one.restart(one.commit(), readers=3)
    one.register(reports={claimant: others}, generation=one.state.generation)
    assert sorted(one.loads()) == [1, 1, 2]
    assert one.loads()[claimant] == 2
    assert {key for key, owner in one.owners().items() if owner == claimant} == {
        key for key, owner in before.items() if owner == claimant
    }


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


def test_a_reader_that_is_told_of_a_reset_begins_anew() -> None:
    """What a reader has is taken from it when its topic was created anew, and given again with the new start."""
    one = Enumeration(1, loss="declare")
    one.discover(EAST, t=1)
    one.register()
    effects = one.hear_twice(PartitionsListed("east", listed("t", 1, "id-new")))
    assert Revoke(ONE, 0) in effects
    effects = one.tell(OffsetsResolved({ONE: 3}))
    assert [(effect.position, effect.topic_id) for effect in effects if isinstance(effect, Assign)] == [(3, "id-new")]


def test_an_empty_state_waits_for_its_first_readers() -> None:
    state, effects = run(ClustersListed((EAST,)), PartitionsListed("east", ()), state=EnumeratorState())
    assert not state.session.assigned
    assert effects == ()
