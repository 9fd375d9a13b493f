"""The record of long runs and nights, and the tables of it on the page about reliability."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench import long_runs
from bench.long_runs import BEGIN, END, LongRun, Night, Record, add_night, add_run, long_run, read, tables
from bench.peer.report import between
from evensplit.testing.chaos.history import events as ev
from tests.support.chaos_histories import Row, faultless, writing

RUN = LongRun(
    seed=3,
    minutes=60.0,
    spark="standalone",
    queries=["parquet", "counted"],
    commit="1a2b3c4",
    at="2026-11-25T12:00:00+00:00",
    machine="2 processors",
    faults={"cut": 40, "driver-kill": 2},
    failed_faults=0,
    acknowledged=700_000,
    delivered={"parquet": 690_000},
    broken={},
    ends=3,
    latency_s={"p50": [1.25, 3.0], "p99": [20.0, 40.5]},
    standstill_s=12.0,
    slopes={"driver": -0.1, "executor": 0.25},
    not_judged=[],
)
PART = {"part": "fetch", "firstSeed": 5_000, "seeds": 900, "events": 50_000, "cpuHours": 0.5, "found": []}
NIGHT = Night("1a2b3c4", "2026-11-25T12:00:00+00:00", [PART])


def test_a_run_is_a_line() -> None:
    shown = tables(Record([RUN]))
    assert "1 run with 1.0 hour of faults, 42 faults of 2 kinds, and 700,000 acknowledged records." in shown
    assert (
        "| 3 | 60 | standalone: parquet, counted | 42 (2) | 700,000 | none | 3 | 3.0, 40.5 | 12.0 | 0.25 | "
        "2026-11-25, 1a2b3c4 |" in shown
    )
    assert "Seed 3:" not in shown


def test_what_is_missing_or_broken_is_said() -> None:
    bad = replace(RUN, broken={"lost": 2, "stalled": 1}, not_judged=["liveness: the faults never stopped"], slopes={})
    shown = tables(Record([replace(RUN, seed=2), bad]))
    assert "In 1 of them every promise was kept." in shown
    assert "| 2 lost, 1 stalled |" in shown
    assert "| not judged |" in shown
    assert "Seed 3: liveness: the faults never stopped." in shown


WRITTEN = {"records written": 690_000, "read again": 690_000, "repeated": 0, "of them found decided": 2}


def test_a_run_that_writes_to_a_topic_has_a_line_about_it_too() -> None:
    writes = replace(RUN, seed=4, queries=["kafka"], written=WRITTEN)
    shown = tables(Record([RUN, writes]))
    assert shown.startswith(tables(Record([RUN, replace(writes, written={})])))
    assert "| seed | Spark | records written | read again | repeated | of them found decided |" in shown
    assert "|---:|---|---:|---:|---:|---:|" in shown
    assert "| 4 | standalone | 690,000 | 690,000 | 0 | 2 |" in shown
    assert "| 3 | standalone | " not in shown


def test_what_a_run_has_written_is_taken_from_its_verdict(tmp_path: Path) -> None:
    run = writing()
    run.rows("kafka", 4).append(Row(**vars(run.rows("kafka", 3)[0])))
    of_writing = long_run(run.write(tmp_path / "run"), "1a2b3c4")
    assert of_writing.written == {
        "records written": 760,
        "read again": 761,
        "lost": 0,
        "repeated": 1,
        "out of order": 1,
        "of aborted transactions": 6,
        "batches decided": 20,
        "cut off by the end of a driver": 0,
        "of them found decided": 0,
    }
    assert long_run(faultless().write(tmp_path / "read"), "1a2b3c4").written == {}


def test_a_run_stands_in_place_of_an_earlier_one_and_a_night_too() -> None:
    record = Record([RUN, replace(RUN, seed=5)], [NIGHT])
    add_run(record, replace(RUN, ends=4))
    add_run(record, replace(RUN, spark="local"))
    assert [(one.seed, one.spark, one.ends) for one in record.runs] == [
        (3, "local", 3),
        (3, "standalone", 4),
        (5, "standalone", 3),
    ]
    add_night(record, replace(NIGHT, parts=[{**PART, "events": 1}]))
    add_night(record, replace(NIGHT, parts=[{**PART, "firstSeed": 1}]))
    assert [(one.first_seed, one.parts[0]["events"]) for one in record.nights] == [(1, 50_000), (5_000, 1)]


def test_nights_are_summed_up() -> None:
    broken = {**PART, "found": [{"law": "F1", "seed": 6_346}]}
    shown = tables(Record([], [NIGHT, replace(NIGHT, parts=[broken])]))
    assert "No long run is on record yet." in shown
    assert "The simulator: 100,000 events, 1,800 seeds, 1.0 hours of a processor." in shown
    assert "| fetch | 5,000 | 900 | 50,000 | 0.50 | F1 (seed 6346) | 2026-11-25, 1a2b3c4 |" in shown


def test_the_page_shows_the_record_as_it_is() -> None:
    page = long_runs.PAGE.read_text()
    assert page == between(page, tables(read()), BEGIN, END)


def test_a_figure_without_a_commit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["long_runs", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        long_runs.main()
    assert ended.value.code == 2
    assert "--commit is missing" in capsys.readouterr().err


def test_a_run_that_ended_early_is_refused(tmp_path: Path) -> None:
    early = faultless()
    early.change(ev.RunEnded, lambda _: True, lambda one: replace(one, problem="the run was interrupted"))
    with pytest.raises(
        SystemExit, match=r"incomplete: .*the run was interrupted\. Only whole runs with a sound history go on record"
    ):
        long_run(early.write(tmp_path / "run"), "1a2b3c4")


def test_a_night_is_added_to_the_file_and_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, results, night = tmp_path / "page.md", tmp_path / "results.json", tmp_path / "night.json"
    shutil.copy(long_runs.PAGE, page)
    night.write_text(json.dumps({"held": True, "hours": 0.5, "parts": [PART]}))
    monkeypatch.setattr(long_runs, "PAGE", page)
    monkeypatch.setattr(long_runs, "RESULTS", results)
    monkeypatch.setattr("sys.argv", ["long_runs", "--night", str(night), "--commit", "1a2b3c4"])
    assert long_runs.main() == 0
    assert json.loads(results.read_text())["nights"][0]["parts"] == [PART]
    assert "| fetch | 5,000 | 900 |" in page.read_text()
