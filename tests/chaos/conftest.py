"""What all scenarios share: writers and witnesses of the clusters, ways to them, and metadata that name none yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.fleet_file import FleetFile
from tests.support.live import Begin, Writer
from tests.support.relay import Relay

if TYPE_CHECKING:
    from evensplit.testing import LocalKafka


@pytest.fixture(autouse=True)
def _queries_end(no_query_left: None) -> None:
    return


@pytest.fixture
def fleet(tmp_path: Path) -> FleetFile:
    return FleetFile(tmp_path / "fleet.yaml")


@pytest.fixture
def to_east(east: LocalKafka) -> Writer:
    return Writer("east", east.bootstrap_servers)


@pytest.fixture
def to_west(west: LocalKafka) -> Writer:
    return Writer("west", west.bootstrap_servers)


@pytest.fixture
def relay(east: LocalKafka) -> Iterator[Relay]:
    """Another way to the cluster east."""
    with Relay(east.addresses()[0]) as between:
        yield between


@pytest.fixture
def in_east(east: LocalKafka, to_east: Writer, topic: str, fleet: FleetFile) -> Begin:
    """One cluster."""
    return _begin([(east, to_east)], topic, fleet)


@pytest.fixture
def in_both(
    east: LocalKafka, west: LocalKafka, to_east: Writer, to_west: Writer, topic: str, fleet: FleetFile
) -> Begin:
    """Two, each with a count of its own."""
    return _begin([(east, to_east), (west, to_west)], topic, fleet)


def _begin(clusters: list[tuple[LocalKafka, Writer]], topic: str, fleet: FleetFile) -> Begin:
    def begin(*counts: int, partitions: int = 1) -> None:
        for (broker, writer), count in zip(clusters, counts, strict=True):
            broker.create_topic(topic, partitions=partitions)
            writer.write(topic, count, partitions=partitions)
            fleet.put(writer.cluster, broker.bootstrap_servers, topic)

    return begin
