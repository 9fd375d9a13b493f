"""What is there when a query first looks starts by the user's strategy; all that comes later, at its beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.fleet_file import FleetFile
from tests.support.live import LiveQuery, Writer

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.mark.parametrize(
    "restart", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["while it runs", "over a restart"]
)
def test_a_pattern_that_first_matches_nothing(
    spark: SparkSession, east: LocalKafka, topic: str, checkpoint: Path, restart: bool
) -> None:
    """With `latest`, the first topic that appears is read from its beginning: nothing was there before is known."""
    writer = Writer("default", east.bootstrap_servers)
    options: dict[str, Any] = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribePattern": f"^{topic}-"}
    with LiveQuery(spark, checkpoint, startingOffsets="latest", **options) as query:
        query.wait_for_state(lambda state: state.begun, "the first discovery")
        assert query.state().splits == {}
        assert query.state().clusters["default"].discovered
        if restart:
            query.stop()
        east.create_topic(f"{topic}-a", partitions=2)
        writer.write(f"{topic}-a", 10, partitions=2)
        if restart:
            query.start()
        query.expect(writer.witness(f"{topic}-a", 2))


@pytest.mark.slow
def test_a_cluster_that_is_named_before_it_has_a_topic(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """The first discovery of a cluster that has nothing to be read is done: what it is given later is later."""
    for name in ("a", "b"):
        east.create_topic(f"{topic}-{name}")
        to_east.write(f"{topic}-{name}", 5)
    fleet.put("east", east.bootstrap_servers, f"{topic}-a")
    west.create_topic(topic)
    to_west.write(topic, 5)
    fleet.put("west", west.bootstrap_servers)
    with LiveQuery(spark, checkpoint, metadata=fleet.path, startingOffsets="latest") as query:
        query.wait_for_state(lambda state: state.begun, "the first discovery")
        to_east.write(f"{topic}-a", 3)
        late = to_east.witness(f"{topic}-a")[5:]
        query.expect(late)
        fleet.put("east", east.bootstrap_servers, f"{topic}-a", f"{topic}-b")
        query.expect([*late, *to_east.witness(f"{topic}-b")])
        fleet.put("west", west.bootstrap_servers, topic)
        query.expect([*late, *to_east.witness(f"{topic}-b"), *to_west.witness(topic)])


@pytest.mark.slow
def test_a_cluster_that_is_added_with_a_start_of_its_own(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    to_east: Writer,
    to_west: Writer,
    topic: str,
    fleet: FleetFile,
    checkpoint: Path,
) -> None:
    """It holds for the cluster's own first discovery, though that is late; all after that begins at its beginning."""
    for broker in (east, west):
        broker.create_topic(topic)
    to_east.write(topic, 5)
    to_west.write(topic, 5)
    fleet.put("east", east.bootstrap_servers, topic)
    with LiveQuery(spark, checkpoint, metadata=fleet.path) as query:
        query.expect(to_east.witness(topic))
        fleet.put("west", west.bootstrap_servers, topic, starting="latest")
        query.wait_for_state(lambda state: "west" in state.clusters and state.clusters["west"].discovered, "west")
        west.add_partitions(topic, 2)
        to_west.write(topic, 10, partitions=2)
        late = [row for row in to_west.witness(topic, 2) if row.partition == 1 or row.offset >= 5]
        assert len(late) == 10
        query.expect([*to_east.witness(topic), *late])
