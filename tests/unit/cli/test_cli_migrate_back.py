"""`evensplit migrate --to kafka`: the way back, also of queries that began here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evensplit.checkpoint.files import crc_of, crc_path
from evensplit.core.import_spark_offsets import state_of_positions
from evensplit.core.state.codec import encode
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import checkpoint, contents, put
from tests.support.commands import invoke
from tests.support.migrations import NEW, OLD, going_on, line, migrate, migrated, two_batches


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return two_batches(tmp_path)


def test_back_of_a_first_batch_that_is_not_done_for_a_source_that_is_read_twice(tmp_path: Path) -> None:
    began = json.dumps(encode(state_of_positions("east", ("e:1",), {("t", 0): 9}, {("t", 0): 6})))
    place = checkpoint(tmp_path / "from", [began, began, "5"], committed=None, initial={"1": "v1\n1700000000000"})
    told = migrate(place, "--to", "kafka", "--yes", code=1)[1]
    assert "sources 0 and 1 have the same offsets in each file, so they may be one source that the query reads" in told
    done = checkpoint(tmp_path / "done", [began, began, "5"], committed=0, initial={"1": "v1\n1700000000000"})
    back = migrated(done, "--to", "kafka")
    assert contents(back)["sources/1/0"] == contents(done)["sources/1/0"]


def test_there_and_back_is_the_same(place: Path) -> None:
    back = migrated(migrated(place), "--to", "kafka", to=place.parent / "back")
    before, after = contents(place), contents(back)
    assert {name for name in after if after[name] != before[name]} <= {"offsets/0", "offsets/.0.crc"}
    assert [json.loads(line(back, batch)) for batch in (0, 1)] == [json.loads(OLD), json.loads(NEW)]


def test_back_from_where_this_source_has_come(place: Path) -> None:
    to = migrated(place)
    going_on(to, {0: 10, 1: 4}, done=True)
    back = migrated(to, "--to", "kafka", to=place.parent / "back")
    assert line(back, 2) == '{"t":{"0":10,"1":4,"2":4,"3":9}}'
    assert json.loads(line(back, 1)) == json.loads(NEW)
    assert contents(back)["sources/0/0"] == contents(place)["sources/0/0"]


def test_back_with_a_batch_that_is_not_done(place: Path) -> None:
    """Its start is where it begins, partition by partition: Spark would take the earliest offset of a new one."""
    to = migrated(place)
    going_on(to, {0: 10}, done=False)
    back = migrated(to, "--to", "kafka", to=place.parent / "back")
    assert line(back, 1) == '{"t":{"0":8,"1":3,"2":4,"3":6}}'
    assert line(back, 2) == '{"t":{"0":10,"1":3,"2":4,"3":9}}'


@pytest.mark.parametrize("committed", [0, None])
def test_back_of_a_query_that_began_here(tmp_path: Path, committed: int | None) -> None:
    began = encode(state_of_positions("east", ("e:1",), {("t", 0): 9, ("t", 1): 4}, {("t", 0): 6, ("t", 1): 4}))
    place = checkpoint(tmp_path / "from", [json.dumps(began)], committed=committed)
    back = migrated(place, "--to", "kafka")
    assert line(back, 0) == '{"t":{"0":9,"1":4}}'
    initial = back / "sources" / "0" / "0"
    assert initial.read_bytes() == b'\0v1\n{"t":{"0":6,"1":4}}'
    assert crc_path(initial).read_bytes() == crc_of(initial.read_bytes())


def test_back_is_for_one_cluster(tmp_path: Path) -> None:
    found = state_of_positions("east", (), {("t", 0): 9})
    west = state_of_positions("west", (), {("t", 0): 9})
    both = EnumeratorState(0, {**found.clusters, **west.clusters}, {**found.splits, **west.splits}, begun=True)
    place = checkpoint(tmp_path / "from", [json.dumps(encode(both))], committed=0)
    _, told = migrate(place, "--to", "kafka", code=1)
    assert "source 0 reads 2 clusters: east, west; expected exactly one. Spark's own Kafka source reads one" in told
    nothing = EnumeratorState(0, found.clusters, {}, begun=True)
    place = checkpoint(tmp_path / "none", [json.dumps(encode(nothing))], committed=0)
    assert "source 0 reads no clusters; expected exactly one" in migrate(place, "--to", "kafka", code=1)[1]


def test_back_leaves_behind_what_spark_has_no_word_for(tmp_path: Path) -> None:
    found = state_of_positions("east", (), {("t", 0): 9, ("t", 1): 5, ("t", 2): 7})
    first, second, third = found.splits.values()
    splits = {
        first.id: first._replace(removed_at_ms=1_700_000_000_000),
        second.id: second._replace(stop=5, finished=True),
        third.id: third,
    }
    place = checkpoint(
        tmp_path / "from", [json.dumps(encode(EnumeratorState(0, found.clusters, splits, begun=True)))], committed=0
    )
    notes = json.loads(migrate(place, "--to", "kafka", "--format", "json")[0])["notes"]
    assert notes == [
        "source 0: positions of what is not read any more are left behind: east/t/0",
        "source 0: Spark's source knows no stop in a stream, and reads on: east/t/1",
    ]
    assert line(migrated(place, "--to", "kafka"), 0) == '{"t":{"1":5,"2":7}}'
    waiting = {**splits, third.id: third._replace(position=None)}
    text = json.dumps(encode(EnumeratorState(0, found.clusters, waiting, begun=True)))
    place = checkpoint(tmp_path / "waiting", [text], committed=0)
    assert "has not found yet where east/t/2 begins" in migrate(place, "--to", "kafka", code=1)[1]


TORN = '{"evensplit": 3, "rea'


@pytest.fixture
def begun_here(tmp_path: Path) -> Path:
    """Three batches, the last one not done, of a query whose two sources were never Spark's."""
    rows = [json.dumps(encode(state_of_positions("east", ("e:1",), {("t", 0): at}))) for at in (5, 8, 9)]
    return checkpoint(tmp_path / "from", *([row, row] for row in rows), committed=1)


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("text", [TORN, '{"logOffset":1}', "5"])
def test_a_damaged_line_of_a_query_that_began_here_is_named(begun_here: Path, batch: int, text: str) -> None:
    """Without the line before the batch that is planned again, what that batch reads would be skipped."""
    rows = (begun_here / "offsets" / str(batch)).read_text().split("\n")
    put(begun_here / "offsets" / str(batch), "\n".join([*rows[:3], text]).encode())
    told = migrate(begun_here, "--to", "kafka", "--yes", code=1)[1]
    assert f"offsets/{batch}, line 4: expected an offset of evensplit" in told
    assert "found" in told
    assert not (begun_here.parent / "to").exists()
    assert invoke("offsets", begun_here, code=1)[0] == ""


def test_a_line_that_is_left_out_before_a_batch_that_is_not_done(begun_here: Path) -> None:
    rows = (begun_here / "offsets" / "1").read_text().split("\n")
    put(begun_here / "offsets" / "1", "\n".join([*rows[:3], "-"]).encode())
    told = migrate(begun_here, "--to", "kafka", "--yes", code=1)[1]
    assert "offsets/1 has no offset for source 1; expected how far it had come before batch 2" in told
    assert "does not begin with east/t/0" in told
    assert not (begun_here.parent / "to").exists()


def test_a_source_that_had_nothing_before_begins_with_its_first_batch(tmp_path: Path) -> None:
    """As where Spark's source had found no topic when the word was changed."""
    began = encode(state_of_positions("east", ("e:1",), {("t", 0): 9}, {("t", 0): 6}))
    place = checkpoint(tmp_path / "from", ["5", "-"], ["6", json.dumps(began)], committed=0)
    back = migrated(place, "--to", "kafka")
    assert (line(back, 0, 4), line(back, 1, 4)) == ("-", '{"t":{"0":9}}')
    assert (back / "sources" / "1" / "0").read_bytes() == b'\0v1\n{"t":{"0":6}}'


def test_a_name_of_a_cluster_has_no_place_on_the_way_back(place: Path) -> None:
    to = migrated(place)
    told = migrate(to, "--to", "kafka", "--cluster", "east", code=2, to=place.parent / "x")[1]
    assert "--cluster is given with --to kafka" in told
