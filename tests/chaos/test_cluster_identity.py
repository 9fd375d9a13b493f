"""One id is one Kafka cluster, and the other way round: whatever else would mix up positions is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fleet_file import FleetCluster
from tests.support.fleets import uncommit
from tests.support.live import Row
from tests.support.queries import committed, offset_files
from tests.support.relay import Relay
from tests.support.world import Topic, World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_two_clusters_of_the_options_that_are_one(world: World) -> None:
    """Under two addresses, so that only the brokers can tell. Nothing is read, and nothing is written down."""
    east = world.east.topic(records=5).cluster
    servers = {"east": east.servers, "twin": east.relay().servers}
    clusters = {name: {"kafka.bootstrap.servers": one} for name, one in servers.items()}
    with world.live(clusters=json.dumps(clusters)) as query:
        error = query.error()
        assert f"it is the Kafka cluster ({east.kafka.cluster_id}) that is known as 'east'" in error
        assert "twin" in error
        assert query.rows() == []
        assert offset_files(world.checkpoint) == []


@pytest.mark.slow
def test_a_cluster_that_the_metadata_name_by_a_second_id(world: World) -> None:
    """It ends the running query before a record of it is read twice."""
    topic = world.east.topic(records=5)
    world.publish(topic)
    with world.live() as query:
        query.expect(topic.rows())
        world.metadata.clusters["twin"] = FleetCluster(world.east.relay().servers, [topic.name])
        world.metadata.write()
        error = query.error()
        assert f"it is the Kafka cluster ({world.east.kafka.cluster_id}) that is known as 'east'" in error
        assert query.rows() == topic.rows()


@pytest.mark.slow
def test_a_cluster_that_is_called_otherwise_from_now_on(world: World) -> None:
    """It is the same Kafka cluster: its records are read on from where they were read to, under the new name."""
    topic = world.east.topic(records=5)
    world.publish(topic)

    def later() -> list[Row]:
        return [row._replace(cluster="orient") for row in topic.rows()[5:]]

    with world.live() as query:
        old = topic.rows()
        query.expect(old)
        world.metadata.clusters["orient"] = world.metadata.clusters.pop("east")
        world.metadata.write()
        query.wait_for_state(lambda state: list(state.clusters) == ["orient"], "east is called orient")
        topic.write(3)
        query.expect(old, later())
        query.settle()
        query.stop()
        query.start()
        topic.write(2)
        query.expect(old, later())


class Lure:
    """A way to a topic, which leads to one of that name, with more records, in another cluster as soon as it is told.

    `error`: what is said of that.
    """

    def __init__(self, world: World) -> None:
        self.topic: Topic = world.default.topic(records=10)
        self._kafka, self._other = world.default.kafka, world.west.topic(records=50).cluster.kafka
        self.relay: Relay = world.default.relay()
        self.error = f"expected Kafka's cluster id {self._kafka.cluster_id}, found {self._other.cluster_id}"
        self.options: dict[str, Any] = {"kafka.bootstrap.servers": self.relay.servers, "clusters": None}
        self.options["kafka.request.timeout.ms"] = 5000

    def lead_astray(self) -> None:
        self.relay.target = self._other.addresses()[0]
        self._kafka.kill()
        self.relay.cut()


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True], ids=["while it runs", "over a restart"])
def test_another_cluster_at_the_same_address(world: World, restart: bool) -> None:
    """Though it has a topic of that name with more records: not one of them is read."""
    lure = Lure(world)
    with world.live(**lure.options) as query:
        read = lure.topic.rows()
        query.expect(read)
        query.settle()
        before = query.state()
        if restart:
            query.stop()
        lure.lead_astray()
        if restart:
            query.start()
        error = query.error()
        assert "cluster 'default': it is another cluster than before" in error
        assert lure.error in error
        assert query.rows() == read
        assert query.state() == before


@pytest.mark.slow
@pytest.mark.parametrize("fatal", [True, False], ids=["failOnDataLoss", "declared"])
def test_another_cluster_at_the_same_address_when_a_batch_is_done_again(world: World, fatal: bool) -> None:
    """The batch is not done, also where losses are allowed: its records are still there, in the right cluster."""
    lure = Lure(world)
    with world.live(**lure.options, failOnDataLoss=fatal) as query:
        query.expect(lure.topic.rows())
        query.settle()
        query.stop()
        for number in committed(world.checkpoint):
            uncommit(world.checkpoint, number)
        lure.lead_astray()
        query.start()
        error = query.error()
        assert committed(world.checkpoint) == []
        assert lure.error in error
