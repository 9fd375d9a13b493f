"""`evensplit report`: a page that needs nothing else, its numbers, and where it cannot be written."""

from __future__ import annotations

import errno
import json
import os
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.checkpoint.history import read_history
from evensplit.cli.report.atomic_write import write_whole
from evensplit.cli.report.report_charts import plots_of
from evensplit.observe.dashboard.view.plot import BOTTOM, LEFT, RIGHT, SERIES_MAX, TICKS_MAX, TOP, bars, lines, ticks
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
    assert "prefers-color-scheme: dark" in text


def test_the_numbers_of_a_report(place: Path) -> None:
    read_checkpoint("report", place)
    page = Page((place.parent / "report.html").read_text())
    assert "less even than possible" in page.text
    assert "moved from reader 2 to reader 0" in page.text
    for title in ("Rate by cluster", "Work per reader", "Partitions per reader", "Discoveries, moves and losses"):
        assert title in page.text


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 12, 35, 130, 999, 4_711, 123_456_789])
def test_what_stands_along_an_axis_is_round_and_stands_there_once(tmp_path: Path, most: int) -> None:
    """Counts are whole numbers; of a rate, what is between two of them can be worth a line."""
    ends = [state({("east", "t"): [at, 0]}, 2) for at in (0, most, most + 1, 2 * most + 1)]
    plots = plots_of(read_history(write(tmp_path / "kept", ends)).views["0"])
    assert [plot.title for plot in plots][:2] == ["Rate by cluster", "Work per reader"]
    for plot in plots:
        labels = [tick.label for tick in plot.y_ticks]
        assert len(set(labels)) == len(labels) > 1, (plot.title, labels)
        whole = plot.title != "Rate by cluster"
        assert not whole or not any("." in one for one in labels if one[-1].isdigit()), (plot.title, labels)


@given(least=st.integers(0, 10_000), span=st.integers(0, 10**12), whole=st.booleans())
def test_ticks_are_few_round_and_within_the_axis(least: int, span: int, whole: bool) -> None:
    found = ticks(least, least + span, whole=whole)
    assert len(found) <= TICKS_MAX
    assert all(least <= one <= least + span for one in found)
    steps = {round(after - before, 6) for before, after in pairwise(found)}
    assert len(steps) == (1 if span else 0) or len(found) == 1
    assert {f"{one:e}"[0] for one in steps} <= {"1", "2", "5"}


def test_one_reader_and_one_batch_have_one_number_each(tmp_path: Path) -> None:
    ends = [state({("east", "t"): [0]}, 1)]
    plots = plots_of(read_history(write(tmp_path / "kept", ends)).views["0"])
    assert {plot.title: [[one.label for one in ticks] for ticks in (plot.x_ticks, plot.y_ticks)] for plot in plots} == {
        "Work per reader": [["0"], ["0", "1"]],
        "Partitions per reader": [["0"], ["0", "1"]],
        "Discoveries, moves and losses": [["0"], ["0", "1"]],
    }


def test_what_is_drawn_is_where_its_number_is() -> None:
    drawn = lines("t", "n", "u", [4, 6, 8], [("a", [0, 5, 10])], filled=True)
    (line,) = drawn.lines
    places = [tuple(map(float, one.split(","))) for one in line.points.split()]
    assert places == [(LEFT, BOTTOM), ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2), (RIGHT, TOP)]
    stacked = bars("t", "n", "u", [0, 1], [("a", [2, 0]), ("b", [2, 4])]).bars
    assert [(one.colour, one.y, round(one.y + one.height)) for one in stacked] == [
        (1, (TOP + BOTTOM) / 2, BOTTOM),
        (2, TOP, (TOP + BOTTOM) / 2),
        (2, TOP, BOTTOM),
    ]


def test_a_report_says_what_helps_where_a_reader_has_far_more_than_its_share(tmp_path: Path) -> None:
    ends = [state({("east", "t"): [at, 0, 0]}, 3) for at in (0, 60_000)]
    place = write(tmp_path / "kept", ends)
    read_checkpoint("report", place)
    said = (
        "the busiest reader has 60,000 of 60,000 offsets, 300% of an equal share, since each partition is read as a "
        "whole; the option plan=level would cut them, and leave it 20,000"
    )
    assert f"{said[0].upper()}{said[1:]}." in Page((place.parent / "report.html").read_text()).text
    shown = read_checkpoint("inspect", place)[0]
    assert f"In the last batch {said}." in " ".join(shown.split())
    assert "as even as possible" in shown


@pytest.mark.lengthy
def test_many_clusters_have_a_line_together(tmp_path: Path) -> None:
    ends = [state({(f"c{number:03}", "t"): [at * number] for number in range(40)}) for at in (0, 5, 9)]
    view = read_history(write(tmp_path / "kept", ends)).views["0"]
    rates = plots_of(view)[0]
    assert len(rates.legend) == SERIES_MAX
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


def test_without_jinja_it_says_so_before_anything_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("evensplit.cli.report.report_page", "evensplit.observe.dashboard.rendering"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "pip install 'evensplit[dashboard]'" in read_checkpoint("report", place.parent / "none", code=1)[1]
    assert not (place.parent / "report.html").exists()


@pytest.mark.slow
def test_a_long_history(tmp_path: Path) -> None:
    place = write(tmp_path / "kept", history(WORK_MAX + 5))
    view = read_history(place).views["0"]
    assert next(one.batch for one in view.work) == 5
    read_checkpoint("report", place)
