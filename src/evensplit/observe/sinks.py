"""What queries have written with this package's sink: a view of each, made of the reports of its batches.

`advance` is pure. A query is known here by its id, whatever it reads: its own reports say that it writes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from evensplit.explain.written import VISIBLE, ClusterWritten, WriteOutcome, WriteReport
from evensplit.observe.callbacks import Callbacks
from evensplit.observe.totals import CLUSTERS_MAX

REPORTS_MAX = 100
"""How many reports of a query are kept."""

SINKS_MAX = 100
"""How many queries are kept: those that were heard of last."""

NAMES_MAX = 10_000
"""Of how many queries names are remembered, whether they write or not."""

RATE_REPORTS_MAX = 10
"""Over so many batches rates are computed."""


@dataclass(frozen=True, slots=True)
class SinkView:
    """What one query has written, as far as it was told here. Sums never go down."""

    query_id: str
    name: str | None
    """The query's name, if it has one."""
    reports: tuple[WriteReport, ...] = ()
    """The last ones, oldest first, with those of batches that failed."""
    clusters: Mapping[str | None, ClusterWritten] = field(default_factory=lambda: MappingProxyType({}))
    """Cluster -> its sums. None: those of all clusters after the first `CLUSTERS_MAX`."""
    outcomes: Mapping[WriteOutcome, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many batches ended so. A batch that failed and was finished later counts as both."""
    skipped: int = 0
    """Tasks that wrote nothing, since their batch was decided."""
    counted: WriteReport | None = None
    """The last batch whose records are in the sums."""

    @property
    def last(self) -> WriteReport | None:
        """The report of the last batch that had rows, or of one without if there was no other."""
        with_rows = (one for one in reversed(self.reports) if one.outcome is not WriteOutcome.EMPTY)
        return next(with_rows, self.reports[-1] if self.reports else None)

    def of(self, batch: int) -> WriteReport | None:
        """What was told last about a batch."""
        return next((one for one in reversed(self.reports) if one.batch == batch), None)

    def rates(self) -> Mapping[str, float]:
        """Cluster -> records written per second over the last batches; empty if they are too few to tell."""
        done = [one for one in self.reports if one.outcome in VISIBLE or one.outcome is WriteOutcome.EMPTY]
        known = done[-RATE_REPORTS_MAX - 1 :]
        if len(known) < 2 or known[-1].at_ms <= known[0].at_ms:
            return {}
        sums: dict[str, int] = {}
        for one in known[1:]:
            for name, found in one.clusters.items():
                sums[name] = sums.get(name, 0) + found.records
        return {name: 1000 * records / (known[-1].at_ms - known[0].at_ms) for name, records in sums.items()}


def advance(view: SinkView, report: WriteReport) -> SinkView:
    """Return the view after a report.

    What a batch that could not be ended has written counts once: it is told again when it is finished.
    """
    before = view.counted.clusters if view.counted is not None and view.counted.batch == report.batch else {}
    known = dict.fromkeys((*(name for name in view.clusters if name is not None), *report.clusters))
    own = dict.fromkeys(islice(known, CLUSTERS_MAX))
    sums = dict(view.clusters)
    again = report.outcome is not WriteOutcome.WRITTEN
    largest: dict[str, ClusterWritten] = dict(before)
    for name, found in report.clusters.items():
        seen = before.get(name, ClusterWritten()) if again else ClusterWritten()
        more = found._replace(
            records=max(0, found.records - seen.records),
            bytes=max(0, found.bytes - seen.bytes),
            committed=max(0, found.committed - seen.committed),
            # What was committed before it failed is told again by the one who finishes it.
            finished=max(0, found.finished - seen.committed - seen.finished),
            lost=max(0, found.lost - seen.lost),
        )
        place = name if name in own else None
        sums[place] = sums.get(place, ClusterWritten()).plus(more)
        largest[name] = seen.plus(more)
    return replace(
        view,
        reports=(*view.reports, report)[-REPORTS_MAX:],
        clusters=MappingProxyType(sums),
        outcomes=MappingProxyType({**view.outcomes, report.outcome: view.outcomes.get(report.outcome, 0) + 1}),
        skipped=view.skipped + report.skipped,
        counted=replace(report, clusters=largest) if report.clusters or before else view.counted,
    )


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """What a query has written, and whether it runs."""

    view: SinkView
    runs: bool
    run_id: str = ""
    """The run that was heard of last."""
    heard_ms: int | None = None


class Sinks:
    """The views of all queries that write. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, SinkStatus] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._callbacks: Callbacks[SinkStatus] = Callbacks()

    def subscribe(self, callback: Callable[[SinkStatus], object]) -> Callable[[], None]:
        """Call `callback` with every query of which something is new; what is returned ends that."""
        return self._callbacks.subscribe(callback)

    def hear(
        self,
        query_id: str,
        name: str | None,
        reports: Sequence[WriteReport],
        heard_ms: int | None = None,
        *,
        run_id: str = "",
        runs: bool = True,
    ) -> SinkStatus | None:
        """Take in what a query has told, and whether it runs; None if it has never told anything.

        `name`: None if it is not known now; then that of before holds. The end of a run that is not the last changes
        nothing but the sums.
        """
        with self._lock:
            known = self._known.get(query_id)
            name = self._named(query_id, name)
            if known is None and not reports:
                return None
            view = SinkView(query_id, name) if known is None else replace(known.view, name=name)
            for one in reports:
                view = advance(view, one)
            if not runs and known is not None and known.run_id not in ("", run_id):
                found = replace(known, view=view)
            else:
                found = SinkStatus(view, runs, run_id, heard_ms)
            self._known[query_id] = found
            self._known.move_to_end(query_id)
            if len(self._known) > SINKS_MAX:
                ended = next((one for one, status in self._known.items() if not status.runs), None)
                del self._known[ended or next(iter(self._known))]
        if known is None or (known.view, known.runs) != (found.view, found.runs):
            self._callbacks.tell(found, f"what query {query_id} has written")
        return found

    def _named(self, query_id: str, name: str | None) -> str | None:
        """Remember the name of a query, which Spark tells when it starts and not when it ends."""
        if name is not None:
            self._names[query_id] = name
            if len(self._names) > NAMES_MAX:
                self._names.popitem(last=False)
        return self._names.get(query_id)

    def find(self, query: str) -> SinkView | None:
        """That of a query, by its id."""
        with self._lock:
            found = self._known.get(query)
        return None if found is None else found.view

    def all(self) -> tuple[SinkStatus, ...]:
        """All of them, those that were heard of last at the end."""
        with self._lock:
            return tuple(self._known.values())
