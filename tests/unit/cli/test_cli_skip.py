"""`evensplit skip` of several ranges at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.core.batch.plan import batch_ranges
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint, contents
from tests.support.commands import invoke
from tests.support.edited import both, lines, ours, positions, shown_rows, states


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


def read(place: Path) -> list[tuple[int, int, int]]:
    """Partition, and the first offset and the end, of what the last batch reads."""
    found = read_checkpoint(place)
    ranges = batch_ranges(found.batches[-2].ours["0"], found.newest.ours["0"])
    return [(part.split.partition, part.start, part.end) for part in ranges]


def test_several_ranges_of_several_partitions(place: Path, kafka: FakeKafka) -> None:
    before = contents(place)
    shown, _ = invoke("skip", place, "orders/0:36", "orders/1:27-28", "orders/0:32-33", "--yes")
    command = "`evensplit skip orders/0:36 orders/1:27-28 orders/0:32-33`"
    assert (
        f"{command}: default/orders/0: offsets 32 to 33 and 36 are never read; "
        "default/orders/1: offsets 27 to 28 are never read."
    ) in " ".join(shown.split())
    assert shown_rows(shown) == [["default/orders/0", "30", "37", "3", "4"], ["default/orders/1", "25", "29", "2", "2"]]
    assert read(place) == [(0, 30, 32), (0, 34, 36), (1, 25, 27)]
    assert positions(place) == {"default/orders/0": 37, "default/orders/1": 29}
    story, _ = invoke("why", place, "orders/0")
    assert f"offsets 32 to 33 and 36 are never read: {command}" in story
    invoke("undo", place, "--yes", "--assume-stopped")
    assert contents(place) == before


def test_of_a_batch_that_fails(tmp_path: Path) -> None:
    place = ours(tmp_path / "orders", committed=1)
    invoke("skip", place, "orders/0:21", "orders/0:24-25", "orders/1:10", "--yes", "--assume-stopped")
    assert read(place) == [(0, 20, 21), (0, 22, 24), (0, 26, 30), (1, 11, 25)]


def test_all_or_none(place: Path, kafka: FakeKafka) -> None:
    before = contents(place)
    assert "offset 3 was read by an" in invoke("skip", place, "orders/0:32", "orders/1:3", "--yes", code=1)[1]
    assert "its log ends at offset 40" in invoke("skip", place, "orders/0:32", "orders/1:45", "--yes", code=1)[1]
    assert "expected FROM or FROM-TO" in invoke("skip", place, "orders/0:32", "orders/1:x", "--yes", code=2)[1]
    assert "Missing argument" in invoke("skip", place, code=2)[1]
    assert contents(place) == before


def test_all_that_is_unread_of_several_partitions(place: Path, kafka: FakeKafka) -> None:
    shown, _ = invoke("skip", place, "orders/0", "orders/1", "orders/1:26", "--yes")
    assert shown_rows(shown) == [["default/orders/0", "30", "40", "10"], ["default/orders/1", "25", "40", "15"]]
    assert read(place) == []


def test_as_json_they_are_one_edit(place: Path, kafka: FakeKafka) -> None:
    found = json.loads(invoke("skip", place, "orders/0:36", "orders/0:32-33", "--format", "json")[0])
    (source,) = found["sources"]
    assert found["neverRead"] == 3
    assert source["edit"]["said"] == "orders/0:36 orders/0:32-33"
    assert source["edit"]["jumps"] == [
        {"split": "default/orders/0", "at": 32, "to": 34},
        {"split": "default/orders/0", "at": 36, "to": 37},
    ]
    assert [one["neverRead"] for one in source["partitions"]] == [3]


def test_many_ranges_are_counted_in_the_record(place: Path, kafka: FakeKafka) -> None:
    kafka.append("orders", 0, 60)
    many = [f"orders/0:{offset}" for offset in range(31, 81, 2)]
    invoke("skip", place, *many, "--yes")
    (said,) = {edit.said for edit in read_checkpoint(place).newest.ours["0"].edits}
    assert said == f"{' '.join(many[:20])} (… 25 in all)"
    assert len(read(place)) == 25


def test_a_second_command_is_told_to_come_with_the_first(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:32", "--yes")
    _, told = invoke("skip", place, "orders/0:35", "--yes", "--assume-stopped", code=1)
    assert "If the batch is there only by `evensplit skip orders/0:32`, take that back with `evensplit undo`" in told
    assert "and give both ranges to one `evensplit skip`. Otherwise, let the query do it first, and skip then" in told


def test_servers_are_of_one_cluster(tmp_path: Path, kafka: FakeKafka) -> None:
    state = [both(one, other) for one, other in zip(states("east"), states("west"), strict=True)]
    place = checkpoint(tmp_path / "x", *map(lines, state), committed=2)
    for said in (("--bootstrap-servers", "h:1"), ("--option", "kafka.sasl.username=x")):
        _, told = invoke("skip", place, "east/orders/0:31", "west/orders/0:31", *said, code=2)
        assert "the ranges are in 2 clusters: east, west; " in told
        assert "can be for one only: skip those of each in a command of its own" in told
    _, told = invoke("skip", place, "orders/0:31", code=1)
    assert "orders/0 is in several clusters; expected one of east/orders/0, west/orders/0" in told
    kafka.fail_with(ClusterUnreachable("east", "nobody is there"))
    shown, _ = invoke("skip", place, "east/orders/0:31", "west/orders/0:31")
    assert shown.count("It is not known whether the log goes so far") == 1, "both have the same reason"
    assert "its cluster did not answer" in invoke("skip", place, "east/orders/0", code=1)[1]


def test_a_topic_is_not_taken_for_a_partition(tmp_path: Path, kafka: FakeKafka) -> None:
    """Cluster `orders` has a topic `0`."""
    state = [both(one, other) for one, other in zip(states("default"), states("orders", "0"), strict=True)]
    place = checkpoint(tmp_path / "x", *map(lines, state), committed=2)
    shown, _ = invoke("skip", place, "orders/0:31")
    assert "default/orders/0: offset 31 is never read" in shown
    for wrong in ("orders:3", "orders/x:3", "a/b/c:3", "a/b/c/0", "/0"):
        assert "expected CLUSTER/TOPIC/PARTITION, as in east/orders/3" in invoke("skip", place, wrong, code=2)[1]
    assert "there is no partition east/orders/0 in the" in invoke("skip", place, "east/orders/0:31", code=1)[1]
