"""Where reading starts and stops, on two clusters: what is found first by the strategies, all that is later in full."""

from __future__ import annotations

import time
from typing import Any

import pytest

from evensplit.core.model import Cause, Lifecycle, SplitId
from tests.support.fleets import uncommit
from tests.support.group_offsets import commit_offsets
from tests.support.queries import committed, states
from tests.support.waiting import wait_for
from tests.support.world import World

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HOUR_MS = 3_600_000


@pytest.mark.slow
def test_each_strategy_on_two_clusters_and_earliest_for_all_that_is_later(world: World) -> None:
    now_ms = int(time.time() * 1000)
    at, ago = (world.east.topic(name, partitions=2) for name in ("at", "ago"))
    for topic in (at, ago):
        # From 19 to 10 hours ago, so that an age of 14.5 hours is between the fifth and the sixth.
        topic.write(10, partition=0, timestamps_ms=[now_ms - age * HOUR_MS for age in range(19, 9, -1)])
    counted, offsets, latest = (
        world.east.topic(name, partitions=2, records=20) for name in ("count", "offsets", "latest")
    )
    west = world.west.topic(partitions=2, records=20)
    commit_offsets(west.cluster.kafka, f"{world.name}-group", west.name, {0: 7})
    start = {
        at.name: f"timestamp:{now_ms - 29 * HOUR_MS // 2}",
        ago.name: "-52200s",
        counted.name: "-3",
        # The end of the log is a place to wait at.
        offsets.name: {"0": 4, "1": 10},
        latest.name: "latest",
    }
    own: dict[str, dict[str, Any]] = {
        "east": {"subscribePattern": f"^{world.name}-", "start": start},
        "west": {"subscribe": west.name, "startingGroup": f"{world.name}-group", "start": "-2"},
    }
    options: dict[str, Any] = {"own": own, "subscribe": None, "startingOffsets": None, "readers": 2}
    first = world.run(**options)
    assert first.values("east") == [*at.values[5:], *ago.values[5:], *counted.values[14:], *offsets.values[8::2]]
    # Where the group has no commit, the other strategy holds.
    assert first.values("west") == [west.values[14], *west.values[16:]]
    for topic in (offsets, latest, west):
        topic.grow(3)
    new = world.east.topic("later")
    later = [value for topic in (offsets, latest, new, west) for value in topic.write(9)]
    assert world.run(**options).values() == later


@pytest.mark.slow
def test_a_start_is_final_once_it_is_logged(world: World) -> None:
    """A crash before the first commit: the same records again, and all that came later, new partitions included."""
    east, west = world.both(records=10)
    options: dict[str, Any] = {
        "own": {"east": {"start": "-3"}, "west": {"start": "latest"}},
        "startingOffsets": None,
    }
    last = east.values[7:]
    assert world.run(**options).values() == last
    uncommit(world.checkpoint, 0)
    later: list[int] = []
    for topic in (east, west):
        topic.grow(2)
        later += topic.write(10)
    again = world.run(**options)
    assert [row[3] for row in again.of_batch(0)] == [7, 8, 9]
    assert again.values() == [*last, *later]


@pytest.mark.slow
def test_an_offset_beyond_the_end(world: World) -> None:
    """An error before anything is logged; or, where losses are declared, the beginning of the log."""
    _, west = world.both(partitions=2, records=20)
    options: dict[str, Any] = {
        "own": {"west": {"start": {west.name: {"0": 11, "1": 9}}}},
        "start": "latest",
        "startingOffsets": None,
    }
    error = world.fail(**options)
    assert f"west/{west.name}/0: reading was to start at offset 11" in error
    assert f"west/{west.name}/1" not in error
    assert committed(world.checkpoint) == []
    batches = world.run(**options, failOnDataLoss="false")
    assert batches.values() == sorted([*west.values[::2], west.values[19]])
    (loss,) = states(world.checkpoint)[0].losses
    assert (loss.split, loss.cause, loss.position, loss.found) == (west.splits[0], Cause.OUT_OF_RANGE, 11, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["available now", "running"])
def test_reading_that_stops(world: World, kind: str) -> None:
    """A split is finished at its stop; what is written after it is never read, by this run or by a later one."""
    east, west = world.both(partitions=2, records=20)
    options: dict[str, Any] = {"own": {"east": {"stop": {east.name: {"0": 4, "1": 12}}}, "west": {"stop": "latest"}}}
    # One stop is two records after the end.
    expected = sorted([*east.values[:8:2], *east.values[1::2], *west.values])

    def finished() -> list[SplitId]:
        splits = states(world.checkpoint)[-1].splits.items()
        return [key for key, split in splits if split.lifecycle is Lifecycle.FINISHED]

    def write_more() -> list[int]:
        """The numbers that are still read, with those before."""
        more = east.write(20)
        west.write(20)
        return sorted([*expected, more[1], more[3]])

    if kind == "available now":
        assert world.run(**options).values() == expected
        assert len(finished()) == 3
        everything = write_more()
        # The batch in which most splits both began and came to their end.
        uncommit(world.checkpoint, 0)
        again = world.run(**options, readers=5)
        assert sorted(row.value for row in again.rows if row.batch == 0) == expected
        assert again.values() == everything
    else:
        with world.running(**options) as batches:
            batches.wait_for(expected)
            wait_for(lambda: len(finished()) == 3)
            assert east.splits[1] not in finished()
            everything = write_more()
            wait_for(lambda: len(finished()) == 4)
            seen = batches.query.lastProgress
            assert seen is not None
            recent = batches.query
            wait_for(lambda: len([one for one in recent.recentProgress if one["timestamp"] > seen["timestamp"]]) >= 3)
            assert batches.values() == everything
    assert len(finished()) == 4
    assert world.run(**options).rows == []
