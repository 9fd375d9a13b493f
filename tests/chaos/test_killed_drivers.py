"""SIGKILL of the driver at each point between two batches: after a restart every record is in the sink, once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evensplit.testing.process.sessions import kill_session
from tests.support.driver import Drivers, marks
from tests.support.fleets import QUICK
from tests.support.queries import committed, offset_files, run_available, written
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 3
RECORDS = 600


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """Where the gates of a driver are."""
    path = tmp_path / "gates"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    "point, logged, sunk, done",
    [("planned", 0, 0, 0), ("logged", 1, 0, 0), ("rest", 1, 0, 0), ("commit", 1, 1, 0), ("asked", 1, 1, 1)],
    ids=["after latestOffset", "after the offset log", "after a task", "before the commit log", "after the commit log"],
)
def test_every_record_is_in_the_sink_once(
    world: World, drivers: Drivers, gates: Path, point: str, logged: int, sunk: int, done: int
) -> None:
    topics = world.both(partitions=PARTITIONS, records=RECORDS)
    options = world.options(commitGroup=world.name, readers=3)
    sink = world.directory / "out"
    gate = gates / ("rest" if point == "commit" else point)
    gate.touch()
    process = drivers.start(
        master="local[2]", options={**QUICK, **options}, checkpoint=world.checkpoint, sink=sink, gates=gates
    )
    # Of three tasks in two slots, the third begins when the first has ended.
    wait_for(lambda: len(marks(gates, gate.name)) == (2 if gate.name == "rest" else 1), within_s=240, what="the gate")
    commits = world.checkpoint / "commits"
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
        len(offset_files(world.checkpoint)),
        len(list((sink / "_spark_metadata").glob("[0-9]*"))),
        len(committed(world.checkpoint)),
    )
    assert found == (logged, sunk, done)
    # Nothing reaches the groups before Spark asks for the next batch, and that has not been answered in any case.
    assert all(topic.group_offsets() == {} for topic in topics)
    for topic in topics:
        topic.write(RECORDS)
    run_available(world.frame(**options), world.checkpoint, sink)
    assert sorted(int(row[3]) for row in written(world.spark, sink)) == list(range(4 * RECORDS))
    everything = dict.fromkeys(range(PARTITIONS), 2 * RECORDS // PARTITIONS)
    assert all(topic.group_offsets() == everything for topic in topics)
