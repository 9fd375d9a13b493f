"""Clusters that the metadata name, and name no longer, while a query runs."""

from __future__ import annotations

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import loads
from tests.support.live import is_removed
from tests.support.metadata_server import Exchange, Server
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def owners(state: EnumeratorState, cluster: str) -> dict[SplitId, int | None]:
    return {key: split.owner for key, split in state.splits.items() if key.cluster == cluster}


def test_a_cluster_is_added_removed_and_added_again(world: World) -> None:
    """Within the retention it goes on where it was; the other cluster is asked over the same connection all along."""
    east, west = world.both(partitions=3, records=30)
    relay = east.cluster.relay()
    world.publish(east, servers=relay.servers)
    with world.live(discoveryInterval="500ms") as query:
        query.expect(east.rows())
        undisturbed = len(relay.clients)

        world.publish(west)
        query.expect(east.rows(), west.rows())
        assert loads(query.state()) == [3, 3]

        world.metadata.remove("west")
        query.wait_for_removal("west")
        assert {query.state().splits[key].position for key in west.splits} == {10}
        assert set(owners(query.state(), "west").values()) == {None}
        assert sorted(loads(query.state())) == [1, 2]
        before = west.rows()
        west.write(9)
        query.settle()
        # Nothing of all that was a reason to connect to the cluster that stayed.
        assert relay.clients[undisturbed:] == []
        east.write(9)
        query.expect(east.rows(), before)

        world.publish(west)
        query.expect(east.rows(), west.rows())
        assert loads(query.state()) == [3, 3]
        assert query.losses() == []
        assert [len(one.returned) for one in query.changes() if one.returned] == [3]
        kept = {key for one in query.changes() for key in one.retained}
        assert {key.cluster for key in kept} == {"west"}


@pytest.mark.slow
def test_a_cluster_that_comes_back_after_the_retention_is_new(world: World) -> None:
    """It is read again from its beginning, all of it once more and no more; that it is new is in the log of offsets."""
    east, west = world.both(partitions=2, records=20)
    world.publish(east, west)
    with world.live(removedRetention="1s") as query:
        first = west.rows()
        query.expect(east.rows(), first)
        world.metadata.remove("west")
        query.wait_for_state(lambda state: "west" not in state.clusters, "west is forgotten")
        assert any(is_removed(state, "west") for state in query.states())
        west.write(6)
        world.publish(west)
        query.expect(east.rows(), first, west.rows())
        assert [one.forgotten for one in query.changes() if one.forgotten] == [tuple(west.splits)]
        found = [[(new.split, new.start) for new in one.discoveries] for one in query.changes() if one.discoveries]
        assert found == [[(key, 0) for key in west.splits]]
        assert query.losses() == []


@pytest.mark.slow
def test_a_cluster_that_one_answer_lacks_is_not_removed(world: World) -> None:
    """n, n - 1, n clusters (FLINK-39837): only a second complete answer without one removes it."""
    east, west = world.both(partitions=2, records=10)
    world.publish(east, west)
    whole = world.metadata.json()
    world.metadata.remove("west")
    lacking = world.metadata.json()
    answers = {"now": whole}

    def respond(exchange: Exchange) -> None:
        exchange.answer(200, answers["now"])
        answers["now"] = answers.pop("next", whole)

    with Server(respond) as server, world.live(metadata=server.url()) as query:
        query.expect(east.rows(), west.rows())
        owned = owners(query.state(), "west")
        for _ in range(3):
            asked = len(server.requests)
            answers["next"] = lacking
            wait_for(lambda asked=asked: len(server.requests) >= asked + 4, what="answers with and without the cluster")  # type: ignore[misc]
            west.write(4)
            query.expect(east.rows(), west.rows())
        assert not any(one.retained or one.moves for one in query.changes())
        assert owners(query.state(), "west") == owned
