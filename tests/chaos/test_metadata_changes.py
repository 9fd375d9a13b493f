"""Metadata that fail, are damaged, or lead elsewhere, while a query runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.metadata_server import Exchange, Server
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


DAMAGES = {
    "empty": ["it is empty"],
    "torn": ["line 6: it is not YAML"],
    "unparsable": ["line 2: it is not YAML"],
    "field": ["line 4, [0].clusterMetadataList[0].bootstrapServers: expected host:port", "found 'east'"],
    "setting": ["line 3", "request.timeout.ms", "'east'"],
    "twice": ["line 6, [0].clusterMetadataList[1].clusterId", "found 'east' again", "line 3"],
}
"""What a document can suffer, and what is said of it."""


def damaged(whole: str, damage: str, servers: str, topic: str) -> str:
    """The document, whose only cluster is at `servers` and has `topic` as its last one."""
    if damage == "torn":
        return whole[: whole.index(f", {topic}")]
    if damage == "unparsable":
        return whole.replace("clusterMetadataList:", "clusterMetadataList: ]")
    if damage == "field":
        return whole.replace(servers, "east")
    if damage == "setting":
        return f"{whole}      properties: {{request.timeout.ms: soon}}\n"
    if damage == "twice":
        return whole + "".join(whole.splitlines(keepends=True)[2:])
    return ""


@pytest.mark.parametrize(
    "damage", ["torn", *(pytest.param(one, marks=pytest.mark.slow) for one in DAMAGES if one != "torn")]
)
def test_a_document_that_cannot_be_used_changes_nothing(world: World, damage: str) -> None:
    """The last good one stands, a notice says what is wrong and where, and the next good one takes effect."""
    first, second = (world.east.topic(name, partitions=2, records=10) for name in "ab")
    world.publish(first)
    with world.live(metadataFailureThreshold=1000) as query:
        query.expect(first.rows())
        world.metadata.clusters["east"].topics.append(second.name)
        whole = world.metadata.text()
        # Written in place: the file is shorter first, then has one half of the new document, then all of it.
        with world.metadata.path.open("r+") as file:
            file.truncate(0)
            file.write(damaged(whole, damage, world.east.servers, second.name))
            file.flush()
            query.wait_for_notice(str(world.metadata.path), *DAMAGES[damage])
            first.write(10)
            query.expect(first.rows())
            file.seek(0)
            file.truncate(0)
            file.write(whole)
        query.expect(first.rows(), second.rows())
        query.wait_for_no_notice()
        assert not any(one.retained or one.losses for one in query.changes())


class Service(Server):
    """Serves the metadata of a world as long as `status` is 200. `refused`: how often it has not."""

    def __init__(self, world: World) -> None:
        super().__init__(self._respond)
        self.status = 200
        self.refused = 0
        self._metadata = world.metadata

    def _respond(self, exchange: Exchange) -> None:
        self.refused += self.status != 200
        exchange.answer(self.status, self._metadata.json())


@pytest.mark.slow
def test_a_service_that_is_down_for_ten_refreshes(world: World) -> None:
    """The query goes on with what it knows, and what changed meanwhile takes effect when the service is back."""
    first, second = (world.east.topic(name, partitions=2, records=10) for name in "ab")
    world.publish(first)
    options: dict[str, Any] = {"discoveryInterval": "200ms", "metadataFailureThreshold": 1000}
    with Service(world) as service, world.live(metadata=service.url(), **options) as query:
        query.expect(first.rows())
        service.status = 503
        world.publish(first, second)
        for below in (4, 7, 10):
            wait_for(lambda below=below: service.refused >= below, what=f"{below} refreshes that failed")  # type: ignore[misc]
            first.write(10)
            query.expect(first.rows())
        assert "503" in query.wait_for_notice(service.url())
        service.status = 200
        query.expect(first.rows(), second.rows())
        assert not any(one.retained or one.losses for one in query.changes())


@pytest.mark.slow
def test_a_service_that_is_down_for_too_long(world: World) -> None:
    """As many answers as are allowed may fail; the next one ends the query, and says why it failed."""
    topic = world.east.topic(records=5)
    world.publish(topic)
    options: dict[str, Any] = {"discoveryInterval": "200ms", "metadataFailureThreshold": 3}
    with Service(world) as service, world.live(metadata=service.url(), **options) as query:
        query.expect(topic.rows())
        service.status = 503
        error = query.error()
        assert "4 attempts in a row failed, 3 may (metadataFailureThreshold)" in error
        assert service.url() in error
        assert "503" in error
        assert service.refused == 4


@pytest.mark.slow
def test_a_cluster_moves_to_other_servers(world: World) -> None:
    """The same Kafka cluster under another address is the same cluster: nothing is read anew, nothing is moved."""
    topic = world.east.topic(partitions=2, records=10)
    old, new = world.east.relay(), world.east.relay()
    world.publish(topic, servers=old.servers)
    with world.live() as query:
        query.expect(topic.rows())
        assert old.clients
        world.publish(topic, servers=new.servers)
        query.wait_for_state(
            lambda state: state.clusters["east"].bootstrap_servers == (new.servers,), "the new address"
        )
        old.close()
        used = len(new.clients)
        # Only servers that have been seen to lead to the same cluster are written down.
        assert used
        topic.write(10)
        query.expect(topic.rows())
        assert not any(one.moves or one.retained or one.recreated for one in query.changes())
        # Nor does a restart need the old address.
        query.stop()
        query.start()
        topic.write(10)
        query.expect(topic.rows())
        assert len(new.clients) > used


def test_servers_of_another_cluster_are_refused(world: World) -> None:
    """An id in the metadata is one Kafka cluster: the servers from before stay, and nothing of the other is read."""
    east, west = world.both(partitions=2)
    east.write(10)
    west.write(30)
    world.publish(east)
    with world.live() as query:
        query.expect(east.rows())
        world.publish(east, servers=west.cluster.servers)
        notice = query.wait_for_notice("another Kafka cluster", west.cluster.servers)
        found = west.cluster.kafka.cluster_id
        assert f"expected cluster id {east.cluster.kafka.cluster_id}, found {found}" in notice
        assert f"{world.metadata.path}, line 3" in notice
        east.write(10)
        query.expect(east.rows())
        assert query.state().clusters["east"].bootstrap_servers == (east.cluster.servers,)

        world.publish(west, east)
        query.expect(east.rows(), west.rows())
        query.wait_for_no_notice()
        assert query.losses() == []


@pytest.mark.slow
def test_properties_of_a_running_query_change(world: World) -> None:
    """The way of credentials that are rotated: new connections have the new ones, in the driver and in the tasks."""
    topic, relay = world.east.topic(partitions=2, records=10), world.east.relay()
    world.publish(topic, servers=relay.servers, properties={"client.id": "first"})
    with world.live() as query:
        query.expect(topic.rows())
        assert set(relay.clients) == {"first"}
        world.publish(topic, servers=relay.servers, properties={"client.id": "second"})
        wait_for(lambda: "second" in relay.clients, what="a connection of the driver")
        in_driver = len(relay.clients)
        topic.write(10)
        query.expect(topic.rows())
        assert set(relay.clients[in_driver:]) == {"second"}
        assert len(relay.clients) > in_driver
        assert not any(one.moves or one.retained for one in query.changes())
