"""`evensplit rewind --to` with offsets: in each form that `evensplit offsets` prints, and of several sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.edited import both, lines, ours, positions, states


def two_clusters(where: Path) -> Path:
    """One source: topic `orders` of clusters `east` and `west`; partition 0 is at 30, 1 at 25."""
    rows = [both(one, other) for one, other in zip(states("east"), states("west"), strict=True)]
    return checkpoint(where / "x", *map(lines, rows), committed=2)


def two_sources(where: Path, one: list[EnumeratorState], other: list[EnumeratorState]) -> Path:
    rows = ([*lines(first), *lines(second)] for first, second in zip(one, other, strict=True))
    return checkpoint(where / "x", *rows, committed=2)


def by_source(place: Path) -> list[list[int | None]]:
    newest = read_checkpoint(place).newest.ours
    return [[split.position for split in state.splits.values()] for state in newest.values()]


@pytest.mark.parametrize("form", ["spark", "json"])
def test_what_the_command_offsets_prints_of_several_clusters(tmp_path: Path, form: str) -> None:
    place, kept = two_clusters(tmp_path), tmp_path / "kept"
    invoke("rewind", place, "--to", "batch:1", "--yes")
    kept.write_text(invoke("offsets", place, "--planned", "--format", form)[0])
    invoke("undo", place, "--yes", "--assume-stopped")
    assert ("\t" in kept.read_text()) == (form == "spark")
    invoke("rewind", place, "--to", f"file:{kept}", "--yes")
    assert set(positions(place).values()) == {10}


@pytest.mark.parametrize("form", ["spark", "json"])
def test_and_of_several_sources(tmp_path: Path, form: str) -> None:
    place, kept = two_sources(tmp_path, states("east"), states("east", "returns")), tmp_path / "kept"
    invoke("rewind", place, "--to", "batch:1", "--source", "1", "--yes")
    kept.write_text(invoke("offsets", place, "--planned", "--format", form)[0])
    invoke("undo", place, "--yes", "--assume-stopped")
    shown, _ = invoke("rewind", place, "--to", f"file:{kept}", "--yes")
    assert by_source(place) == [[30, 25], [10, 10]]
    assert "Note: Source 0 stays as it is" in shown


def test_json_of_the_command_can_be_said_as_it_is(tmp_path: Path) -> None:
    place = ours(tmp_path / "orders")
    text = json.dumps({"sources": [{"source": "0", "cluster": "default", "positions": {"orders": {"0": 12}}}]})
    invoke("rewind", place, "--to", text, "--yes")
    assert positions(place) == {"default/orders/0": 12, "default/orders/1": 25}


@pytest.mark.parametrize(
    "text, said",
    [
        ('east\t{"orders":{"0":1}}\nwest\t{"orders":[]}\n', "line 2 has no offsets: west"),
        ('east\t{"orders":{"0":1}}\nwest {"orders":{"0":1}}\n', "line 2 has no offsets"),
        ('east\t{"orders":{"0":1}\n', "line 1 is not JSON"),
        ('{"sources":[{"source":"0"}]}', "has no offsets"),
        ('{"sources":[]}', "has no offsets"),
        ("east\t{}\n", "has no offsets"),
        ("", "is not JSON"),
        ("[]", "has no offsets"),
        ("  topic   partition   next offset\n  orders  0   12\n", "is not JSON"),
    ],
)
def test_another_form_in_a_file_is_wrong_use(tmp_path: Path, text: str, said: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text(text)
    _, told = invoke("rewind", ours(tmp_path / "orders"), "--to", f"file:{kept}", code=2)
    assert said in told
    assert "expected an age" in told


def test_what_another_source_reads_is_not_strange(tmp_path: Path) -> None:
    place = two_sources(tmp_path, states("east"), states("west", "returns"))
    invoke("rewind", place, "--to", '{"orders":{"0":12},"returns":{"1":4}}', "--yes")
    assert by_source(place) == [[12, 25], [30, 4]]
    _, told = invoke("rewind", place, "--to", '{"nothing":{"0":12}}', code=1)
    assert "the offsets name what the query does not read: nothing/0; expected some of its partitions" in told
    _, told = invoke("rewind", place, "--to", '{"west":{"orders":{"0":12}}}', code=1)
    assert "the offsets name what the query does not read: west/orders/0" in told


def test_offsets_without_a_cluster_are_of_the_only_one_that_has_them(tmp_path: Path) -> None:
    place = two_sources(tmp_path, states("east"), states("west"))
    _, told = invoke("rewind", place, "--to", '{"orders":{"0":12}}', code=1)
    assert "the offsets name no cluster, and orders/0 is in several: east, west. Say --only CLUSTER, or" in told
    invoke("rewind", place, "--to", '{"orders":{"0":12}}', "--only", "west", "--yes")
    assert by_source(place) == [[30, 25], [12, 25]]
    invoke("rewind", place, "--to", '{"orders":{"1":12}}', "--source", "0", "--yes", "--assume-stopped")
    assert by_source(place) == [[30, 12], [12, 25]]


def test_what_only_leaves_out_is_told(tmp_path: Path) -> None:
    place = two_clusters(tmp_path)
    text = '{"east":{"orders":{"0":12,"1":3}},"west":{"orders":{"0":7}}}'
    shown, _ = invoke("rewind", place, "--to", text, "--only", "west", "--yes")
    assert "Note: --only leaves out east/orders/0, east/orders/1." in shown
    assert positions(place)["west/orders/0"] == 7
    assert positions(place)["east/orders/0"] == 30
    _, told = invoke("rewind", place, "--to", '{"east":{"orders":{"0":12}}}', "--only", "west", code=1)
    assert "nothing goes back: --only leaves out east/orders/0 ES-406" in told
    _, told = invoke("rewind", place, "--to", text.replace("7", "99"), "--only", "west", code=1)
    assert "east/orders/1; no other partition is beyond the place to rewind to" in told
    _, told = invoke("rewind", place, "--to", '{"east":{"orders":{"9":12}}}', "--only", "west", code=1)
    assert "does not read: east/orders/9" in told


def test_what_source_leaves_out_is_told(tmp_path: Path) -> None:
    place = two_sources(tmp_path, states("east"), states("west"))
    text = '{"east":{"orders":{"0":12}},"west":{"orders":{"0":7}}}'
    shown, _ = invoke("rewind", place, "--to", text, "--source", "1", "--yes")
    assert "Note: --source leaves out east/orders/0." in shown
    assert by_source(place) == [[30, 25], [7, 25]]
    labelled = json.dumps({"sources": [{"source": "5", "cluster": "east", "positions": {"orders": {"0": 1}}}]})
    _, told = invoke("rewind", place, "--to", labelled, code=1)
    assert "the offsets name source 5; expected one of 0, 1" in told
