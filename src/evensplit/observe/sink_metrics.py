"""The metrics of what is written with this package's sink."""

from __future__ import annotations

from collections.abc import Iterator

from evensplit.explain.written import ClusterWritten, WriteOutcome
from evensplit.observe.metric import CLUSTERS_MAX, OTHERS, Metric, Sample
from evensplit.observe.sinks import SinkView

_QUERY = ("query",)
_CLUSTER = (*_QUERY, "cluster")

ENDS = ("committed", "finished", "aborted", "stray", "lost")
"""How a transaction ended, in the order of the last fields of `ClusterWritten`."""

SINK_METRICS = (
    Metric(
        "evensplit_sink_batches_total",
        "counter",
        (*_QUERY, "outcome"),
        'Batches that were to be written with `format("evensplit")`, by how that ended: '
        f"{', '.join(f'`{one}`' for one in WriteOutcome)}. A batch that could not be ended and was finished later "
        "counts as both. Like all metrics of the sink, as far as it was told over `counts_port`.",
    ),
    Metric(
        "evensplit_sink_records_total",
        "counter",
        _CLUSTER,
        "Records written and visible: all that are committed, or acknowledged if the delivery is at-least-once.",
    ),
    Metric(
        "evensplit_sink_bytes_total",
        "counter",
        _CLUSTER,
        "The size of the record batches that they are in, as they were sent.",
    ),
    Metric(
        "evensplit_sink_transactions_total",
        "counter",
        (*_CLUSTER, "outcome"),
        "Transactions that were ended: `committed`; `finished`, for an earlier run that had decided the batch; "
        "`aborted`, of a batch that was given up; `stray`, left open by an attempt of a task and aborted; `lost`, "
        "decided and aborted by others before it was committed.",
    ),
    Metric(
        "evensplit_sink_skipped_tasks_total",
        "counter",
        _QUERY,
        "Tasks that wrote nothing, since an earlier run had decided their batch.",
    ),
    Metric("evensplit_sink_batch_number", "gauge", _QUERY, "The number of the batch that was written last."),
    Metric(
        "evensplit_sink_batch_timestamp_seconds",
        "gauge",
        _QUERY,
        "When that batch was decided and its transactions ended, as Unix time.",
    ),
    Metric(
        "evensplit_sink_decision_seconds",
        "gauge",
        _QUERY,
        "How long that took, from acquiring the ledger until the last transaction was ended. No sample if the delivery "
        "is at-least-once.",
    ),
    Metric(
        "evensplit_sink_transaction_age_seconds",
        "gauge",
        _QUERY,
        "How old the oldest transaction of that batch was when it was ended. No sample if there was none.",
    ),
    Metric(
        "evensplit_sink_transaction_timeout_seconds",
        "gauge",
        _QUERY,
        "How old a transaction may become before the brokers abort it (kafka.transaction.timeout.ms), the least of all "
        "clusters. No sample if the delivery is at-least-once.",
    ),
)
"""In the order in which they are exported."""


def of_sink(view: SinkView, query: str) -> Iterator[Sample]:
    """The samples of one query that runs. `query`: its label."""
    # With zeros: Prometheus sees no increase in a series that begins with its first event.
    for outcome in WriteOutcome:
        yield Sample("evensplit_sink_batches_total", (query, str(outcome)), view.outcomes.get(outcome, 0))
    yield Sample("evensplit_sink_skipped_tasks_total", (query,), view.skipped)
    last = view.last
    values: dict[str, float | None] = {}
    if last is not None:
        values = {
            "evensplit_sink_batch_number": last.batch,
            "evensplit_sink_batch_timestamp_seconds": last.at_ms / 1000,
            "evensplit_sink_decision_seconds": _seconds(last.took_ms),
            "evensplit_sink_transaction_age_seconds": _seconds(last.age_ms),
            "evensplit_sink_transaction_timeout_seconds": _seconds(last.timeout_ms),
        }
    yield from (Sample(name, (query,), value) for name, value in values.items() if value is not None)
    own = [name for name in view.clusters if name is not None][:CLUSTERS_MAX]
    for name in own:
        yield from _of_cluster(view.clusters[name], (query, name))
    others = [one for name, one in view.clusters.items() if name not in own]
    if others:
        called, summed = OTHERS, ClusterWritten()
        while called in own:
            called += "_"
        for one in others:
            summed = summed.plus(one)
        yield from _of_cluster(summed, (query, called))


def _of_cluster(one: ClusterWritten, labels: tuple[str, ...]) -> Iterator[Sample]:
    records, size, *ended = one
    yield Sample("evensplit_sink_records_total", labels, records)
    yield Sample("evensplit_sink_bytes_total", labels, size)
    for outcome, count in zip(ENDS, ended, strict=True):
        yield Sample("evensplit_sink_transactions_total", (*labels, outcome), count)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
