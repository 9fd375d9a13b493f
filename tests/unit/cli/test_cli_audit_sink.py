"""`evensplit audit sink`: files of a sink beside a checkpoint, with and without the logs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from evensplit.cli.audit import batches, sink
from evensplit.cli.audit.offset_sets import OffsetCounts
from evensplit.cli.live import log_ends
from evensplit.core.model import Range, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.checkpoints import checkpoint
from tests.support.commands import invoke
from tests.support.histories import state, write

Row = tuple[str, int, int]


def rows(topic: str, partition: int, *bounds: tuple[int, int]) -> list[Row]:
    return [(topic, partition, offset) for start, end in bounds for offset in range(start, end)]


def table(found: Sequence[Row], **more: str) -> pa.Table:
    topics, partitions, offsets = zip(*found, strict=True)
    columns = {"topic": pa.array(topics), "partition": pa.array(partitions, pa.int32()), "offset": pa.array(offsets)}
    same = {name: pa.array([value] * len(found)) for name, value in more.items()}
    return pa.table({"value": pa.array([b"x"] * len(found)), **columns, **same})


def put(path: Path, found: Sequence[Row], **more: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(found, **more), path, row_group_size=7)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Spark's own source: batch 0 has read t/0 from 2 to 10, batch 1 to 20 and t/1 up to 5; batch 2 is not done."""
    lines = ['{"t":{"0":10}}'], ['{"t":{"0":20,"1":5}}'], ['{"t":{"0":25,"1":5}}']
    return checkpoint(tmp_path / "kept", *lines, committed=1, initial={"0": 'v1\n{"t":{"0":2}}'})


WHOLE = (*rows("t", 0, (2, 20)), *rows("t", 1, (0, 5)))


def audit(place: Path, kept: Path, *options: str, code: int = 0) -> tuple[Any, str]:
    shown, told = invoke("audit", "sink", place, "--checkpoint", kept, "--format", "json", *options, code=code)
    return json.loads(shown), told


def stretches(report: Any) -> list[tuple[str, str, int | None, int, int]]:
    found = []
    for one in report["ranges"]:
        assert one["offsets"] == one["last"] - one["first"] + 1
        found.append((one["fault"], f"{one['topic']}/{one['partition']}", one["batch"], one["first"], one["last"]))
    return found


def test_all_there_each_once(tmp_path: Path, kept: Path) -> None:
    place = tmp_path / "sink"
    put(place / "a.parquet", WHOLE[::2])
    put(place / "b.parquet", WHOLE[1::2])
    put(place / "_temporary" / "c.parquet", WHOLE)
    report, _ = audit(place, kept)
    assert (report["well"], report["batches"], report["records"], report["files"]) == (True, 2, 23, 2)
    shown, _ = invoke("audit", "sink", place, "--checkpoint", kept)
    assert shown == "2 batches, 23 records: all there, each once.\n"
    # Rows of the batch that is not done may be there already.
    put(place / "c.parquet", rows("t", 0, (20, 23)))
    audit(place, kept)


def test_missing_twice_and_never_read(tmp_path: Path, kept: Path) -> None:
    place = tmp_path / "sink"
    put(place / "a.parquet", [*rows("t", 0, (0, 8), (12, 20)), *rows("t", 1, (0, 3), (4, 5))])
    put(place / "b.parquet", [*rows("t", 0, (4, 6), (25, 26)), *rows("u", 0, (7, 8))])
    report, _ = audit(place, kept, code=1)
    assert stretches(report) == [
        ("never read", "t/0", None, 0, 1),
        ("twice", "t/0", 0, 4, 5),
        ("not known", "t/0", 0, 8, 9),
        ("not known", "t/0", 1, 10, 11),
        ("never read", "t/0", None, 25, 25),
        ("not known", "t/1", 1, 3, 3),
        ("never read", "u/0", None, 7, 7),
    ]
    assert (
        "5 offsets may be missing, or no records: that cannot be told apart without the cluster" in report["notes"][0]
    )
    shown, _ = invoke("audit", "sink", place, "--checkpoint", kept, code=1)
    lines = [" ".join(row.split()) for row in shown.splitlines() if row.strip()]
    assert lines[0] == "batch verdict split first last offsets"
    assert lines[2:5] == [
        "- never read default/t/0 0 1 2",
        "0 twice default/t/0 4 5 2",
        "0 not known default/t/0 8 9 2",
    ]
    assert lines[-1] == "2 batches, 18 records: 2 twice, 4 never read, 5 not known."
    filtered, _ = audit(place, kept, "--filtered", code=1)
    assert {one["fault"] for one in filtered["ranges"]} == {"twice", "never read"}
    assert filtered["left_out"] == 5


def test_only_what_sparks_log_names_counts(tmp_path: Path, kept: Path) -> None:
    place = tmp_path / "sink"
    put(place / "part-0.parquet", WHOLE)
    put(place / "part-1 x.parquet", WHOLE)
    log = place / "_spark_metadata"
    log.mkdir()

    def entry(name: str, action: str = "add") -> str:
        return json.dumps({"path": f"file:///elsewhere/sink/{name}", "size": 1, "isDir": False, "action": action})

    (log / "0").write_text("v1\n" + entry("gone.parquet"))
    (log / "9.compact").write_text("\n".join(["v1", entry("part-1%20x.parquet"), entry("part-0.parquet")]))
    (log / ".9.compact.crc").write_bytes(b"")
    (log / "10").write_text("\n".join(["v1", entry("part-0.parquet", "delete"), entry("away.parquet")]))
    report, _ = audit(place, kept)
    assert (report["files"], report["well"]) == (1, True)
    assert report["notes"] == [f"{log} names 1 file that is not there"]
    (log / "11").write_text("v2\n")
    assert "has version 'v2'; expected v1" in invoke("audit", "sink", place, "--checkpoint", kept, code=1)[1]
    for damaged in ("", "v1\n{", "v1\n{}", "v1\n5"):
        (log / "11").write_text(damaged)
        said = invoke("audit", "sink", place, "--checkpoint", kept, code=1)[1]
        assert said.startswith(f"Error: {log / '11'} ")


def test_csv_json_and_partitions_as_directories(tmp_path: Path, kept: Path) -> None:
    csv = tmp_path / "csv"
    csv.mkdir()
    pyarrow.csv.write_csv(table(WHOLE).drop_columns("value"), csv / "part-0.csv")
    assert audit(csv, kept)[0]["well"]
    lines = tmp_path / "json"
    lines.mkdir()
    objects = [{"topic": topic, "partition": partition, "offset": at} for topic, partition, at in WHOLE]
    (lines / "part-0.json").write_text("\n".join(map(json.dumps, objects)))
    assert audit(lines, kept)[0]["well"]
    tree = tmp_path / "tree"
    for topic, partition in (("t", 0), ("t", 1)):
        of = [row for row in WHOLE if row[:2] == (topic, partition)]
        at = tree / f"topic={topic}" / f"partition={partition}" / "x.parquet"
        at.parent.mkdir(parents=True)
        pq.write_table(table(of).select(["offset"]), at)
    assert audit(tree, kept)[0]["well"]
    (csv / "part-0.csv").write_text("t,0,1\n")
    assert "needs a line with the names" in invoke("audit", "sink", csv, "--checkpoint", kept, code=1)[1]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_empty_files_are_passed_over(tmp_path: Path, kept: Path, kind: str) -> None:
    """Spark writes one for a batch that reads nothing, as the first one after an edit."""
    place = tmp_path / "sink"
    put(place / "part-0.parquet", WHOLE)
    if kind != "parquet":
        found = pq.read_table(place / "part-0.parquet").drop_columns("value")
        (place / "part-0.parquet").unlink()
        if kind == "csv":
            pyarrow.csv.write_csv(found, place / "part-0.csv")
        else:
            (place / "part-0.json").write_text("\n".join(map(json.dumps, found.to_pylist())))
        (place / f"part-1.{kind}.gz").write_bytes(gzip.compress(b""))
    (place / f"part-2.{kind}").touch()
    report, _ = audit(place, kept)
    assert (report["well"], report["files"], report["rows"]) == (True, 1, len(WHOLE))
    assert [one["fault"] for one in audit(place / f"part-2.{kind}", kept, code=1)[0]["ranges"]] == ["not known"] * 3


def test_rows_without_an_offset_are_told(tmp_path: Path, kept: Path) -> None:
    place = put(tmp_path / "a.parquet", WHOLE)
    whole = pq.read_table(place)
    nothing = pa.table({name: pa.nulls(2, whole.schema.field(name).type) for name in whole.column_names})
    pq.write_table(pa.concat_tables([whole, nothing]), place)
    report, _ = audit(place, kept)
    assert report["notes"] == ["without topic, partition or offset, and not counted: 2 rows"]


def test_several_clusters(tmp_path: Path) -> None:
    """Two batches of our own source; the oldest one that is kept is 4, so that where that began is not known."""
    kept = write(
        tmp_path / "kept",
        [state({("east", "t"): [at], ("west", "t"): [2 * at]}, 1) for at in (0, 10, 20)],
    )
    place = tmp_path / "sink"
    put(place / "a.parquet", rows("t", 0, (0, 20)), cluster="east")
    put(place / "b.parquet", rows("t", 0, (0, 38)), cluster="west")
    report, _ = audit(place, kept, code=1)
    assert [(one["cluster"], one["batch"], one["first"], one["last"]) for one in report["ranges"]] == [
        ("west", 2, 38, 39)
    ]
    put(place / "b.parquet", rows("t", 0, (0, 40)))
    assert (
        "has no column cluster, and the query reads several"
        in invoke("audit", "sink", place, "--checkpoint", kept, code=2)[1]
    )


def test_batches_that_the_checkpoint_has_not_kept(tmp_path: Path) -> None:
    lines = ['{"t":{"0":10}}'], ['{"t":{"0":20}}']
    kept = checkpoint(tmp_path / "kept", *lines, committed=8, first=7)
    place = put(tmp_path / "a.parquet", rows("t", 0, (3, 20)))
    report, _ = audit(place, kept)
    assert (report["batches"], report["records"], report["older"]) == (1, 10, 7)


class Logs:
    """Logs whose records are known."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kafka = FakeKafka("default")
        self.records: dict[SplitId, set[int]] = {}
        self.asked: list[Range] = []
        monkeypatch.setattr(log_ends, "ClusterClient", lambda cluster, settings: self.kafka)
        monkeypatch.setattr(sink, "records_in", self.records_in)

    def records_in(self, ranges: Iterable[Range], *_: object) -> dict[SplitId, OffsetCounts]:
        found: dict[SplitId, OffsetCounts] = {}
        for one in ranges:
            self.asked.append(one)
            there = [at for at in range(one.start, one.end) if at in self.records.get(one.split, set())]
            found.setdefault(one.split, OffsetCounts()).add(np.array(there, np.int64))
        return found


def test_the_logs_tell_what_is_missing(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Logs(monkeypatch)
    asked.kafka.create_topic("t", 2)
    asked.kafka.append("t", 0, 30)
    asked.kafka.append("t", 1, 5)
    asked.kafka.delete_records("t", 0, 4)
    asked.records = {SplitId("default", "t", 0): {8, 11}}
    place = put(tmp_path / "a.parquet", [*rows("t", 0, (2, 3), (4, 8), (13, 20)), *rows("t", 1, (0, 5))])
    report, _ = audit(place, kept, "--bootstrap-servers", "b:1", code=1)
    assert stretches(report) == [("gone", "t/0", 0, 3, 3), ("missing", "t/0", 0, 8, 8), ("missing", "t/0", 1, 11, 11)]
    assert [one[1:] for one in asked.asked] == [(8, 13)]
    assert report["notes"] == ["read by batches, and no records (markers, aborted, or compacted): 3 offsets"]
    asked.kafka.fail_with(ClusterUnreachable("default", "nobody is there"))
    report, _ = audit(place, kept, "--bootstrap-servers", "b:1", code=1)
    assert {one["fault"] for one in report["ranges"]} == {"not known"}
    assert "cluster default could not be asked: nobody is there" in report["notes"]


def test_a_topic_that_is_gone(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Logs(monkeypatch)
    place = put(tmp_path / "a.parquet", rows("t", 0, (2, 20)))
    report, _ = audit(place, kept, "--bootstrap-servers", "b:1", code=1)
    assert report["notes"] == ["default/t/1 is not there any more, or its topic was created anew"]
    assert stretches(report) == [("not known", "t/1", 1, 0, 4)]


@pytest.mark.parametrize(
    "options, told",
    [
        (("--ask",), "does not say where its clusters are; expected --bootstrap-servers"),
        (("--option", "kafka.client.id=x"), "but no cluster is asked; expected --ask or --bootstrap-servers too"),
        (("--source", "4"), "--source names source '4'; expected one of 0"),
        (("--bootstrap-servers", "a:1", "--bootstrap-servers", "b:1"), "is given twice for all clusters"),
        (("--bootstrap-servers", "a:1", "--bootstrap-servers", "e=b:1"), "expected a name before each of several"),
        (
            ("--bootstrap-servers", "e=a:1", "--option", "w:kafka.client.id=x"),
            "--option is for cluster 'w'; expected one",
        ),
        (("--bootstrap-servers", "e=a:1", "--option", "x"), "--option: expected NAME=VALUE"),
        (
            (
                "--bootstrap-servers",
                "e=a:1",
                "--bootstrap-servers",
                "w=a:1",
                "--option",
                "kafka.sasl.jaas.config=secret",
            ),
            "--option kafka.sasl.jaas.config can be for one cluster only",
        ),
    ],
)
def test_wrong_use(tmp_path: Path, kept: Path, options: tuple[str, ...], told: str) -> None:
    place = put(tmp_path / "a.parquet", WHOLE)
    said = invoke("audit", "sink", place, "--checkpoint", kept, *options, code=2)[1]
    assert told in said
    assert "secret" not in said


@pytest.mark.parametrize(
    "names, code, told",
    [
        ((), 1, "has no files of a sink"),
        (("_delta_log/0.json", "a.parquet"), 1, "is a Delta table"),
        (("metadata/1.metadata.json", "data/a.parquet"), 1, "is an Iceberg table"),
        ((".hoodie/x", "a.parquet"), 1, "is a Hudi table"),
        (("a.parquet", "b.csv"), 2, "files of several formats (csv, parquet); expected --files"),
        (("a", "b"), 2, "no file whose name says its format"),
        (("a.parquet",), 1, "cannot be read as parquet"),
    ],
)
def test_what_is_no_sink(tmp_path: Path, kept: Path, names: tuple[str, ...], code: int, told: str) -> None:
    """An option that is lacking is wrong use; what cannot be read is not."""
    place = tmp_path / "sink"
    place.mkdir()
    for name in names:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("x")
    assert told in invoke("audit", "sink", place, "--checkpoint", kept, code=code)[1]


def test_what_is_not_there(tmp_path: Path, kept: Path) -> None:
    assert "there is no file or directory" in invoke("audit", "sink", tmp_path / "no", "--checkpoint", kept, code=1)[1]
    place = put(tmp_path / "a.parquet", [("t", 0, 1)])
    assert "as csv" in invoke("audit", "sink", place, "--checkpoint", kept, "--files", "csv", code=1)[1]
    pq.write_table(pa.table({"x": [1]}), place)
    assert (
        "has no column topic, partition, offset; it has x"
        in invoke("audit", "sink", place, "--checkpoint", kept, code=1)[1]
    )
    assert "there is no directory" in invoke("audit", "sink", place, "--checkpoint", tmp_path / "no", code=1)[1]
    other = checkpoint(tmp_path / "other", ["5"], committed=0)
    assert "reads no Kafka cluster" in invoke("audit", "sink", place, "--checkpoint", other, code=1)[1]


def test_nothing_to_compare_with(tmp_path: Path) -> None:
    kept = checkpoint(tmp_path / "kept", ['{"t":{"0":10}}'], committed=None, initial={"0": 'v1\n{"t":{"0":2}}'})
    place = put(tmp_path / "a.parquet", rows("t", 0, (2, 4)))
    report, _ = audit(place, kept)
    assert report["notes"] == ["the checkpoint has no finished batch of which it says what it has read"]


def renamed_history(*names: str) -> list[EnumeratorState]:
    """A hundred offsets of t/0 in each batch, of one Kafka cluster that has these names in turn."""
    found = []
    for number, name in enumerate(names):
        end = state({(name, "t"): [100 * number]})
        clusters = {name: replace(end.clusters[name], kafka_id="the same")}
        found.append(replace(end, clusters=clusters, revision=number + 1))
    return found


def test_a_cluster_that_was_renamed_is_the_same(tmp_path: Path) -> None:
    """Rows have the name of their time, or none at all."""
    kept = write(tmp_path / "kept", renamed_history("east", "east", "asia", "asia", "pacific"))
    place = tmp_path / "sink"
    put(place / "a.parquet", rows("t", 0, (0, 200)), cluster="east")
    put(place / "b.parquet", rows("t", 0, (200, 300)), cluster="asia")
    put(place / "c.parquet", rows("t", 0, (300, 400)), cluster="pacific")
    assert audit(place, kept)[0]["records"] == 400
    put(place / "d.parquet", rows("t", 0, (10, 12)), cluster="pacific")
    assert stretches(audit(place, kept, code=1)[0]) == [("twice", "t/0", 1, 10, 11)]
    nameless = put(tmp_path / "nameless.parquet", rows("t", 0, (0, 399)))
    assert stretches(audit(nameless, kept, code=1)[0]) == [("not known", "t/0", 4, 399, 399)]
    assert stretches(audit(nameless, kept, "--cluster", "asia", code=1)[0]) == [("not known", "t/0", 4, 399, 399)]


def test_names_that_were_given_to_another_cluster_are_left_as_they_are() -> None:
    """`east` is `west` from batch 2 on, and what is `east` then is another one."""

    def clusters(**ids: str) -> EnumeratorState:
        found = state({(name, "t"): [0] for name in ids})
        return replace(found, clusters={one: replace(found.clusters[one], kafka_id=ids[one]) for one in ids})

    names = batches._Names()
    steps = [clusters(east="1", north="2"), clusters(west="1", south="2"), clusters(west="1", east="3", south="2")]
    names.follow(steps[0], steps[1])
    assert names.renamed() == {"east": "west", "north": "south"}
    names.follow(steps[1], steps[2])
    assert names.renamed() == {"north": "south"}
    names.follow(steps[2], clusters(west="1", east="3", north="2"))
    assert names.renamed() == {"south": "north"}
