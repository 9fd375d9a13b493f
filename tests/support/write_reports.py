"""What the driver's side of batches tells, as a test wants it."""

from __future__ import annotations

from collections.abc import Mapping

from evensplit.explain.written import ClusterWritten, WriteOutcome, WriteReport
from evensplit.observe.recorder import Recorder

WRITTEN_MS = 1_790_000_000_900
QUERY = "query-1"


def report(
    batch: int = 0,
    outcome: WriteOutcome = WriteOutcome.DECIDED,
    clusters: Mapping[str, ClusterWritten] | None = None,
    *,
    query: str = QUERY,
    age_ms: int | None = 4_000,
    skipped: int = 0,
) -> WriteReport:
    """One batch, decided ten seconds after the one before, within 14 ms."""
    there = {"eu": ClusterWritten(1_204, 80_000, committed=2)} if clusters is None else clusters
    return WriteReport(query, batch, outcome, there, WRITTEN_MS + 10_000 * batch, 14, age_ms, 60_000, skipped)


def writes(recorder: Recorder, *reports: WriteReport, name: str | None = "orders", runs: bool = True) -> None:
    """Have a recorder take in reports of one query, as a listener would."""
    recorder.sinks.hear(reports[0].query, name, reports, 1, run_id="run-1", runs=runs)
