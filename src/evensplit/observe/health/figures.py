"""The figures of a query in one line: what an overview of many shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evensplit.core.state.edits import Edit, as_told
from evensplit.core.state.state import edits_between
from evensplit.explain.evenness import overall
from evensplit.explain.readers_needed import ReadersNeeded
from evensplit.observe.history.ends_seen import Age
from evensplit.observe.recorder import QueryStatus, SourceStatus
from evensplit.observe.source_view import View
from evensplit.times import long

OVER = frozenset({QueryStatus.ENDED, QueryStatus.FAILED})
"""The states in which nothing is read any more."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a source when its query last looked. None stands for a value that is not known."""

    batch: int
    """The number of the last batch."""
    at_ms: int | None
    """When it was planned."""
    duration_ms: int | None
    """How long it took."""
    done: bool | None
    """Whether it is done."""
    splits: int
    """How many splits are read."""
    lag: int | None
    """Offsets to be read, of the splits whose end is known; 0 if none is left to be read."""
    lag_unknown: int
    """How many splits are read whose end is not known."""
    age: Age | None
    """How long the oldest unread record has waited."""
    rate: float | None
    """Offsets per second over the last batches; 0 if nothing is read."""
    even: bool | None
    """Whether owners are proven to be as even as possible; None: that is not known."""
    promised: bool
    """Whether the settings promise that they are."""
    proof: str
    """The proof in words; empty without one."""
    edits: tuple[Edit, ...] = ()
    """What commands have changed, and the query has not done yet."""

    @property
    def behind(self) -> str:
        """The lag in offsets; `?`: not known; `+?`: unknown for some splits."""
        return "?" if self.lag is None else f"{self.lag:,}{self._more}"

    @property
    def waited(self) -> str:
        """How long the oldest unread record has waited at least; `>`: it may be much longer; `?`: not known.

        `+?`: nothing is unread, as far as that is known.
        """
        if self.age is None:
            return "?"
        if self.age == Age(0, 0):
            return f"0 s{self._more}"
        return f"{'>' if self.age.most_ms is None else ''}{long(self.age.least_ms)}"

    @property
    def _more(self) -> str:
        return " +?" if self.lag_unknown else ""


def figures_of(watched: SourceStatus) -> Figures:
    """The figures of a source."""
    view = watched.view
    explanation = view.explanation
    unknown = sum(one.lag_unknown for one in explanation.clusters)
    rates = rates_now(watched)
    proven = explanation.evenness
    even, _ = overall(proven)
    # The one that says what is wrong, if anything is.
    worst = next((one for one in proven if one.even is even), None)
    where = "" if worst is None or worst.cluster is None else f"cluster {worst.cluster}: "
    return Figures(
        view.last.number,
        view.last.at_ms,
        view.last.duration_ms,
        view.done,
        sum(sum(one.splits.values()) for one in explanation.clusters if one.removed_at_ms is None),
        view.lag if view.lag is not None or unknown else 0,
        unknown,
        view.lags.age,
        sum(rates.values()) if rates else None,
        even,
        any(one.promised for one in proven),
        "" if worst is None else f"{where}{worst.statement()}",
        edits_waiting(view),
    )


def edits_waiting(view: View) -> tuple[Edit, ...]:
    """What commands have changed in the newest batch of a checkpoint, as long as that is not done."""
    return as_told(edits_between(view.last.start, view.last.end)) if view.done is False else ()


def rates_now(watched: SourceStatus) -> Mapping[str, float]:
    """Cluster -> offsets per second; 0 for clusters that are not read at the moment."""
    if watched.stage in OVER:
        return {}
    away = watched.view.away
    reads = reads_now(watched)
    return {name: rate if reads and name not in away else 0 for name, rate in watched.view.rates().items()}


def reads_now(watched: SourceStatus) -> bool:
    """Whether its query reads, as far as that is known."""
    return watched.stage in (QueryStatus.RUNNING, QueryStatus.UNKNOWN) and not watched.view.waits


def needed_now(watched: SourceStatus) -> ReadersNeeded | None:
    """How many readers are needed; None if that is not known, or the query has ended."""
    if watched.stage in OVER:
        return None
    return watched.view.readers_needed(watched.heard_ms if watched.stage is QueryStatus.IDLE else None)
