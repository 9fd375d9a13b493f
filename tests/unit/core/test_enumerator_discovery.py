"""What clusters answer, and what follows: FLIP-288's starts, and what is missing or not wanted any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.machine.effects import ReportLoss, ResolveStart, Revoke
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    ListedCluster,
    OffsetsResolved,
    PartitionsListed,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import Partitions, SplitId, StartBy, TopicPattern, Topics
from evensplit.core.state.codec import encode, same
from evensplit.core.state.settings import Settings
from tests.support.enumeration import (
    DAY_MS,
    EAST,
    INTERVAL_MS,
    ONE,
    THREE,
    TWO,
    WEST,
    Enumeration,
    listed,
    resolved,
    running,
)

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
    more = (*listed("t", 3, "id-t"), *listed("u", 1))
    one.tell(PartitionsListed("east", more), PartitionsListed("west", listed("t", 1)))
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


def test_a_partition_that_is_there_without_offsets_is_not_missing() -> None:
    one = running()
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    seen = PartitionsListed("east", listed("t", 1, "id-t"), complete=False, seen=listed("t", 3, "id-2")[1:])
    one.tell(less, seen, TimePassed(1000 + INTERVAL_MS), less)
    assert one.lives() == {"east/t/0": "assigned", "east/t/1": "assigned"}, "nor is it taken up"
    assert one.state.splits[TWO].topic_id == "id-t"
    one.tell(TimePassed(1000 + 2 * INTERVAL_MS), less)
    assert one.lives()["east/t/1"] == "retained"


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
        one.tell(ClusterPollFailed("east", "nobody is there"))
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
    one.tell(BatchPlanned(dict.fromkeys(one.state.splits, 20)), BatchOpened(), BatchPlanned({}))
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


def test_what_is_sure_is_the_first_listing_that_is_complete() -> None:
    one = running()
    one.discover(EAST, WEST, t=2)
    one.restart(one.commit())
    one.tell(TimePassed(5000), ClustersListed((EAST,), complete=False))
    assert one.lives()["west/t/0"] == "assigned"
    one.tell(ClustersListed((EAST,)))
    assert one.lives()["west/t/0"] == "retained"


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
def test_a_narrower_subscription_removes(subscription: Topics | TopicPattern | Partitions) -> None:
    """Two listings have to say so, an interval apart; unread records of what is not wanted are no loss."""
    one = running()
    one.discover(EAST, t=2, u=1)
    one.observe({SplitId("east", "u", 0): 99})
    narrow = ClustersListed((ListedCluster("east", ("e:9092",), subscription=subscription),))
    one.tell(narrow, TimePassed(1000 + INTERVAL_MS - 1), narrow)
    assert one.lives()["east/u/0"] == "assigned"
    effects = one.tell(TimePassed(1000 + INTERVAL_MS), narrow)
    assert one.lives() == {"east/t/0": "assigned", "east/t/1": "assigned", "east/u/0": "retained"}
    assert not any(isinstance(effect, ReportLoss) for effect in effects)
    # An answer to what was asked before.
    one.tell(PartitionsListed("east", (*listed("t", 2, "id-t"), *listed("u", 1, "id-u"))))
    assert one.lives()["east/u/0"] == "retained"
    one.discover(EAST, t=2, u=1)
    assert one.lives()["east/u/0"] == "assigned"


def test_a_subscription_that_the_options_narrow_at_the_start_removes_at_once() -> None:
    one = running()
    one.discover(EAST, t=2, u=1)
    narrow = (ListedCluster("east", ("e:9092",), subscription=Topics(("t",))),)
    state = one.commit()
    for confirmed, life in ((True, "retained"), (False, "assigned")):
        one.restart(state)
        one.tell(TimePassed(5000), ClustersListed(narrow, confirmed))
        assert one.lives()["east/u/0"] == life


def test_what_is_not_asked_for_is_not_missing() -> None:
    """Whether the second listing without it says so or not: an answer of the cluster's is none about it."""
    one = running()
    one.discover(EAST, t=2, u=1)
    narrow = ClustersListed((ListedCluster("east", ("e:9092",), subscription=Topics(("t",))),))
    one.tell(narrow)
    for number in range(2, 5):
        effects = one.tell(TimePassed(number * INTERVAL_MS), PartitionsListed("east", listed("t", 2, "id-t")))
        assert effects == ()
    assert one.lives()["east/u/0"] == "assigned"


@pytest.mark.parametrize("turned", [False, True])
def test_missing_once_and_unwanted_once_is_neither_twice(turned: bool) -> None:
    """S7: in either order."""
    one = running()
    one.discover(EAST, t=2, u=1)
    one.observe({SplitId("east", "u", 0): 99})
    wide = ClustersListed((EAST,))
    narrow = ClustersListed((ListedCluster("east", ("e:9092",), subscription=Topics(("t",))),))
    less = PartitionsListed("east", listed("t", 2, "id-t"))
    first, second = ([narrow], [wide, less]) if turned else ([less], [narrow])
    assert not any(isinstance(effect, ReportLoss) for effect in one.tell(*first, TimePassed(90_000), *second))
    assert one.lives()["east/u/0"] == "assigned"


def test_an_unchanged_world_changes_no_byte() -> None:
    """S16: but for the number of batches that were planned, which is no news."""
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
        assert same(one.state, before)
        assert encode(replace(one.checkpoint(), revision=before.revision)) == encode(before)
