"""`evensplit migrate`: what it shows and what it writes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evensplit.checkpoint.copies import checkpoint_copy
from evensplit.checkpoint.files import crc_problem
from evensplit.cli.live import log_ends
from evensplit.core.import_spark_offsets import positions_of_state
from evensplit.core.state.codec import decode
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, contents
from tests.support.commands import invoke
from tests.support.migrations import NEW, OLD, going_on, line, migrate, migrated, ranges, state, two_batches
from tests.support.waiting import wait_for


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return two_batches(tmp_path)


def test_without_yes_it_is_shown_and_nothing_is_written(place: Path) -> None:
    before = contents(place.parent)
    shown, _ = migrate(place)
    assert "Source 0 of the query, cluster default" in shown
    assert [row.split() for row in shown.splitlines() if row.strip().startswith("t ")] == [
        ["t", "0", "8"],
        ["t", "1", "3"],
        ["t", "2", "4"],
    ]
    assert "Batch 1 is done; the next one is batch 2." in shown
    assert "Nothing was written. With --yes," in shown
    assert contents(place.parent) == before


def test_only_the_lines_of_the_source_change(place: Path) -> None:
    before = contents(place)
    after = contents(migrated(place))
    assert contents(place) == before
    assert set(after) == set(before)
    changed = {name for name, data in after.items() if data != before[name]}
    assert changed == {"offsets/0", "offsets/1", "offsets/.0.crc", "offsets/.1.crc"}
    for batch, positions in ((0, {("t", 0): 5, ("t", 1): 3}), (1, {("t", 0): 8, ("t", 1): 3, ("t", 2): 4})):
        old, new = before[f"offsets/{batch}"].split(b"\n"), after[f"offsets/{batch}"].split(b"\n")
        assert (old[:2], len(old)) == (new[:2], len(new))
        assert positions_of_state(decode(json.loads(new[2]))) == {"default": positions}
        assert crc_problem(after[f"offsets/{batch}"], after[f"offsets/.{batch}.crc"]) is None


def test_empty_directories_and_modes_are_part_of_it(place: Path) -> None:
    place.chmod(0o750)
    to = migrated(place)
    assert (to / "state" / "0" / "empty").is_dir()
    assert to.stat().st_mode & 0o777 == 0o750
    assert not list(place.parent.glob(".to*"))


def test_without_checksums_there_are_none(place: Path) -> None:
    for path in place.rglob(".*.crc"):
        path.unlink()
    assert not list(migrated(place).rglob(".*.crc"))


def test_batches_begin_and_end_as_before(place: Path) -> None:
    to = migrated(place)
    assert ranges(EnumeratorState(), state(to, 0)) == {"t/0": (2, 5), "t/1": (0, 3)}
    assert ranges(state(to, 0), state(to, 1)) == {"t/0": (5, 8), "t/2": (0, 4)}


def test_a_batch_that_is_not_done_is_planned_again(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", [OLD], [NEW], committed=0)
    shown, _ = migrate(place)
    assert "Batch 1 is planned and not done; it is planned again from these offsets to the same ends." in shown
    document = json.loads(migrate(place, "--format", "json")[0])
    assert document["done"] is False
    assert document["sources"][0]["next"] == {"t": {"0": 5, "1": 3, "2": 0}}
    assert document["sources"][0]["planned"] == {"t": {"0": 8, "1": 3, "2": 4}}
    to = migrated(place)
    assert ranges(state(to, 0), state(to, 1)) == {"t/0": (5, 8), "t/2": (0, 4)}
    assert not (to / "commits" / "1").exists()


@pytest.mark.parametrize("initial", ['v1\n{"t":{"1":1,"0":2}}', '{"t":{"1":1,"0":2}}'], ids=["v1", "Spark 2.1.0"])
def test_a_first_batch_that_is_not_done_begins_where_the_source_began(tmp_path: Path, initial: str) -> None:
    to = migrated(checkpoint(tmp_path / "from", [NEW], committed=None, initial={"0": initial}))
    assert ranges(EnumeratorState(), state(to, 0)) == {"t/0": (2, 8), "t/1": (1, 3), "t/2": (0, 4)}
    assert (to / "sources" / "0" / "0").read_bytes() == b"\0" + initial.encode()


def test_so_does_one_that_comes_later_than_the_first_of_the_query(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ["-", "5"], [NEW, "6"], committed=0, initial={"0": 'v1\n{"t":{"0":7}}'})
    to = migrated(place)
    assert line(to, 0) == "-"
    assert ranges(EnumeratorState(), state(to, 1)) == {"t/0": (7, 8), "t/1": (0, 3), "t/2": (0, 4)}


def test_it_needs_to_know_where_that_is(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", [NEW], committed=None)
    _, told = migrate(place, code=1)
    assert f"{place / 'sources' / '0' / '0'} is not there; expected where source 0 began" in told
    place = checkpoint(tmp_path / "other", [NEW], committed=None, initial={"0": 'v1\n{"u":{"0":2}}'})
    assert f"{place / 'sources' / '0' / '0'} is of other topics; expected where" in migrate(place, code=1)[1]
    assert "default" in migrate(checkpoint(tmp_path / "done", [NEW], committed=0))[0]


@pytest.mark.parametrize("committed", [0, None])
def test_a_source_that_began_with_no_partition_has_all_from_the_beginning(
    tmp_path: Path, committed: int | None
) -> None:
    """A pattern that matched no topic yet: that is known, and not missing."""
    to = migrated(checkpoint(tmp_path / "from", [NEW], committed=committed, initial={"0": "v1\n{}"}))
    assert ranges(EnumeratorState(), state(to, 0)) == {"t/0": (0, 8), "t/1": (0, 3), "t/2": (0, 4)}
    assert json.loads(invoke("offsets", tmp_path / "from", "--planned")[0]) == json.loads(NEW)


@pytest.mark.parametrize("committed", [0, 1])
def test_an_offset_without_partitions_is_one(tmp_path: Path, committed: int) -> None:
    place = checkpoint(tmp_path / "from", ["{}", "5"], [NEW, "6"], committed=committed, initial={"0": "v1\n{}"})
    to = migrated(place)
    assert positions_of_state(state(to, 0)) == {}
    assert state(to, 0).clusters["default"].discovered, "so what comes is new, and begins at earliest"
    assert ranges(state(to, 0), state(to, 1)) == {"t/0": (0, 8), "t/1": (0, 3), "t/2": (0, 4)}
    back = migrated(to, "--to", "kafka", to=place.parent / "back")
    assert json.loads(line(back, 1)) == json.loads(NEW)
    assert (back / "sources" / "0" / "0").read_bytes() == b"\0v1\n{}"


@pytest.mark.parametrize("void", ["-", "{}"])
def test_a_source_that_has_not_found_a_topic_yet_is_named(tmp_path: Path, void: str) -> None:
    place = checkpoint(tmp_path / "from", [NEW, void, "-"], committed=0, initial={"1": "v1\n{}", "2": "v1\n5"})
    (note,) = json.loads(migrate(place, "--format", "json")[0])["notes"]
    assert f"source 1: it has no offsets yet, and {place / 'sources' / '1' / '0'} says that it is Spark's own" in note
    assert "say startingOffsets=earliest" in note


def test_what_the_batch_leaves_out_is_said(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "from", ['{"t":{"0":5,"1":3}}'], ['{"t":{"0":2}}'], committed=0)
    notes = json.loads(migrate(place, "--format", "json")[0])["notes"]
    assert [note.partition(":")[0] for note in notes] == ["source 0", "source 0"]
    assert "batch 1, which is planned again, leaves out what was to be read of t/0" in notes[0]


def test_one_source_among_several(tmp_path: Path) -> None:
    rows = [(f'{{"logOffset":{n}}}', f'{{"t":{{"0":{n}}}}}', str(n), f'{{"u":{{"0":{n}}}}}') for n in (3, 4)]
    place = checkpoint(tmp_path / "from", *rows, committed=1, initial={"1": 'v1\n{"t":{"0":0}}', "0": "v1\n{}"})
    both = migrated(place, "--cluster", "east", "--cluster", "3=west")
    for batch, (first, _, third, _) in enumerate(rows):
        assert (line(both, batch), line(both, batch, 5)) == (first, third)
    assert (list(state(both, 1, 4).clusters), list(state(both, 1, 6).clusters)) == (["east"], ["west"])
    one = migrated(place, "--source", "3", to=tmp_path / "one")
    assert line(one, 1, 4) == rows[1][1]
    assert positions_of_state(state(one, 1, 6)) == {"default": {("u", 0): 4}}


def test_a_source_that_the_query_reads_twice_has_one_directory(tmp_path: Path) -> None:
    """So the next directory is the one of the source behind it."""
    initial = {"0": 'v1\n{"t":{"0":2}}', "1": "v1\n1700000000000"}
    place = checkpoint(tmp_path / "from", [OLD, OLD, "5"], [NEW, NEW, "6"], committed=0, initial=initial)
    to = migrated(place)
    assert [ranges(state(to, 0, row), state(to, 1, row)) for row in (3, 4)] == [{"t/0": (5, 8), "t/2": (0, 4)}] * 2
    back = migrated(to, "--to", "kafka", to=tmp_path / "back")
    assert json.loads(line(back, 1, 4)) == json.loads(NEW)
    assert {name: data for name, data in contents(back).items() if name.startswith("sources")} == {
        name: data for name, data in contents(place).items() if name.startswith("sources")
    }
    place = checkpoint(tmp_path / "first", [OLD, OLD, "5"], committed=None, initial=initial)
    told = migrate(place, code=1)[1]
    assert f"{place / 'sources' / '1' / '0'} is another source's; expected where source 1 began" in told


def test_two_sources_of_one_topic_have_a_directory_each(tmp_path: Path) -> None:
    initial = {"0": 'v1\n{"t":{"0":2}}', "1": 'v1\n{"t":{"0":1}}'}
    to = migrated(checkpoint(tmp_path / "from", [OLD, OLD], committed=None, initial=initial))
    found = [ranges(EnumeratorState(), state(to, 0, row)) for row in (3, 4)]
    assert found == [{"t/0": (2, 5), "t/1": (0, 3)}, {"t/0": (1, 5), "t/1": (0, 3)}]
    shifted = {"0": "v1\n5", "1": 'v1\n{"t":{"0":2}}', "2": 'v1\n{"t":{"0":1}}'}
    place = checkpoint(tmp_path / "shifted", ["5", "5", OLD, NEW], committed=None, initial=shifted)
    assert "sources/2/0 is another source's; expected where source 2 began" in migrate(place, code=1)[1]


def test_the_id_that_the_query_has_to_have_for_the_cluster_is_said(place: Path) -> None:
    default, east = migrate(place)[0], migrate(place, "--cluster", "east")[0]
    written = migrate(place, "--cluster", "east", "--yes")[0]
    assert "Source 0: the query has to know this cluster as default: the one of kafka.bootstrap.servers is" in default
    assert "If the query has clusters or metadata, say --cluster ID here." in default
    for shown in (east, written):
        assert "Source 0: the query has to know this cluster as east: that has to be its id in clusters or" in shown
    assert (
        "has to know" not in migrate(place.parent / "to", "--to", "kafka", "--assume-stopped", to=place.parent / "x")[0]
    )


def test_version_2_names_the_sources_in_any_order(tmp_path: Path) -> None:
    rows = [[f"ticks:{n}", f'in:{{"t":{{"0":{n}}}}}'] for n in (3, 4)]
    initial = {"in": f"v1\n{OLD}"}
    place = checkpoint(tmp_path / "from", rows[0], rows[1][::-1], committed=0, version="v2", initial=initial)
    to = migrated(place)
    assert (line(to, 0), line(to, 1, 4)) == ("ticks:3", "ticks:4")
    start, end = (decode(json.loads(line(to, *at).removeprefix("in:"))) for at in ((0, 4), (1, 3)))
    assert ranges(start, end) == {"t/0": (3, 4)}
    assert contents(place)["sources/in/0"] == contents(to)["sources/in/0"]


def test_a_topic_of_our_name_is_a_topic(tmp_path: Path) -> None:
    to = migrated(checkpoint(tmp_path / "from", ['{"evensplit":{"0":3}}'], committed=0))
    assert positions_of_state(state(to, 0)) == {"default": {("evensplit", 0): 3}}


def test_the_story_of_a_partition_goes_on(place: Path) -> None:
    to = migrated(place)
    going_on(to, {0: 10}, done=True)
    told = invoke("why", to, "t/0")[0]
    assert "offsets 2 to 4 read; this source did not plan the batch" in told
    assert "offsets 8 to 9 read by reader 0" in told


# Beside the brokers.


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """A cluster with a topic `t` of four partitions, the first of which begins at offset 6."""
    cluster = FakeKafka("default")
    cluster.create_topic("t", 4)
    for partition, count in enumerate((12, 2, 9, 1)):
        cluster.append("t", partition, count)
    cluster.delete_records("t", 0, 9)
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: cluster)
    return cluster


def test_positions_beside_the_logs(place: Path, kafka: FakeKafka) -> None:
    shown, _ = migrate(place, "--bootstrap-servers", "host:9092")
    rows = [" ".join(row.split()) for row in shown.splitlines() if row.strip().startswith("t ")]
    assert rows == [
        "t 0 8 9 12 3 1 offsets are gone unread",
        "t 1 3 0 2 0 the log ends before the position",
        "t 2 4 0 9 5",
    ]
    assert "not in the checkpoint, so read from the first offset if subscribed: t/3" in shown
    document = json.loads(migrate(place, "--bootstrap-servers", "host:9092", "--format", "json")[0])
    assert document["sources"][0]["partitions"][0] == {
        "topic": "t",
        "partition": 0,
        "position": 8,
        "begin": 9,
        "end": 12,
        "behind": 3,
        "lag": 3,
        "lost": 1,
        "problem": "1 offsets are gone unread",
    }
    assert document["obstacles"] == []
    assert document["files"] == ["offsets/0", "offsets/1"]
    assert kafka.closed


def test_what_is_gone_there_is_said(place: Path, kafka: FakeKafka) -> None:
    kafka.delete_topic("t")
    shown, _ = migrate(place, "--bootstrap-servers", "host:9092")
    assert shown.count("the cluster has no such partition") == 3


def test_a_cluster_that_does_not_answer_is_a_note(place: Path, kafka: FakeKafka) -> None:
    kafka.fail_with(ClusterUnreachable("default", "nobody is there"))
    shown, _ = migrate(place, "--bootstrap-servers", "host:9092", "--yes")
    assert "Note: source 0: the logs are not known: cluster 'default': nobody is there." in shown
    assert "is written: 2 files anew" in shown


def test_many_partitions_have_a_row_for_each_topic(tmp_path: Path, kafka: FakeKafka) -> None:
    many = json.dumps({"t": {"0": 5}, "u": {str(number): 7 for number in range(60)}})
    kafka.create_topic("u", 60)
    kafka.append("u", 0, 9)
    place = checkpoint(tmp_path / "from", [many], committed=0)
    rows = [" ".join(row.split()) for row in migrate(place, "--bootstrap-servers", "h:1")[0].splitlines()]
    assert "u 60 in all 2" in rows
    assert "t 0 5 9 12 3 4 offsets are gone unread" in rows
    assert "u 1 7 0 0 0 the log ends before the position" in rows
    assert "u 0 7 0 9 2" not in rows


# Killed.


@pytest.mark.lengthy
def test_killed_in_the_middle_it_leaves_the_source_and_no_half_target(place: Path) -> None:
    """And again, it goes through. One that is quicker than the kill is given more to do."""
    before, to, left = contents(place), place.parent / "to", list[Path]()
    for files in (500, 2_000, 8_000):
        for number in range(files):
            (place / "state" / "0" / "0" / f"{number}.snapshot").write_bytes(b"x")
        age(place)
        before = contents(place)
        command = [sys.executable, "-m", "evensplit.cli", "migrate", str(place), str(to), "--yes"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            wait_for(lambda: checkpoint_copy.left_over(to) or to.exists())
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert contents(place) == before
        left = checkpoint_copy.left_over(to)
        if left:
            break
        assert set(contents(to)) == set(before)
        shutil.rmtree(to)
    assert left
    assert not to.exists()
    shown, _ = migrate(place)
    assert f"{left[0]} is left over from an attempt that was killed; remove it" in shown
    assert set(contents(migrated(place))) == set(before)
