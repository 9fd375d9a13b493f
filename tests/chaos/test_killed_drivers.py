"""SIGKILL of the driver at each point between two batches: after a restart every record is in the sink, once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from tests.support.driver import Drivers, marks
from tests.support.fleets import QUICK, clusters, fleet
from tests.support.group_offsets import group_offsets
from tests.support.processes import kill_session
from tests.support.queries import committed, offset_files, run_available, written
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 3
RECORDS = 600


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Drivers]:
    """Starts driver processes; what is left of them is killed at the end."""
    started = Drivers(tmp_path)
    yield started
    started.close()


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """Where the gates of a driver are."""
    path = tmp_path / "gates"
    path.mkdir()
    return path


def produce(brokers: dict[str, LocalKafka], topic: str, start: int) -> None:
    """RECORDS to each cluster; the values of one follow those of the other."""
    for place, broker in enumerate(brokers.values()):
        first = start + place * RECORDS
        numbers(broker.bootstrap_servers, topic, range(first, first + RECORDS), partitions=PARTITIONS)


@pytest.mark.parametrize(
    "point, logged, sunk, done",
    [("planned", 0, 0, 0), ("logged", 1, 0, 0), ("rest", 1, 0, 0), ("commit", 1, 1, 0), ("asked", 1, 1, 1)],
    ids=["after latestOffset", "after the offset log", "after a task", "before the commit log", "after the commit log"],
)
def test_every_record_is_in_the_sink_once(
    spark: SparkSession,
    east: LocalKafka,
    west: LocalKafka,
    topic: str,
    tmp_path: Path,
    checkpoint: Path,
    drivers: Drivers,
    gates: Path,
    point: str,
    logged: int,
    sunk: int,
    done: int,
) -> None:
    brokers = {"east": east, "west": west}
    for broker in brokers.values():
        broker.create_topic(topic, PARTITIONS)
    produce(brokers, topic, 0)
    options = {"clusters": clusters(brokers), "subscribe": topic, "startingOffsets": "earliest", "readers": 3}
    options["commitGroup"] = topic
    sink = tmp_path / "out"
    gate = gates / ("rest" if point == "commit" else point)
    gate.touch()
    process = drivers.start(
        master="local[2]", options={**QUICK, **options}, checkpoint=checkpoint, sink=sink, gates=gates
    )
    # Of three tasks in two slots, the third begins when the first has ended.
    wait_for(lambda: len(marks(gates, gate.name)) == (2 if gate.name == "rest" else 1), within_s=240, what="the gate")
    commits = checkpoint / "commits"
    if point == "commit":
        # The batch comes to its end, but nothing can be written there any more.
        shutil.rmtree(commits)
        commits.touch()
        gate.unlink()
        wait_for(lambda: process.poll() is not None, within_s=240, what="a driver that cannot commit")
        assert "commits" in drivers.log
        commits.unlink()
    kill_session(process.pid)
    found = (
        len(offset_files(checkpoint)),
        len(list((sink / "_spark_metadata").glob("[0-9]*"))),
        len(committed(checkpoint)),
    )
    assert found == (logged, sunk, done)
    # Nothing reaches the groups before Spark asks for the next batch, and that has not been answered in any case.
    assert all(group_offsets(broker, topic, topic, PARTITIONS) == {} for broker in brokers.values())
    produce(brokers, topic, 2 * RECORDS)
    run_available(fleet(spark, **options), checkpoint, sink)
    rows = written(spark, sink)
    assert sorted(int(row[3]) for row in rows) == list(range(4 * RECORDS))
    everything = {(topic, partition): 2 * RECORDS // PARTITIONS for partition in range(PARTITIONS)}
    assert all(group_offsets(broker, topic, topic, PARTITIONS) == everything for broker in brokers.values())
