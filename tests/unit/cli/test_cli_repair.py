"""`evensplit rewind`, `skip`, `fork`, `rename-cluster`, `drop` and `undo`: what they show, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evensplit.checkpoint.checkpoint import read_checkpoint
from evensplit.checkpoint.history import query_id_of
from evensplit.core.batch.plan import batch_ranges
from evensplit.core.model import SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import age, checkpoint, contents, put
from tests.support.commands import invoke
from tests.support.edited import lines, ours, positions, shown_rows, states

KEY = SplitId("default", "orders", 0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three batches, all done: partition 0 is at 30, partition 1 at 25."""
    return ours(tmp_path / "orders")


def document(*arguments: object, code: int = 0) -> dict[str, Any]:
    found = json.loads(invoke(*arguments, "--format", "json", code=code)[0])
    assert isinstance(found, dict)
    return found


def test_without_yes_it_is_shown_and_nothing_is_written(place: Path) -> None:
    before = contents(place)
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":12}}')
    assert "Batch 2 is done. The edit becomes batch 3, which the query does first when it starts." in shown
    assert '`evensplit rewind --to {"orders":{"0":12}}`: 1 partition goes back, so 18 offsets are read again.' in shown
    assert shown_rows(shown) == [["default/orders/0", "30", "12", "18"]]
    assert "partition          next after batch 3   becomes   read again" in shown
    assert "Note: 1 partition stays where it is." in shown
    assert "The sink gets the records of up to 18 offsets a second time" in shown
    assert f"Nothing was written. With --yes, {place} is edited so. Make sure that its query is stopped" in shown
    assert contents(place) == before


def test_with_yes_the_query_goes_on_there_and_why_tells_it(place: Path) -> None:
    shown, _ = invoke("rewind", place, "--to", '{"orders":{"0":12}}', "--yes")
    assert f"Written. Start the query as always; `evensplit undo {place}` takes the edit back until then." in shown
    assert positions(place) == {"default/orders/0": 12, "default/orders/1": 25}
    found = read_checkpoint(place)
    assert found.replays
    assert batch_ranges(found.batches[-2].ours["0"], found.newest.ours["0"]) == ()
    story, _ = invoke("why", place, "orders/0")
    assert 'went back from offset 30 to 12: `evensplit rewind --to {"orders":{"0":12}}`, of 20' in story
    assert "Now, after batch 3: next offset 12; with reader 0." in story
    told, _ = invoke("inspect", place)
    assert "1 partition goes back by 18 offsets" in told


@pytest.mark.usefixtures("kafka")
def test_a_query_that_seems_to_run_hinders(place: Path) -> None:
    put(place / "commits" / "2", b"v1\n{}")
    (place / "commits" / "2").touch()
    _, told = invoke("skip", place, "orders/0:31", "--yes", code=1)
    assert f"a query may still run on {place}: " in told
    assert "or say --assume-stopped" in told
    shown, _ = invoke("skip", place, "orders/0:31", "--yes", code=1)
    assert "Nothing was written.\n" in shown
    assert "With --yes" not in shown
    invoke("skip", place, "orders/0:31", "--yes", "--assume-stopped")
    age(place)
    # What the edit has written itself is no sign, and nothing could show a query that is in its batch by now.
    _, told = invoke("skip", place, "orders/0:32", "--yes", code=1)
    assert told.startswith("Error: batch 3 is planned and not done, and a query that is in it at this moment may write")
    assert "With --yes --assume-stopped, " in invoke("skip", place, "orders/0:32")[0]
    invoke("skip", place, "orders/0:32", "--yes", "--assume-stopped")
    assert "and a sink that has had it already would not take more" in invoke("skip", place, "orders/0:35", code=1)[1]


def test_a_poison_record_of_a_batch_that_fails(tmp_path: Path) -> None:
    place = ours(tmp_path / "orders", committed=1)
    before = contents(place)
    assert "Stop the query, and say --assume-stopped" in invoke("skip", place, "orders/0:24", "--yes", code=1)[1]
    assert contents(place) == before
    (place / "offsets" / "2").touch()
    for yes in ([], ["--yes"]):
        _, told = invoke("skip", place, "orders/0:24", *yes, code=1)
        assert "; and batch 2 is planned and not done, so later nothing would show it either. Stop the query" in told
        assert "wait" not in told
        assert told.count("--assume-stopped") == 1
    shown, _ = invoke("skip", place, "orders/0:24", "--yes", "--assume-stopped")
    assert "Batch 2 is planned and not done. The edit goes into it; the query does it first when it starts." in shown
    assert "`evensplit skip orders/0:24`: default/orders/0: offset 24 is never read." in shown
    assert shown_rows(shown) == [["default/orders/0", "30", "30", "1"]]
    assert "next after batch 2" in shown
    assert "Batch 2 was begun and not finished: the sink may have some of its records already." in shown
    found = read_checkpoint(place)
    ranges = batch_ranges(found.batches[-2].ours["0"], found.newest.ours["0"])
    assert [part[1:] for part in ranges if part.split == KEY] == [(20, 24), (25, 30)]
    story, _ = invoke("why", place, "orders/0")
    assert "offsets 20 to 23 and 25 to 29 read by reader 0" in story


def test_all_that_is_unread(place: Path, kafka: FakeKafka) -> None:
    shown, _ = invoke("skip", place, "orders/0", "--yes")
    assert shown_rows(shown) == [["default/orders/0", "30", "40", "10"]]
    _, told = invoke("skip", place, "orders/0", code=1)
    assert "default/orders/0 has nothing unread: its log ends at offset 40, and 40 is the next one" in told


def test_what_the_log_does_not_have_cannot_be_skipped(place: Path, kafka: FakeKafka) -> None:
    invoke("skip", place, "orders/0:38-39")
    _, told = invoke("skip", place, "orders/0:38-40", code=1)
    assert "default/orders/0: its log ends at offset 40; expected offsets to skip before that" in told
    kafka.fail_with(ClusterUnreachable("default", "nobody is there"))
    shown, _ = invoke("skip", place, "orders/0:38-40")
    assert "Note: It is not known whether the log goes so far: " in shown
    assert "nobody is there" in shown


def test_a_range_of_a_batch_that_was_planned_is_skipped_without_asking(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.fail_with(ClusterUnreachable("default", "nobody is there"))
    shown, _ = invoke("skip", ours(tmp_path / "orders", committed=1), "orders/0:24")
    assert "not known" not in shown


def test_a_range_far_ahead_is_pointed_out(place: Path, kafka: FakeKafka) -> None:
    kafka.append("orders", 0, 2_000_000)
    shown, _ = invoke("skip", place, "orders/0:2000030-2000031")
    assert "The batch reads 2,000,000 offsets at once, whatever the limits of the query" in shown


@pytest.mark.parametrize(
    "what, code, said",
    [
        ("orders/0:12", 1, "offset 12 was read by an earlier batch, so the sink has it; expected offsets from 30 on"),
        ("orders/7:12", 1, "there is no partition orders/7 in the checkpoint; it has partitions of default/orders"),
        ("orders/0:5-", 2, "expected FROM or FROM-TO after the colon, as in orders/3:120-129"),
        ("orders/0:-5", 2, "expected FROM or FROM-TO after the colon"),
        ("orders/0:9-5", 2, "expected FROM at or before TO; found 9 and 5"),
        ("orders:9", 2, "expected CLUSTER/TOPIC/PARTITION"),
    ],
)
def test_what_cannot_be_skipped(place: Path, what: str, code: int, said: str) -> None:
    assert said in invoke("skip", place, what, code=code)[1]


def test_two_sources_of_one_topic_have_to_be_told_apart(tmp_path: Path, kafka: FakeKafka) -> None:
    kafka.fail_with(ClusterUnreachable("default", "down"))
    place = checkpoint(tmp_path / "x", *[lines(one) * 2 for one in states()], committed=2)
    for source in ("0", "1"):
        put(place / "sources" / source / "0", b"\0v1\n{}")
    _, told = invoke("skip", place, "orders/0:40", code=1)
    assert (
        "orders/0 is read by sources 0 (next offset 30), 1 (next offset 30) of the query; expected --source with"
        in told
    )
    shown, _ = invoke("rewind", place, "--to", "batch:1")
    assert shown.count("The logs were not asked") == 1, "both sources have that note"
    invoke("skip", place, "orders/0:40", "--source", "1", "--yes")
    newest = read_checkpoint(place).newest.ours
    assert (newest["0"].splits[KEY].position, newest["1"].splits[KEY].position) == (30, 41)
    assert "expected one of 0, 1" in invoke("drop", place, "default", "--source", "5", code=2)[1]


def test_what_one_source_has_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    rows = [[*lines(one), *lines(other)] for one, other in zip(states("east"), states("west"), strict=True)]
    place = checkpoint(tmp_path / "x", *rows, committed=2)
    shown, _ = invoke("rewind", place, "--to", "batch:1", "--only", "west/orders/0", "--yes")
    assert [row.split()[0] for row in shown.splitlines() if row.strip().startswith(("east/", "west/"))] == [
        "west/orders/0"
    ]
    assert "Source 1 of the query, west/orders: `evensplit rewind" in shown
    assert "Source 1 of the query, west/orders\n" in invoke("inspect", place)[0]
    invoke("rename-cluster", place, "east", "north", "--yes", "--assume-stopped")
    assert "there is no south in the checkpoint" in invoke("drop", place, "south", code=1)[1]
    _, told = invoke("drop", place, "nort", code=1)
    assert "there is no nort in the checkpoint; it has north, north/orders; did you mean north" in told
    assert [list(state.clusters) for state in read_checkpoint(place).newest.ours.values()] == [["north"], ["west"]]
    assert "no partition is left" in invoke("drop", place, "west", code=1)[1]


def test_drop(place: Path) -> None:
    shown, _ = invoke("drop", place, "default/orders/1", "--yes")
    assert shown_rows(shown) == [["default/orders/1", "25", "forgotten"]]
    assert "unless it is to be read anew: what they still name of it is read from its first offset" in shown
    assert positions(place) == {"default/orders/0": 30}
    assert "was forgotten: `evensplit drop default/orders/1`" in invoke("why", place, "orders/1")[0]
    assert "no partition is left" in invoke("drop", place, "default", code=1)[1]
    assert "expected CLUSTER, CLUSTER/TOPIC or" in invoke("drop", place, "a/b/c/d", code=2)[1]


def test_rename_cluster(place: Path) -> None:
    shown, _ = invoke("rename-cluster", place, "default", "eu", "--yes")
    assert "`evensplit rename-cluster default eu`: cluster default is called eu." in shown
    assert positions(place) == {"eu/orders/0": 30, "eu/orders/1": 25}
    story, _ = invoke("why", place, "eu/orders/0")
    assert "was called default/orders/0 before" in story
    assert invoke("why", place, "orders/0")[0] == story
    assert "expected 1 to" in invoke("rename-cluster", place, "eu", "a/b", code=2)[1]


def test_a_fork_is_another_query_at_the_same_place(place: Path) -> None:
    before = contents(place)
    new = place.parent / "new"
    shown, _ = invoke("fork", place, new)
    assert f"With --yes, {new} becomes a copy of" in shown
    assert not new.exists()
    shown, _ = invoke("fork", place, new, "--yes")
    assert f"{new} is written. Start the second query with it; {place} stays as it is." in " ".join(shown.split())
    assert contents(place) == before
    assert query_id_of(new) not in ("", query_id_of(place))
    after = contents(new)
    assert {name for name, data in after.items() if before.get(name) != data} == {
        "metadata",
        ".metadata.crc",
        "offsets/3",
        "offsets/.3.crc",
        "evensplit-edits/1",
        "evensplit-edits/.1.crc",
    }
    assert positions(new) == positions(place)
    assert "goes on in a copy of the checkpoint" in invoke("why", new, "orders/0")[0]
    assert "is there already" in invoke("fork", place, new, "--yes", code=1)[1]
    # What the copy has written itself is no sign of a query, and its batch none of one.
    shown, _ = invoke("rewind", new, "--to", "batch:1")
    assert "was begun and not finished" not in shown
    assert "is a copy, and stays one" in invoke("undo", new, code=1)[1]


def test_a_query_that_moves_keeps_its_id(place: Path) -> None:
    new, before = place.parent / "new", contents(place)
    (place / "commits" / "2").unlink()
    shown, _ = invoke("fork", place, new, "--same-query", "--yes")
    told = " ".join(shown.split())
    assert f"{new} is written. Start the query with it, and never again with {place}." in told
    assert f"NEW is the same query in another place, with its id, {query_id_of(place)}, so sinks know" in told
    assert "Batch 2 was begun and not finished" in told
    assert query_id_of(new) == query_id_of(place)
    changed = {name for name, data in contents(new).items() if before.get(name) != data}
    assert changed == {"offsets/2", "offsets/.2.crc", "evensplit-edits/1", "evensplit-edits/.1.crc"}
    assert f"`evensplit fork {new} --same-query`" in invoke("why", new, "orders/0")[0]


def test_offsets_can_be_pasted_as_sentences_write_them(place: Path, kafka: FakeKafka) -> None:
    found = document("skip", place, "orders/0:3,0-3,2", "--format", "json")
    assert found["sources"][0]["edit"]["said"] == "orders/0:30-32"


def test_options_that_cannot_be_are_no_note(place: Path) -> None:
    _, told = invoke("skip", place, "orders/0:35", "--option", "kafka.security.protocol=NONSENSE", "--yes", code=2)
    assert "security.protocol" in told
    assert "expected one of 0" in invoke("skip", place, "orders/0", "--source", "7", code=2)[1]


def test_programs_are_told_where_a_copy_is_and_whose(place: Path) -> None:
    new = place.parent / "new"
    found = document("fork", place, new, "--yes", "--format", "json")
    assert (found["checkpoint"], found["copy"], found["queryId"]) == (str(place), str(new), query_id_of(new))


def test_undo(place: Path) -> None:
    before = contents(place)
    assert "has no edit that could be taken back: its last batch is of a query" in invoke("undo", place, code=1)[1]
    invoke("rewind", place, "--to", "batch:1", "--yes")
    edited = contents(place)
    shown, _ = invoke("undo", place)
    assert "The last edit: `evensplit rewind --to batch:1`, of 20" in shown
    assert "The sink may have batch 3 then, as the edit has made it" in shown
    assert "Nothing was written. With --yes --assume-stopped, it is taken back." in shown
    assert "batch 3 is planned and not done" in invoke("undo", place, "--yes", code=1)[1]
    assert contents(place) == edited
    assert document("undo", place, "--yes", "--assume-stopped")["written"] is True
    assert contents(place) == before


def test_as_json(place: Path) -> None:
    found = document("rewind", place, "--to", "batch:2")
    notes = found.pop("notes")
    assert len(notes) == 3
    edit = found["sources"][0].pop("edit")
    assert edit.pop("atMs") > 0
    assert edit == {
        "command": "rewind",
        "said": "--to batch:2",
        "jumps": [{"split": "default/orders/0", "at": 30, "to": 20}, {"split": "default/orders/1", "at": 25, "to": 10}],
        "dropped": [],
        "renamed": [],
        "what": "`evensplit rewind --to batch:2`: 2 partitions go back, so 25 offsets are read again",
    }
    assert found == {
        "checkpoint": str(place),
        "batch": 3,
        "isNew": True,
        "written": False,
        "obstacles": [],
        "readAgain": 25,
        "neverRead": 0,
        "sources": [
            {
                "source": "0",
                "leftOut": [],
                "partitions": [
                    {
                        "split": f"default/orders/{partition}",
                        "next": at,
                        "nextEdited": to,
                        "readAgain": at - to,
                        "neverRead": 0,
                        "readByBatch": 0,
                    }
                    for partition, at, to in ((0, 30, 20), (1, 25, 10))
                ],
            }
        ],
    }


def test_state_and_watermark_are_pointed_out(place: Path) -> None:
    put(place / "commits" / "2", b'v1\n{"nextBatchWatermarkMs":1700000000000}')
    shown, _ = invoke("rewind", place, "--to", "batch:1")
    late = "unless it is before its watermark, 2023-11-14 22:13:20, and so late"
    assert f"The query keeps state: what is read again counts there once more, {late}" in shown


def test_a_checkpoint_without_anything_of_evensplit(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "x", ['{"t":{"0":5}}'], committed=0)
    for arguments in (("rewind", place, "--to", "batch:0"), ("drop", place, "x"), ("fork", place, tmp_path / "y")):
        assert "has no offset of evensplit, and so there is nothing to edit" in invoke(*arguments, code=1)[1]


TWICE: dict[str, list[str]] = {
    "skip": ["orders/0:24"],
    "rewind": ["--to", "batch:1"],
    "drop": ["default/orders/0"],
    "rename-cluster": ["default", "east"],
}
"""An edit of each kind, of a query that reads one source twice."""


@pytest.mark.parametrize("command", TWICE)
def test_a_source_that_the_query_reads_twice_is_edited_in_all_its_lines(tmp_path: Path, command: str) -> None:
    # Spark starts both from the last line.
    union = checkpoint(tmp_path / "union", *[lines(one) * 2 for one in states()], committed=1)
    for one in ("0", "1"):
        _, said = invoke(command, union, *TWICE[command], "--source", one, "--yes", "--assume-stopped", code=1)
        assert "the query reads one source twice, as sources 0 and 1 of the checkpoint" in said
        assert f"--source names {one} alone, expected all of them, or none" in said
    invoke(command, union, *TWICE[command], "--source", "0", "--source", "1")
    invoke(command, union, *TWICE[command], "--yes", "--assume-stopped")
    edited = read_checkpoint(union).newest
    assert [[edit.line.split()[1] for edit in state.edits] for state in edited.ours.values()] == [[command]] * 2
    assert len({line.text for line in edited.text.offsets.values()}) == 1


def test_sources_that_differ_are_edited_one_by_one(tmp_path: Path) -> None:
    rows = [[*lines(one), *lines(other)] for one, other in zip(states(), states(servers="other:9092"), strict=True)]
    two = checkpoint(tmp_path / "two", *rows, committed=1)
    assert read_checkpoint(two).repeated == ("0", "1")
    invoke("skip", two, "orders/0:24", "--source", "0", "--yes", "--assume-stopped")
    assert [len(state.edits) for state in read_checkpoint(two).newest.ours.values()] == [1, 0]


def test_nothing_is_taken_back_or_copied_while_a_query_seems_to_run(place: Path, tmp_path: Path) -> None:
    invoke("rewind", place, "--to", '{"orders":{"0":12}}', "--yes")
    (place / "commits" / "2").touch()
    before = contents(place)
    new = tmp_path / "new"
    for command in (["undo", place], ["fork", place, new]):
        shown, said = invoke(*command, "--yes", code=1)
        assert "a query may still run on" in said
        assert "commits/2 was written" in said
        assert "Nothing was written." in shown
    assert contents(place) == before
    assert not new.exists()
    invoke("fork", place, new, "--yes", "--assume-stopped")
    invoke("undo", place, "--yes", "--assume-stopped")
    assert positions(place)["default/orders/0"] == 30
