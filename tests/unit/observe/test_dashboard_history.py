"""The plots over time, of the lag and of how long batches took."""

from __future__ import annotations

from dataclasses import replace

from evensplit.core.state.codec import encode
from evensplit.observe.dashboard.view.history import make_history
from evensplit.observe.dashboard.view.plot import BOTTOM, LEFT, RIGHT, TOP, over_time
from evensplit.observe.recorder import QueryStatus, Recorder, SourceStatus
from evensplit.observe.source_view import View, with_durations
from tests.support.batches import orders, viewed
from tests.support.browsers import client


def behind(batches: int, seconds: float) -> View:
    """A query that reads less than comes."""
    script = orders({"east": 2})
    made = [script.batch()]
    for _ in range(batches):
        script.write(100)
        script.read(40)
        made.append(script.batch(seconds=seconds))
    return viewed(*made)


def test_a_line_over_time_is_broken_where_nothing_is_known() -> None:
    points = [(0, 0.0), (10_000, 5.0), (20_000, None), (30_000, 10.0), (40_000, None), (60_000, 10.0)]
    plot = over_time("Lag", "", "offsets", 0, 60_000, [("", points)], (1_000, "seconds"))
    first, second, third = (line.points.split() for line in plot.lines)
    assert first[0] == f"{LEFT}.0,{BOTTOM}.0"
    assert len(first) == 2
    # One value alone is a short line.
    assert len(second) == len(third) == 2
    assert second[0].split(",")[1] == f"{TOP}.0"
    assert float(third[1].split(",")[0]) == RIGHT + 2
    assert [tick.label for tick in plot.x_ticks][-1] == "0"
    assert plot.legend == ()


def test_three_plots_over_one_time() -> None:
    view = behind(12, 300.0)
    history = make_history(SourceStatus(view, QueryStatus.RUNNING, view.last.at_ms))
    lag, waited, took = history.plots
    assert [plot.title for plot in history.plots] == ["Lag", "Waited", "Batches"]
    assert {plot.x for plot in history.plots} == {"minutes before the last"}
    assert {plot.x_ticks for plot in history.plots} == {lag.x_ticks}
    assert waited.y == "minutes"
    assert [name for _, name in waited.legend] == ["at least", "at most"]
    assert took.y == "seconds"
    assert history.without == ""


def test_units_fit_what_is_shown() -> None:
    for seconds, unit in ((5.0, "seconds"), (60.0, "minutes"), (3_600.0, "hours"), (86_400.0, "days")):
        view = behind(10, seconds)
        history = make_history(SourceStatus(view, QueryStatus.RUNNING, view.last.at_ms))
        assert history.plots[0].x == f"{unit} before the last"


def test_one_batch_has_no_plots_and_a_checkpoint_says_how_to_get_the_lag() -> None:
    one = viewed(orders({"east": 1}).batch())
    assert make_history(SourceStatus(one, QueryStatus.RUNNING, one.last.at_ms)).plots == ()
    script = orders({"east": 1})
    kept = viewed(*(replace(script.batch(reported=False), duration_ms=None) for _ in range(3)))
    history = make_history(SourceStatus(kept, QueryStatus.UNKNOWN, None))
    assert (history.plots, "--lag asks the clusters" in history.without) == ((), True)
    timed = with_durations(kept, {1: 500, 2: 700})
    (plot,) = make_history(SourceStatus(timed, QueryStatus.UNKNOWN, None)).plots
    assert plot.title == "Batches"


def test_durations_that_become_known_later() -> None:
    script = orders({"east": 1})
    kept = viewed(*(replace(script.batch(), duration_ms=None) for _ in range(3)))
    timed = with_durations(kept, {1: 500, 2: 700, 9: 1})
    assert [work.duration_ms for work in timed.work] == [None, 500, 700]
    assert timed.last.duration_ms == 700
    assert with_durations(timed, {1: 9, 2: 9}) is timed, "what was known stays"


def test_they_are_on_the_page() -> None:
    recorder, script = Recorder(), orders({"east": 2})
    for _ in range(4):
        script.write(10)
        script.read(5)
        batch = script.batch()
        recorder.add(batch, encode(batch.end), heard_ms=batch.at_ms)
    text = client(recorder).get("/").text
    assert text.count('<figure class="card plot">') == 3
    assert "How long the oldest unread record had waited" in text
