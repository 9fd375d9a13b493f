"""What `evensplit drop` and `rewind --only` take for a cluster, a topic or a partition, with its cluster or without."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import both, lines, ours, positions, states


def place_of(where: Path, *sources: list[EnumeratorState]) -> Path:
    return checkpoint(
        where / "x", *([*map("".join, map(lines, row))] for row in zip(*sources, strict=True)), committed=2
    )


def two_clusters(where: Path, topic: str = "orders") -> Path:
    """One source: `orders` of cluster `east`, and a topic of cluster `west`; partition 0 is at 30, 1 at 25."""
    return place_of(where, [*map(both, states("east"), states("west", topic))])


@pytest.mark.parametrize(
    "only, left",
    [
        ("orders", {"default/orders/0": 10, "default/orders/1": 10}),
        ("orders/1", {"default/orders/0": 30, "default/orders/1": 10}),
        ("default", {"default/orders/0": 10, "default/orders/1": 10}),
        ("default/orders", {"default/orders/0": 10, "default/orders/1": 10}),
    ],
)
def test_with_one_cluster_its_name_can_be_left_out(tmp_path: Path, only: str, left: dict[str, int]) -> None:
    place = ours(tmp_path / "orders")
    shown, _ = invoke("rewind", place, "--to", "batch:1", "--only", only, "--yes")
    assert f"`evensplit rewind --to batch:1 --only {only}`" in shown
    assert positions(place) == left


def test_what_only_one_cluster_has_needs_no_cluster(tmp_path: Path) -> None:
    place = two_clusters(tmp_path, "returns")
    invoke("rewind", place, "--to", "batch:1", "--only", "returns/1", "--only", "orders/0", "--yes")
    assert positions(place) == {"east/orders/0": 10, "east/orders/1": 25, "west/returns/0": 30, "west/returns/1": 10}
    shown, _ = invoke("drop", place, "returns", "--yes", "--assume-stopped")
    assert "the positions of west/returns are forgotten" in shown
    assert "Take west/returns out of the options of the query, too" in shown
    assert positions(place) == {"east/orders/0": 10, "east/orders/1": 25}
    invoke("drop", place, "orders/1", "--yes", "--assume-stopped")
    assert positions(place) == {"east/orders/0": 10}


def test_what_several_clusters_have_is_refused_with_what_it_may_be(tmp_path: Path) -> None:
    place = two_clusters(tmp_path)
    _, told = invoke("drop", place, "orders", code=1)
    assert "orders is in several clusters; expected one of east/orders, west/orders" in told
    _, told = invoke("rewind", place, "--to", "batch:1", "--only", "orders/0", "--only", "orders/1", code=1)
    assert "orders/0 is in several clusters; expected one of east/orders/0, west/orders/0" in told
    assert "orders/1 is in several clusters; expected one of east/orders/1, west/orders/1" in told
    invoke("drop", place, "west/orders", "--yes")


def test_a_name_that_both_have_is_the_clusters(tmp_path: Path) -> None:
    place = place_of(tmp_path, [*map(both, states("orders", "returns"), states("west"))])
    shown, _ = invoke("drop", place, "orders")
    assert "the positions of orders are forgotten" in shown
    assert "west/orders/0" not in shown


def test_what_nobody_knows_is_refused_with_what_there_is(tmp_path: Path) -> None:
    place = ours(tmp_path / "orders")
    _, told = invoke("drop", place, "returns", code=1)
    assert "there is no returns in the checkpoint; it has default, default/orders" in told
    _, told = invoke("drop", place, "orders/x", code=1)
    assert "there is no orders/x in the checkpoint; it has default/orders" in told
    _, told = invoke("drop", place, "a/b/c", code=2)
    assert "'a/b/c': expected CLUSTER, CLUSTER/TOPIC or CLUSTER/TOPIC/PARTITION, as in east" in told


def test_sources_count_together(tmp_path: Path) -> None:
    place = checkpoint(
        tmp_path / "x",
        *([*lines(one), *lines(other)] for one, other in zip(states("east"), states("west"), strict=True)),
        committed=2,
    )
    _, told = invoke("drop", place, "orders/1", code=1)
    assert "orders/1 is in several clusters; expected one of east/orders/1, west/orders/1" in told
    _, told = invoke("rewind", place, "--to", "batch:1", "--only", "east", "--only", "nothing", code=1)
    assert "--only names nothing, of which the query reads nothing; it reads east/orders, west/orders" in told
    invoke("rewind", place, "--to", "batch:1", "--only", "orders/1", "--source", "1", "--yes")
    newest = read_checkpoint(place).newest.ours
    assert [split.position for state in newest.values() for split in state.splits.values()] == [30, 25, 30, 10]
    assert "expected one of 0, 1" in invoke("drop", place, "orders", "--source", "5", code=2)[1]
