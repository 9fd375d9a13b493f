"""Advice on checkpoints that have no new batch, though there are records to read."""

from __future__ import annotations

from dataclasses import replace

from evensplit.core.model import Held
from evensplit.explain.held import ALIGNMENT
from evensplit.observe.health.advice import advice_of
from evensplit.observe.health.rules import Advice
from evensplit.observe.history.lag_history import LagHistory
from evensplit.observe.recorder import QueryStatus
from evensplit.observe.source_view import View, look, with_durations
from tests.support.advised import batches, played, rules, watched
from tests.support.views import behind


def kept(*, every_s: int = 1, count: int = 12, held: tuple[Held, ...] = (), took_ms: int = 400) -> View:
    """A checkpoint of which nothing but its batches is known; the last one is done."""
    ends = batches(lambda batch, split: 100, count=count, held=held)
    view = played(ends, took=lambda batch: took_ms, every_ms=1_000 * every_s, lag=lambda now: 0)
    last = replace(view.last, report=replace(view.last.report, latest={}))
    return with_durations(replace(view, last=last, lags=LagHistory()), {}, done=True)


def seen(view: View, at_s: int, lag: int) -> View:
    """The same after a look at the clusters so long after its last batch."""
    return look(view, behind(view.last.end, lambda key: lag), (view.last.at_ms or 0) + 1_000 * at_s)


def unasked(view: View) -> View:
    clusters = tuple(replace(one, lag_sum=None) for one in view.explanation.clusters)
    return replace(view, explanation=replace(view.explanation, clusters=clusters))


def said(view: View, at_s: int) -> tuple[Advice, ...]:
    return advice_of(watched(view, QueryStatus.UNKNOWN), (view.last.at_ms or 0) + 1_000 * at_s)


def test_whoever_had_a_batch_each_second_has_stopped_if_records_wait_for_a_minute() -> None:
    view = seen(kept(), 30, 0)
    for at_s in range(40, 160, 10):
        # Since between 30 s and 40 s.
        view = seen(view, at_s, 5)
        assert rules(said(view, at_s)) == (["stopped"] if at_s > 100 else []), at_s
    assert "No batch was planned for 2 min, and 20 offsets are unread: see whether" in said(view, 150)[0].text
    # Records that wait go on waiting when nobody looks.
    assert rules(said(seen(seen(kept(), 30, 0), 40, 5), 101)) == ["stopped"]


def test_what_is_looked_at_once_may_have_come_just_now() -> None:
    """So it takes ten minutes without a batch, after which it is likely."""
    assert said(seen(kept(), 590, 5), 590) == ()
    assert rules(said(seen(kept(), 610, 5), 610)) == ["stopped"]


def test_what_came_just_now_is_no_fault_however_long_there_was_nothing() -> None:
    view = seen(seen(kept(), 3_590, 0), 3_600, 5)
    assert said(view, 3_600) == ()
    assert rules(said(view, 3_600 + 61)) == ["stopped"]


def test_a_query_whose_batches_are_apart_or_too_few_gets_its_time() -> None:
    for view, first_s in ((kept(every_s=30), 150), (kept(every_s=100), 500), (kept(count=8), 600)):
        waits = seen(seen(view, 1, 0), 2, 5)
        assert said(waits, first_s) == ()
        assert rules(said(waits, first_s + 3)) == ["stopped"]


def test_a_run_each_hour_is_no_query_that_has_stopped() -> None:
    """One with many short batches, after which it ends: among those that are kept is the pause before."""
    view = kept(count=40)
    work = tuple(replace(one, at_ms=(one.at_ms or 0) - (3_600_000 if one.batch < 25 else 0)) for one in view.work)
    waits = seen(seen(replace(view, work=work), 1, 0), 2, 5)
    assert said(waits, 500) == ()


def paused(view: View, *pauses: tuple[int, int]) -> View:
    """The same with a pause of so many seconds before each of some batches."""
    work = tuple(
        replace(one, at_ms=(one.at_ms or 0) - sum(1_000 * long_s for first, long_s in pauses if one.batch < first))
        for one in view.work
    )
    return replace(view, work=work)


def test_a_timetable_is_known_by_its_second_pause() -> None:
    """The first one may be that of a query that was down."""
    view = kept(count=40)
    for pauses in ([(15, 3_600)], [(15, 3_600), (20, 8 * 3_600)]):
        assert rules(said(seen(paused(view, *pauses), 3_500, 5), 3_500)) == ["stopped"], pauses
    for pauses in ([(15, 3_600), (20, 3_600)], [(15, 3_600), (18, 8 * 3_600), (20, 3_600)]):
        hourly = seen(paused(view, *pauses), 3_500, 5)
        assert said(hourly, 3_500) == said(hourly, 5_390) == (), pauses
        assert rules(said(hourly, 5_410)) == ["stopped"], pauses


def test_quiet_nights_are_no_timetable() -> None:
    """Two of eight hours, and batches each ten minutes in between."""
    view = paused(kept(every_s=600, count=95), (40, 8 * 3_600), (70, 8 * 3_600))
    waits = seen(seen(view, 10, 0), 20, 5)
    assert rules(said(waits, 6_100)) == ["stopped"]


def test_one_batch_says_nothing_of_the_next() -> None:
    """A trigger may be of hours."""
    held = (Held("maxOffsetsPerTrigger", ""),)
    assert said(unasked(kept(held=held, count=1)), 3_500) == ()
    assert rules(said(unasked(kept(held=held, count=2)), 3_500)) == ["stopped"]


def test_a_batch_that_a_limit_kept_short_needs_no_look_at_the_clusters() -> None:
    limited = unasked(kept(held=(Held("maxOffsetsPerTrigger", ""),)))
    assert limited.lag is None
    assert said(limited, 60) == ()
    found = said(limited, 62)
    assert rules(found) == ["stopped"]
    assert "No batch was planned for 62 s after one that maxOffsetsPerTrigger kept short, so records" in found[0].text
    # What alignment waits for may never come; and without any, all may have been read.
    assert said(unasked(kept(held=(Held(ALIGNMENT, "west"),))), 90_000) == ()
    assert said(unasked(kept()), 90_000) == ()
    # By now nothing is unread, as the clusters say.
    assert said(seen(limited, 700, 0), 700) == ()


def test_the_time_that_the_last_batch_took_is_no_time_without_one() -> None:
    view = kept(took_ms=3_000_000, count=2)
    assert said(seen(view, 3_100, 5), 3_100) == ()
    assert rules(said(seen(view, 13_100, 5), 13_100)) == ["stopped"]
