"""A cluster that is not listed any more: it may be a listed one under another name, and return as such."""

from __future__ import annotations

import pytest

from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClusterPollFailed,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    TimePassed,
)
from evensplit.core.model import SplitId
from evensplit.core.state.settings import Settings
from evensplit.explain.changes import changes
from tests.support.enumeration import DAY_MS, EAST, INTERVAL_MS, ONE, WEST, Enumeration, resolved, running
from tests.support.renames import N_ONE, N_TWO, NORTH, W_ONE, answer, known_as_east

# After it was removed


@pytest.mark.parametrize("retention_ms, kept", [(DAY_MS, True), (0, False)])
def test_a_removed_cluster_returns_under_another_name_as_long_as_it_is_kept(retention_ms: int, kept: bool) -> None:
    """What had gone before the cluster did stays away."""
    one = running(2, 2, settings=Settings(retention_ms=retention_ms))
    one.discover(EAST, WEST, at=10, t=2)
    one.tell(answer("east"), answer("west", "W"), BatchPlanned({ONE: 20}))
    one.observe()
    one.tell(answer("east", count=1), TimePassed(50_000), answer("east", count=1))
    one.tell(ClustersListed((WEST,)), TimePassed(100_000), ClustersListed((WEST,)))
    assert one.lives().get("east/t/0") == ("retained" if kept else None)
    one.tell(TimePassed(110_000), ClustersListed((WEST, NORTH)), answer("north", count=1))
    if kept:
        assert (one.state.splits[N_ONE].position, one.lives()["north/t/0"]) == (20, "assigned")
        assert (one.state.splits[N_TWO].removed_at_ms, one.lives()["north/t/1"]) == (50_000, "retained")
        assert resolved(one) == []
    else:
        assert [effect.splits for effect in resolved(one)] == [(N_ONE,)]
    assert "east" not in one.state.clusters


def test_an_unlisted_twin_that_is_still_read_keeps_one_with_splits_of_its_own_waiting() -> None:
    """Both have been read under their names: neither can become the other, and both at once would be twice."""
    one = known_as_east()
    one.tell(ClustersListed((EAST, WEST)), answer("west", "", count=1), OffsetsResolved({W_ONE: 7}))
    one.tell(ClustersListed((WEST,)))
    assert one.tell(answer("west", "K", count=3)) == ()
    assert {key.cluster for key in one.state.splits} == {"east", "west"}
    assert (one.state.clusters["west"].kafka_id, SplitId("west", "t", 2) in one.state.splits) == ("", False)
    one.tell(TimePassed(90_000), ClustersListed((WEST,)))
    assert one.lives()["east/t/0"] == "retained"
    one.tell(answer("west", "K", count=3))
    assert (one.state.clusters["west"].kafka_id, SplitId("west", "t", 2) in one.state.splits) == ("K", True)


def test_nor_does_it_become_one_that_was_discovered_and_found_to_be_empty() -> None:
    one = known_as_east()
    one.tell(ClustersListed((EAST, WEST)), answer("west", "", count=0), ClustersListed((WEST,)), answer("west"))
    assert {key.cluster for key in one.state.splits} == {"east"}


def test_nor_does_it_wait_for_ever_after_a_restart() -> None:
    one = known_as_east()
    one.tell(ClustersListed((EAST, WEST)), answer("west", "", count=1), OffsetsResolved({W_ONE: 7}))
    one.restart(one.commit())
    for number in range(1, 5):
        one.tell(TimePassed(number * INTERVAL_MS), ClustersListed((WEST,)), answer("west", "K", count=1))
    assert one.lives() == {"east/t/0": "retained", "east/t/1": "retained", "west/t/0": "assigned"}


# Until it is sure that it is gone


def restarted(*clusters: ListedCluster) -> Enumeration:
    """After a restart, the options name these."""
    one = known_as_east()
    one.restart(one.commit())
    one.tell(TimePassed(200_000), ClustersListed(clusters))
    return one


def test_a_cluster_is_not_removed_while_a_listed_one_may_be_it() -> None:
    one = restarted(NORTH)
    assert (one.lives()["east/t/0"], one.state.session.leaving) == ("assigned", ("east",))
    for number in range(1, 4):
        one.tell(TimePassed(200_000 + number * INTERVAL_MS), ClustersListed((NORTH,)))
        one.tell(ClusterPollFailed("north", "not there yet"))
    assert (one.lives()["east/t/0"], one.state.session.leaving) == ("assigned", ("east",))
    one.tell(answer("north"))
    assert (set(one.lives()), one.state.session.leaving) == ({"north/t/0", "north/t/1"}, ())


@pytest.mark.parametrize("kafka_id", ["other", ""])
def test_it_is_removed_as_soon_as_none_can_be_it(kafka_id: str) -> None:
    """One that does not say who it is never will."""
    one = restarted(NORTH, WEST)
    one.tell(answer("north", "N"))
    assert one.lives()["east/t/0"] == "assigned"
    one.tell(answer("west", kafka_id))
    assert (one.lives()["east/t/0"], one.state.session.leaving) == ("retained", ())
    assert one.state.clusters["east"].removed_at_ms == 200_000


def test_one_that_never_said_who_it_is_is_removed_at_once() -> None:
    one = running()
    one.restart(one.commit())
    one.tell(TimePassed(5_000), ClustersListed((NORTH,)))
    assert (one.lives()["east/t/0"], one.state.session.leaving) == ("retained", ())


def test_one_that_is_listed_again_is_not_leaving() -> None:
    one = restarted(NORTH)
    told: list[Event] = [ClustersListed((EAST, NORTH)), answer("north", "other"), answer("east")]
    one.tell(*told)
    assert (one.lives()["east/t/0"], one.state.session.leaving) == ("assigned", ())
    one.tell(ClustersListed((NORTH,)), answer("north", "other", count=0))
    assert one.lives()["east/t/0"] == "assigned", "it has to be left out twice again"
    one.tell(TimePassed(200_000 + INTERVAL_MS), ClustersListed((NORTH,)))
    assert one.lives()["east/t/0"] == "retained"


def test_without_retention_a_leaving_cluster_is_not_forgotten_before_it_is_removed() -> None:
    one = running(settings=Settings(retention_ms=0))
    one.tell(answer("east"), BatchPlanned({ONE: 20}))
    one.restart(one.checkpoint())
    one.tell(TimePassed(5_000), ClustersListed((NORTH,)), answer("north"))
    assert one.state.splits[N_ONE].position == 20


def test_a_cluster_that_was_forgotten_is_not_told_to_be_the_one_that_comes() -> None:
    one = known_as_east(settings=Settings(retention_ms=DAY_MS))
    one.tell(ClustersListed((WEST,)), answer("west", "W", count=0), TimePassed(90_000), ClustersListed((WEST,)))
    before = one.commit()
    one.tell(BatchOpened(), TimePassed(9 * DAY_MS), ClustersListed((WEST, NORTH)), answer("north"))
    one.tell(OffsetsResolved({N_ONE: 0, N_TWO: 0}), BatchPlanned({}))
    assert changes(before, one.state).renamed == ()
