"""Splits that are back, splits that are forgotten, and those of a topic that was created anew."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import Forget, ReportLoss, ResolveStart
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    PartitionsListed,
    ReaderRegistered,
    TimePassed,
)
from evensplit.core.model import Cause, Loss, Partitions, SplitId, StartBy
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

# What is back, and what is forgotten


def test_back_within_the_retention_it_goes_on_and_after_it_it_is_new() -> None:
    """S8"""
    one = running(settings=Settings(retention_ms=DAY_MS))
    one.tell(BatchPlanned({TWO: 42}), BatchOpened(), BatchPlanned({}))
    one.observe()
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
    one.tell(ClusterPollFailed("west", "nobody is there"))
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


@pytest.mark.parametrize("end", [11, None], ids=["unread", "not known"])
def test_under_fail_a_recreated_topic_with_unread_records_ends_the_run_and_changes_nothing(end: int | None) -> None:
    one = running(end=end)
    before = one.state
    effects = one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    assert [(effect.split, effect.fatal) for effect in effects if isinstance(effect, ReportLoss)] == [
        (ONE, True),
        (TWO, True),
    ]
    assert one.state == before


@pytest.mark.parametrize("end", [11, None], ids=["unread", "not known"])
def test_under_declare_a_recreated_topic_is_reported_and_read_from_its_beginning(end: int | None) -> None:
    """S9"""
    one = running(loss="declare", end=end)
    effects = one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    assert [effect.fatal for effect in effects if isinstance(effect, ReportLoss)] == [False, False]
    assert [(loss.split, loss.cause, loss.position) for loss in one.state.losses] == [
        (ONE, Cause.RECREATED, 10),
        (TWO, Cause.RECREATED, 10),
    ]
    assert resolved(one) == [ResolveStart("east", (ONE, TWO), StartBy.EARLIEST)]
    assert set(one.lives().values()) == {"unassigned"}
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}))
    assert {split.topic_id for split in one.state.splits.values()} == {"id-2"}
    assert one.loads() == [1, 1]


@pytest.mark.parametrize("loss", ["fail", "declare"])
def test_a_recreated_topic_that_had_been_read_to_its_end_is_no_loss(loss: str) -> None:
    one = running(loss=loss)
    effects = one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    assert not any(isinstance(effect, ReportLoss) for effect in effects)
    assert one.state.losses == ()
    assert resolved(one) == [ResolveStart("east", (ONE, TWO), StartBy.EARLIEST)]
    one.tell(OffsetsResolved({ONE: 0, TWO: 3}))
    assert [(split.topic_id, split.position) for split in one.state.splits.values()] == [("id-2", 0), ("id-2", 3)]


@pytest.mark.parametrize("loss", ["fail", "declare"])
def test_a_retained_topic_that_was_created_anew_is_never_fatal(loss: str) -> None:
    """It was given up, or its loss was settled, when it went. What was unread of it is declared all the same."""
    one = running(loss=loss)
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    one.observe({TWO: 12})
    effects = one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2"), complete=False))
    assert [
        (effect.loss, effect.fatal) for effect in effects if isinstance(effect, ReportLoss) and effect.split == TWO
    ] == [(Loss(TWO, Cause.RECREATED, 10, 12, 2), False)]
    assert one.state.splits[TWO].position is None
    assert one.lives()["east/t/1"] == "unassigned"


def lost(one: Enumeration, *events: Event) -> list[Loss]:
    return [effect.loss for effect in one.tell(*events) if isinstance(effect, ReportLoss)]


def gone_with_unread() -> Enumeration:
    """Partition 1 was deleted with 10 to 11 unread, and that is declared."""
    one = running(loss="declare", end=12)
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    assert lost(one, less, TimePassed(1000 + INTERVAL_MS), less) == [Loss(TWO, Cause.DELETED, 10, 12, 2)]
    return one


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_declared_when_a_topic_was_deleted_is_not_declared_again_when_it_comes_back(restarted: bool) -> None:
    one = gone_with_unread()
    if restarted:
        one.restart(one.commit(), loss="declare")
        one.tell(TimePassed(2 * INTERVAL_MS), ClustersListed((EAST,)))
    one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    assert [loss for loss in one.state.losses if loss.split == TWO] == [Loss(TWO, Cause.DELETED, 10, 12, 2)]
    assert (one.state.splits[TWO].topic_id, one.state.splits[TWO].position) == ("id-2", None)
    assert not one.state.splits[TWO].settled


def test_a_deletion_of_what_had_been_read_stays_no_loss_after_a_restart() -> None:
    one = running(loss="declare")
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    assert lost(one, less, TimePassed(1000 + INTERVAL_MS), less) == []
    one.restart(one.commit(), loss="declare")
    one.tell(TimePassed(2 * INTERVAL_MS), ClustersListed((EAST,)))
    one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    assert [loss.split for loss in one.state.losses] == [ONE], "of which nobody knows how far it went"


def test_a_deleted_topic_that_was_there_after_all_can_be_lost_again() -> None:
    one = gone_with_unread()
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")))
    assert (one.lives()["east/t/1"], one.state.splits[TWO].settled) == ("assigned", False)
    one.observe({TWO: 13})
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    assert lost(one, less, TimePassed(9 * INTERVAL_MS), less) == [Loss(TWO, Cause.DELETED, 10, 13, 3)]


# What is retained of a topic that comes back with fewer partitions


def returned(loss: str = "fail", end: int | None = 12) -> Enumeration:
    """The cluster had left the options, with a topic of two partitions, and is listed again."""
    one = running(loss=loss, end=end)
    one.tell(ClustersListed(()), TimePassed(1000 + INTERVAL_MS), ClustersListed(()))
    assert set(one.lives().values()) == {"retained"}
    one.tell(ClustersListed((EAST,)))
    return one


@pytest.mark.parametrize("loss", ["fail", "declare"])
def test_what_the_new_topic_does_not_have_is_declared_as_well_once(loss: str) -> None:
    one = returned(loss)
    less = PartitionsListed("east", listed("t", 1, "id-2"))
    assert lost(one, less) == [], "the id is not believed yet"
    assert lost(one, TimePassed(5 * INTERVAL_MS), less) == [
        Loss(ONE, Cause.RECREATED, 10, 12, 2),
        Loss(TWO, Cause.DELETED, 10, 12, 2),
    ]
    one.tell(OffsetsResolved({ONE: 0}))
    assert one.lives() == {"east/t/0": "assigned", "east/t/1": "retained"}
    assert lost(one, less, TimePassed(9 * INTERVAL_MS), less) == []
    assert lost(one, PartitionsListed("east", listed("t", 2, "id-2"))) == [], "it has grown"
    assert one.state.splits[TWO].topic_id == "id-2"


@pytest.mark.parametrize("end, count", [(None, 1), (10, 0)], ids=["not known", "read"])
def test_it_is_a_loss_if_it_may_have_been_unread(end: int | None, count: int) -> None:
    one = returned(end=end)
    told = [effect.loss.split for effect in hear(one, PartitionsListed("east", listed("t", 1, "id-2")))]
    assert told.count(TWO) == count
    assert one.state.splits[TWO].settled


def hear(one: Enumeration, answer: PartitionsListed) -> list[ReportLoss]:
    return [effect for effect in one.hear_twice(answer) if isinstance(effect, ReportLoss)]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(PartitionsListed("east", listed("t", 1, "id-t")), id="the same topic"),
        pytest.param(PartitionsListed("east", listed("t", 1, "")), id="without an id"),
        pytest.param(PartitionsListed("east", listed("u", 1, "id-2")), id="not there"),
        pytest.param(PartitionsListed("east", listed("t", 1, "id-2"), complete=False), id="not all"),
        pytest.param(PartitionsListed("east", listed("t", 1, "id-2"), seen=listed("t", 2, "id-2")), id="no leader"),
    ],
)
def test_where_the_topic_is_not_sure_to_be_another_one_without_it_nothing_is_said(answer: PartitionsListed) -> None:
    one = returned()
    assert [effect.split for effect in hear(one, answer) if effect.split == TWO] == []
    assert not one.state.splits[TWO].settled


def test_nor_where_nobody_asks_for_it() -> None:
    one = running(loss="declare", end=12)
    only = ListedCluster("east", ("e:9092",), subscription=Partitions({"t": (0,)}))
    one.tell(ClustersListed((only,)), TimePassed(1000 + INTERVAL_MS), ClustersListed((only,)))
    assert one.lives()["east/t/1"] == "retained"
    assert [effect.split for effect in hear(one, PartitionsListed("east", listed("t", 1, "id-2")))] == [ONE]
