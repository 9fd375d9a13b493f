"""Whether a query still runs, by times: what is said of one that is silent, has stopped, or hangs in a batch.

A checkpoint has no sign of the process that works on it. What is known is when batches were planned and done, how many
records each has, and, where clusters are asked, how long records have been unread. From these follows how long a batch,
or the time until the next one, should be at most; a query that takes longer is taken not to run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median, median_low

from evensplit.core.text import counted, some
from evensplit.explain.edited import edit_sentence
from evensplit.explain.held import ALIGNMENT
from evensplit.observe.health.figures import edits_waiting
from evensplit.observe.health.rules import Advice, Rule
from evensplit.observe.history.work import Work
from evensplit.observe.recorder import RUNS, SourceStatus
from evensplit.observe.source_view import View
from evensplit.times import long

BATCHES = 10
"""The last batches, by which it is judged how long they take and how far they are apart."""

SILENT_MS = 30 * 60_000
"""A running query of which nothing was heard for so long hangs."""

STOPPED_MS = 10 * 60_000
"""A query without a batch for so long, and for `STOPPED_BATCHES` of its batches, is taken to have stopped."""
STOPPED_BATCHES = 10
STEADY_MS = 60_000
"""One whose batches were never far apart is taken to have stopped if records wait for so long, and `STEADY_TIMES` as
long as any two of its batches were apart, of which there have to be `BATCHES` pairs."""
STEADY_TIMES = 5
TIMETABLE_TIMES = 1.5
"""One that runs by a timetable is taken to have stopped after so many times its pause."""
TIMETABLE_ALIKE = 1.25
"""Pauses of a timetable are alike: at most so many times as long, or as short, as that in the middle ..."""
TIMETABLE_SHARE = 2 / 3
"""... and so much of the time, or more, is pauses. A topic into which nothing is written at night has fewer."""

NOT_DONE_MS = 30_000
"""A batch gets so much time at least; `STOPPED_MS` if it is not to be compared with those before it."""
NOT_DONE_TIMES = 5
"""It gets so many times as long as the slowest of those before it would have taken with as many records ..."""
SLOW_TIMES = 2
"""... and, where these are long, `STOPPED_MS` more than so many times as long as half of them took at most."""
LARGER_TIMES = 2
"""Batches are alike if none is more than so many times as large as the other."""
LARGE_MS = 3_600_000
"""A batch that is larger than all before it gets as long as its records took at best, up to so long."""
ALIKE_LEAST = 3
"""Of so many batches of its size, or more, a single slow one counts as if it took `LARGE_MS` at most."""

LATE_MS, LATE_TIMES = 10_000, 2
"""A batch is overdue that is not done after so long, and so many times as long as batches are apart."""
NEXT_LATE_MS, NEXT_LATE_TIMES = 30_000, 5
"""The same of the next batch after one that is done."""


def quiet(watched: SourceStatus, now_ms: int) -> Iterator[Advice]:
    """Nothing was heard of a running query, or a checkpoint has no new batch although there are records to read."""
    view, heard_ms = watched.view, watched.heard_ms
    if watched.stage in RUNS:
        if heard_ms is not None and now_ms - heard_ms > SILENT_MS:
            yield Advice(
                Rule.SILENT,
                f"Nothing was heard of it for {long(now_ms - heard_ms)}: a batch hangs, or takes long. See the stages "
                "that run in Spark's UI.",
            )
        return
    passed_ms = None if view.last.at_ms is None else now_ms - view.last.at_ms
    if view.done is False:
        yield from _not_done(view, passed_ms)
    elif passed_ms is not None:
        yield from _stopped(view, now_ms, passed_ms)


def is_late(watched: SourceStatus, now_ms: int | None) -> bool:
    """Whether a batch of a checkpoint, or the next, is overdue, so that nothing is said of how fast its query is."""
    last_ms = watched.view.last.at_ms
    if watched.stage in RUNS or now_ms is None or last_ms is None:
        return False
    undone = watched.view.done is False
    least_ms, times = (LATE_MS, LATE_TIMES) if undone else (NEXT_LATE_MS, NEXT_LATE_TIMES)
    return now_ms - last_ms > max(least_ms, times * _apart_ms(watched.view))


def run_of(view: View) -> Sequence[Work]:
    """The batches of the present run that are kept, oldest first."""
    return [one for one in view.work if one.run_id == view.last.run_id]


def patience_ms(former: Sequence[tuple[int, int | None]], size: int | None) -> float:
    """How long a batch with `size` records may take before its query is taken to hang.

    `former`: how long those before it took, in ms, and how many records each had; None: not known.

    How long a batch takes depends on how much it reads, so each of those before it counts by the share that is as large
    as this one: a first batch that worked off a backlog for hours says little of the next one with a few records. Time
    that a batch takes whatever it reads is not shared so; but it is part of all batches, so a batch gets no less than
    by those that are as small as it is. Where there is none, it gets ten minutes, or what it gets if sizes are left
    out of it, whichever is less.

    The slowest of them counts, and not the median, since regular batches may be slow, as when a sink compacts its files
    in each tenth one; and five times its time, since a short batch varies by such a factor. A long one does not: hence
    the bound, which lets a single slow batch (the query waited for machines) put off the alarm for hardly longer than
    it took itself. Of three or more of its size, a single one that took over an hour counts as if it took one: its
    query was rather down within it.

    A batch that is larger than all before it gets as long as its records took in the quickest of them. That is too long
    where most of their time was no reading, so it is an hour at most, and ten minutes at least.
    """
    took = [ms for ms, _ in former]
    known = [(ms, of) for ms, of in former if of is not None]
    if not took:
        return STOPPED_MS
    if size is None or not known:
        return max(STOPPED_MS, _bounded_ms(_trusted(took)))
    if size > LARGER_TIMES * max(of for _, of in known):
        quickest = max(of / max(1, ms) for ms, of in known)
        return max(STOPPED_MS, _bounded_ms(took), min(LARGE_MS, size / quickest) if quickest else 0)
    least_ms = NOT_DONE_MS if any(_are_alike(of, size) for _, of in known) else STOPPED_MS
    alike = [ms for ms, of in known if _are_alike(of, size)]
    others = [
        ms if of is None or of <= LARGER_TIMES * size else ms * size / of
        for ms, of in former
        if of is None or not _are_alike(of, size)
    ]
    return min(max(NOT_DONE_MS, _bounded_ms(took)), max(least_ms, _bounded_ms([*_trusted(alike), *others])))


def _are_alike(one: int, other: int) -> bool:
    return max(one, other) <= LARGER_TIMES * min(one, other)


def _trusted(took: Sequence[int]) -> Sequence[int]:
    """How long batches of a size took; a single one of several that took hours, as where its query was down, one."""
    if len(took) < ALIKE_LEAST:
        return took
    *others, slowest = sorted(took)
    return [*others, max(others[-1], min(slowest, LARGE_MS))]


def _bounded_ms(took: Sequence[float]) -> float:
    slowest = max(took)
    return min(NOT_DONE_TIMES * slowest, max(SLOW_TIMES * median(took), slowest) + STOPPED_MS)


def _not_done(view: View, passed_ms: int | None) -> Iterator[Advice]:
    """The newest batch of a checkpoint was planned so long ago, and is not done, or was edited by a command."""
    if not (works := run_of(view)[-BATCHES - 1 :]):
        return
    *sizes, last = [one.offsets_sum if view.of_all is None else view.of_all.get(one.batch) for one in works]
    timed = zip(map(_took_ms, works, works[1:]), sizes, strict=True)
    former = [(ms, size) for ms, size in timed if ms is not None]
    edits = edits_waiting(view)
    if passed_ms is not None and passed_ms > patience_ms(former, last):
        edited = f" with `{edits[-1].line}`" if edits else ""
        usual = f" (those before it: {_usual([ms for ms, _ in former])})" if former else ""
        yield Advice(
            Rule.NOT_DONE,
            f"Batch {view.last.number:,}{edited} is not done after {long(passed_ms)}{usual}: see whether the query "
            "runs, and what its log says, and start it if it does not.",
        )
    elif edits:
        said = "; ".join(edit_sentence(one) for one in edits)
        back = "" if edits[-1].command == "fork" else ", or take the edit back with `evensplit undo CHECKPOINT`"
        yield Advice(
            Rule.EDITED,
            f"Batch {view.last.number:,} is edited, and not done yet. {said}. Start the query, which does it first"
            f"{back}.",
        )


def _usual(took: Sequence[int]) -> str:
    """How long batches took: the slowest and, if it is far from the others, these."""
    slowest, half = max(took), median(took)
    mostly = f"{_lasted(half)} mostly, " if slowest > NOT_DONE_TIMES * half else ""
    return f"{mostly}{_lasted(slowest)} at most"


def _took_ms(one: Work, following: Work) -> int | None:
    """How long a batch took at most; None: not known. The next one is planned when it is done."""
    if one.duration_ms is not None or one.at_ms is None or following.at_ms is None:
        return one.duration_ms
    # If the clock was set back in between, it does not say.
    return following.at_ms - one.at_ms if following.at_ms >= one.at_ms else None


def _stopped(view: View, now_ms: int, passed_ms: int) -> Iterator[Advice]:
    """The newest batch of a checkpoint was planned so long ago, and is done, and there are records for the next one.

    That is certain where clusters were asked, or a limit kept that batch from reading all that there was.
    """
    limits = sorted({one.limit for one in view.explanation.held if one.limit != ALIGNMENT})
    several = len(run_of(view)) > 1
    if not (view.lag or (view.lag is None and limits and several)):
        return
    usual_ms = max(STOPPED_MS, STOPPED_BATCHES * _apart_ms(view), TIMETABLE_TIMES * _timetable_ms(view))
    wait_ms = min(usual_ms, _steady_ms(view))
    # A batch that took long is no time without one.
    rested_ms = passed_ms - (view.last.duration_ms or 0)
    least_ms, most_ms = _unread_ms(view, now_ms) if view.lag else (rested_ms, rested_ms)
    if rested_ms <= wait_ms or (most_ms is not None and most_ms <= wait_ms):
        return
    if rested_ms > usual_ms or least_ms > wait_ms:
        unread = (
            f", and {counted(view.lag, 'offset')} are unread"
            if view.lag
            else f" after one that {some(limits)} kept short, so records are unread"
        )
        yield Advice(
            Rule.STOPPED,
            f"No batch was planned for {long(passed_ms)}{unread}: see whether the query runs, and start it if not.",
        )


def _unread_ms(view: View, now_ms: int) -> tuple[int, int | None]:
    """How long the oldest unread record has waited by now: at least, and at most (None: not known)."""
    age, points = view.lags.age, view.lags.points
    if age is None or not points:
        return 0, None
    # Nothing was read since the last look.
    since_ms = max(0, now_ms - points[-1].at_ms)
    return age.least_ms + since_ms, None if age.most_ms is None else age.most_ms + since_ms


def _steady_ms(view: View) -> float:
    """After so long without a batch a query has stopped if there was something to read; endless if that is not known.

    All batches count that are kept: in a query that runs each hour until everything is read, many are close together.
    """
    times = [one.at_ms for one in run_of(view) if one.at_ms is not None]
    apart = [following - one for one, following in pairwise(times)]
    if len(apart) < BATCHES or min(apart) < 0:
        return float("inf")
    return max(STEADY_MS, STEADY_TIMES * max(apart))


def _timetable_ms(view: View) -> int:
    """The pause between two runs of a query that runs by a timetable, as far as its batches are kept; 0: it has none.

    One has to have been seen twice. A single long one, or one of another length, is that of a query that was down.
    """
    timed = [one for one in run_of(view) if one.at_ms is not None]
    pauses = sorted(
        pause
        for one, following in pairwise(timed)
        if (pause := (following.at_ms or 0) - (one.at_ms or 0) - (one.duration_ms or 0)) > STOPPED_MS
    )
    if not pauses or sum(pauses) < TIMETABLE_SHARE * ((timed[-1].at_ms or 0) - (timed[0].at_ms or 0)):
        return 0
    half = median_low(pauses)
    alike = [one for one in pauses if half <= TIMETABLE_ALIKE * one and one <= TIMETABLE_ALIKE * half]
    return max(alike) if len(alike) > 1 else 0


def _apart_ms(view: View) -> float:
    """From the plan of one batch to that of the next, on average over the last batches; 0 if there is one only."""
    times = [one.at_ms for one in run_of(view)[-BATCHES:] if one.at_ms is not None]
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0


def _lasted(duration_ms: float) -> str:
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 10_000 else long(round(duration_ms))
