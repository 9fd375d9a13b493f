"""A Spark standalone cluster with two workers: each reads its share, and what one of them held is read by the other."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evensplit.testing import LocalKafka
from evensplit.testing.chaos.job.standalone import StandaloneCluster
from tests.support.driver import Drivers, marks
from tests.support.queries import committed, states, written
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS = 20_000


@dataclass(frozen=True, slots=True)
class Held:
    """A driver of the cluster whose two tasks have their first rows, and the gate that holds them there."""

    drivers: Drivers
    process: subprocess.Popen[bytes]
    gate: Path

    def let_go(self) -> None:
        """Let the tasks go on, and wait until the driver has ended well."""
        self.gate.unlink()
        assert self.process.wait(240) == 0, self.drivers.log


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path) as started:
        yield started


@pytest.fixture
def held(cluster: StandaloneCluster, east: LocalKafka, topic: str, tmp_path: Path, checkpoint: Path) -> Iterator[Held]:
    """A worker has one core, so two tasks that are held at the same time are one on each."""
    east.create_topic(topic, partitions=4)
    numbers(east.bootstrap_servers, topic, range(RECORDS), partitions=4)
    gates = tmp_path / "gates"
    gates.mkdir()
    (gates / "tasks").touch()
    drivers = Drivers(tmp_path)
    options = {"kafka.bootstrap.servers": east.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    try:
        process = drivers.start(
            master=cluster.url,
            options={**options, "readers": 2},
            checkpoint=checkpoint,
            sink=tmp_path / "out",
            gates=gates,
        )
        wait_for(
            lambda: len(marks(gates, "tasks")) == 2 or process.poll() is not None,
            within_s=240,
            what="rows on both workers",
        )
        assert process.poll() is None, drivers.log
        yield Held(drivers, process, gates / "tasks")
    finally:
        drivers.close()


def exactly_once(spark: SparkSession, checkpoint: Path, sink: Path) -> None:
    """Every record is there once, read by two readers in one batch."""
    rows = written(spark, sink)
    assert sorted(int(row[3]) for row in rows) == list(range(RECORDS))
    assert len({row[:3] for row in rows}) == len(rows)
    assert committed(checkpoint) == [0]
    assert [state.readers for state in states(checkpoint)] == [2]


def test_both_workers_read(
    spark: SparkSession, cluster: StandaloneCluster, held: Held, checkpoint: Path, tmp_path: Path
) -> None:
    assert [len(cluster.executors(worker)) for worker in range(2)] == [1, 1]
    held.let_go()
    exactly_once(spark, checkpoint, tmp_path / "out")


def test_a_worker_that_dies_in_the_middle_of_a_batch(
    spark: SparkSession, cluster: StandaloneCluster, held: Held, checkpoint: Path, tmp_path: Path
) -> None:
    """It holds rows of its task, which runs again on the other one."""
    cluster.kill_worker(0)
    assert cluster.executors(0) == []
    held.let_go()
    exactly_once(spark, checkpoint, tmp_path / "out")
