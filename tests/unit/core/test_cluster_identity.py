"""Which Kafka cluster it is: one that has become another, or is the twin of another, is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evensplit.core.machine.effects import Effect, RefuseCluster
from evensplit.core.machine.events import ClustersListed, ListedCluster, OffsetsResolved, PartitionsListed, TimePassed
from evensplit.core.model import SplitId
from tests.support.enumeration import EAST, INTERVAL_MS, ONE, WEST, Enumeration, listed


def answered(cluster: str, kafka_id: str, *, complete: bool = True) -> PartitionsListed:
    return PartitionsListed(cluster, listed("t", 1), complete, kafka_id)


def refused(effects: Sequence[Effect]) -> list[RefuseCluster]:
    return [effect for effect in effects if isinstance(effect, RefuseCluster)]


def with_clusters(*clusters: ListedCluster) -> Enumeration:
    one = Enumeration(1)
    one.tell(TimePassed(1000), ClustersListed(clusters))
    one.register()
    return one


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cluster_that_is_another_one_is_refused_and_nothing_of_it_is_taken(restarted: bool) -> None:
    one = with_clusters(EAST)
    one.tell(answered("east", "first"), OffsetsResolved({ONE: 3}))
    assert one.state.clusters["east"].kafka_id == "first"
    if restarted:
        one.restart(one.commit())
        one.tell(TimePassed(1000), ClustersListed((EAST,)))
        one.register()
    before = one.state
    (refusal,) = refused(one.tell(PartitionsListed("east", listed("u", 5), kafka_id="second")))
    assert refusal.cluster == "east"
    assert "expected Kafka's cluster id first, found second" in refusal.detail
    assert "correct the bootstrap servers, or give the new one an id of its own" in refusal.detail
    assert one.state == before
    # One that does not say is not refused, and makes nobody forget.
    assert refused(one.tell(answered("east", ""), answered("east", "first"))) == []
    assert one.state.clusters["east"].kafka_id == "first"


def test_two_clusters_that_are_one_are_refused() -> None:
    one = with_clusters(EAST, WEST)
    one.tell(answered("east", "same"), OffsetsResolved({ONE: 3}))
    (refusal,) = refused(one.tell(answered("west", "same")))
    assert refusal.cluster == "west"
    assert "it is the Kafka cluster (same) that is known as 'east'" in refusal.detail
    assert [key.cluster for key in one.state.splits] == ["east"]
    assert refused(one.tell(answered("west", "other"))) == []
    assert [key.cluster for key in one.state.splits] == ["east", "west"]


@pytest.mark.parametrize("first", ["east", "west"])
def test_a_name_that_was_given_to_another_cluster_is_refused_with_what_is_true(first: str) -> None:
    """What was east is listed as west, and east is another one: which of them answers first makes no difference."""
    one = with_clusters(EAST)
    one.tell(answered("east", "KA"), OffsetsResolved({ONE: 3}))
    one.restart(one.commit())
    one.tell(TimePassed(1000), ClustersListed((EAST, WEST)))
    answers = {"east": answered("east", "KB"), "west": answered("west", "KA")}
    said = {one.cluster: one.detail for one in refused(one.tell(answers.pop(first), *answers.values()))}
    assert said["east"].startswith("it is another cluster than before: expected Kafka's cluster id KA, found KB. ")
    assert said["west"] == (
        "it is the Kafka cluster (KA) that is known as 'east', which is listed as well, so records could be read "
        "twice: name it once, with all of its topics; if 'east' is to be another cluster from now on, give that one "
        "an id of its own"
    )


def test_a_removed_cluster_that_returns_as_the_twin_of_another_is_refused() -> None:
    """Both say what they have always said of themselves; read together, every record would come twice."""
    one = with_clusters(EAST, WEST)
    one.tell(answered("east", "same"), answered("west", ""), OffsetsResolved({ONE: 3, SplitId("west", "t", 0): 3}))
    one.tell(ClustersListed((WEST,)), TimePassed(1000 + INTERVAL_MS), ClustersListed((WEST,)))
    assert refused(one.tell(answered("west", "same"))) == [], "there is only one of the two by now"
    one.tell(ClustersListed((EAST, WEST)))
    (refusal,) = refused(one.tell(answered("east", "same")))
    assert refusal.cluster == "east"
    assert one.lives()["east/t/0"] == "retained"
