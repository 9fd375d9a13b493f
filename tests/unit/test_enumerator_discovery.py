"""What clusters answer, and what follows: FLIP-288's starts, what is missing, back, created anew, at its end."""

from __future__ import annotations

import pytest

from evensplit.core.effects import Forget, ReportLoss, ResolveStart, Revoke
from evensplit.core.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    ClusterUnreachable,
    ListedCluster,
    OffsetsResolved,
    PartitionsListed,
    ReaderRegistered,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import Partitions, SplitId, StartBy, TopicPattern, Topics
from evensplit.core.settings import Settings
from tests.support.enumeration import EAST, WEST, Enumeration, listed

ONE, TWO, THREE = (SplitId("east", "t", partition) for partition in range(3))
INTERVAL_MS, DAY_MS = 30_000, 24 * 60 * 60 * 1000


def running(count: int = 2, readers: int = 2, settings: Settings | None = None, **wanted: object) -> Enumeration:
    """Everything of one topic is read from offset 10, one batch is done, and it is 1,000 ms."""
    one = Enumeration(readers, settings, **wanted)
    one.tell(TimePassed(1000))
    one.discover(EAST, at=10, t=count)
    one.register()
    one.tell(BatchPlanned({}), BatchOpened())
    return one


def resolved(one: Enumeration) -> list[ResolveStart]:
    return [effect for effect in one.effects if isinstance(effect, ResolveStart)]


# FLIP-288


def test_a_checkpoint_before_the_first_discovery_leaves_it_to_be_the_first() -> None:
    """Not discovered yet: a restart discovers for the first time, and starts by the strategy."""
    one = Enumeration(1)
    one.tell(ClustersListed((EAST,)))
    one.restart(one.checkpoint())
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1)))
    assert resolved(one) == [ResolveStart("east", (ONE,), StartBy.STRATEGY)]


def test_a_checkpoint_after_an_empty_discovery_remembers_it() -> None:
    """Discovered and empty: what comes after the restart is new, and starts at earliest."""
    one = Enumeration(1)
    one.discover(EAST)
    one.register()
    one.restart(one.commit())
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1)))
    assert resolved(one) == [ResolveStart("east", (ONE,), StartBy.EARLIEST)]


def test_initial_splits_without_a_start_stay_initial_over_a_restart() -> None:
    """FLIP-288's unassigned initial partitions: they are told from those that came later, however often asked for."""
    one = Enumeration(1)
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1)))
    one.restart(one.checkpoint())
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 2)))
    assert resolved(one) == [
        ResolveStart("east", (ONE,), StartBy.STRATEGY),
        ResolveStart("east", (TWO,), StartBy.EARLIEST),
    ]
    one.tell(OffsetsResolved({ONE: 7, TWO: 0}))
    assert not any(split.initial for split in one.state.splits.values())


def test_an_answer_that_is_not_complete_is_no_first_discovery() -> None:
    one = Enumeration(1)
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 1), complete=False))
    assert one.state.clusters["east"].initial
    one.tell(PartitionsListed("east", listed("t", 2)))
    assert resolved(one) == [ResolveStart("east", (ONE, TWO), StartBy.STRATEGY)]
    assert one.state.clusters["east"].discovered


def test_after_a_restart_new_partitions_topics_and_clusters_start_at_earliest() -> None:
    one = running()
    one.restart(one.commit())
    one.tell(ClustersListed((EAST, WEST)))
    one.tell(PartitionsListed("east", (*listed("t", 3), *listed("u", 1))), PartitionsListed("west", listed("t", 1)))
    assert {effect.by for effect in resolved(one)} == {StartBy.EARLIEST}
    assert sum(len(effect.splits) for effect in resolved(one)) == 3


def test_a_start_is_final_and_late_answers_change_nothing() -> None:
    one = running()
    before = one.state
    one.tell(OffsetsResolved({ONE: 99}), OffsetsResolved({SplitId("east", "gone", 0): 5}))
    assert one.state == before


def test_a_start_of_another_incarnation_is_passed_over() -> None:
    one = running()
    one.tell(PartitionsListed("east", listed("t", 3, "id-t")))
    one.tell(OffsetsResolved({THREE: 500}, topic_ids={THREE: "id-older"}))
    assert one.state.splits[THREE].position is None
    one.tell(OffsetsResolved({THREE: 5}, topic_ids={THREE: "id-t"}))
    assert one.state.splits[THREE].position == 5


# What is missing


def test_one_answer_without_a_partition_removes_nothing() -> None:
    one = running()
    before = one.state
    for _ in range(3):
        one.tell(PartitionsListed("east", listed("t", 1, "id-t")))
    assert one.state == before


def test_two_complete_answers_an_interval_apart_remove() -> None:
    one = running()
    position = one.state.splits[TWO].position
    owner = one.state.splits[TWO].owner
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(less, TimePassed(1000 + INTERVAL_MS - 1), less)
    assert one.lives()["east/t/1"] == "assigned"
    effects = one.tell(TimePassed(1000 + INTERVAL_MS), less)
    assert Revoke(TWO, owner or 0) in effects
    assert one.lives()["east/t/1"] == "retained"
    assert one.state.splits[TWO].position == position


@pytest.mark.parametrize("complete", [True, False])
def test_any_answer_that_has_it_resets(complete: bool) -> None:
    one = running()
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(less, PartitionsListed("east", listed("t", 2, "id-t"), complete=complete))
    one.tell(TimePassed(1000 + INTERVAL_MS), less)
    assert one.lives()["east/t/1"] == "assigned"


def test_answers_that_are_not_complete_neither_count_nor_remove() -> None:
    """S7"""
    one = running()
    before = one.state
    for number in range(1, 5):
        one.tell(TimePassed(number * INTERVAL_MS), PartitionsListed("east", (), complete=False))
        one.tell(ClusterUnreachable("east", "nobody is there"))
    assert one.state == before
    assert one.state.session.unreachable == {"east": "nobody is there"}
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")))
    assert one.state.session.unreachable == {}


def test_without_a_clock_nothing_is_removed_by_answers() -> None:
    one = Enumeration(1)
    one.discover(EAST, t=1)
    one.register()
    for _ in range(3):
        one.tell(PartitionsListed("east", ()), ClustersListed((WEST,)))
    assert one.lives() == {"east/t/0": "assigned"}


def test_a_flap_of_the_metadata_costs_nothing() -> None:
    """FLINK-39837: n clusters, n - 1, n again; and a longer absence, from which splits return where they were."""
    one = running()
    one.discover(EAST, WEST, at=10, t=2)
    one.tell(BatchPlanned(dict.fromkeys(one.state.splits, 20)), BatchOpened())
    before = one.state
    one.tell(ClustersListed((EAST,)), TimePassed(1000 + 10 * INTERVAL_MS), ClustersListed((EAST, WEST)))
    assert one.state == before
    one.tell(ClustersListed((EAST,)), TimePassed(1000 + 20 * INTERVAL_MS), ClustersListed((EAST,)))
    assert one.lives()["west/t/0"] == "retained"
    assert one.loads() == [1, 1]
    one.discover(EAST, WEST, t=2)
    assert {key: split.position for key, split in one.state.splits.items()} == dict.fromkeys(before.splits, 20)
    assert one.loads() == [2, 2]


def test_what_the_options_leave_out_at_the_start_is_removed_at_once() -> None:
    one = running()
    one.discover(EAST, WEST, t=2)
    state = one.commit()
    one.restart(state)
    one.tell(TimePassed(5000), ClustersListed((EAST,)))
    assert one.state.clusters["west"].removed_at_ms == 5000
    assert one.lives()["west/t/0"] == "retained"
    one.restart(state)
    one.tell(TimePassed(5000), ClustersListed((EAST,), confirmed=False))
    assert one.lives()["west/t/0"] == "assigned"


def test_a_removal_at_a_time_that_was_not_known_is_dated_later() -> None:
    one = running()
    one.discover(EAST, WEST, t=1)
    one.restart(one.commit())
    one.tell(ClustersListed((EAST,)))
    assert (one.state.clusters["west"].removed_at_ms, one.state.splits[SplitId("west", "t", 0)].removed_at_ms) == (0, 0)
    one.tell(TimePassed(9 * DAY_MS))
    assert one.state.clusters["west"].removed_at_ms == 9 * DAY_MS
    assert one.state.splits[SplitId("west", "t", 0)].removed_at_ms == 9 * DAY_MS


@pytest.mark.parametrize(
    "subscription", [Topics(("t",)), TopicPattern("^t$"), Partitions({"t": (0, 1)})], ids=["names", "pattern", "single"]
)
def test_a_narrower_subscription_removes_at_once(subscription: Topics | TopicPattern | Partitions) -> None:
    one = running()
    one.discover(EAST, t=2, u=1)
    one.tell(ClustersListed((ListedCluster("east", ("e:9092",), subscription=subscription),)))
    assert one.lives() == {"east/t/0": "assigned", "east/t/1": "assigned", "east/u/0": "retained"}
    # An answer to what was asked before.
    one.tell(PartitionsListed("east", (*listed("t", 2, "id-t"), *listed("u", 1, "id-u"))))
    assert one.lives()["east/u/0"] == "retained"
    one.discover(EAST, t=2, u=1)
    assert one.lives()["east/u/0"] == "assigned"


# What is back, and what is forgotten


def test_back_within_the_retention_it_goes_on_and_after_it_it_is_new() -> None:
    """S8"""
    one = running(settings=Settings(retention_ms=DAY_MS))
    one.tell(BatchPlanned({TWO: 42}), BatchOpened())
    less, all_there = (PartitionsListed("east", listed("t", count, "id-t")) for count in (1, 2))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    one.tell(TimePassed(DAY_MS), all_there)
    assert (one.state.splits[TWO].position, one.lives()["east/t/1"]) == (42, "assigned")
    one.tell(less, TimePassed(DAY_MS + INTERVAL_MS), less)
    assert one.tell(TimePassed(2 * DAY_MS + INTERVAL_MS - 1)) == ()
    assert one.tell(TimePassed(2 * DAY_MS + INTERVAL_MS)) == (Forget(TWO),)
    assert TWO not in one.state.splits
    one.tell(all_there)
    assert resolved(one) == [ResolveStart("east", (TWO,), StartBy.EARLIEST)]


def test_without_retention_it_is_forgotten_at_once() -> None:
    one = running(settings=Settings(retention_ms=0))
    one.discover(EAST, WEST, t=2)
    one.tell(ClustersListed((EAST,)), TimePassed(1000 + INTERVAL_MS))
    effects = one.tell(ClustersListed((EAST,)))
    assert [effect.split.cluster for effect in effects if isinstance(effect, Forget)] == ["west", "west"]
    assert list(one.state.clusters) == ["east"]
    # Answers on their way when the cluster was forgotten.
    before = one.state
    one.tell(PartitionsListed("west", listed("t", 1)), OffsetsResolved({SplitId("west", "t", 0): 1}))
    one.tell(ClusterUnreachable("west", "nobody is there"))
    assert one.state == before
    one.tell(ReaderRegistered(0, 99, {SplitId("west", "t", 0): 5}))
    assert SplitId("west", "t", 0) not in one.state.splits


def test_a_cluster_is_forgotten_with_all_that_it_had() -> None:
    one = running(settings=Settings(bounded=True))
    one.discover(EAST, WEST, t=2)
    one.tell(OffsetsResolved({}, stops={SplitId("west", "t", 0): 0}))
    assert one.lives()["west/t/0"] == "finished"
    one.tell(ClustersListed((EAST,)), TimePassed(1000 + INTERVAL_MS), ClustersListed((EAST,)))
    assert (one.lives()["west/t/0"], one.lives()["west/t/1"]) == ("finished", "retained")
    # The answer to a question from before.
    one.tell(PartitionsListed("west", listed("t", 2, "id-t")))
    assert one.lives()["west/t/1"] == "retained"
    effects = one.tell(TimePassed(30 * DAY_MS))
    assert sorted(effect.split for effect in effects if isinstance(effect, Forget)) == [
        SplitId("west", "t", 0),
        SplitId("west", "t", 1),
    ]
    assert list(one.state.clusters) == ["east"]


def test_a_reported_split_of_a_cluster_that_is_no_longer_read_is_retained() -> None:
    one = running()
    one.tell(ReaderRegistered(0, 99, {SplitId("north", "t", 0): 5}))
    assert one.lives()["north/t/0"] == "retained"
    assert one.state.clusters["north"].removed_at_ms == 1000


def test_a_split_that_went_before_it_had_a_start_is_asked_for_when_it_returns() -> None:
    one = running()
    more, less = (PartitionsListed("east", listed("t", count, "id-t")) for count in (3, 2))
    one.tell(more, less, TimePassed(1000 + INTERVAL_MS), less)
    assert one.lives()["east/t/2"] == "retained"
    one.tell(more)
    assert resolved(one) == [ResolveStart("east", (THREE,), StartBy.EARLIEST)]


# What was created anew


def test_under_fail_a_recreated_topic_ends_the_run_and_changes_nothing() -> None:
    one = running()
    before = one.state
    effects = one.tell(PartitionsListed("east", listed("t", 2, "id-2")))
    assert [(effect.split, effect.fatal) for effect in effects if isinstance(effect, ReportLoss)] == [
        (ONE, True),
        (TWO, True),
    ]
    assert one.state == before


def test_under_declare_a_recreated_topic_is_reported_and_read_from_its_beginning() -> None:
    """S9"""
    one = running(loss="declare")
    effects = one.tell(PartitionsListed("east", listed("t", 2, "id-2")))
    assert [effect.fatal for effect in effects if isinstance(effect, ReportLoss)] == [False, False]
    assert resolved(one) == [ResolveStart("east", (ONE, TWO), StartBy.EARLIEST)]
    assert set(one.lives().values()) == {"unassigned"}
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}))
    assert {split.topic_id for split in one.state.splits.values()} == {"id-2"}
    assert one.loads() == [1, 1]


def test_a_topic_that_was_created_anew_while_it_was_away_is_no_other_case() -> None:
    for loss, position in (("fail", 10), ("declare", None)):
        one = running(loss=loss)
        less = PartitionsListed("east", listed("t", 1, "id-t"))
        one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
        effects = one.tell(PartitionsListed("east", listed("t", 2, "id-2"), complete=False))
        assert TWO in [effect.split for effect in effects if isinstance(effect, ReportLoss)]
        assert one.state.splits[TWO].position == position


# Ends


def test_a_batch_that_reaches_a_stop_finishes_the_split() -> None:
    one = running(count=1, settings=Settings(bounded=True))
    one.tell(OffsetsResolved({}, stops={ONE: 30}))
    one.tell(BatchPlanned({ONE: 29}))
    assert one.lives()["east/t/0"] == "assigned"
    one.tell(BatchPlanned({ONE: 30}))
    assert one.lives()["east/t/0"] == "finished"
    one.tell(PartitionsListed("east", listed("t", 1, "id-2")), OffsetsResolved({ONE: 5}, stops={ONE: 99}))
    assert (one.lives()["east/t/0"], one.state.splits[ONE].position) == ("finished", 30)


def test_a_split_that_ends_where_it_begins_is_finished_at_once() -> None:
    one = Enumeration(1, Settings(bounded=True))
    one.tell(ClustersListed((EAST,)), PartitionsListed("east", listed("t", 2)))
    one.register()
    one.tell(OffsetsResolved({ONE: 5, TWO: 9}, stops={ONE: 5, TWO: 3}))
    assert set(one.lives().values()) == {"finished"}
    assert (one.state.splits[TWO].position, one.state.splits[TWO].stop) == (9, 9)


def test_a_split_that_returns_at_its_stop_is_finished() -> None:
    one = running(settings=Settings(bounded=True))
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    one.tell(OffsetsResolved({}, stops={TWO: 10}))
    assert one.lives()["east/t/1"] == "retained"
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")))
    assert one.lives()["east/t/1"] == "finished"


def test_an_unchanged_world_changes_no_byte() -> None:
    """S16"""
    one = running()
    before = one.checkpoint()
    for number in range(2, 5):
        one.tell(
            BatchOpened(),
            TimePassed(number * INTERVAL_MS),
            SettingsChanged(Settings()),
            ClustersListed((EAST,)),
            PartitionsListed("east", listed("t", 2, "id-t")),
            BatchPlanned({}),
        )
        assert one.checkpoint() == before
