"""Results of measurements, and verdicts on them."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.peer.plan import RATES, Goal, Kind, Workload


@dataclass(slots=True)
class Outcome:
    """All figures of a workload, round by round; it may have stopped early.

    `values`: rows per second; or MB in the topic; or the median of a round's batches in milliseconds; or MiB of the
    largest Python worker above an idle one. `batches`: milliseconds of each batch. `jvm_mib`: the JVM's peak. `cpu_s`:
    seconds of processor time that Spark's processes took for a million rows. `load`: the machine's load average before
    and after; `skipped`: why nothing was measured.
    """

    key: str
    title: str
    kind: Kind
    cores: int
    rows: int
    partitions: int
    scale: str
    goals: list[Goal]
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    values: dict[str, list[float]] = field(default_factory=dict)
    batches: dict[str, list[list[float]]] = field(default_factory=dict)
    jvm_mib: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)
    at: str = ""

    @classmethod
    def of(cls, workload: Workload, scale: str) -> Outcome:
        """An outcome without figures."""
        return cls(
            key=workload.key,
            title=workload.title,
            kind=workload.kind,
            cores=workload.cores,
            rows=workload.written_rows or workload.topic.rows,
            partitions=workload.topic.partitions,
            scale=scale,
            goals=list(workload.goals),
            notes=list(workload.notes),
            skipped=workload.unavailable,
        )

    def arrange(self, sides: Sequence[str]) -> None:
        """Bring the figures into this order; turns were taken in others."""
        self.values = {side: self.values[side] for side in sides if side in self.values}
        self.batches = {side: self.batches[side] for side in sides if side in self.batches}
        self.jvm_mib = {side: self.jvm_mib[side] for side in sides if side in self.jvm_mib}
        self.cpu_s = {side: self.cpu_s[side] for side in sides if side in self.cpu_s}

    def median(self, side: str) -> float | None:
        """Over all rounds; None if there are none."""
        found = self.values.get(side)
        return statistics.median(found) if found else None

    def percentile(self, side: str, share: float) -> float | None:
        """Over the batches of all rounds."""
        found = [one for batches in self.batches.get(side, []) for one in batches]
        return percentile(found, share) if found else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Our figure compared with `against`: the median of each round's ratio, with the least and the most.

    Without `against`, the same for the figure itself. `reached`: whether the goal is, None without one.
    """

    against: str
    median: float
    least: float
    most: float
    goal: Goal | None = None
    reached: bool | None = None


def percentile(values: Sequence[float], share: float) -> float:
    """The least of `values` that this share of them does not exceed. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values")
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Per round; a round that one of them has not done does not count."""
    return [one / other for one, other in zip(values, others, strict=False)]


def compare(outcome: Outcome, ours: str, against: Sequence[str]) -> Verdict | None:
    """`ours` compared with the best of `against` by its median, without a goal; None if one has no figures."""
    values = outcome.values.get(ours)
    medians = {name: median for name in against if (median := outcome.median(name)) is not None}
    if not values or (against and not medians):
        return None
    best = ""
    if medians:
        best = (max if outcome.kind in RATES else min)(medians, key=lambda name: medians[name])
        values = ratios(values, outcome.values[best])
    return Verdict(best, statistics.median(values), min(values), max(values))


def verdict(outcome: Outcome, goal: Goal) -> Verdict | None:
    """Whether a goal is reached; None if there are no figures."""
    found = compare(outcome, goal.ours, goal.against)
    if found is None:
        return None
    if outcome.kind in RATES:
        reached = found.median >= goal.limit
    else:
        reached = (found.median if goal.against else found.most) <= goal.limit
    return replace(found, goal=goal, reached=reached)


@dataclass(slots=True)
class Results:
    """A run, or several that each measured a part. `machine`, `compression`: those of the last one."""

    machine: str
    compression: dict[str, dict[str, float]]
    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Replace the former outcome of the same workload."""
        for place, one in enumerate(self.outcomes):
            if one.key == outcome.key:
                self.outcomes[place] = outcome
                return
        self.outcomes.append(outcome)

    def arrange(self, keys: Sequence[str]) -> None:
        """Bring the workloads into this order, and drop others."""
        known = {one.key: one for one in self.outcomes}
        self.outcomes = [known[key] for key in keys if key in known]

    def of(self, kind: Kind) -> list[Outcome]:
        """The outcomes of a kind, in order."""
        return [one for one in self.outcomes if one.kind is kind]

    def to_json(self) -> str:
        """For a file; with verdicts, which `read` computes again."""
        document = asdict(self)
        for one, outcome in zip(document["outcomes"], self.outcomes, strict=True):
            found = [verdict(outcome, goal) for goal in outcome.goals]
            one["verdicts"] = [asdict(verdict) for verdict in found if verdict is not None]
        return json.dumps(document, indent=1) + "\n"


def read(file: Path) -> Results:
    """The reverse of `to_json`."""
    document = json.loads(file.read_text())
    return Results(document["machine"], document["compression"], [_outcome(one) for one in document["outcomes"]])


def _outcome(document: dict[str, Any]) -> Outcome:
    document.pop("verdicts")
    goals = [Goal(goal["ours"], tuple(goal["against"]), goal["limit"]) for goal in document.pop("goals")]
    return Outcome(**{**document, "kind": Kind(document["kind"]), "goals": goals})
