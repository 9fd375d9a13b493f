"""A batch that was logged and not committed is read again, whatever has changed meanwhile: the same rows, or the loss.

What a killed driver leaves is shown in `test_killed_drivers`; here the same is made of a copy of one checkpoint, by
taking the last batch out of the commit log.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import Cause, SplitId
from evensplit.explain.changes import loads
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE
from tests.support.fleets import Batches, begin, fleet, run, uncommit, write_metadata
from tests.support.queries import committed, states
from tests.support.records import numbers

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PARTITIONS = 4


class Interrupted(NamedTuple):
    """A checkpoint whose batch 1 is not committed. `records`: what that batch had brought."""

    checkpoint: Path
    metadata: Path
    topic: str
    records: list[tuple[str, str, int, int]]

    def copy(self, directory: Path) -> Path:
        """The checkpoint once more."""
        return Path(shutil.copytree(self.checkpoint, directory / "checkpoint"))


def interrupt(spark: SparkSession, brokers: dict[str, LocalKafka], topic: str, directory: Path) -> Interrupted:
    """Two batches of 100 records of each cluster, the second of which is then taken for uncommitted."""
    checkpoint, metadata = directory / "checkpoint", directory / "fleet.yaml"
    for broker in brokers.values():
        broker.create_topic(topic, PARTITIONS)
    write_metadata(metadata, brokers, [topic])
    for start in (0, 200):
        for place, broker in enumerate(brokers.values()):
            first = start + 100 * place
            numbers(broker.bootstrap_servers, topic, range(first, first + 100), partitions=PARTITIONS)
        batches = run(read(spark, metadata), checkpoint)
        assert batches.values() == list(range(start, start + 200))
    assert committed(checkpoint) == [0, 1]
    before, after = states(checkpoint)
    logged = [(*part.split, at) for part in batch_ranges(before, after) for at in range(part.start, part.end)]
    assert logged == batches.of_batch(1)
    uncommit(checkpoint, 1)
    return Interrupted(checkpoint, metadata, topic, logged)


def read(spark: SparkSession, metadata: Path | str, **options: object) -> Any:
    """What the interrupted query reads."""
    return fleet(spark, **{"metadata": metadata, "startingOffsets": "earliest", "readers": 3, **options})


@pytest.fixture(scope="module")
def interrupted(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, tmp_path_factory: pytest.TempPathFactory
) -> Interrupted:
    """One for all tests that take a copy of it."""
    brokers = {"east": east, "west": west}
    return interrupt(spark, brokers, "interrupted", tmp_path_factory.mktemp("interrupted"))


@pytest.mark.parametrize(
    "location",
    [
        lambda directory: str(directory / "none.yaml"),
        pytest.param(lambda directory: f"http://{NOWHERE}/fleet.json", marks=pytest.mark.slow),
    ],
    ids=["the file is missing", "the service is down"],
)
def test_without_its_metadata(
    spark: SparkSession, interrupted: Interrupted, tmp_path: Path, location: Callable[[Path], str]
) -> None:
    checkpoint = interrupted.copy(tmp_path)
    batches = run(read(spark, location(tmp_path)), checkpoint)
    assert batches.of_batch(1) == interrupted.records
    assert len(batches.rows) == len(interrupted.records)
    assert committed(checkpoint)[:2] == [0, 1]


@pytest.mark.slow
def test_the_first_batch_without_its_metadata(spark: SparkSession, interrupted: Interrupted, tmp_path: Path) -> None:
    """Nothing is committed at all: where the batch began is in its own end. What came later is read after it."""
    checkpoint = interrupted.copy(tmp_path)
    uncommit(checkpoint, 0)
    for name in ("1", ".1.crc"):
        (checkpoint / "offsets" / name).unlink()
    batches = run(read(spark, tmp_path / "none.yaml", readers=7), checkpoint)
    assert sorted(row.value for row in batches.rows if row.batch == 0) == list(range(200))
    assert batches.values() == list(range(400))


def test_with_a_cluster_that_is_gone_from_the_metadata(
    spark: SparkSession, east: LocalKafka, interrupted: Interrupted, tmp_path: Path
) -> None:
    """What was logged of it is read, and only then is it removed, which is no loss."""
    checkpoint, metadata = interrupted.copy(tmp_path), tmp_path / "fleet.yaml"
    write_metadata(metadata, {"east": east}, [interrupted.topic])
    batches = run(read(spark, metadata), checkpoint)
    assert batches.of_batch(1) == interrupted.records
    assert len(batches.rows) == len(interrupted.records)
    last = states(checkpoint)[-1]
    assert last.clusters["west"].removed_at_ms is not None
    assert not any(state.losses for state in states(checkpoint))


@pytest.mark.parametrize(
    "options",
    [
        {"readers": 5},
        pytest.param({"readers": 1, "policy": "round-robin"}, marks=pytest.mark.slow),
        pytest.param({"policy": "hash", "assignScope": "per-cluster"}, marks=pytest.mark.slow),
        pytest.param({"rebalance": "never", "readers": 2}, marks=pytest.mark.slow),
        pytest.param({"maxOffsetsPerTrigger": 10}, marks=pytest.mark.slow),
    ],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()),
)
def test_with_other_options(
    spark: SparkSession, interrupted: Interrupted, tmp_path: Path, options: dict[str, object]
) -> None:
    """The batch is read by the readers that it was planned for, and what comes after it as the options want it."""
    checkpoint = interrupted.copy(tmp_path)
    batches = run(read(spark, interrupted.metadata, **options), checkpoint)
    assert batches.of_batch(1) == interrupted.records
    assert len(batches.rows) == len(interrupted.records)
    assert {row.task for row in batches.rows if row.batch == 1} == {0, 1, 2}
    last = states(checkpoint)[-1]
    assert last.readers == options.get("readers", 3)
    assert last.settings.policy == options.get("policy", "balanced")
    assert last.settings.rebalance == options.get("rebalance", "always")
    if options == {"readers": 5}:
        assert sorted(loads(last)) == [1, 1, 2, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("fails", [True, False], ids=["failOnDataLoss", "loss is declared"])
def test_with_a_topic_that_was_deleted(
    spark: SparkSession, east: LocalKafka, west: LocalKafka, topic: str, tmp_path: Path, fails: bool
) -> None:
    found = interrupt(spark, {"east": east, "west": west}, topic, tmp_path)
    west.delete_topic(topic)
    frame = read(spark, found.metadata, failOnDataLoss=fails)
    if fails:
        batches = Batches()
        with pytest.raises(PySparkException) as caught:
            begin(frame, found.checkpoint, batches, availableNow=True).awaitTermination(240)
        assert "DataLossError" in str(caught.value)
        assert f"cluster 'west', topic '{topic}', partition" in str(caught.value)
        assert "failOnDataLoss" in str(caught.value)
        assert batches.rows == []
        assert committed(found.checkpoint) == [0]
        return
    batches = run(frame, found.checkpoint)
    assert batches.of_batch(1) == [record for record in found.records if record[0] == "east"]
    assert len(batches.rows) == 100
    gone = [SplitId("west", topic, partition) for partition in range(PARTITIONS)]
    declared = [loss for state in states(found.checkpoint) for loss in state.losses]
    # The batch skipped 25 offsets of each. What was written behind it is not known to a process that never saw the end.
    assert [(loss.split, loss.position, loss.offsets_max) for loss in sorted(declared)] == [
        (split, *lost) for split in gone for lost in ((25, 25), (50, None))
    ]
    assert {loss.cause for loss in declared} == {Cause.DELETED}
