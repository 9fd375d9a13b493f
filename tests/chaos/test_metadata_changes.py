"""Metadata that fail, are damaged, or lead elsewhere, while a query runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.live import Begin, LiveQuery, Writer
from tests.support.metadata_server import Exchange, Server
from tests.support.relay import Relay
from tests.support.waiting import wait_for

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


@pytest.mark.parametrize(
    "damage", ["torn", *(pytest.param(one, marks=pytest.mark.slow) for one in DAMAGES if one != "torn")]
)
def test_a_document_that_cannot_be_used_changes_nothing(
    spark: SparkSession,
    east: LocalKafka,
    to_east: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    damage: str,
) -> None:
    """The last good one stands, a notice says what is wrong and where, and the next good one takes effect."""
    for name in ("a", "b"):
        east.create_topic(f"{topic}-{name}", partitions=2)
        to_east.write(f"{topic}-{name}", 10, partitions=2)
    fleet.put("east", east.bootstrap_servers, f"{topic}-a")
    with LiveQuery(spark, checkpoint, metadata=fleet.path, metadataFailureThreshold=1000) as query:
        query.expect(to_east.witness(f"{topic}-a", 2))
        fleet.clusters["east"].topics.append(f"{topic}-b")
        whole = fleet.text()
        # Written in place: the file is shorter first, then has one half of the new document, then all of it.
        with fleet.path.open("r+") as file:
            file.truncate(0)
            if damage == "torn":
                file.write(whole[: whole.index(f", {topic}-b")])
            elif damage == "unparsable":
                file.write(whole.replace("clusterMetadataList:", "clusterMetadataList: ]"))
            elif damage == "field":
                file.write(whole.replace(east.bootstrap_servers, "east"))
            elif damage == "setting":
                file.write(f"{whole}      properties: {{request.timeout.ms: soon}}\n")
            elif damage == "twice":
                cluster = "".join(whole.splitlines(keepends=True)[2:])
                file.write(whole + cluster)
            file.flush()
            query.wait_for_notice(str(fleet.path), *DAMAGES[damage])
            to_east.write(f"{topic}-a", 10, partitions=2)
            query.expect(to_east.witness(f"{topic}-a", 2))
            file.seek(0)
            file.truncate(0)
            file.write(whole)
        query.expect([*to_east.witness(f"{topic}-a", 2), *to_east.witness(f"{topic}-b", 2)])
        wait_for(lambda: not query.notices(), what="the end of the notice")
        assert not any(one.retained or one.losses for one in query.changes())


@pytest.mark.slow
def test_a_service_that_is_down_for_ten_refreshes(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, fleet: FleetFile, checkpoint: Path
) -> None:
    """The query goes on with what it knows, and what changed meanwhile takes effect when the service is back."""
    for name in ("a", "b"):
        east.create_topic(f"{topic}-{name}", partitions=2)
        to_east.write(f"{topic}-{name}", 10, partitions=2)
    fleet.put("east", east.bootstrap_servers, f"{topic}-a")
    status = 200
    refused = 0

    def respond(exchange: Exchange) -> None:
        nonlocal refused
        refused += status != 200
        exchange.answer(status, fleet.json() if status == 200 else b"out of order")

    with (
        Server(respond) as server,
        LiveQuery(
            spark, checkpoint, metadata=server.url(), discoveryInterval="200ms", metadataFailureThreshold=1000
        ) as query,
    ):
        query.expect(to_east.witness(f"{topic}-a", 2))
        status = 503
        fleet.put("east", east.bootstrap_servers, f"{topic}-a", f"{topic}-b")
        for below in (4, 7, 10):
            wait_for(lambda below=below: refused >= below, what=f"{below} refreshes that failed")  # type: ignore[misc]
            to_east.write(f"{topic}-a", 10, partitions=2)
            query.expect(to_east.witness(f"{topic}-a", 2))
        assert "503" in query.wait_for_notice(server.url())
        status = 200
        query.expect([*to_east.witness(f"{topic}-a", 2), *to_east.witness(f"{topic}-b", 2)])
        assert not any(one.retained or one.losses for one in query.changes())


@pytest.mark.slow
def test_a_service_that_is_down_for_too_long(
    spark: SparkSession, to_east: Writer, topic: str, fleet: FleetFile, checkpoint: Path, in_east: Begin
) -> None:
    """As many answers as are allowed may fail; the next one ends the query, and says why it failed."""
    in_east(5)
    status = 200
    refused = 0

    def respond(exchange: Exchange) -> None:
        nonlocal refused
        refused += status != 200
        exchange.answer(status, fleet.json())

    options: dict[str, Any] = {"discoveryInterval": "200ms", "metadataFailureThreshold": 3}
    with Server(respond) as server, LiveQuery(spark, checkpoint, metadata=server.url(), **options) as query:
        query.expect(to_east.witness(topic))
        status = 503
        error = query.error()
        assert "4 attempts in a row failed, 3 may (metadataFailureThreshold)" in error
        assert server.url() in error
        assert "503" in error
        assert refused == 4


@pytest.mark.slow
def test_a_cluster_moves_to_other_servers(
    spark: SparkSession,
    east: LocalKafka,
    to_east: Writer,
    topic: str,
    fleet: FleetFile,
    relay: Relay,
    checkpoint: Path,
) -> None:
    """The same Kafka cluster under another address is the same cluster: nothing is read anew, nothing is moved."""
    east.create_topic(topic, partitions=2)
    to_east.write(topic, 10, partitions=2)
    with Relay(east.addresses()[0]) as old:
        fleet.put("east", old.servers, topic)
        with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
            query.expect(to_east.witness(topic, 2))
            assert old.clients
            fleet.put("east", relay.servers, topic)
            query.wait_for_state(
                lambda state: state.clusters["east"].bootstrap_servers == (relay.servers,), "the new address"
            )
            old.close()
            used = len(relay.clients)
            # Only servers that have been seen to lead to the same cluster are written down.
            assert used
            to_east.write(topic, 10, partitions=2)
            query.expect(to_east.witness(topic, 2))
            assert not any(one.moves or one.retained or one.recreated for one in query.changes())
            # Nor does a restart need the old address.
            query.stop()
            query.start()
            to_east.write(topic, 10, partitions=2)
            query.expect(to_east.witness(topic, 2))
            assert len(relay.clients) > used


def test_servers_of_another_cluster_are_refused(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """An id in the metadata is one Kafka cluster: the servers from before stay, and nothing of the other is read."""
    for broker in (east, west):
        broker.create_topic(topic, partitions=2)
    to_east.write(topic, 10, partitions=2)
    to_west.write(topic, 30, partitions=2)
    fleet.put("east", east.bootstrap_servers, topic)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        query.expect(to_east.witness(topic, 2))
        fleet.put("east", west.bootstrap_servers, topic)
        notice = query.wait_for_notice("another Kafka cluster", west.bootstrap_servers)
        assert f"expected cluster id {east.cluster_id}, found {west.cluster_id}" in notice
        assert f"{fleet.path}, line 3" in notice
        to_east.write(topic, 10, partitions=2)
        query.expect(to_east.witness(topic, 2))
        assert query.state().clusters["east"].bootstrap_servers == (east.bootstrap_servers,)

        fleet.clusters["west"] = fleet.clusters.pop("east")
        fleet.put("east", east.bootstrap_servers, topic)
        query.expect([*to_east.witness(topic, 2), *to_west.witness(topic, 2)])
        wait_for(lambda: not query.notices(), what="the end of the notice")
        assert query.losses() == []


@pytest.mark.slow
def test_properties_of_a_running_query_change(
    spark: SparkSession, to_east: Writer, east: LocalKafka, topic: str, fleet: FleetFile, relay: Relay, checkpoint: Path
) -> None:
    """The way of credentials that are rotated: new connections have the new ones, in the driver and in the tasks."""
    east.create_topic(topic, partitions=2)
    to_east.write(topic, 10, partitions=2)
    fleet.put("east", relay.servers, topic, properties={"client.id": "first"})
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        query.expect(to_east.witness(topic, 2))
        assert set(relay.clients) == {"first"}
        fleet.put("east", relay.servers, topic, properties={"client.id": "second"})
        wait_for(lambda: "second" in relay.clients, what="a connection of the driver")
        in_driver = len(relay.clients)
        to_east.write(topic, 10, partitions=2)
        query.expect(to_east.witness(topic, 2))
        assert set(relay.clients[in_driver:]) == {"second"}
        assert len(relay.clients) > in_driver
        assert not any(one.moves or one.retained for one in query.changes())
