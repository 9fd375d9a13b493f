"""What one batch did, and the state of clusters and readers after it, for people and for programs.

Everything comes from two states and a report, so one of Spark's progress events is enough to explain a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from evensplit.core.batch.plan import BatchPlan, plan_batch
from evensplit.core.batch.plan_summary import PlanView
from evensplit.core.html import lines, table
from evensplit.core.model import ClusterState, Held, Lifecycle, Readable, Split, SplitId, scopes
from evensplit.core.state.observation import Report
from evensplit.core.state.state import EnumeratorState
from evensplit.explain.changes import Changes, Move, changes, told
from evensplit.explain.edited import edit_json
from evensplit.explain.evenness import Evenness, evenness
from evensplit.explain.held import held_json, held_sentence
from evensplit.explain.reader_loads import ReaderLoad, reader_loads
from evensplit.explain.record_counts import RecordCounts
from evensplit.explain.written import WriteReport

if TYPE_CHECKING:
    from evensplit.charts import Drawing

_owner_of = itemgetter(Split._fields.index("owner"))

EVENNESS_LINES_MAX = 5
"""How many clusters, each balanced on its own, have a line in the log about that."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One cluster: its health, its splits and its lag."""

    id: str
    unreachable: str
    """Why it does not answer; empty if it does."""
    unreachable_since_ms: int | None
    """Since when it does not answer; None if it does, or if that is not known."""
    left_out: bool
    """Whether a run to the end (`availableNow`) goes on without it."""
    removed_at_ms: int | None
    """When it was removed; None as long as it is read."""
    splits: Mapping[Lifecycle, int]
    """Stage -> how many splits are in it; stages without any are left out."""
    lag_sum: int | None
    """Offsets to be read in all splits whose end is known. 0 if the cluster answers and none of its splits is left to
    be read; None if no end is known, or the cluster is removed."""
    lag_max: int | None
    """The same of the one split that has the most."""
    lag_unknown: int
    """How many splits are read whose end is not known."""
    another: bool = False
    """Whether another Kafka cluster answers in its place, which `unreachable` then says."""

    @property
    def why(self) -> str:
        """`unreachable` without the name of the cluster."""
        return self.unreachable.removeprefix(f"cluster {self.id!r}: ")

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "id": self.id,
            "reachable": not self.unreachable,
            "unreachable": self.unreachable or None,
            "unreachableSinceMs": self.unreachable_since_ms,
            "leftOut": self.left_out,
            "removedAtMs": self.removed_at_ms,
            "splits": {str(stage): self.splits.get(stage, 0) for stage in Lifecycle},
            "lag": {"sum": self.lag_sum, "max": self.lag_max, "unknown": self.lag_unknown},
        }


def health(one: ClusterView, known: bool) -> str:
    """Say how the cluster is. `known`: whether clusters were asked; a checkpoint alone does not tell."""
    if one.removed_at_ms is not None:
        return "removed, positions kept"
    if one.unreachable:
        return f"{'another cluster' if one.another else 'no answer'}: {one.why}"
    if one.left_out:
        return "left out of this run"
    return "answers" if known else "not known whether it answers"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One batch, and the readers and clusters after it: numbers and changes, without the states."""

    changes: Changes
    """Discoveries, moves with their reasons, losses, and splits that came, went or ended."""
    readers: tuple[ReaderLoad, ...]
    """Ascending."""
    clusters: tuple[ClusterView, ...]
    """In the order of their ids."""
    evenness: tuple[Evenness, ...]
    """How even the owners are, with the proof: one for all splits, or one for each cluster."""
    reassigned: bool
    """Whether the owner of any split changed."""
    plan: PlanView
    """How the batch was shared out."""
    notices: tuple[str, ...] = ()
    """Warnings, a sentence each."""
    reported: bool = False
    """Whether clusters were asked, so that health and lag are known."""
    counts: RecordCounts | None = None
    """Records that were left out or could not be decoded; None: the query has no option that counts them, or that is
    not known."""
    written: WriteReport | None = None
    """What was written with this package's sink, and decided; None: it has another sink, or that is not known."""
    held: tuple[Held, ...] = ()
    """The limits that kept the batch from reading all that there was; ascending."""

    @property
    def spread(self) -> int:
        """The difference between the most and the fewest splits of a reader."""
        loads = [one.splits for one in self.readers]
        return max(loads, default=0) - min(loads, default=0)

    @property
    def offsets(self) -> int:
        """The offsets of the batch; records are at most as many."""
        return sum(one.offsets for one in self.readers)

    def sentences(self) -> tuple[str, ...]:
        """One line for each change; if owners changed, one that says how even they are now; and what was written."""
        lines = list(self.changes.sentences())
        if self.reassigned:
            shown = self.evenness[:EVENNESS_LINES_MAX]
            lines.extend(self._balance(one) for one in shown)
            if len(self.evenness) > len(shown):
                lines.append(f"… and {len(self.evenness) - len(shown)} more clusters, each balanced on its own")
        if self.written is not None:
            lines.append(self.written.sentence())
        return tuple(lines)

    def advice(self) -> str:
        """See `PlanView.advice`."""
        return self.plan.advice(self.offsets, len(self.readers))

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types. Keys are always there, in this order; unknown values are null.

            {"discovered": [{"split", "start", "owner"}],
             "moved": [{"split", "from", "to", "why"}],
             "retained", "returned", "finished", "forgotten", "recreated": [split],
             "lost": [{"split", "cause", "position", "found", "offsetsMax", "what"}],
             "edits": [{"command", "said", "atMs", "jumps": [{"split", "at", "to"}], "dropped": [text],
                        "renamed": [{"from", "to"}], "what"}],
             "readers": [{"reader", "splits", "offsets", "offsetsPerMinute", "capacity"}], "spread", "offsets",
             "plan": {"kind", "offsetsMax", "offsetsMaxBound", "offsetsMaxShare", "lent", "cuts", "joined"},
             "advice",
             "evenness": [{"cluster", "even", "loadMin", "loadMax", "loadMaxBound", "moved", "movedBound", "promised",
                           "work": {"levelMax", "levelMaxBound", "readers", "heaviest"}, "statement"}],
             "clusters": [{"id", "reachable", "unreachable", "unreachableSinceMs", "leftOut", "removedAtMs",
                           "splits": {"unassigned", "assigned", "retained", "finished"},
                           "lag": {"sum", "max", "unknown"}}],
             "counts": {"filtered", "undecodable", "complete", "clusters": [{"id", "filtered", "undecodable"}]},
             "written": {"queryId", "batchId", "outcome", "atMs", "tookMs", "ageMs", "timeoutMs", "skippedTasks",
                         "clusters": [{"id", "records", "bytes", "committed", "finished", "aborted", "strays", "lost"}],
                         "sentence"},
             "held": [{"limit", "scope", "what"}],
             "notices": [text], "sentences": [text]}

        A split is written `cluster/topic/partition`.
        """
        found = self.changes
        return {
            "discovered": [
                {"split": str(one.split), "start": one.start, "owner": one.owner} for one in found.discoveries
            ],
            "moved": [
                {"split": str(one.split), "from": one.source, "to": one.target, "why": one.reason}
                for one in found.moves
            ],
            "retained": _names(found.retained),
            "returned": _names(found.returned),
            "finished": _names(found.finished),
            "forgotten": _names(found.forgotten),
            "recreated": _names(found.recreated),
            "lost": [
                {
                    "split": str(loss.split),
                    "cause": str(loss.cause),
                    "position": loss.position,
                    "found": loss.found,
                    "offsetsMax": loss.offsets_max,
                    "what": told(loss),
                }
                for loss in found.losses
            ],
            "edits": [edit_json(one) for one in found.edits],
            "readers": [one.to_json() for one in self.readers],
            "spread": self.spread,
            "offsets": self.offsets,
            "plan": self.plan.to_json(),
            "advice": self.advice() or None,
            "evenness": [one.to_json() for one in self.evenness],
            "clusters": [one.to_json() for one in self.clusters],
            "counts": None if self.counts is None else self.counts.to_json(),
            "written": None if self.written is None else self.written.to_json(),
            "held": held_json(self.held),
            "notices": list(self.notices),
            "sentences": list(self.sentences()),
        }

    def plot(self) -> Drawing:
        """The offsets that each reader had, with the bound, and each cluster's lag. Needs `evensplit[plots]`."""
        from evensplit.charts import Bars, draw

        names, offsets = [str(one.reader) for one in self.readers], [one.offsets for one in self.readers]
        known = [(one.id, one.lag_sum) for one in self.clusters if one.lag_sum is not None]
        work = Bars(
            f"offsets of each reader, plan {self.plan.kind}",
            names,
            offsets,
            "offsets",
            self.plan.bound,
            "the least that the busiest can have",
        )
        lag = Bars("lag by cluster", [name for name, _ in known], [lag for _, lag in known], "offsets")
        return draw(work, lag)

    def _repr_html_(self) -> str:
        clusters = (
            (one.id, health(one, self.reported), sum(one.splits.values()), one.lag_sum) for one in self.clusters
        )
        heads = ["reader", "partitions", "offsets in the batch"]
        readers: list[tuple[int | None, ...]] = [(one.reader, one.splits, one.offsets) for one in self.readers]
        if any(one.work is not None for one in self.readers):
            heads += ["offsets a minute, by rate", "capacity"]
            readers = [(*row, one.work, one.capacity) for row, one in zip(readers, self.readers, strict=True)]
        counted = () if self.counts is None else (self.counts.sentence(),)
        return (
            lines(
                [*self.sentences(), *filter(None, [self.advice(), held_sentence(self.held)]), *self.notices, *counted]
            )
            + table(["cluster", "", "partitions", "lag"], clusters, len(self.clusters))
            + table(heads, readers, len(self.readers))
        )

    def _balance(self, one: Evenness) -> str:
        where = "" if one.cluster is None else f"cluster {one.cluster}: "
        proof = one.certificate
        if proof is None:
            return f"{where}{one.unknown}"
        each = f"{one.load_min:,} to {proof.load_max:,}" if one.load_min != proof.load_max else f"{proof.load_max:,}"
        done = "rebalanced" if proof.moved else "assigned"
        return f"{done}: {where}{each} partition{'' if each == '1' else 's'} per reader, {one.statement()}"


def explain(
    before: EnumeratorState,
    after: EnumeratorState,
    report: Report,
    *,
    plan: BatchPlan | None = None,
    proven: tuple[Evenness, ...] | None = None,
    counts: RecordCounts | None = None,
    written: WriteReport | None = None,
) -> Explanation:
    """Explain the batch from `before` to `after`, with `report`: what was known of the clusters when it was planned.

    `plan`, `proven`: its plan (`plan.plan_batch`) and the proofs of its owners (`evenness.evenness`), if they are known
    already. `counts`: what its tasks counted. `written`: what its sink has told.

    Raises CheckpointError if the two are not the start and the end of one batch.
    """
    found, plan = changes(before, after), plan or plan_batch(before, after)
    return Explanation(
        _with_pins(found, after.eligible) if after.eligible else found,
        reader_loads(after, plan),
        _clusters(after, report),
        evenness(before, after) if proven is None else proven,
        bool(found.moves) or before.generation != after.generation,
        PlanView(plan.kind, plan.offsets_max, plan.bound, plan.lent, plan.cuts, plan.share, len(plan.joined)),
        _notices(report),
        report != Report(),
        counts,
        written,
        after.held if plan.offsets else (),
    )


def seen_again(explanation: Explanation, after: EnumeratorState, report: Report) -> Explanation:
    """The same batch, which led to `after`, with the clusters, lag and notices of a later `report`."""
    return replace(
        explanation, clusters=_clusters(after, report), notices=_notices(report), reported=report != Report()
    )


def _notices(report: Report) -> tuple[str, ...]:
    left_out = (f"cluster {name}: it does not answer, and was left out of this run" for name in report.left_out)
    return (*report.notices, *left_out)


def _clusters(after: EnumeratorState, report: Report) -> tuple[ClusterView, ...]:
    stages: dict[str, dict[Lifecycle, int]] = {}
    lags: dict[str, list[int]] = {}
    unknown: dict[str, int] = {}
    clusters = map(itemgetter(0), after.splits)
    for name, group in groupby(zip(clusters, after.splits.values(), strict=True), key=itemgetter(0)):
        splits = [split for _, split in group]
        active = [split for split in splits if split.removed_at_ms is None and not split.finished]
        ends = map(report.latest.get, map(itemgetter(0), active))
        # A log that was seen to end before its position is another matter, and told as loss.
        lags[name] = [
            end - split.position if end > split.position else 0
            for split, end in zip(active, ends, strict=True)
            if end is not None and split.position is not None
        ]
        unknown[name] = len(active) - len(lags[name])
        finished = sum(split.finished for split in splits)
        assigned = len(active) - list(map(_owner_of, active)).count(None)
        counts = {
            Lifecycle.UNASSIGNED: len(active) - assigned,
            Lifecycle.ASSIGNED: assigned,
            Lifecycle.RETAINED: len(splits) - len(active) - finished,
            Lifecycle.FINISHED: finished,
        }
        stages[name] = {stage: count for stage, count in counts.items() if count}
    return tuple(
        _cluster(cluster, report, stages.get(name, {}), lags.get(name, ()), unknown.get(name, 0))
        for name, cluster in after.clusters.items()
    )


def _cluster(
    cluster: ClusterState, report: Report, stages: Mapping[Lifecycle, int], lags: Sequence[int], unknown: int
) -> ClusterView:
    name = cluster.id
    unreachable, left_out = report.unreachable.get(name, ""), name in report.left_out
    # Nothing is left to be read there: that is known, unless it is not asked, or there could be new splits.
    silent = bool(unreachable) or left_out or report == Report() or cluster.removed_at_ms is not None
    lags = lags if lags or unknown or silent else (0,)
    return ClusterView(
        name,
        unreachable,
        report.unreachable_since_ms.get(name),
        left_out,
        cluster.removed_at_ms,
        stages,
        sum(lags) if lags else None,
        max(lags, default=None),
        unknown,
        name in report.another,
    )


def _with_pins(found: Changes, pins: Mapping[int, Sequence[Readable]]) -> Changes:
    """The same, where a reader that may not read a split any more is the reason why that moved."""
    readable = {reader: frozenset(ones) for reader, ones in pins.items()}

    def told_anew(move: Move) -> Move:
        may, key = readable.get(move.source), move.split
        if may is None or any(one in may for one in scopes(key)):
            return move
        return Move(key, move.source, move.target, f"reader {move.source} is not pinned to it")

    return replace(found, moves=tuple(map(told_anew, found.moves)))


def _names(keys: Sequence[SplitId]) -> list[str]:
    return [str(key) for key in keys]
