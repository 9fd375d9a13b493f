"""What `evensplit chaos` says while a run lasts."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from evensplit.cli.chaos import FAULTS_SHOWN_MAX, _line, _picture
from evensplit.testing.chaos.run import Standing
from tests.support.commands import invoke

STANDING = Standing(
    "faults",
    now_s=90.0,
    storm_s=60.0,
    storm_total_s=600.0,
    faults_done=1,
    faults_total=1,
    written=1200,
    acknowledged=1,
    delivered={"parquet": 800},
    batches={"parquet": 7},
)


def shown(standing: Standing) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(_picture(standing))
    return " ".join(captured.get().split())


def test_a_line_says_how_a_run_stands() -> None:
    assert _line(Standing("starting the brokers")) == "  0.0 min  starting the brokers"
    assert _line(STANDING) == "  1.5 min  faults: 1 of 1 fault over, 1 record acknowledged, rows in sinks: parquet 800"


def test_a_picture_says_which_faults_are_on_and_how_many_more() -> None:
    said = shown(STANDING)
    assert "1.0 of 10 min, 1 of 1 fault over" in said
    assert "rows in the sink of parquet 800 7" in said
    assert "no fault at the moment" in said
    many = tuple(f"cut {n}" for n in range(FAULTS_SHOWN_MAX + 2))
    said = shown(replace(STANDING, faults_on=many, faults_failed=1))
    assert "(1 could not be made or ended)" in said
    assert f"cut {FAULTS_SHOWN_MAX - 1} and 2 more" in said


def test_what_the_report_needs_is_said_before_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    _, told = invoke("chaos", "--directory", tmp_path / "run", code=1)
    assert told == "Error: the report needs jinja2: pip install 'evensplit[testing]'"
    assert not (tmp_path / "run").exists()
