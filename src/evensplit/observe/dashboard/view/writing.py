"""What a query has written, in the words and numbers of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evensplit.explain.written import TROUBLE, VISIBLE, ClusterWritten, WriteOutcome, WriteReport
from evensplit.observe.sinks import SinkView

CLUSTERS_MAX = 12

_OLD_SHARE = 0.5
"""From this share of its timeout on, a transaction counts as old."""


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """One cluster. `rate`: records per second; None: not known. `all`: in all batches that were told of here."""

    cluster: str
    rate: float | None
    last: ClusterWritten
    all: ClusterWritten

    @property
    def ended(self) -> int:
        """Its transactions in the last batch."""
        return self.last.committed + self.last.finished


@dataclass(frozen=True, slots=True)
class Written:
    """The card. `tone`: good, bad or off. `is_old`: whether transactions are open for long."""

    last: WriteReport
    tone: str
    said: str
    is_old: bool
    rows: Sequence[WrittenRow]
    left: int
    trouble: int
    """How many batches could not be ended, even if they were finished later."""
    strays: int
    """Transactions of attempts of tasks that were aborted, in all batches."""


def written(view: SinkView | None, *, runs: bool) -> Written | None:
    """The card of a query; None if it has told nothing. `runs`: whether it still does."""
    last = None if view is None else view.last
    if view is None or last is None:
        return None
    rates = view.rates() if runs else {}
    rows = [
        WrittenRow(
            name,
            (rates.get(name, 0.0) if rates else None),
            last.clusters.get(name, ClusterWritten()),
            view.clusters[name],
        )
        for name in view.clusters
        if name is not None
    ]
    rows.sort(key=lambda one: (-(one.rate or 0), -one.all.records, one.cluster))
    sums = list(view.clusters.values())
    return Written(
        last,
        _tone(last.outcome),
        last.sentence(),
        last.age_ms is not None and last.timeout_ms is not None and last.age_ms > _OLD_SHARE * last.timeout_ms,
        rows[:CLUSTERS_MAX],
        max(0, len(rows) - CLUSTERS_MAX),
        sum(count for outcome, count in view.outcomes.items() if outcome in TROUBLE),
        sum(one.strays for one in sums),
    )


def _tone(outcome: WriteOutcome) -> str:
    if outcome in VISIBLE:
        return "good"
    return "off" if outcome is WriteOutcome.EMPTY else "bad"
