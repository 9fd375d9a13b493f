"""One model of a source, made of its batches, for everything that shows it.

It is pure: `advance` takes the next batch and returns the view after it. The batch may come from the listener of a
running query, or from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from evensplit.core.batch.plan import batch_ranges, offsets_by_split, plan_batch
from evensplit.core.model import Lifecycle, SplitId
from evensplit.core.state.observation import Report
from evensplit.core.state.settings import LEVEL
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import Explanation, explain, seen_again
from evensplit.explain.batch_rates import Measured, long_enough
from evensplit.explain.evenness import Ownership, ownership, proofs
from evensplit.explain.readers_needed import ReadersNeeded, readers_needed
from evensplit.explain.record_counts import RecordCounts
from evensplit.explain.written import WriteReport
from evensplit.observe.history.lag_history import LagHistory
from evensplit.observe.history.parts import parts_of, read_of
from evensplit.observe.history.work import Work
from evensplit.observe.timeline import Kind, TimelineEvent, of_changes, of_clusters
from evensplit.observe.totals import Totals, added

WORK_MAX = 100
"""The number of batches that are kept with the work of each reader. Spark keeps the offsets of as many."""

HAPPENINGS_MAX = 500
"""The number of events that are kept."""

WAITED_MS = 1_000
"""How much longer what is unread has to have waited for that to be news."""

ByBatch = Mapping[int, int]

RATE_BATCHES_MAX = 10
"""The number of batches that rates are computed over."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of one query."""

    query_id: str
    """The same after a restart."""
    number: int = 0
    """Which of the query's sources it is, from 0."""
    name: str | None = None
    """The query's name, if it has one."""

    def __str__(self) -> str:
        return f"{self.name or self.query_id}{f', source {self.number}' if self.number else ''}"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as it was planned. None stands for a value that is not known."""

    source: Source
    number: int
    start: EnumeratorState
    """The state before it."""
    end: EnumeratorState
    """The state after it."""
    report: Report = field(default_factory=Report)
    """What was known of the clusters when it was planned."""
    at_ms: int | None = None
    """When it was planned."""
    run_id: str = ""
    """The run of the query: another one after each start. Empty if it is not known."""
    rows: int | None = None
    """How many records Spark was given."""
    duration_ms: int | None = None
    """How long Spark took for all of it."""
    counts: RecordCounts | None = None
    """What its tasks counted."""
    written: WriteReport | None = None
    """What its sink has told."""


@dataclass(frozen=True, slots=True)
class SplitView:
    """One split after a batch. None stands for a value that is not known."""

    id: SplitId
    stands: Lifecycle
    """Its stage: assigned, retained and so on."""
    owner: int | None
    """Its reader; None: it has none."""
    position: int | None
    """The next offset to read."""
    end: int | None
    """Where its log ended when the batch was planned."""
    lag: int | None
    """Offsets from `position` to `end`."""
    offsets: int
    """How many the batch read."""
    rate: float | None
    """Offsets per second in the batch."""


@dataclass(frozen=True, slots=True)
class View:
    """One source after its last batch, with the history that led there.

    Clusters' health, ends of logs and lag are those of the query's last look: for that batch, or later (see `look`).
    """

    last: Batch
    explanation: Explanation
    """Of the last batch: clusters with health and lag, readers, plan, proofs."""
    held: Ownership
    """The owners that the proofs are about."""
    totals: Totals
    work: tuple[Work, ...]
    """The last `WORK_MAX` batches, oldest first."""
    happenings: tuple[TimelineEvent, ...]
    """The last `HAPPENINGS_MAX` events, oldest first."""
    read: tuple[Mapping[str, int], ...]
    """For each batch in `work`: cluster -> offsets read."""
    interval_ms: int | None = None
    """From the plan of the batch before to that of the last one; None: not known."""
    away: frozenset[str] = frozenset()
    """The clusters that are read and did not answer when that was last known."""
    lags: LagHistory = field(default_factory=LagHistory, compare=False)
    """The lag over time, and how long unread records have waited."""
    done: bool | None = None
    """Whether the last batch is done; None: not known. One that is not says nothing of how fast the query is."""
    of_all: ByBatch | None = None
    """Batch -> its offsets in all sources of the query, for those of which that is known; None: it is the only source.
    Told only if the last batch is not done."""

    @property
    def source(self) -> Source:
        """The source that this is a view of."""
        return self.last.source

    @property
    def lag(self) -> int | None:
        """Offsets to be read, of all splits whose end is known; None if none is."""
        return lag_of(self.explanation)

    @property
    def waits(self) -> bool:
        """Whether nothing can be read: there are clusters, and none of those that are read answers."""
        return bool(self.away) and all(
            one.id in self.away for one in self.explanation.clusters if one.removed_at_ms is None
        )

    def rates(self, until_ms: int | None = None) -> Mapping[str, float]:
        """Cluster -> offsets per second over the last batches of this run, without clusters that are removed.

        Empty until planning times are known over half a second (`long_enough`). `until_ms`: nothing more was read until
        then; of an idle query, `SourceStatus.heard_ms`, without which the rate stays that of the last batches.
        """
        latest = list(zip(self.work, self.read, strict=True))[: -1 if self.done is False else None]
        # Between two runs nothing was read, for an unknown time.
        recent = [(work, read) for work, read in latest[-RATE_BATCHES_MAX - 1 :] if work.run_id == self.last.run_id]
        times = [work.at_ms for work, _ in recent]
        first, last = (times[0], times[-1]) if times else (None, None)
        if first is None or last is None or last <= first or not long_enough([one.at_ms for one in self.finished()]):
            return {}
        last = last if until_ms is None else max(last, until_ms)
        # A batch reads the records since the batch before, so those of the first one are older than this span.
        sums: dict[str, int] = {one.id: 0 for one in self.explanation.clusters if one.removed_at_ms is None}
        for _, read in recent[1:]:
            for cluster in sums:
                sums[cluster] += read.get(cluster, 0)
        return {cluster: 1000 * total / (last - first) for cluster, total in sums.items()}

    def finished(self) -> list[Work]:
        """The batches of this run that are kept, oldest first, without one that is known not to be done."""
        ours = [one for one in self.work if one.run_id == self.last.run_id]
        return ours[:-1] if self.done is False else ours

    def readers_needed(
        self,
        until_ms: int | None = None,
        *,
        durations: Mapping[int, int] | None = None,
        lag: int | None = None,
        growing: Mapping[str, float] | None = None,
    ) -> ReadersNeeded | None:
        """How many readers the source needs, by the batches of this run; None as long as that is not known.

        `until_ms`: as in `rates`. `durations`: batch -> how long it took in ms, for batches of which Spark did not say.
        `lag`: the offsets to be read, if more is known than when the query last looked. `growing`: cluster -> offsets
        per second that its logs grow by, if that was measured.
        """
        return readers_needed(
            self.measured(durations),
            lag=self.lag if lag is None else lag,
            splits=len(self.held.splits),
            cuts=self.last.end.settings.plan == LEVEL,
            until_ms=None if self.done is False else until_ms,
            left=parts_of(self.explanation, {}),
            growing=growing,
        )

    def measured(self, durations: Mapping[int, int] | None = None) -> list[Measured]:
        """Those that are `finished`, for what is computed of them. `durations`: as in `readers_needed`."""
        took = durations or {}
        return [
            Measured(
                one.at_ms,
                one.offsets_sum,
                one.busiest,
                one.duration_ms or took.get(one.batch),
                one.lag,
                len(one.offsets),
                one.held,
                one.parts,
            )
            for one in self.finished()
        ]

    def splits(self) -> Iterator[SplitView]:
        """All splits, in their order."""
        batch, latest = self.last, self.last.report.latest
        sizes = offsets_by_split(batch_ranges(batch.start, batch.end))
        for key, split in batch.end.splits.items():
            end = latest.get(key)
            lag = None
            if end is not None and split.position is not None and split.active:
                lag = max(0, end - split.position)
            offsets = sizes.get(key, 0)
            rate = 1000 * offsets / self.interval_ms if self.interval_ms else None
            yield SplitView(key, split.lifecycle, split.owner, split.position, end, lag, offsets, rate)


def advance(view: View | None, batch: Batch) -> View:
    """Return the view after `batch`. `view`: the one before it; None for the first batch of a source.

    A batch that comes again, or late, changes nothing: within a run of a query, numbers go up.

    Raises CheckpointError if the states of the batch are not the start and the end of one batch.
    """
    again = view is not None and view.last.run_id == batch.run_id
    if view is not None and again and batch.number <= view.last.number:
        return view
    held = ownership(batch.start, batch.end)
    proven = view.explanation.evenness if view is not None and view.held == held else proofs(held)
    plan = plan_batch(batch.start, batch.end)
    explanation = explain(
        batch.start, batch.end, batch.report, plan=plan, proven=proven, counts=batch.counts, written=batch.written
    )
    read, largest = read_of(plan)
    work = Work(
        batch.number,
        batch.at_ms,
        batch.duration_ms,
        batch.rows,
        MappingProxyType({one.reader: one.offsets for one in explanation.readers}),
        explanation.plan.bound,
        lag_of(explanation),
        batch.run_id,
        tuple(sorted({one.limit for one in explanation.held})),
        MappingProxyType(parts_of(explanation, read)),
        largest,
    )
    before = view.away if view is not None else frozenset()
    away = _away(before, explanation)
    happened = tuple(_happened(view, batch, explanation, before, away))
    if view is None:
        totals = added(Totals(), batch.rows, explanation, read)
        lags = _lags(LagHistory(), batch, explanation)
        return View(batch, explanation, held, totals, (work,), happened, (read,), None, away, lags)
    earlier_ms = view.last.at_ms if again else None
    interval_ms = None if batch.at_ms is None or earlier_ms is None else batch.at_ms - earlier_ms
    return View(
        batch,
        explanation,
        held,
        added(view.totals, batch.rows, explanation, read),
        (*view.work, work)[-WORK_MAX:],
        (*view.happenings, *happened)[-HAPPENINGS_MAX:],
        (*view.read, read)[-WORK_MAX:],
        interval_ms if interval_ms is not None and interval_ms > 0 else None,
        away,
        _lags(view.lags, batch, explanation),
    )


def resumed(batch: Batch, at_ms: int | None = None) -> View:
    """Return the view of a source that continues after `batch`, and has done none since; see `Recorder.resume`.

    `at_ms`: when it looked at its clusters. Sums and work begin with the next batch.
    Raises CheckpointError as `advance` does.
    """
    held = ownership(batch.start, batch.end)
    explanation = explain(batch.start, batch.end, batch.report, proven=proofs(held))
    away = _away(frozenset(), explanation)
    happened = (
        TimelineEvent(batch.number, at_ms, Kind.STARTED, "the query continues from its checkpoint", 0),
        *of_clusters(batch.number, at_ms, explanation, frozenset(), away),
    )
    totals = replace(added(Totals(), None, explanation, {}), batches=0)
    lags = LagHistory().seen(batch.end, batch.report.latest, at_ms, lag_of(explanation))
    return View(batch, explanation, held, totals, (), happened, (), None, away, lags)


def look(view: View, report: Report, at_ms: int | None = None) -> View:
    """Return the view after its idle query looked at its clusters at `at_ms`, and got `report`.

    Clusters, lag, ends of logs and notices become those of `report`, and changes of clusters become events. Everything
    else stays, `work` included. A report that is empty changes nothing; one that is equal to the last one only how long
    unread records have waited, once a second.
    """
    if report == Report():
        return view
    if report == view.last.report:
        return replace(view, lags=lags) if (lags := _waited(view, at_ms)) is not None else view
    explanation = seen_again(view.explanation, view.last.end, report)
    away = _away(view.away, explanation)
    happened = of_clusters(view.last.number, at_ms, explanation, view.away, away)
    return replace(
        view,
        last=replace(view.last, report=report),
        explanation=explanation,
        happenings=(*view.happenings, *happened)[-HAPPENINGS_MAX:],
        away=away,
        lags=view.lags.seen(view.last.end, report.latest, at_ms, lag_of(explanation)),
    )


def _lags(before: LagHistory, batch: Batch, explanation: Explanation) -> LagHistory:
    """The lag over time after `batch`; as it was if nobody looked at the clusters."""
    if not explanation.reported:
        return before
    return before.seen(batch.end, batch.report.latest, batch.at_ms, lag_of(explanation))


def _waited(view: View, at_ms: int | None) -> LagHistory | None:
    """The lag over time, if what is unread has waited longer by now; None: by less than a second, or nothing is."""
    points = view.lags.points
    if at_ms is None or not points or at_ms < points[-1].at_ms + WAITED_MS:
        return None
    lags = view.lags.seen(view.last.end, view.last.report.latest, at_ms, view.lag)
    return None if lags.ages == view.lags.ages else lags


def lag_of(explanation: Explanation) -> int | None:
    """Offsets to be read in all clusters, of the splits whose end is known; None if none is."""
    lags = [one.lag_sum for one in explanation.clusters if one.lag_sum is not None]
    return sum(lags) if lags else None


def with_durations(view: View, took: ByBatch, *, done: bool | None = None, of_all: ByBatch | None = None) -> View:
    """The view with how long batches took (batch -> ms), where it had not known, and whether the last one is `done`.

    `of_all`: as in `View`; told together with `done`.
    """
    work = tuple(
        replace(one, duration_ms=took[one.batch]) if one.duration_ms is None and one.batch in took else one
        for one in view.work
    )
    done, of_all = (view.done, view.of_all) if done is None else (done, of_all)
    if (work, done, of_all) == (view.work, view.done, view.of_all):
        return view
    last = view.last
    if work and last.duration_ms is None and work[-1].batch == last.number:
        last = replace(last, duration_ms=work[-1].duration_ms)
    return replace(view, work=work, last=last, done=done, of_all=of_all)


def _happened(
    view: View | None, batch: Batch, explanation: Explanation, before: frozenset[str], away: frozenset[str]
) -> Iterator[TimelineEvent]:
    """The events of `batch`, causes before effects. `before`, `away`: the clusters that were, and are, away."""
    number, at_ms = batch.number, batch.at_ms
    if view is None:
        begun = "the first batch" if number == 0 else "the first batch that is known"
        yield TimelineEvent(number, at_ms, Kind.STARTED, begun, 0)
    elif view.last.run_id != batch.run_id:
        yield TimelineEvent(number, at_ms, Kind.STARTED, "the query was started again", 0)
    yield from of_clusters(number, at_ms, explanation, before, away)
    yield from of_changes(number, at_ms, explanation.changes)


def _away(before: frozenset[str], explanation: Explanation) -> frozenset[str]:
    """The clusters that are read and do not answer. `before`: those that did not when that was last known."""
    read = [one for one in explanation.clusters if one.removed_at_ms is None]
    if not explanation.reported:
        return before & {one.id for one in read}
    # A cluster that is left out is not asked any more, so it cannot come back.
    return frozenset(one.id for one in read if one.unreachable or (one.left_out and one.id in before))
