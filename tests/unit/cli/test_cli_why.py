"""`evensplit why`: a split's story from the files of a checkpoint, and what it says of files that it cannot read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.checkpoint import offset_log
from evensplit.checkpoint.files import batches_of
from evensplit.checkpoint.offset_log import read_offset_log
from evensplit.cli.group import evensplit
from evensplit.core.model import ClusterState, Held, Split, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.state import EnumeratorState
from tests.support.histories import line, write_batch


def state(
    position: int,
    owner: int = 0,
    *,
    clusters: str = "e",
    topics: tuple[str, ...] = ("orders",),
    first: int | None = None,
) -> EnumeratorState:
    """Partitions 0 and 1 of each topic of each cluster, all at one position and with one reader."""
    keys = [SplitId(f"{one}ast", topic, number) for one in clusters for topic in topics for number in (0, 1)]
    return EnumeratorState(
        3,
        {key.cluster: ClusterState(key.cluster, ("host:1",), False, True) for key in keys},
        {key: Split(key, "id", position, first, owner) for key in keys},
        begun=True,
        assigned_readers=(0, 1, 2),
    )


def write(checkpoint: Path, batch: int, *offsets: str, version: str = "v1", metadata: str | None = None) -> Path:
    """An offset file as Spark writes it, and the commit of the batch before."""
    at_ms = 1_700_000_000_000 + 1_000 * batch
    return write_batch(checkpoint, batch, *offsets, at_ms=at_ms, version=version, head=metadata)


def run(checkpoint: Path, split: str, *options: str, width: int = 100) -> str:
    result = CliRunner().invoke(evensplit, ["why", str(checkpoint), split, *options], env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    return "\n".join(row.rstrip() for row in result.stdout.splitlines())


def refused(checkpoint: Path, split: str, code: int = 1) -> str:
    result = CliRunner().invoke(evensplit, ["why", str(checkpoint), split])
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Batches 5 to 9: read by reader 0, and by reader 1 from batch 8 on."""
    for batch in range(5, 10):
        write(tmp_path, batch, line(state(100 * batch, int(batch > 7))))
    return tmp_path


def test_the_story_as_a_table(kept: Path) -> None:
    assert (
        run(kept, "east/orders/1", width=80)
        == """\
east/orders/1

  batch      planned (UTC)            what happened
 ──────────────────────────────────────────────────────────────────────────────
  before 6                            already there; next offset 500; with
                                      reader 0
  6-7        2023-11-14 22:13:26 to   offsets 500 to 699 read by reader 0
             2023-11-14 22:13:27
  8          2023-11-14 22:13:28      moved from reader 0 to reader 1: the
                                      readers were uneven
                                      offsets 700 to 799 read by reader 1
  9          2023-11-14 22:13:29      offsets 800 to 899 read by reader 1

Now, after batch 9: next offset 900; with reader 1."""
    )


def test_the_cluster_may_be_left_out_where_there_is_one(kept: Path) -> None:
    assert run(kept, "orders/1") == run(kept, "east/orders/1")


def test_the_story_as_json(kept: Path) -> None:
    document = json.loads(run(kept, "orders/0", "--format", "json"))
    assert list(document) == ["checkpoint", "firstBatch", "lastBatch", "committed", "notes", "stories"]
    assert (document["firstBatch"], document["lastBatch"], document["committed"]) == (5, 9, True)
    (story,) = document["stories"]
    assert (story["source"], story["split"], story["knownFrom"]) == ("0", "east/orders/0", 6)
    assert [chapter["reading"] for chapter in story["chapters"]] == [
        {"readers": [0], "start": 500, "end": 700, "insteadOf": None, "leftOut": []},
        {"readers": [1], "start": 700, "end": 800, "insteadOf": None, "leftOut": []},
        {"readers": [1], "start": 800, "end": 900, "insteadOf": None, "leftOut": []},
    ]
    assert [chapter["held"] for chapter in story["chapters"]] == [[], [], []]


@pytest.mark.parametrize("width", [60, 80])
def test_what_is_waited_for_is_shown_in_full(tmp_path: Path, width: int) -> None:
    waited = f"{'d' * 60}/{'u' * 249}/1234567"
    write(tmp_path, 0, line(state(0)))
    write(tmp_path, 1, line(replace(state(5), held=(Held("alignment", waited),))))
    shown = run(tmp_path, "orders/0", width=width)
    assert "…" not in shown
    assert waited in "".join(shown.split())


def test_nothing_of_a_checkpoint_gets_to_the_terminal_raw(tmp_path: Path) -> None:
    forged = "x\x1b[2J\nNow, after batch 9: forged"
    key = SplitId(f"east{forged}", "orders", 0)
    found = EnumeratorState(
        1, {key.cluster: ClusterState(key.cluster, ("host:1",), False, True)}, begun=True, assigned_readers=(0,)
    )
    for number in range(2):
        end = replace(found, splits={key: Split(key, "id", number, None, 0)}, held=(Held(forged),))
        write(tmp_path, number, line(end))
    shown = run(tmp_path, "orders/0")
    assert "\x1b" not in shown
    assert "\nNow, after batch 9" not in shown
    assert shown.startswith("eastx\\x1b[2J\\nNow, after batch 9: forged/orders/0\n")
    assert "held by x\\x1b[2J\\nNow, after batch 9: forged" in " ".join(shown.split())
    for other in ("orders/1", "order/0", "clicks/7"):
        said = CliRunner().invoke(evensplit, ["why", str(tmp_path), other])
        assert said.exit_code == 1
        assert "forged" in said.output
        assert "\x1b" not in said.output
        assert said.output.strip().count("\n") == 0


def test_what_spark_writes_beside_the_files_is_left_alone(kept: Path) -> None:
    before = run(kept, "orders/1")
    for name in (".9.crc", ".10.5f1c.tmp", "10.tmp", "_metadata", "١٢"):
        (kept / "offsets" / name).write_text("rubbish")
    assert run(kept, "orders/1") == before


def test_a_batch_that_is_not_committed_is_said_to_be_so(kept: Path) -> None:
    (kept / "commits" / "9").unlink()
    assert run(kept, "orders/1").endswith("Batch 9 is planned, but Spark has not committed it yet.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v",
        "v1",
        'v1\n{"batchTimest',
        "v1\n{}",
        "v1\n{}\n" + line(state(1_000, 1))[:-40],
        'v1\n{}\n{"even',
    ],
)
def test_a_file_that_is_being_written_is_left_out_with_a_note(kept: Path, text: str) -> None:
    (kept / "offsets" / "10").write_text(text)
    found = run(kept, "orders/1", width=200)
    assert "Now, after batch 9: next offset 900; with reader 1." in found
    assert "Note: batch 10 is left out: its offset file is not complete yet" in found


def test_a_file_in_the_middle_that_is_not_whole_is_named(kept: Path) -> None:
    (kept / "offsets" / "7").write_text(line(state(1)))
    assert f"{kept / 'offsets' / '7'}: it begins with '{{" in refused(kept, "orders/1")
    (kept / "offsets" / "7").write_bytes(b"v1\n{}\n\xff")
    assert f"{kept / 'offsets' / '7'}: it is not UTF-8" in refused(kept, "orders/1")


def test_a_damaged_offset_is_named_also_in_the_newest_file(kept: Path) -> None:
    write(kept, 9, line(state(900, 1)).replace("900", "901"))
    told = refused(kept, "orders/1")
    assert f"{kept / 'offsets' / '9'}, line 3: the offset's checksum is" in told
    write(kept, 9, json.dumps({**encode(state(1)), "evensplit": 99}))
    assert "was written in format 99" in refused(kept, "orders/1")


def test_a_version_that_is_not_known_is_named(kept: Path) -> None:
    write(kept, 9, line(state(1)), version="v3")
    assert f"{kept / 'offsets' / '9'} has version v3; expected one of v1, v2" in refused(kept, "orders/1")


def test_version_2_names_the_sources(tmp_path: Path) -> None:
    for batch in (3, 4):
        write(tmp_path, batch, f"in:{line(state(batch))}", 'rate:{"offset":{"a":1}}', "gone:-", version="v2")
    assert read_offset_log(tmp_path).sources == ("in",)
    assert "offset 3 read by reader 0" in run(tmp_path, "orders/0")


def test_files_that_are_missing_in_between_are_noted(kept: Path) -> None:
    (kept / "offsets" / "7").unlink()
    assert "Note: offset files are missing: 7; what happened then is told with the next batch." in run(kept, "orders/1")
    write(kept, 30, line(state(3_000, 1)))
    assert "missing: 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, … 21 in all;" in run(kept, "orders/1", width=200)


def test_without_a_time_there_is_none(tmp_path: Path) -> None:
    for batch, metadata in enumerate(("", "7", "{}", '{"batchTimestampMs": "x"}')):
        write(tmp_path, batch, line(state(batch)), metadata=metadata)
    document = json.loads(run(tmp_path, "orders/0", "--format", "json"))
    assert {chapter["lastMs"] for chapter in document["stories"][0]["chapters"]} == {None}
    assert "?" in run(tmp_path, "orders/0")


def test_of_several_sources_those_that_know_it_tell(tmp_path: Path) -> None:
    for batch in (3, 4, 5):
        other = "-" if batch == 3 else line(state(10 * batch))
        topics = line(state(batch, topics=("clicks",)))
        write(tmp_path, batch, line(state(batch)), '{"logOffset":4}', other, "7", topics, '{"orders":{"0":5}}', "text")
    found = run(tmp_path, "orders/0")
    assert [row for row in found.splitlines() if row.startswith("east")] == [
        "east/orders/0, source 0 of the query",
        "east/orders/0, source 2 of the query",
    ]
    assert "offsets 3 to 4 read by reader 0" in found
    assert "offsets 40 to 49 read by reader 0" in found
    document = json.loads(run(tmp_path, "clicks/1", "--format", "json"))
    assert [story["source"] for story in document["stories"]] == ["4"]


def test_spark_may_throw_files_away_meanwhile(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = batches_of(kept)
    monkeypatch.setattr(offset_log, "batches_of", lambda checkpoint: [3, 4, *listed])
    assert [file.batch for file in read_offset_log(kept).files] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "split", ["orders", "orders/", "/1", "a/b/c/1", "east/orders/x", "east//1", "orders/-1", "orders/²"]
)
def test_what_is_no_split_is_a_wrong_use(kept: Path, split: str) -> None:
    assert "expected CLUSTER/TOPIC/PARTITION, as in east/orders/3" in refused(kept, split, code=2)


def test_a_checkpoint_that_is_none(tmp_path: Path, kept: Path) -> None:
    assert f"there is no directory {tmp_path / 'x'}" in refused(tmp_path / "x", "orders/1")
    assert f"has no directory offsets; expected a query's checkpointLocation. Did you mean {kept}?" in refused(
        kept / "offsets", "orders/1"
    )
    assert "expected a query's checkpointLocation ES-400: " in refused(kept / "commits", "orders/1")
    empty = tmp_path / "empty"
    (empty / "offsets").mkdir(parents=True)
    assert "the query has not planned a batch yet" in refused(empty, "orders/1")
    (empty / "offsets" / "0").write_text("v1")
    assert "has no complete offset file yet" in refused(empty, "orders/1")
    (empty / "offsets" / "0").unlink()
    (empty / "offsets" / "0").mkdir()
    assert f"{empty / 'offsets' / '0'}: Is a directory" in refused(empty, "orders/1")


def test_a_query_without_this_source(tmp_path: Path) -> None:
    write(tmp_path, 0, '{"orders":{"0":5}}', "-", "5")
    assert "a query that has no source of this package" in refused(tmp_path, "orders/0")


def known(topics: tuple[str, ...], clusters: str = "e") -> dict[str, Any]:
    return {"topics": topics, "clusters": clusters}


@pytest.mark.parametrize(
    "there, asked, told",
    [
        (known(("orders",)), "orders/7", "of this topic there are east/orders/0, east/orders/1"),
        (known(("orders",)), "orders/" + "7" * 5_000, "of this topic there are east/orders/0, east/orders/1"),
        (known(("orders",)), "west/orders/0", "Did you mean one of east/orders/0, east/orders/1?"),
        (known(("orders",)), "order/1", "Did you mean one of east/orders/1, east/orders/0?"),
        (known(("orders", "x")), "zzz/1", "of topics there are east/orders, east/x"),
        (known(("orders",)), "zzz/1", "of topics there is east/orders"),
        (known(tuple("abcdefg")), "zzz/1", "east/e, … 7 in all"),
        (known(()), "zzz/1", "nothing has been found to read yet"),
        (
            known(("orders",), "ew"),
            "orders/1",
            "orders/1 is in several clusters; say which: east/orders/1, wast/orders/1",
        ),
    ],
)
def test_a_split_that_is_not_there(tmp_path: Path, there: dict[str, Any], asked: str, told: str) -> None:
    write(tmp_path, 4, line(state(1, **there)))
    assert told in refused(tmp_path, asked)


def named(position: int, new: str = "", **ids: str) -> str:
    """As `state`, of Kafka clusters with these ids, by their names; reading of the `new` one begins in this batch."""
    found = state(position, clusters="".join(name[0] for name in ids))
    splits = {key: one._replace(first=position) if key.cluster == new else one for key, one in found.splits.items()}
    clusters = {name: replace(found.clusters[name], kafka_id=ids[name]) for name in ids}
    return line(replace(found, clusters=clusters, splits=splits))


def test_a_cluster_that_was_renamed_is_one_unless_another_has_its_former_name(tmp_path: Path) -> None:
    for batch, ids in enumerate(({"east": "1"}, {"mast": "1"}, {"mast": "1"}, {"wast": "1"})):
        write(tmp_path, batch, named(100 * batch, **ids))
    assert run(tmp_path, "orders/1") == run(tmp_path, "wast/orders/1")
    write(tmp_path, 4, named(400, "east", east="2", wast="1"))
    assert "is in several clusters; say which: east/orders/1, wast/orders/1" in refused(tmp_path, "orders/1")
    write(tmp_path, 5, named(500, wast="1", xast="2"))
    assert "say which: wast/orders/1, xast/orders/1" in refused(tmp_path, "orders/1")
