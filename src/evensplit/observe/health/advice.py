"""What to do about a query that is not well: rules over the model, each with its condition, and none said without it.

It is pure. `now_ms` is the one thing that the model does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evensplit.core.batch.plan import CUT_OFFSETS_MIN
from evensplit.core.batch.plan_summary import FAR_TIMES
from evensplit.core.state.settings import COUNT, LEVEL, OWNERS
from evensplit.core.text import counted, some
from evensplit.explain.batch_rates import held_back, pace_of
from evensplit.explain.held import ALIGNMENT
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.explain.written import TROUBLE
from evensplit.observe.health.figures import OVER, needed_now
from evensplit.observe.health.rules import Advice, Rule
from evensplit.observe.health.running import is_late, quiet, run_of
from evensplit.observe.history.work import Work
from evensplit.observe.recorder import RUNS, SourceStatus
from evensplit.observe.sinks import SinkView
from evensplit.observe.source_view import View
from evensplit.observe.timeline import Kind
from evensplit.times import long

BATCHES = 10
"""The last batches, over which it is judged whether the lag grows."""
GROWS_BATCHES_MIN = 4
"""So many batches it takes at least."""
GROWS_TIMES = 1.25
"""The lag grows by far if it is on average this many times what it was before ..."""
RISES_TIMES = 1.02
"""... and a little if it is this many times that."""
GROWS_MS, RISES_MS = 60_000, 15 * 60_000
"""How much time the last batches are taken to be at least, and all that are kept."""

SKEWED_BATCHES = 5
"""Of the last batches with work, more than half have to be uneven."""
FIXED_SHARE = 0.5
"""From this share of a batch on, what it takes whatever it reads is worth a word ..."""
FIXED_BATCH_MS = 5_000
"""... if batches take so long on average."""
MOVING_BATCHES_MIN = 10
"""Of so many batches at least, more than half have to have moved partitions."""
LEFT_MS = 10 * 60_000
"""A lag that takes so long at the pace that a limit allows is worth a word."""
LOST_MS = 24 * 3_600_000
"""For so long, a loss is worth a word."""


def advice_of(
    watched: SourceStatus, now_ms: int | None = None, sink: SinkView | None = None, needed: ReadersNeeded | None = None
) -> tuple[Advice, ...]:
    """What to do about a source, the urgent first; nothing if it is well.

    `now_ms`: by the wall clock; None: nothing is said of how long ago something was. `sink`: what the query writes.
    `needed`: how many readers are needed, if more is known than the view has.
    """
    view, over = watched.view, watched.stage in OVER
    found: list[Advice] = []
    if not over:
        found += _away(watched)
    found += _lost(view, now_ms)
    found += _not_written(sink)
    if over:
        return tuple(found)
    still = () if now_ms is None else tuple(quiet(watched, now_ms))
    found += still
    # Readers, and limits, are not what a query lacks that does not run.
    if not still and not is_late(watched, now_ms):
        needed = needed if needed is not None else needed_now(watched)
        found += _readers(view, needed)
        found += _held(view, needed, grows=lag_grows(view))
    found += _uneven(view)
    found += _fixed(view)
    found += _moves(view)
    return tuple(found)


def lag_grows(view: View) -> bool:
    """Whether the lag grows: by far over the last batches; or by far over all of this run that are kept, and a little
    over the last ones; or by far over all of the run, a little over those that are kept, and still.

    Ten short batches, and a hundred, are no time in which a lag grows: `GROWS_MS` and `RISES_MS` are.
    """
    times = [one.at_ms for one in run_of(view) if one.at_ms is not None]
    known = [(one.at_ms, one.lag) for one in view.lags.points if one.lag is not None]
    if len(times) < GROWS_BATCHES_MIN or not known:
        return False
    last_ms, begun_ms = known[-1][0], _begun_ms(view, times[0])

    def since(at_ms: int) -> float:
        return _growth([one for one in known if one[0] >= max(at_ms, begun_ms)])

    # Of a long time, fewer looks are kept.
    lately_ms = min(times[-BATCHES:][0], last_ms - GROWS_MS, known[-BATCHES:][0][0])
    lately, longer = since(lately_ms), since(min(times[0], last_ms - RISES_MS, lately_ms))
    return (
        lately > GROWS_TIMES
        or (lately > RISES_TIMES and longer > GROWS_TIMES)
        or (lately > 1 and longer > RISES_TIMES and since(begun_ms) > GROWS_TIMES)
    )


def _begun_ms(view: View, first_ms: int) -> int:
    """Since when this run is known: it may have begun before `first_ms`, its oldest batch that is kept."""
    starts = [one.at_ms for one in view.happenings if one.kind is Kind.STARTED and one.at_ms is not None]
    return min(starts[-1], first_ms) if starts else first_ms


def _growth(known: Sequence[tuple[int, int]]) -> float:
    """How many times the lag of the earlier half of a time it is in the later half; 1 if it has not grown."""
    if not known:
        return 1.0
    middle_ms = (known[0][0] + known[-1][0]) / 2
    before = [lag for at_ms, lag in known if at_ms <= middle_ms]
    after = [lag for at_ms, lag in known if at_ms > middle_ms]
    if min(len(before), len(after)) < GROWS_BATCHES_MIN // 2 or known[-1][1] <= known[0][1]:
        return 1.0
    # Nothing at first, and something then, is any number of times as much.
    return (sum(after) / len(after)) / max(sum(before) / len(before), 1e-9)


def _away(watched: SourceStatus) -> Iterator[Advice]:
    """Clusters are read and do not answer, or others do in their place."""
    view = watched.view
    others = [one.id for one in view.explanation.clusters if one.another and one.id in view.away]
    if others:
        whom = f"cluster {others[0]}" if len(others) == 1 else f"clusters {some(others)}"
        yield Advice(
            Rule.AWAY,
            f"Another Kafka cluster answers in place of {whom}, so nothing is known of the lag: say "
            "--bootstrap-servers of the one that the query reads.",
        )
    away = sorted(view.away.difference(others))
    if not away:
        return
    runs = watched.stage in RUNS
    who = f"{'Cluster' if len(away) == 1 else 'Clusters'} {some(away)} {'does' if len(away) == 1 else 'do'} not answer"
    whom = "" if runs else " this machine"
    positions = "Its position is" if len(away) == 1 else "Their positions are"
    after = f" {positions} kept; after unreachableTimeout the query fails." if runs else ""
    yield Advice(Rule.AWAY, f"{who}{whom}: look at the brokers, and at the way to them.{after}")


def _lost(view: View, now_ms: int | None) -> Iterator[Advice]:
    """Losses were declared lately."""
    since_ms = 0 if now_ms is None else now_ms - LOST_MS
    lost = [one for one in view.happenings if one.kind is Kind.LOST and (one.at_ms is None or one.at_ms >= since_ms)]
    if lost:
        where = some(sorted({cluster for one in lost for cluster in one.clusters}))
        what = f"of {counted(sum(one.splits for one in lost), 'partition')} in {where}"
        yield Advice(
            Rule.LOST,
            f"Records {what} were, or may have been, gone before they were read. Raise retention.ms of the topics, or "
            "read faster. The events on its page say more.",
        )


def _not_written(sink: SinkView | None) -> Iterator[Advice]:
    """The last batch could not be written."""
    last = None if sink is None else sink.last
    if last is not None and last.outcome in TROUBLE:
        yield Advice(
            Rule.NOT_WRITTEN,
            f"Batch {last.batch:,} is {last.outcome}: the error in the driver's log says of which cluster, and what to "
            "do. Start the query again when that is done: it ends what was decided.",
        )


def _readers(view: View, needed: ReadersNeeded | None) -> Iterator[Advice]:
    """There are too few readers for what arrives and is left."""
    if needed is None or not needed.sure:
        return
    readers = len(view.explanation.readers)
    if needed.readers > readers:
        yield Advice(Rule.READERS, f"Give it {counted(needed.readers, 'reader')} (it has {readers:,}): {_why(needed)}.")
    elif needed.capped:
        yield Advice(
            Rule.PARTITIONS,
            f"It needs more readers than it has partitions: {_why(needed)}. Set plan=level, so that several readers "
            "share a partition, or give the topics more partitions.",
        )


def _held(view: View, needed: ReadersNeeded | None, *, grows: bool) -> Iterator[Advice]:
    """Limits keep batches short while the lag grows or is large, and readers have time to spare."""
    batches = view.measured()
    pace = pace_of(batches)
    held = None if pace is None else held_back(batches, pace.fixed_s)
    # Where batches follow each other at once, it takes a look at what more readers would do.
    if held is None or (held.at_once and not (needed is not None and needed.held_by)):
        return
    # Who looks once sees no growth, but how much is left.
    is_seldom = sum(one.lag is not None for one in view.lags.points) < GROWS_BATCHES_MIN
    left_ms = round(1000 * (view.lag or 0) / held.through) if held.through and is_seldom else 0
    if not grows and left_ms < LEFT_MS:
        return
    grown = "the lag grows" if grows else f"what is unread takes {long(left_ms)} at that, even if nothing arrives"
    limits = [one for one in held.by if one != ALIGNMENT]
    if limits:
        them = " and ".join(limits)
        keep, it = ("keeps", "it") if len(limits) == 1 else ("keep", "them")
        through = "" if held.at_once and grows else f" at {_rate(held.through)} offsets/s"
        yield Advice(
            Rule.LIMIT,
            f"{them} {keep} batches short{through}, and {grown}: raise {it}. Readers have time to spare.",
        )
    if ALIGNMENT in held.by and grows:
        waits = some(list(dict.fromkeys(one.scope for one in view.explanation.held if one.limit == ALIGNMENT)))
        whom = f" for {waits}" if waits else ""
        yield Advice(
            Rule.ALIGNMENT,
            f"alignment waits{whom}, and the lag of the others grows: see whether records still come there. "
            "idleTimeout says after how long an idle partition is not waited for.",
        )


def _uneven(view: View) -> Iterator[Advice]:
    """One partition alone, or one owner, has far more than a reader's share, in most of the last batches."""
    settings = view.last.end.settings
    busy = [one for one in view.finished() if one.offsets_sum][-SKEWED_BATCHES:]
    if settings.plan == LEVEL or not busy:
        return
    cut = [one for one in busy if one.largest > _far(one)]
    owned = [one for one in busy if one.largest <= _far(one) < one.busiest]
    last = busy[-1]
    if 2 * len(cut) > len(busy) and last in cut:
        yield Advice(
            Rule.LEVEL,
            f"One partition has {last.largest:,} of {counted(last.offsets_sum, 'offset')}, "
            f"{last.largest / last.share:.1f} times a reader's share: set plan=level, so that several read it.",
        )
    elif settings.plan == OWNERS and settings.balance == COUNT and 2 * len(owned) > len(busy) and last in owned:
        yield Advice(
            Rule.BY_RATE,
            f"The busiest reader has {last.busiest:,} of {counted(last.offsets_sum, 'offset')}, "
            f"{last.busiest / last.share:.1f} times its share: set balance=rate, which weighs partitions by what they "
            "bring.",
        )


def _fixed(view: View) -> Iterator[Advice]:
    """Batches follow each other at once, and take long whatever they read: readers are not what is missing."""
    batches = view.measured()
    pace = pace_of(batches)
    took = [one.duration_ms for one in batches[-BATCHES:] if one.duration_ms]
    if pace is None or not (pace.sure and pace.at_once) or not took:
        return
    mean_ms = sum(took) / len(took)
    if mean_ms >= FIXED_BATCH_MS and 1000 * pace.fixed_s >= FIXED_SHARE * mean_ms:
        yield Advice(
            Rule.FIXED,
            f"A batch takes {mean_ms / 1000:.1f} s, and {pace.fixed_s:.1f} s of it whatever it reads: more readers do "
            "not help with that. Look at the rest of the query (state, sink) in Spark's UI, or make batches larger.",
        )


def _moves(view: View) -> Iterator[Advice]:
    """Partitions change their readers in most batches."""
    batches = frozenset(one.batch for one in run_of(view))
    moving = {one.batch for one in view.happenings if one.kind is Kind.MOVED} & batches
    if len(batches) >= MOVING_BATCHES_MIN and 2 * len(moving) > len(batches):
        yield Advice(
            Rule.MOVES,
            f"Partitions changed their readers in {len(moving):,} of the last {len(batches):,} batches: what owners "
            "depend on keeps changing, as the number of readers, the metadata or the topics. Each event says why.",
        )


def _far(one: Work) -> float:
    """From so many offsets on, a reader has far more than its share, and cutting helps."""
    return max(FAR_TIMES * one.share, CUT_OFFSETS_MIN)


def _why(needed: ReadersNeeded) -> str:
    """Why so many readers are needed: the sentence without its beginning, which says how many."""
    return needed.sentence().partition(": ")[2]


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
