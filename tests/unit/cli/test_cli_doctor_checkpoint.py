"""`evensplit doctor --checkpoint`: what is in a checkpoint, and what this version would make of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evensplit.cli.doctor import checkpoint as doctor_checkpoint
from evensplit.cli.doctor import doctor as doctor_module
from evensplit.cli.doctor.packages import PySpark, pyspark_here
from evensplit.cli.group import evensplit
from evensplit.cli.live import log_ends
from evensplit.core.model import Held
from evensplit.core.state.codec import VERSION, encode
from evensplit.core.state.state import EnumeratorState
from tests.support.checkpoints import contents
from tests.support.histories import history, line, write, write_batch

GOLDEN = Path(__file__).parents[2] / "data" / "checkpoints"
SPARK_42 = json.loads((GOLDEN / "spark" / "done" / "offsets" / "0").read_text().splitlines()[1])["conf"]
"""The settings that Spark 4.2.0 has written."""

SINCE_43 = (
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled",
)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at but the checkpoint, and no broker is asked."""
    monkeypatch.setattr(doctor_module, "local_findings", lambda: iter(()))
    monkeypatch.setattr(log_ends, "ClusterClient", lambda *_: pytest.fail("a broker was asked"))


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(evensplit, ["doctor", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def findings(place: Path, *options: str, code: int = 0) -> Mapping[str, dict[str, Any]]:
    before = contents(place)
    found = json.loads(run("--checkpoint", place, *options, "--format", "json", code=code))
    assert contents(place) == before, "nothing is written"
    assert found["well"] is (code == 0)
    assert all(one["status"] in ("ok", "skipped") or one["cure"] for one in found["findings"])
    return {f"{one['where']}: {one['step']}": one for one in found["findings"]}


def held(state: EnumeratorState) -> EnumeratorState:
    """`state` of format 5, by what belongs to its batch alone."""
    return replace(state, held=(Held("maxOffsetsPerTrigger"),))


def golden(place: Path, file: str) -> Path:
    """A checkpoint whose one batch ends with a golden offset."""
    write_batch(place, 0, (GOLDEN / file).read_text().strip(), at_ms=0)
    (place / "metadata").write_text('{"id":"0b9c"}')
    return place


def test_all_is_told_of_a_checkpoint_that_stays_as_it_is(tmp_path: Path) -> None:
    found = findings(write(tmp_path / "kept", history()))
    assert {name: one["found"] for name, one in found.items()} == {
        "checkpoint: files": f"{tmp_path / 'kept'}: batches 0 to 5 of 1 source of evensplit can be read",
        "checkpoint: newest batch": "batch 5 is done; the query goes on with batch 6",
        "checkpoint: Spark": "the offset log is in version v1, and has no settings of Spark",
        "checkpoint: state": "format 4: 6 partitions of 2 topics in 2 clusters, 3 readers",
        "checkpoint: format": (
            "the newest batch is in format 4; from batch 6 on, format 4 is written, since nothing in it needs a later "
            "one (options may, such as limits: say them with -o)"
        ),
        "checkpoint: older versions": (
            "one that reads formats 1 to 4 can go on from the checkpoint as it is, and from what is written then"
        ),
    }
    assert {one["status"] for one in found.values()} == {"ok"}
    assert "All is well, with 0 warnings." in run("--checkpoint", tmp_path / "kept")


@pytest.mark.parametrize("file", ["v1/everything.json", "v2/usual.json", "v3/usual.json"])
def test_a_format_that_is_not_written_any_more_ends_with_the_next_batch(tmp_path: Path, file: str) -> None:
    found = findings(golden(tmp_path, file))
    version = file[1]
    assert f"is in format {version}; from batch 1 on, format 4 is written" in found["checkpoint: format"]["found"]
    older = found["checkpoint: older versions"]
    assert older["status"] == "warning"
    assert older["found"].endswith(
        f"formats 1 to {version} can go on from the checkpoint as it is. From batch 1 on, only one that reads format 4 "
        "can"
    )
    assert older["cure"].startswith("copy the checkpoint")


def test_the_values_that_need_a_later_format_are_named(tmp_path: Path) -> None:
    found = findings(golden(tmp_path, "v5/usual.json"))["checkpoint: format"]["found"]
    assert "from batch 1 on, format 5 is written, since it has reachedMs (the time that was reached" in found
    assert "recordBytes (the size of records, with maxBytesPerTrigger)" in found
    found = findings(golden(tmp_path, "v5/unusual.json"))["checkpoint: format"]["found"]
    for name in ("balance=rate", "capacities (capacity)", "rateMoves", "rate (rates of partitions"):
        assert name in found


def test_what_held_the_last_batch_back_is_gone_with_the_next_one(tmp_path: Path) -> None:
    ends = history()
    found = findings(write(tmp_path / "kept", [*ends[:4], held(ends[4]), held(ends[5])]))
    assert found["checkpoint: format"]["found"] == (
        "the newest batch is in format 5; from batch 6 on, format 4 is written, since nothing in it needs a later one "
        "(options may, such as limits: say them with -o). "
        "Format 5 is written as soon as there is held (the limits that held the last batch back)"
    )
    assert found["checkpoint: older versions"]["found"] == (
        "one that reads formats 1 to 5 can go on from the checkpoint as it is, and from what is written then. One that "
        "reads fewer can go on only from a copy with earlier offsets: batches 0 to 3 in format 4"
    )


def test_a_batch_that_is_not_done_is_planned_again_and_needs_the_offsets_before_it(tmp_path: Path) -> None:
    ends = history()
    place = write(tmp_path / "kept", [*ends[:4], held(ends[4]), ends[5]], committed=False)
    found = findings(place)
    assert found["checkpoint: newest batch"]["found"] == (
        "batch 5 is planned and not done: it is planned again, by this version, from the end of batch 4 to its own "
        "end, and nothing new is read before that"
    )
    assert "formats 1 to 5" in found["checkpoint: older versions"]["found"]
    (place / "offsets" / "4").unlink()
    missing = findings(place)["checkpoint: newest batch"]
    assert missing["status"] == "warning"
    assert missing["found"].endswith("without which Spark starts only with asyncProgressTrackingEnabled")
    one = write(tmp_path / "one", history(1), committed=False)
    assert "from where the query began" in findings(one)["checkpoint: newest batch"]["found"]


def test_a_copy_of_the_two_directories_is_enough_for_a_look_and_not_to_go_on(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history())
    (place / "metadata").unlink()
    (place / "offsets" / "4").unlink()
    found = findings(place)
    assert found["checkpoint: files"]["status"] == "warning"
    assert "start the query with the whole checkpoint" in found["checkpoint: files"]["cure"]
    assert "batch 5 is done" in found["checkpoint: newest batch"]["found"]


def test_a_source_that_another_one_has_taken_over_since(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history())
    write_batch(place, 6, '{"orders":{"0":7}}', at_ms=0)
    found = findings(place)
    assert found["checkpoint: state"]["status"] == "warning"
    assert "the last one of evensplit is of batch 5" in found["checkpoint: state"]["found"]
    assert "checkpoint: format" not in found


@pytest.mark.parametrize(
    "conf, said, installed, status",
    [
        (dict.fromkeys([*SPARK_42, *SINCE_43], "1"), "with the settings that Spark 4.3 or later writes", (4, 3), "ok"),
        (dict.fromkeys([*SPARK_42, *SINCE_43], "1"), "PySpark 4.2 is installed", (4, 2), "warning"),
        (SPARK_42, "with the settings that Spark 4.2 writes; 15 settings of Spark stay as they are", (4, 3), "ok"),
        (SPARK_42, "spark.sql.shuffle.partitions=2, ", (4, 2), "ok"),
        (SPARK_42, "stateStore.providerClass=HDFSBackedStateStoreProvider", None, "ok"),
        ({"spark.sql.shuffle.partitions": "200"}, "with the settings that Spark before 4.2 writes", (4, 3), "ok"),
        ([], "the offset log is in version v2, and has no settings of Spark", (4, 3), "ok"),
    ],
)
def test_what_spark_has_written_is_told_as_far_as_the_files_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    conf: object,
    said: str,
    installed: tuple[int, int] | None,
    status: str,
) -> None:
    here = None if installed is None else PySpark("PySpark", ".".join(map(str, installed)))
    monkeypatch.setattr(doctor_checkpoint, "pyspark_here", lambda: here)
    head, (end,) = json.dumps({"batchTimestampMs": 0, "conf": conf}), history(1)
    write_batch(tmp_path, 0, f"0:{line(end)}", at_ms=0, version="v2", head=head)
    found = findings(tmp_path)["checkpoint: Spark"]
    assert said in found["found"]
    assert found["status"] == status


def test_the_version_of_pyspark_is_looked_up() -> None:
    found = pyspark_here()
    assert found is not None
    assert found.release >= (4, 2)
    assert found == ("PySpark", metadata.version("pyspark"))


@pytest.mark.parametrize(
    "version, release", [("4.2.0.dev1", (4, 2)), ("10.3", (10, 3)), ("5", (5, 0)), ("4.3rc1", (4, 3)), ("x", (0, 0))]
)
def test_the_release_of_a_version(version: str, release: tuple[int, int]) -> None:
    assert PySpark("PySpark", version).release == release


def test_a_damaged_newest_offset_says_which_file_and_what_to_do(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history())
    file = place / "offsets" / "5"
    file.write_text(file.read_text().replace('"next": [600', '"next": [601'))
    found = findings(place, code=1)
    assert (found["checkpoint: state"]["status"], found["checkpoint: state"]["id"]) == ("failed", "ES-401")
    assert f"{file}, line 3" in found["checkpoint: state"]["found"]
    assert found["checkpoint: state"]["cure"].startswith("restore the file")
    assert "checkpoint: format" not in found
    file.write_text("v1\n{}\n{")
    assert findings(place, code=1)["checkpoint: files"]["id"] == "ES-401"
    (place / "commits" / "5").unlink()
    found = findings(place)
    assert "batch 5 is left out" in found["checkpoint: batches"]["found"], "a query may be writing it"
    assert found["checkpoint: state"]["status"] == "ok"


def test_a_newer_format_says_what_wrote_it_and_how_far_this_version_could_go_back(tmp_path: Path) -> None:
    ends = history()
    place = write(tmp_path / "kept", ends)
    newer = json.dumps({**encode(ends[5]), "evensplit": VERSION + 1})
    write_batch(place, 6, newer, at_ms=0)
    found = findings(place, code=1)["checkpoint: state"]
    assert (found["status"], found["id"]) == ("failed", "ES-402")
    assert f"written in format {VERSION + 1}" in found["found"]
    assert found["found"].endswith("; batches 0 to 5 are in formats that this one reads")
    assert found["cure"].startswith("upgrade evensplit on the driver and on every executor")


def test_a_checkpoint_of_sparks_own_source_says_how_it_is_taken_over(tmp_path: Path) -> None:
    found = findings(GOLDEN / "spark" / "replay")["checkpoint: files"]
    assert found["status"] == "warning"
    assert "with Spark's own Kafka source, at batch 2, which is not done" in found["found"]
    assert "evensplit migrate" in found["cure"]


def test_what_is_no_checkpoint_of_a_kafka_source(tmp_path: Path) -> None:
    write_batch(tmp_path / "rate", 0, "7", at_ms=0)
    for place, said in ((tmp_path / "rate", "has no source of this package"), (tmp_path / "none", "no directory")):
        found = findings(place, code=1)["checkpoint: files"]
        assert (found["status"], found["id"]) == ("failed", "ES-400")
        assert said in found["found"]


def test_each_source_of_a_query_is_looked_at_or_the_one_that_is_named(tmp_path: Path) -> None:
    one = history()[5]
    place = write(tmp_path / "kept", [one], others=(line(held(one)), "7"))
    found = findings(place)
    assert {name for name in found if "source" in name} == {
        f"checkpoint, source {source}: {step}" for source in "01" for step in ("state", "format", "older versions")
    }
    assert "in format 5" in found["checkpoint, source 1: format"]["found"]
    assert "checkpoint, source 0: format" not in findings(place, "--source", "1")
    assert "--source names '2'" in findings(place, "--source", "2", code=1)["checkpoint: files"]["found"]
    found = findings(place, "-o", "readers=2")
    assert found["start of the query: options"]["status"] == "skipped"
    assert "add --source 0 or 1" in found["start of the query: options"]["found"]


def test_what_cannot_be_said_together_is_wrong_use(tmp_path: Path) -> None:
    assert "leave --sink out" in run(
        "--sink", "--checkpoint", tmp_path, "-o", "kafka.bootstrap.servers=x:1", "-o", "topic=t", code=2
    )
    assert "--source is for a CHECKPOINT" in run("--source", "0", code=2)
