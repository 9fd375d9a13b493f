"""`evensplit report`: a page that needs nothing else, its numbers, and where it cannot be written."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest

from evensplit.checkpoint.history import read_kept
from evensplit.cli.report import report_charts
from evensplit.cli.report.atomic_write import write_whole
from evensplit.observe.source_view import WORK_MAX
from tests.support.commands import read_checkpoint
from tests.support.histories import NASTY, history, state, write
from tests.support.markup import Page


def test_a_report_needs_nothing_else_and_executes_nothing(tmp_path: Path) -> None:
    odd = NASTY.replace("/", "")
    ends = [state({(odd, "t"): [at, 2 * at], ("east", "u"): [at]}, 2) for at in (0, 5, 9, 30)]
    place = write(tmp_path / "kept", ends)
    shown = json.loads(read_checkpoint("report", place, "--format", "json")[0])
    text = (tmp_path / "report.html").read_text()
    assert (shown["bytes"], shown["lastBatch"]) == (len(text.encode()), 3)
    page = Page(text)
    tags = [tag for tag, _ in page.elements]
    attributes = [(name, value or "") for _, found in page.elements for name, value in found.items()]
    assert odd in page.text
    assert tags.count("svg") == 4
    assert not {"script", "link", "img", "iframe", "object", "image", "style onload"} & set(tags)
    assert not [name for name, _ in attributes if name.startswith("on") or name == "src"]
    assert all(value.startswith("#") for name, value in attributes if name.endswith("href"))
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert "url(http" not in text
    assert not re.findall(r"#0[123]0[0-9]0[0-9]", text), "each colour is one of the page's"
    assert "prefers-color-scheme: dark" in text


def test_the_numbers_of_a_report(place: Path) -> None:
    read_checkpoint("report", place)
    page = Page((place.parent / "report.html").read_text())
    assert "less even than possible" in page.text
    assert "moved from reader 2 to reader 0" in page.text
    for title in (
        "Rates by cluster",
        "Work of the readers",
        "Splits of the readers now",
        "Discoveries, moves and losses",
    ):
        assert title in page.text


LABEL = re.compile(r'<g id="[a-z]+-[xy]tick_\d+">.*?<text[^>]*>([^<]*)</text>', re.DOTALL)
AXIS = re.compile(r'<g id="[a-z]+-matplotlib\.axis_([12])">')


def labels(chart: report_charts.Chart) -> list[list[str]]:
    """What stands along the two axes of a chart."""
    parts = AXIS.split(chart.svg)
    return [LABEL.findall(parts[at + 1]) for at in range(1, len(parts), 2)]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 12, 35, 130, 999, 4_711, 123_456_789])
def test_what_stands_along_an_axis_is_round_and_stands_there_once(tmp_path: Path, most: int) -> None:
    """Counts are whole numbers; of a rate, what is between two of them can be worth a line."""
    ends = [state({("east", "t"): [at, 0]}, 2) for at in (0, most, most + 1, 2 * most + 1)]
    charts = report_charts.charts_of(read_kept(write(tmp_path / "kept", ends)).views["0"])
    assert [chart.title for chart in charts][:2] == ["Rates by cluster", "Work of the readers"]
    for chart in charts:
        for axis in labels(chart):
            numbers = [float(label.replace(",", "")) for label in axis]
            assert len(set(numbers)) == len(numbers) > 1, (chart.title, axis)
            steps = {round(after - before, 9) for before, after in pairwise(numbers)}
            assert len(steps) == 1, (chart.title, axis)
            digits = f"{steps.pop():e}".split("e")[0].rstrip("0").rstrip(".")
            assert digits in ("1", "2", "5"), (chart.title, axis)
            if chart.title != "Rates by cluster":
                assert all(number == int(number) for number in numbers), (chart.title, axis)


def test_one_reader_and_one_batch_have_one_number_each(tmp_path: Path) -> None:
    ends = [state({("east", "t"): [0]}, 1)]
    charts = report_charts.charts_of(read_kept(write(tmp_path / "kept", ends)).views["0"])
    assert {chart.title: labels(chart) for chart in charts} == {
        "Work of the readers": [["0"], ["0", "1"]],
        "Splits of the readers now": [["0"], ["0", "1"]],
        "Discoveries, moves and losses": [["0"], ["0", "1"]],
    }


def test_a_report_says_what_helps_where_a_reader_has_far_more_than_its_share(tmp_path: Path) -> None:
    ends = [state({("east", "t"): [at, 0, 0]}, 3) for at in (0, 60_000)]
    place = write(tmp_path / "kept", ends)
    read_checkpoint("report", place)
    said = (
        "the busiest reader has 60,000 of 60,000 offsets, 300% of an equal share, since each partition is read as a "
        "whole; with the option plan=level they are cut, and it would have 20,000"
    )
    assert f"In the last batch {said}." in Page((place.parent / "report.html").read_text()).text
    shown = read_checkpoint("inspect", place)[0]
    assert f"In the last batch {said}." in " ".join(shown.split())
    assert "as even as possible" in shown


@pytest.mark.lengthy
def test_many_clusters_have_a_line_together(tmp_path: Path) -> None:
    ends = [state({(f"c{number:03}", "t"): [at * number] for number in range(40)}) for at in (0, 5, 9)]
    view = read_kept(write(tmp_path / "kept", ends)).views["0"]
    rates = report_charts.charts_of(view)[0]
    assert len(rates.legend) == report_charts.SERIES_MAX
    assert rates.legend[0] == (1, "c033")
    assert rates.legend[-1] == (8, "33 more clusters")


def test_where_a_report_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = place.parent / "there.html"
    assert (
        "is not there, or no directory; make it first"
        in read_checkpoint("report", place, "-o", str(target / "x" / "r.html"), code=1)[1]
    )
    assert "is a directory; expected a file" in read_checkpoint("report", place, "-o", str(place), code=1)[1]
    target.write_text("as it was")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(click.ClickException) as raised:
            write_whole(target, b"new")
    assert f"cannot be written: No space left on device; {target} is as it was" in str(raised.value)
    assert target.read_text() == "as it was"
    assert sorted(path.name for path in place.parent.iterdir()) == ["kept", "there.html"]
    link = place.parent / "link.html"
    link.symlink_to(target)
    write_whole(link, b"new")
    assert (target.read_text(), link.is_symlink()) == ("new", True)


def test_without_matplotlib_it_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'evensplit[plots]'" in read_checkpoint("report", place, code=1)[1]
    assert not (place.parent / "report.html").exists()
    # Nothing is read before.
    assert "pip install 'evensplit[plots]'" in read_checkpoint("report", place.parent / "none", code=1)[1]


@pytest.mark.slow
def test_a_long_history(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history(WORK_MAX + 5))
    view = read_kept(place).views["0"]
    assert next(one.batch for one in view.work) == 5
    read_checkpoint("report", place)
