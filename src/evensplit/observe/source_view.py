"""One model of what happened, from the batches of a source, for all that shows it.

It is pure: `advance` takes the next batch and returns the view after it, whoever has seen the batch: a listener of a
running query, or somebody who reads a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from evensplit.core.batch.plan import BatchPlan, batch_ranges, plan_batch
from evensplit.core.model import Lifecycle, SplitId
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.batch import Explanation, explain, seen_again
from evensplit.explain.evenness import Ownership, ownership, proofs
from evensplit.observe.timeline import Kind, TimelineEvent, of_changes, of_clusters
from evensplit.observe.totals import Totals, added

WORK_MAX = 100
"""So many of the latest batches are kept with the work of each reader, as Spark keeps the offsets of as many."""

HAPPENINGS_MAX = 500
"""So many of the latest happenings are kept."""

RATE_BATCHES_MAX = 10
"""Rates are those of so many of the latest batches together."""


@dataclass(frozen=True, slots=True)
class Source:
    """Which source of which query, from 0. `query_id` outlives restarts. `name`: the query's, if it has one."""

    query_id: str
    number: int = 0
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.name or self.query_id}{f', source {self.number}' if self.number else ''}"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch that was done, as it was planned.

    `run_id`: of the query, one for each start of it; empty where not known. `at_ms`: when it was planned; None: not
    known. `start`, `end`: the states that it leads from and to. `report`: what was known of the world then.
    `rows`: how many records Spark was given; None: not known. `duration_ms`: how long Spark took for all of it.
    """

    source: Source
    number: int
    start: EnumeratorState
    end: EnumeratorState
    report: Report = field(default_factory=Report)
    at_ms: int | None = None
    run_id: str = ""
    rows: int | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What one batch had to do, and how it was shared out.

    `offsets`: reader -> the offsets that it had to go through, ascending; readers without work are there with 0.
    `bound`: the busiest reader could not have had fewer with this plan. `share`: the level line, offsets per reader.
    `lag`: offsets that were still to be read after it, by the ends that were known when it was planned; None: of none.
    `run_id`: of the query, as in `Batch`.
    """

    batch: int
    at_ms: int | None
    duration_ms: int | None
    rows: int | None
    offsets: Mapping[int, int]
    bound: int
    lag: int | None
    run_id: str = ""

    @property
    def offsets_sum(self) -> int:
        """The offsets of the batch."""
        return sum(self.offsets.values())

    @property
    def busiest(self) -> int:
        """The offsets of the reader with the most."""
        return max(self.offsets.values(), default=0)

    @property
    def least_busy(self) -> int:
        """The offsets of the reader with the fewest."""
        return min(self.offsets.values(), default=0)

    @property
    def share(self) -> float:
        """The offsets that each reader would have if all had the same."""
        return self.offsets_sum / len(self.offsets) if self.offsets else 0.0


@dataclass(frozen=True, slots=True)
class SplitView:
    """One split after a batch.

    `end`: where its log ended when the batch was planned, `lag`: how many offsets that is from `position`; None: not
    known. `offsets`: how many were read in the batch. `rate`: offsets per second in it; None: not known.
    """

    id: SplitId
    stands: Lifecycle
    owner: int | None
    position: int | None
    end: int | None
    lag: int | None
    offsets: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class View:
    """How one source stands after its last batch, and how it came to that.

    What is known of the world (clusters' health, ends of logs, lag) is as of when the query last looked: for that
    batch, or since (see `look`).

    `explanation`: of the last batch: clusters with their health and lag, readers, plan, certificate. `held`: what that
    certificate is about. `work`: of the last batches, oldest first; `happenings` too. `interval_ms`: between the plans
    of the last two batches; None: not known. `read`: cluster -> offsets read with each batch that `work` has, in the
    same order. `away`: the clusters that are read and did not answer, as of the last time that it was known.
    """

    last: Batch
    explanation: Explanation
    held: Ownership
    totals: Totals
    work: tuple[Work, ...]
    happenings: tuple[TimelineEvent, ...]
    read: tuple[Mapping[str, int], ...]
    interval_ms: int | None = None
    away: frozenset[str] = frozenset()

    @property
    def source(self) -> Source:
        """Whose view it is."""
        return self.last.source

    @property
    def waits(self) -> bool:
        """Whether all clusters that are read are away, and there is at least one: nothing can be read."""
        return bool(self.away) and all(
            one.id in self.away for one in self.explanation.clusters if one.removed_at_ms is None
        )

    def rates(self, until_ms: int | None = None) -> Mapping[str, float]:
        """cluster -> offsets per second over the last batches of this run; without the clusters that are removed, and
        empty as long as there are not two batches of which it is known when they were planned.

        `until_ms`: until when it is known that nothing more was read. Whoever shows a query that is idle passes
        `SourceStatus.heard_ms`, or its rate stays what it was; of one that has ended there is no rate to show.
        """
        latest = list(zip(self.work, self.read, strict=True))[-RATE_BATCHES_MAX - 1 :]
        # Between two runs nothing was read, and nobody knows for how long.
        recent = [(work, read) for work, read in latest if work.run_id == self.last.run_id]
        times = [work.at_ms for work, _ in recent]
        first, last = (times[0], times[-1]) if times else (None, None)
        if first is None or last is None or last <= first:
            return {}
        last = last if until_ms is None else max(last, until_ms)
        # What a batch reads had come in since the batch before, so that of the first one came before all of this.
        sums: dict[str, int] = {one.id: 0 for one in self.explanation.clusters if one.removed_at_ms is None}
        for _, read in recent[1:]:
            for cluster in sums:
                sums[cluster] += read.get(cluster, 0)
        return {cluster: 1000 * total / (last - first) for cluster, total in sums.items()}

    def splits(self) -> Iterator[SplitView]:
        """All splits, in their order."""
        batch, latest = self.last, self.last.report.latest
        sizes = {part.split: part.size for part in batch_ranges(batch.start, batch.end)}
        for key, split in batch.end.splits.items():
            end = latest.get(key)
            lag = None
            if end is not None and split.position is not None and split.active:
                lag = max(0, end - split.position)
            offsets = sizes.get(key, 0)
            rate = 1000 * offsets / self.interval_ms if self.interval_ms else None
            yield SplitView(key, split.lifecycle, split.owner, split.position, end, lag, offsets, rate)


def advance(view: View | None, batch: Batch) -> View:
    """The view after `batch`, where `view` is the one before it; None: nothing has been seen of this source.

    A batch that comes again, or too late, changes nothing: in one run of a query their numbers go up.

    Raises CheckpointError if the states of the batch are not the start and the end of one.
    """
    again = view is not None and view.last.run_id == batch.run_id
    if view is not None and again and batch.number <= view.last.number:
        return view
    held = ownership(batch.start, batch.end)
    proven = view.explanation.evenness if view is not None and view.held == held else proofs(held)
    plan = plan_batch(batch.start, batch.end)
    explanation = explain(batch.start, batch.end, batch.report, plan=plan, proven=proven)
    read = _read(plan)
    lags = [one.lag_sum for one in explanation.clusters if one.lag_sum is not None]
    work = Work(
        batch.number,
        batch.at_ms,
        batch.duration_ms,
        batch.rows,
        MappingProxyType({one.reader: one.offsets for one in explanation.readers}),
        explanation.plan.bound,
        sum(lags) if lags else None,
        batch.run_id,
    )
    before = view.away if view is not None else frozenset()
    away = _away(before, explanation)
    happened = tuple(_happened(view, batch, explanation, before, away))
    if view is None:
        totals = added(Totals(), batch.rows, explanation, read)
        return View(batch, explanation, held, totals, (work,), happened, (read,), None, away)
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
    )


def resumed(batch: Batch, at_ms: int | None = None) -> View:
    """The view of a source that goes on from the end of `batch`, and has done none since; see `Recorder.resume`.

    `at_ms`: when it looked at the world. Sums and work begin with the next batch.
    Raises CheckpointError as `advance` does.
    """
    held = ownership(batch.start, batch.end)
    explanation = explain(batch.start, batch.end, batch.report, proven=proofs(held))
    away = _away(frozenset(), explanation)
    happened = (
        TimelineEvent(batch.number, at_ms, Kind.STARTED, "the query goes on from its checkpoint", 0),
        *of_clusters(batch.number, at_ms, explanation, frozenset(), away),
    )
    totals = replace(added(Totals(), None, explanation, {}), batches=0)
    return View(batch, explanation, held, totals, (), happened, (), None, away)


def look(view: View, report: Report, at_ms: int | None = None) -> View:
    """The view after its query has looked at the world, at `at_ms`, and found nothing to do since its last batch.

    Clusters, their lag, the ends of logs and notices are as of then, and what happened to clusters is told; nothing
    else changes, `work` included. A report that says the same as the last one, or nothing at all, changes nothing.
    """
    if report in (view.last.report, Report()):
        return view
    explanation = seen_again(view.explanation, view.last.end, report)
    away = _away(view.away, explanation)
    happened = of_clusters(view.last.number, at_ms, explanation, view.away, away)
    return replace(
        view,
        last=replace(view.last, report=report),
        explanation=explanation,
        happenings=(*view.happenings, *happened)[-HAPPENINGS_MAX:],
        away=away,
    )


def _read(plan: BatchPlan) -> Mapping[str, int]:
    """cluster -> the offsets of the batch, for those of which there are any."""
    sizes: dict[str, int] = {}
    for one in plan.readers:
        for (cluster, _, _), begin, end in one.ranges:
            sizes[cluster] = sizes.get(cluster, 0) + end - begin
    return MappingProxyType({cluster: sizes[cluster] for cluster in sorted(sizes)})


def _happened(
    view: View | None, batch: Batch, explanation: Explanation, before: frozenset[str], away: frozenset[str]
) -> Iterator[TimelineEvent]:
    """What changed with `batch`, the causes before what follows from them. `before`, `away`: see `_away`."""
    number, at_ms = batch.number, batch.at_ms
    if view is None:
        begun = "the first batch of all" if number == 0 else "the first batch that is known"
        yield TimelineEvent(number, at_ms, Kind.STARTED, begun, 0)
    elif view.last.run_id != batch.run_id:
        yield TimelineEvent(number, at_ms, Kind.STARTED, "the query was started again", 0)
    yield from of_clusters(number, at_ms, explanation, before, away)
    yield from of_changes(number, at_ms, explanation.changes)


def _away(before: frozenset[str], explanation: Explanation) -> frozenset[str]:
    """The clusters that are read and do not answer; `before`: those that did not the last time that it was known."""
    read = [one for one in explanation.clusters if one.removed_at_ms is None]
    if not explanation.reported:
        return before & {one.id for one in read}
    # What is left out is not asked any more, and so cannot be heard to answer.
    return frozenset(one.id for one in read if one.unreachable or (one.left_out and one.id in before))
