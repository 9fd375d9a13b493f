"""Options that say where reading starts and ends, in a file that they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.core.state.offset_strategies import AtTime, ByTopic, Committed, Earliest, Latest, Specific, named_offset
from evensplit.spark.options.parse import parse_options
from tests.support.options import cluster, problems

AT_5 = Specific({("t", 0): 5}, Earliest())


def problem(**options: str) -> str:
    (found,) = problems(**options)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """As `evensplit offsets` prints it."""
    path = tmp_path / "positions.json"
    path.write_text('{"t":{"0":5}}\n')
    return path


@pytest.mark.parametrize("name", ["startingOffsets", "start"])
def test_a_start_in_a_file(file: Path, name: str) -> None:
    inline = cluster(**{name: file.read_text()}).starting
    assert named_offset(inline or Earliest(), ("t", 0)) == 5
    assert cluster(**{name: f"file:{file}"}).starting == inline
    assert cluster(**{name: f" file://{file} "}).starting == inline


@pytest.mark.parametrize("name", ["endingOffsets", "stop"])
def test_an_end_in_a_file(file: Path, name: str) -> None:
    inline = cluster(**{name: file.read_text()}).ending
    assert named_offset(inline or Latest(), ("t", 0)) == 5
    assert cluster(**{name: f"file:{file}"}).ending == inline


def test_a_file_may_have_whatever_the_option_may_have(file: Path) -> None:
    file.write_text("\ufeff latest\n", "utf-8")
    assert cluster(start=f"file:{file}").starting == Latest()
    file.write_text('{"t": "timestamp:1700000000000"}')
    assert cluster(start=f"file:{file}").starting == ByTopic({"t": AtTime(1_700_000_000_000, "latest")}, {}, Earliest())


def test_each_cluster_has_a_file_of_its_own_or_another_start(file: Path) -> None:
    clusters = {
        "east": {"kafka.bootstrap.servers": "e:1", "start": f"file:{file}"},
        "north": {"kafka.bootstrap.servers": "n:1", "startingGroup": "g", "start": "latest"},
        "west": {"kafka.bootstrap.servers": "w:1", "startingOffsetsByTimestamp": {"t": {"0": 1_700_000_000_000}}},
    }
    options = parse_options({"clusters": json.dumps(clusters), "subscribe": "t"})
    east, north, west = (one.starting for one in options.clusters)
    assert east == AT_5
    assert north == Committed("g", Latest())
    assert isinstance(west, ByTopic)
    assert west.partitions == {("t", 0): AtTime(1_700_000_000_000, "error")}


def test_a_file_that_cannot_be_read_is_named(file: Path, tmp_path: Path) -> None:
    assert f"startingOffsets is 'file:{tmp_path}/x'; expected the path of a file" in problem(
        startingOffsets=f"file:{tmp_path}/x"
    )
    assert problem(start=f"file:{tmp_path}").endswith("Is a directory")
    assert problem(start="file:positions.json").endswith("the path does not begin with /")
    file.write_bytes(b"\xff")
    assert "can't decode byte" in problem(start=f"file:{file}")


def test_what_is_wrong_in_a_file_is_said_with_its_path(file: Path) -> None:
    file.write_text('{"t": {"x": 5}}')
    told = problem(startingOffsets=f"file:{file}")
    assert told.startswith(f"startingOffsets (in {file}) has ")
    assert told.endswith("'x' is not a partition")
    file.write_text("lattest")
    assert problem(start=f"file:{file}").startswith(f"start (in {file}) is 'lattest'; expected ")
