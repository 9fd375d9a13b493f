"""Clusters that the metadata name, and name no longer, while a query runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import loads
from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.live import Begin, LiveQuery, Writer, is_removed, positions
from tests.support.metadata_server import Exchange, Server
from tests.support.relay import Relay
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def owners(state: EnumeratorState, cluster: str) -> dict[SplitId, int | None]:
    return {key: split.owner for key, split in state.splits.items() if key.cluster == cluster}


def test_a_cluster_is_added_removed_and_added_again(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """Within the retention it goes on where it was; the other cluster is asked over the same connection all along."""
    for broker in (east, west):
        broker.create_topic(topic, partitions=3)
    to_east.write(topic, 30, partitions=3)
    to_west.write(topic, 30, partitions=3)
    with Relay(east.addresses()[0]) as relay:
        fleet.put("east", relay.servers, topic)
        with LiveQuery(spark, checkpoint, metadata=fleet.path, discoveryInterval="500ms") as query:
            query.expect(to_east.witness(topic, 3))
            undisturbed = len(relay.clients)

            fleet.put("west", west.bootstrap_servers, topic)
            query.expect([*to_east.witness(topic, 3), *to_west.witness(topic, 3)])
            assert loads(query.state()) == [3, 3]

            removed = fleet.remove("west")
            query.wait_for_state(lambda state: is_removed(state, "west"), "west is removed")
            assert set(positions(query.state(), "west").values()) == {10}
            assert set(owners(query.state(), "west").values()) == {None}
            assert sorted(loads(query.state())) == [1, 2]
            to_west.write(topic, 9, partitions=3)
            query.settle()
            # Nothing of all that was a reason to connect to the cluster that stayed.
            assert relay.clients[undisturbed:] == []
            to_east.write(topic, 9, partitions=3)
            before = to_west.witness(topic, 3)
            query.expect([*to_east.witness(topic, 3), *(row for row in before if row.offset < 10)])

            fleet.clusters["west"] = removed
            fleet.write()
            query.expect([*to_east.witness(topic, 3), *to_west.witness(topic, 3)])
            assert loads(query.state()) == [3, 3]
            assert query.losses() == []
            assert [len(one.returned) for one in query.changes() if one.returned] == [3]
            kept = {key for one in query.changes() for key in one.retained}
            assert {key.cluster for key in kept} == {"west"}


@pytest.mark.slow
def test_a_cluster_that_comes_back_after_the_retention_is_new(
    spark: SparkSession,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    in_both: Begin,
) -> None:
    """It is read again from its beginning, all of it once more and no more; that it is new is in the log of offsets."""
    in_both(20, 20, partitions=2)
    with LiveQuery(spark, checkpoint, metadata=fleet.path, removedRetention="1s") as query:
        first = to_west.witness(topic, 2)
        query.expect([*to_east.witness(topic, 2), *first])
        removed = fleet.remove("west")
        query.wait_for_state(lambda state: "west" not in state.clusters, "west is forgotten")
        assert any(is_removed(state, "west") for state in query.states())
        to_west.write(topic, 6, partitions=2)
        fleet.clusters["west"] = removed
        fleet.write()
        query.expect([*to_east.witness(topic, 2), *first, *to_west.witness(topic, 2)])
        of_west = [SplitId("west", topic, 0), SplitId("west", topic, 1)]
        assert [one.forgotten for one in query.changes() if one.forgotten] == [tuple(of_west)]
        found = [[(new.split, new.start) for new in one.discoveries] for one in query.changes() if one.discoveries]
        assert found == [[(key, 0) for key in of_west]]
        assert query.losses() == []


@pytest.mark.slow
def test_a_cluster_that_one_answer_lacks_is_not_removed(
    spark: SparkSession,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    in_both: Begin,
) -> None:
    """n, n - 1, n clusters (FLINK-39837): only a second complete answer without one removes it."""
    in_both(10, 10, partitions=2)
    whole = fleet.json()
    fleet.remove("west")
    answers = {"now": whole}

    def respond(exchange: Exchange) -> None:
        exchange.answer(200, answers["now"])
        answers["now"] = answers.pop("next", whole)

    with Server(respond) as server, LiveQuery(spark, checkpoint, metadata=server.url()) as query:
        query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        owned = owners(query.state(), "west")
        for _ in range(3):
            asked = len(server.requests)
            answers["next"] = fleet.json()
            wait_for(lambda asked=asked: len(server.requests) >= asked + 4, what="answers with and without the cluster")  # type: ignore[misc]
            to_west.write(topic, 4, partitions=2)
            query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        assert not any(one.retained or one.moves for one in query.changes())
        assert owners(query.state(), "west") == owned
