"""One id is one Kafka cluster, and the other way round: whatever else would mix up positions is an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.fleets import uncommit
from tests.support.live import Begin, LiveQuery, Writer
from tests.support.queries import committed, offset_files
from tests.support.relay import Relay

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def mortal() -> Iterator[LocalKafka]:
    """A broker that does not outlive its test."""
    with LocalKafka() as broker:
        yield broker


def test_two_clusters_of_the_options_that_are_one(
    spark: SparkSession, east: LocalKafka, to_east: Writer, topic: str, relay: Relay, checkpoint: Path
) -> None:
    """Under two addresses, so that only the brokers can tell. Nothing is read, and nothing is written down."""
    east.create_topic(topic)
    to_east.write(topic, 5)
    clusters = {
        name: {"kafka.bootstrap.servers": servers, "subscribe": topic}
        for name, servers in (("east", east.bootstrap_servers), ("twin", relay.servers))
    }
    with LiveQuery(spark, checkpoint, clusters=json.dumps(clusters)) as query:
        error = query.error()
        assert f"it is the Kafka cluster ({east.cluster_id}) that is known as 'east'" in error
        assert "twin" in error
        assert query.rows() == []
        assert offset_files(checkpoint) == []


@pytest.mark.slow
def test_a_cluster_that_the_metadata_name_by_a_second_id(
    spark: SparkSession,
    east: LocalKafka,
    to_east: Writer,
    topic: str,
    fleet: FleetFile,
    relay: Relay,
    checkpoint: Path,
    in_east: Begin,
) -> None:
    """It ends the running query before a record of it is read twice."""
    in_east(5)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        query.expect(to_east.witness(topic))
        fleet.put("twin", relay.servers, topic)
        error = query.error()
        assert f"it is the Kafka cluster ({east.cluster_id}) that is known as 'east'" in error
        assert query.rows() == to_east.witness(topic)


@pytest.mark.slow
def test_a_cluster_that_is_called_otherwise_from_now_on(
    spark: SparkSession,
    to_east: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
    in_east: Begin,
) -> None:
    """It is the same Kafka cluster: its records are read on from where they were read to, under the new name."""
    in_east(5)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        old = to_east.witness(topic)
        query.expect(old)
        fleet.clusters["orient"] = fleet.clusters.pop("east")
        fleet.write()
        query.wait_for_state(lambda state: list(state.clusters) == ["orient"], "east is called orient")
        to_east.write(topic, 3)
        new = [row._replace(cluster="orient") for row in to_east.witness(topic)[5:]]
        query.expect([*old, *new])
        query.settle()
        query.stop()
        query.start()
        to_east.write(topic, 2)
        query.expect([*old, *(row._replace(cluster="orient") for row in to_east.witness(topic)[5:])])


@pytest.mark.slow
@pytest.mark.parametrize("restart", [False, True], ids=["while it runs", "over a restart"])
def test_another_cluster_at_the_same_address(
    spark: SparkSession, mortal: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path, restart: bool
) -> None:
    """Though it has a topic of that name with more records: not one of them is read."""
    with a_lure(mortal, west, topic) as (writer, relay):
        servers: dict[str, Any] = {
            "kafka.bootstrap.servers": relay.servers,
            "subscribe": topic,
            "kafka.request.timeout.ms": "5000",
        }
        with LiveQuery(spark, checkpoint, **servers) as query:
            read = writer.witness(topic)
            query.expect(read)
            query.settle()
            before = query.state()
            if restart:
                query.stop()
            lead_astray(relay, mortal, west)
            if restart:
                query.start()
            error = query.error()
            assert "cluster 'default': it is another cluster than before" in error
            assert f"expected Kafka's cluster id {mortal.cluster_id}, found {west.cluster_id}" in error
            assert query.rows() == read
            assert query.state() == before


@pytest.mark.slow
@pytest.mark.parametrize("fatal", [True, False], ids=["failOnDataLoss", "declared"])
def test_another_cluster_at_the_same_address_when_a_batch_is_done_again(
    spark: SparkSession, mortal: LocalKafka, west: LocalKafka, topic: str, checkpoint: Path, fatal: bool
) -> None:
    """The batch is not done, also where losses are allowed: its records are still there, in the right cluster."""
    with a_lure(mortal, west, topic) as (writer, relay):
        options: dict[str, Any] = {
            "kafka.bootstrap.servers": relay.servers,
            "subscribe": topic,
            "failOnDataLoss": fatal,
        }
        with LiveQuery(spark, checkpoint, **options) as query:
            query.expect(writer.witness(topic))
            query.settle()
            query.stop()
            for number in committed(checkpoint):
                uncommit(checkpoint, number)
            lead_astray(relay, mortal, west)
            query.start()
            error = query.error()
            assert committed(checkpoint) == []
            assert f"expected Kafka's cluster id {mortal.cluster_id}, found {west.cluster_id}" in error


@contextmanager
def a_lure(mortal: LocalKafka, west: LocalKafka, topic: str) -> Iterator[tuple[Writer, Relay]]:
    """A topic in two clusters, with more records in the second one; a writer to the first one, and a way to it."""
    for broker in (mortal, west):
        broker.create_topic(topic)
    writer, others = Writer("default", mortal.bootstrap_servers), Writer("default", west.bootstrap_servers)
    writer.write(topic, 10)
    others.write(topic, 50)
    with Relay(mortal.addresses()[0]) as relay:
        yield writer, relay


def lead_astray(relay: Relay, mortal: LocalKafka, west: LocalKafka) -> None:
    """The way to the first cluster leads to the second one from now on."""
    relay.target = west.addresses()[0]
    mortal.kill()
    relay.cut()
