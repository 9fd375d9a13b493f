"""A batch that was logged and not committed is read again, whatever has changed meanwhile: the same rows, or the loss.

What a killed driver leaves is shown in `test_killed_drivers`; here the same is made of a copy of one checkpoint, by
taking the last batch out of the commit log.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import Cause
from evensplit.explain.changes import loads
from tests.support.clients import NOWHERE
from tests.support.fleet_file import FleetFile
from tests.support.fleets import Batches, uncommit
from tests.support.queries import committed, states
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PARTITIONS = 4


class Interrupted:
    """A checkpoint whose batch 1 is not committed: two batches of 100 records of each cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topics = world.both(partitions=PARTITIONS)
        world.publish(*self.topics)
        for _ in range(2):
            values = [value for topic in self.topics for value in topic.write(100)]
            batches = world.run(readers=3)
            assert batches.values() == values
        assert committed(world.checkpoint) == [0, 1]
        before, after = states(world.checkpoint)
        ranges = batch_ranges(before, after)
        self.records = [(*part.split, at) for part in ranges for at in range(part.start, part.end)]
        """What the second batch brought."""
        assert self.records == batches.of_batch(1)
        uncommit(world.checkpoint, 1)

    def run(self, copy: Path, **options: object) -> Batches:
        """Run the query to the end, with a copy of the checkpoint; the batch has to be the same as before."""
        batches = self.world.run(copy, **{"readers": 3, **options})
        assert batches.of_batch(1) == self.records
        assert len(batches.rows) == len(self.records)
        return batches

    def copy(self, directory: Path) -> Path:
        """The checkpoint once more."""
        return Path(shutil.copytree(self.world.checkpoint, directory / "checkpoint"))


@pytest.fixture(scope="module")
def interrupted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interrupted]:
    """One for all tests that take a copy of it."""
    shared = World(request.getfixturevalue, tmp_path_factory.mktemp("interrupted"), "interrupted")
    yield Interrupted(shared)
    shared.close()


@pytest.mark.parametrize(
    "location",
    [
        lambda directory: str(directory / "none.yaml"),
        pytest.param(lambda directory: f"http://{NOWHERE}/fleet.json", marks=pytest.mark.slow),
    ],
    ids=["the file is missing", "the service is down"],
)
def test_without_its_metadata(interrupted: Interrupted, tmp_path: Path, location: Callable[[Path], str]) -> None:
    checkpoint = interrupted.copy(tmp_path)
    interrupted.run(checkpoint, metadata=location(tmp_path))
    assert committed(checkpoint)[:2] == [0, 1]


@pytest.mark.slow
def test_the_first_batch_without_its_metadata(interrupted: Interrupted, tmp_path: Path) -> None:
    """Nothing is committed at all: where the batch began is in its own end. What came later is read after it."""
    checkpoint = interrupted.copy(tmp_path)
    uncommit(checkpoint, 0)
    for name in ("1", ".1.crc"):
        (checkpoint / "offsets" / name).unlink()
    batches = interrupted.world.run(checkpoint, metadata=tmp_path / "none.yaml", readers=7)
    assert sorted(row.value for row in batches.rows if row.batch == 0) == list(range(200))
    assert batches.values() == list(range(400))


def test_with_a_cluster_that_is_gone_from_the_metadata(interrupted: Interrupted, tmp_path: Path) -> None:
    """What was logged of it is read, and only then is it removed, which is no loss."""
    checkpoint, metadata = interrupted.copy(tmp_path), FleetFile(tmp_path / "fleet.yaml")
    metadata.clusters["east"] = interrupted.world.metadata.clusters["east"]
    metadata.write()
    interrupted.run(checkpoint, metadata=metadata.path)
    found = states(checkpoint)
    assert found[-1].clusters["west"].removed_at_ms is not None
    assert not any(state.losses for state in found)


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
def test_with_other_options(interrupted: Interrupted, tmp_path: Path, options: dict[str, object]) -> None:
    """The batch is read by the readers that it was planned for, and what comes after it as the options want it."""
    checkpoint = interrupted.copy(tmp_path)
    batches = interrupted.run(checkpoint, **options)
    assert {row.task for row in batches.rows if row.batch == 1} == {0, 1, 2}
    last = states(checkpoint)[-1]
    assert last.readers == options.get("readers", 3)
    assert last.settings.policy == options.get("policy", "balanced")
    assert last.settings.rebalance == options.get("rebalance", "always")
    if options == {"readers": 5}:
        assert sorted(loads(last)) == [1, 1, 2, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("fails", [True, False], ids=["failOnDataLoss", "loss is declared"])
def test_with_a_topic_that_was_deleted(world: World, fails: bool) -> None:
    found = Interrupted(world)
    _, west = found.topics
    west.delete()
    options: dict[str, Any] = {"readers": 3, "failOnDataLoss": fails}
    if fails:
        error = world.fail(**options)
        assert "DataLossError" in error
        assert f"cluster 'west', topic '{west.name}', partition" in error
        assert "failOnDataLoss" in error
        assert committed(world.checkpoint) == [0]
        return
    batches = world.run(**options)
    assert batches.of_batch(1) == [record for record in found.records if record[0] == "east"]
    assert len(batches.rows) == 100
    declared = [loss for state in states(world.checkpoint) for loss in state.losses]
    # The batch skipped 25 offsets of each. What was written after it is not known to a process that never saw the end.
    assert [(loss.split, loss.position, loss.offsets_max) for loss in sorted(declared)] == [
        (split, *lost) for split in west.splits for lost in ((25, 25), (50, None))
    ]
    assert {loss.cause for loss in declared} == {Cause.DELETED}
