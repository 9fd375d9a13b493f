"""What a report needs of a run, as numbers: when records were due and delivered, faults by spells, who lived when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evensplit.testing.chaos.checker.delivery import delivery_of
from evensplit.testing.chaos.checker.faults import Fault, around, deadlines, faults_of
from evensplit.testing.chaos.checker.ledger import Ledger, ledger_of
from evensplit.testing.chaos.checker.sinks import attempts_of
from evensplit.testing.chaos.history import events as ev
from evensplit.testing.chaos.history.recorder import read_history
from evensplit.testing.chaos.nemesis.registry import NEMESES

BOUND_S = 30.0
"""How long delivery may take, unless a check was told otherwise."""

BUCKET_S = 5.0
"""Latencies are summed up for spans of this length."""

OTHER = "other"
DRIVER_ENDS_WITHIN_S = 5.0
"""A driver that a fault ends does so while it is on, or so long after it."""

RESOURCES = (*dict.fromkeys(one.kind.resource for one in NEMESES.values()), OTHER)
"""What faults act on, in the order in which they are shown."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spell:
    """Faults whose effects overlap, directly or through others."""

    faults: tuple[Fault, ...]
    recovery_s: float | None
    """So long after its end all was delivered that had been due then; None if nothing had to be."""

    @property
    def begin_s(self) -> float:
        return min(one.begin_s for one in self.faults)

    @property
    def end_s(self) -> float:
        return max(one.end_s for one in self.faults)


@dataclass(frozen=True, slots=True)
class Life:
    """A driver or a query from its start to its end."""

    who: str
    begin_s: float
    end_s: float
    reason: str | None
    """Why it ended; None if it did not, or with its driver."""
    bad: bool = False
    """Whether it ended by itself."""
    cause: str = ""
    """The faults that ended it, of a driver that did not end by itself; empty if it was stopped with the run."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A run. Times are seconds since it began; NaN stands for never."""

    events: Sequence[ev.Event]
    end_s: float
    bound_s: float
    began: ev.RunBegan | None = None
    faults: tuple[Fault, ...] = ()
    spells: tuple[Spell, ...] = ()
    lives: tuple[Life, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster_of: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of each record: an index into `clusters`, -1 for none."""
    due_s: Floats = field(default_factory=lambda: np.zeros(0))
    timed_s: Floats = field(default_factory=lambda: np.zeros(0))
    """From when on its delivery is timed: when it is due, but not before each query has had its first batch."""
    delivered_s: dict[str, Floats] = field(default_factory=dict)
    """Query -> when it delivered each record. Queries that keep counts are left out."""

    def lag(self, query: str, cluster: int, at_s: Floats) -> NDArray[np.int64]:
        """How many records were acknowledged and not yet delivered.

        A record that is never delivered need not be, as a rule, or is a finding: it counts only if it may still come.
        """
        delivered_s = self.delivered_s[query]
        comes = ~np.isnan(delivered_s) | (self.due_s > np.nanmax(delivered_s, initial=0.0) - self.bound_s)
        counts = (self.cluster_of == cluster) & ~np.isnan(self.due_s) & comes
        gone_s = np.fmax(delivered_s, self.due_s)[counts & ~np.isnan(delivered_s)]
        come = np.searchsorted(np.sort(self.due_s[counts]), at_s, side="right")
        return np.asarray(come - np.searchsorted(np.sort(gone_s), at_s, side="right"), np.int64)

    def latencies(self, query: str) -> tuple[Floats, Floats]:
        """The 50th and the 99th percentile of delivery, by the time when records were due; NaN where none was."""
        latency = self.delivered_s[query] - self.timed_s
        # What came before anything was timed has no latency.
        early = (self.timed_s > self.due_s) & (latency < 0)
        known = np.flatnonzero(~np.isnan(latency) & ~early)
        bucket = (self.timed_s[known] // BUCKET_S).astype(int)
        order = np.lexsort((latency[known], bucket))
        latency, bucket = latency[known][order], bucket[order]
        found = np.full((2, len(self.buckets)), np.nan)
        first = np.searchsorted(bucket, np.arange(found.shape[1] + 1))
        for at in np.unique(bucket):
            found[:, at] = np.percentile(latency[first[at] : first[at + 1]], (50, 99))
        return found[0], found[1]

    @property
    def buckets(self) -> Floats:
        """The middle of each span that latencies are summed up for."""
        return np.asarray((np.arange(int(self.end_s // BUCKET_S) + 1) + 0.5) * BUCKET_S, np.float64)

    def allowed(self, at_s: Floats) -> Floats:
        """How long the delivery of records that are due at these times may take."""
        return deadlines(self.faults, at_s, self.bound_s) - at_s


def resource_of(nemesis: str) -> str:
    """What a nemesis acts on."""
    return NEMESES[nemesis].kind.resource if nemesis in NEMESES else OTHER


def title_of(resource: str) -> str:
    """Its name as it is shown."""
    return "Spark" if resource == "spark" else resource


def facts_of(directory: Path, bound_s: float = BOUND_S) -> Facts:
    """The facts of the run in a directory. `ChaosError` if it holds no run."""
    events = read_history(directory / "history")
    end_s = max(events[-1].at_s, 1.0) if events else 1.0
    faults = faults_of(events, end_s)
    ledger = ledger_of(events)
    due_s = ledger.due_s.copy()
    ready_s = min((one.at_s for one in events if isinstance(one, ev.JobReady)), default=0.0)
    np.maximum(ledger.due_s, ready_s, out=ledger.due_s)
    began = next((one for one in events if isinstance(one, ev.RunBegan)), None)
    delivered_s = {
        query: _delivered(directory, query, events, ledger)
        for query in (began.queries if began else ())
        if query != "counted"
    }
    clusters = tuple(sorted({place[0] for place in ledger.places}))
    of_place = [clusters.index(place[0]) for place in ledger.places]
    return Facts(
        events=events,
        end_s=end_s,
        bound_s=bound_s,
        began=began,
        faults=faults,
        spells=_spells(faults, bound_s, due_s, delivered_s),
        lives=tuple(_lives(events, faults, end_s)),
        clusters=clusters,
        cluster_of=np.array([*of_place, -1], np.int64)[ledger.place],
        due_s=due_s,
        timed_s=ledger.due_s,
        delivered_s=delivered_s,
    )


def _delivered(directory: Path, query: str, events: Sequence[ev.Event], ledger: Ledger) -> Floats:
    """When each record arrived for the first time."""
    names = {one.name: one.cluster for one in events if isinstance(one, ev.ClusterNamed)}
    attempts = attempts_of(directory, query, events)
    rows = delivery_of(attempts, ledger, names)
    known = (rows.number >= 0) & (rows.number < ledger.size)
    first = np.full(ledger.size, np.nan)
    if len(attempts):
        at_s = np.array([one.at_s for one in attempts])
        np.fmin.at(first, rows.number[known], at_s[rows.attempt[known]])
    return first


def _spells(
    faults: Sequence[Fault], bound_s: float, due_s: Floats, delivered_s: dict[str, Floats]
) -> tuple[Spell, ...]:
    groups: list[list[Fault]] = []
    for fault in sorted(faults, key=lambda one: one.begin_s):
        if groups and fault.begin_s <= max(one.end_s for one in groups[-1]) + bound_s:
            groups[-1].append(fault)
        else:
            groups.append([fault])
    found = []
    for group in groups:
        end_s = max(one.end_s for one in group)
        waits = [times[(due_s <= end_s) & (times > end_s)] - end_s for times in delivered_s.values()]
        found.append(Spell(tuple(group), max((float(one.max()) for one in waits if len(one)), default=None)))
    return tuple(found)


def _lives(events: Sequence[ev.Event], faults: Sequence[Fault], end_s: float) -> list[Life]:
    """All lives, in the order of their ends. A query ends with its driver."""
    lives: list[Life] = []
    since: dict[str, float] = {}

    def end(who: str, at_s: float, reason: str | None, *, bad: bool = False, cause: str = "") -> None:
        if who in since:
            lives.append(Life(who, since.pop(who), at_s, reason, bad, cause))

    for event in events:
        match event:
            case ev.JobStarted():
                since["driver"] = event.at_s
            case ev.JobEnded():
                for query in [one for one in since if one != "driver"]:
                    end(query, event.at_s, None)
                near = around(faults, event.at_s, DRIVER_ENDS_WITHIN_S)
                causes = [one.what for one in near if resource_of(one.nemesis) == "spark"]
                if not event.expected:
                    end("driver", event.at_s, f"it ended with code {event.code}", bad=True)
                elif causes:
                    end("driver", event.at_s, "a fault ended it", cause="; ".join(causes))
                else:
                    end("driver", event.at_s, "it was stopped, with the run")
            case ev.QueryStarted():
                end(event.query, event.at_s, None)
                since[event.query] = event.at_s
            case ev.QueryEnded():
                end(event.query, event.at_s, event.error or "it was stopped", bad=bool(event.error))
            case _:
                pass
    for who in list(since):
        end(who, end_s, None)
    return lives
