"""The table of metrics, and their values for each source.

Names and units follow Prometheus: counters end in `_total` and never go down while the process lives, times are in
seconds, and a value that is not known has no sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from evensplit.core.model import Lifecycle
from evensplit.explain.batch import ClusterView
from evensplit.explain.held import without_partitions
from evensplit.observe.even_metrics import EVEN_METRICS, of_owners
from evensplit.observe.metric import CLUSTERS_MAX, OTHERS, Metric, Names, Sample
from evensplit.observe.recorder import BEGINNINGS, RUNS, Begun, QueryStatus, SourceStatus
from evensplit.observe.sink_metrics import SINK_METRICS, of_sink
from evensplit.observe.sinks import SinkStatus
from evensplit.observe.source_view import Source, View

HELD_MAX = 100
"""Of a batch, so many limits have series."""

READERS_MAX = 1_000
"""How many readers of a source have series of their own: the first ones, for good. The others are summed up."""

PARTITIONS_MAX = 20_000
"""How many partitions of a source have series, if partitions have any; the others have none."""

STATES = ("starting", "waiting", "running")
"""The states of a source whose query has not ended."""

_SOURCE = ("query", "source")
_CLUSTER = (*_SOURCE, "cluster")
_READER = (*_SOURCE, "reader")
_PARTITION = (*_CLUSTER, "topic", "partition")


METRICS = (
    Metric(
        "evensplit_source_info",
        "gauge",
        (*_SOURCE, "query_id", "policy", "plan"),
        "Always 1; its labels have the query's id and the settings of the source. `query` is the query's name, or its "
        "id if it has no name or another running query already had that name; it stays the same while the query runs. "
        "`source` numbers the query's sources from 0.",
    ),
    Metric(
        "evensplit_source_state",
        "gauge",
        (*_SOURCE, "state"),
        "1 for the state of the source, 0 for the others: `starting` until its first batch or until it is idle, "
        "`waiting` while none of its clusters answers, else `running`. A query without a batch has only this metric, "
        "with source 0.",
    ),
    Metric("evensplit_batches_total", "counter", _SOURCE, "Batches done."),
    Metric("evensplit_moving_batches_total", "counter", _SOURCE, "Batches in which any partition changed its reader."),
    Metric("evensplit_records_total", "counter", _SOURCE, "Records given to Spark."),
    Metric(
        "evensplit_uncounted_batches_total",
        "counter",
        _SOURCE,
        "Batches of which not every task could tell how many records it left out or could not decode. The two sums of "
        "that are too low by what is missing. No sample if nothing is counted: no option of the query does, or there "
        "is no `counts_port`.",
    ),
    Metric("evensplit_batch_number", "gauge", _SOURCE, "The number of the last batch."),
    Metric("evensplit_batch_timestamp_seconds", "gauge", _SOURCE, "When the last batch began, as Unix time."),
    Metric(
        "evensplit_heard_timestamp_seconds",
        "gauge",
        _SOURCE,
        "When the query was last heard of, as Unix time: it started, finished a batch, or was idle.",
    ),
    Metric("evensplit_batch_duration_seconds", "gauge", _SOURCE, "How long Spark took for the whole last batch."),
    Metric("evensplit_batch_offsets", "gauge", _SOURCE, "Offsets of the last batch. It has at most as many records."),
    Metric("evensplit_batch_reader_max_offsets", "gauge", _SOURCE, "Offsets of the busiest reader in the last batch."),
    Metric(
        "evensplit_batch_reader_bound_offsets",
        "gauge",
        _SOURCE,
        "The least offsets that the busiest reader of the last batch could have with this plan (see "
        "evensplit_source_info). Another plan may allow fewer.",
    ),
    Metric("evensplit_readers", "gauge", _SOURCE, "Readers that partitions are assigned to."),
    Metric(
        "evensplit_readers_needed",
        "gauge",
        _SOURCE,
        "Readers that would keep up with what arrives, busy for four fifths of the time, and read the lag within two "
        "minutes besides: at least 1, and at most one for each partition, unless ranges are cut (plan=level). A "
        "lag that limits or alignment hold back does not count. No sample until it is known: after half a second with "
        "two batches, one of which read something.",
    ),
    Metric(
        "evensplit_arriving_offsets_per_second",
        "gauge",
        _SOURCE,
        "By how much the logs grow: over the last ten batches, or the last five seconds if that is more; of a cluster "
        "that is away, before it went.",
    ),
    Metric(
        "evensplit_reader_offsets_per_second",
        "gauge",
        _SOURCE,
        "What one reader goes through while it reads, over the last five batches: offsets of the busiest reader.",
    ),
    *EVEN_METRICS,
    Metric(
        "evensplit_held",
        "gauge",
        (*_SOURCE, "limit", "scope"),
        "1 for each limit that kept the last batch from reading all that there was: an option, and what it is of, "
        "a cluster or a topic, empty for the whole batch. With `alignment`, it is what the others wait for; it is a "
        f"partition only if partitions have series. {HELD_MAX} at most.",
    ),
    Metric(
        "evensplit_reached_timestamp_seconds",
        "gauge",
        _SOURCE,
        "The time that the last batch reached with `alignment`, by the records' timestamps, as Unix time: nothing that "
        "is unread is older, unless timestamps run backwards in a partition. No sample before the first batch with "
        "`alignment`.",
    ),
    Metric(
        "evensplit_unreachable_clusters", "gauge", _SOURCE, "Clusters that did not answer when the query last looked."
    ),
    Metric(
        "evensplit_summed_up",
        "gauge",
        (*_SOURCE, "label"),
        f"How many clusters, readers or partitions have no series of their own. Clusters and readers are summed up as "
        f"`{OTHERS}`.",
    ),
    Metric(
        "evensplit_cluster_up",
        "gauge",
        _CLUSTER,
        f"1 if the cluster answered when the query last looked, 0 if not (`{OTHERS}`: if one of them did not).",
    ),
    Metric(
        "evensplit_cluster_lag_offsets",
        "gauge",
        _CLUSTER,
        "Offsets still to be read when the query last looked, of all partitions whose log end is known.",
    ),
    Metric("evensplit_cluster_lag_max_offsets", "gauge", _CLUSTER, "The same of the partition with the largest lag."),
    Metric(
        "evensplit_cluster_lag_seconds",
        "gauge",
        _CLUSTER,
        "How long the oldest unread record had waited, at least, when the query last looked; 0 if nothing is unread. "
        "For so long, its log has been seen to end after it.",
    ),
    Metric(
        "evensplit_cluster_lag_unknown_splits",
        "gauge",
        _CLUSTER,
        "Partitions to be read whose log end is not known. No lag includes them.",
    ),
    Metric(
        "evensplit_cluster_splits",
        "gauge",
        (*_CLUSTER, "state"),
        f"Partitions by stage: {', '.join(Lifecycle)}.",
    ),
    Metric("evensplit_offsets_total", "counter", _CLUSTER, "Offsets read. There are at most as many records."),
    Metric(
        "evensplit_records_filtered_total",
        "counter",
        _CLUSTER,
        "Records that the option `where` left out. No sample if nothing is counted: no option of the query does, or "
        "there is no `counts_port`.",
    ),
    Metric(
        "evensplit_records_undecodable_total",
        "counter",
        _CLUSTER,
        "Keys and values that could not be decoded, and became null. No sample if nothing is counted: no option of the "
        "query does, or there is no `counts_port`.",
    ),
    Metric("evensplit_moves_total", "counter", _CLUSTER, "Partitions that moved from one reader to another."),
    Metric("evensplit_discoveries_total", "counter", _CLUSTER, "Partitions discovered."),
    Metric(
        "evensplit_losses_total",
        "counter",
        _CLUSTER,
        "Losses: records of a partition were, or may have been, gone before they were read.",
    ),
    Metric(
        "evensplit_lost_offsets_total",
        "counter",
        _CLUSTER,
        "Offsets lost at most, in the losses whose size is known.",
    ),
    Metric(
        "evensplit_unknown_losses_total",
        "counter",
        _CLUSTER,
        "Losses whose size is not known. evensplit_lost_offsets_total does not include them.",
    ),
    Metric("evensplit_reader_splits", "gauge", _READER, "Partitions that the reader owns."),
    Metric("evensplit_reader_offsets_total", "counter", _READER, "Offsets that the reader went through."),
    Metric("evensplit_partition_position", "gauge", _PARTITION, "The next offset to read."),
    Metric("evensplit_partition_lag_offsets", "gauge", _PARTITION, "Offsets still to be read."),
    Metric("evensplit_partition_reader", "gauge", _PARTITION, "The number of the reader that owns the partition."),
    *SINK_METRICS,
)
"""All metrics, in the order in which they are exported."""


def samples(
    watched: Sequence[SourceStatus],
    begun: Sequence[Begun] = (),
    sinks: Sequence[SinkStatus] = (),
    *,
    partitions: bool = False,
    names: Names | None = None,
) -> Iterator[Sample]:
    """The samples of all sources and sinks whose queries run, and the states of queries without a batch.

    No two have the same name and labels.

    `partitions`: with a series for each partition, and not only for each cluster and reader. `names`: the labels of
    queries; pass the same object to every call, so that they stay the same.
    """
    running = {(one.view.source.query_id, one.view.source.number): one for one in watched if one.stage in RUNS}
    known = {query for query, _ in running}
    starting = [one for one in begun if one.stage in RUNS and one.source.query_id not in known]
    writing = [one.view for one in sinks if one.runs]
    sources = (
        *(Source(one.query_id, 0, one.name) for one in writing),
        *(one.view.source for one in running.values()),
        *(one.source for one in starting),
    )
    called = (names or Names()).of(sources)
    for other in starting:
        state = other.stage if other.stage in BEGINNINGS else QueryStatus.STARTING
        yield from _of_state(state.value, (called[other.source.query_id], str(other.source.number)))
    for one in running.values():
        source = one.view.source
        labels = (called[source.query_id], str(source.number))
        yield from _of_state(_state(one.stage, waits=one.view.waits), labels)
        yield from _of_source(one, labels, partitions=partitions)
        yield from _summed_up(one.view, labels, partitions=partitions)
        yield from _of_clusters(one.view, labels)
        yield from _of_readers(one.view, labels)
        if partitions:
            yield from _of_partitions(one.view, labels)
    for sink in writing:
        yield from of_sink(sink, called[sink.query_id])


def _state(stage: QueryStatus, *, waits: bool) -> str:
    """One of STATES."""
    if stage is QueryStatus.STARTING:
        return "starting"
    return "waiting" if waits or stage is QueryStatus.WAITING else "running"


def _of_state(state: str, labels: tuple[str, ...]) -> Iterator[Sample]:
    return (Sample("evensplit_source_state", (*labels, one), one == state) for one in STATES)


def _of_source(one: SourceStatus, labels: tuple[str, ...], *, partitions: bool) -> Iterator[Sample]:
    view = one.view
    last, found, totals, settings = view.last, view.explanation, view.totals, view.last.end.settings
    needed = view.readers_needed(one.heard_ms if one.stage is QueryStatus.IDLE else None)
    values: dict[str, float | None] = {
        "evensplit_batches_total": totals.batches,
        "evensplit_moving_batches_total": totals.moving,
        "evensplit_records_total": totals.rows,
        "evensplit_uncounted_batches_total": totals.uncounted if totals.counted else None,
        "evensplit_batch_number": last.number,
        "evensplit_batch_timestamp_seconds": _seconds(last.at_ms),
        "evensplit_heard_timestamp_seconds": _seconds(one.heard_ms),
        "evensplit_batch_duration_seconds": _seconds(last.duration_ms),
        "evensplit_batch_offsets": found.offsets,
        "evensplit_batch_reader_max_offsets": found.plan.offsets_max,
        "evensplit_batch_reader_bound_offsets": found.plan.bound,
        "evensplit_readers": len(found.readers),
        "evensplit_readers_needed": None if needed is None else needed.readers,
        "evensplit_arriving_offsets_per_second": None if needed is None else needed.arriving,
        "evensplit_reader_offsets_per_second": None if needed is None else needed.speed,
        "evensplit_reached_timestamp_seconds": _seconds(last.end.reached_ms),
        "evensplit_unreachable_clusters": sum(bool(cluster.unreachable) for cluster in found.clusters),
    }
    yield Sample("evensplit_source_info", (*labels, view.source.query_id, settings.policy, settings.plan), 1)
    yield from (Sample(name, labels, value) for name, value in values.items() if value is not None)
    yield from of_owners(found, labels)
    held = tuple(dict.fromkeys(found.held)) if partitions else without_partitions(found.held)
    yield from (Sample("evensplit_held", (*labels, limit, scope), 1) for limit, scope in held[:HELD_MAX])


def _summed_up(view: View, labels: tuple[str, ...], *, partitions: bool) -> Iterator[Sample]:
    """How many clusters, readers and partitions have no series of their own."""
    found, own, readers = view.explanation, _own_clusters(view), _own_readers(view)
    counts = {
        "cluster": sum(one.id not in own for one in found.clusters),
        "reader": sum(one.reader not in readers for one in found.readers),
        **({"partition": len(view.last.end.splits) - PARTITIONS_MAX} if partitions else {}),
    }
    yield from (Sample("evensplit_summed_up", (*labels, label), max(0, count)) for label, count in counts.items())


def _own_clusters(view: View) -> frozenset[str]:
    return frozenset(view.totals.clusters[:CLUSTERS_MAX])


def _own_readers(view: View) -> frozenset[int]:
    return frozenset(islice((one for one in view.totals.work if one is not None), READERS_MAX))


def _of_clusters(view: View, labels: tuple[str, ...]) -> Iterator[Sample]:
    clusters, own, totals = view.explanation.clusters, _own_clusters(view), view.totals
    sums: Mapping[str, Mapping[str | None, int]] = {
        "evensplit_offsets_total": totals.offsets,
        "evensplit_moves_total": totals.moves,
        "evensplit_discoveries_total": totals.discoveries,
        "evensplit_losses_total": totals.losses,
        "evensplit_lost_offsets_total": totals.lost_offsets,
        "evensplit_unknown_losses_total": totals.losses_unknown,
    }
    if totals.counted:
        sums = {
            **sums,
            "evensplit_records_filtered_total": totals.filtered,
            "evensplit_records_undecodable_total": totals.undecodable,
        }
    # With zeros: Prometheus sees no increase in a series that begins with its first event.
    for one in clusters:
        if one.id in own:
            yield from _of_some((one,), view, (*labels, one.id))
            yield from (Sample(name, (*labels, one.id), by.get(one.id, 0)) for name, by in sums.items())
    others = [one for one in clusters if one.id not in own]
    # Sums of clusters that are gone stay in it, since a counter must never go down.
    if others or any(key not in own for by in sums.values() for key in by):
        name = OTHERS
        while name in own:
            name += "_"
        yield from _of_some(others, view, (*labels, name))
        for metric, by in sums.items():
            yield Sample(metric, (*labels, name), sum(count for key, count in by.items() if key not in own))


def _of_some(ones: Sequence[ClusterView], view: View, labels: tuple[str, ...]) -> Iterator[Sample]:
    """The gauges of one cluster of `view`, or of several together."""
    to_read = [one for one in ones if one.removed_at_ms is None]
    if to_read:
        yield Sample("evensplit_cluster_up", labels, not any(one.unreachable for one in to_read))
        yield Sample("evensplit_cluster_lag_unknown_splits", labels, sum(one.lag_unknown for one in to_read))
    for name, lags, whole in (
        ("evensplit_cluster_lag_offsets", [one.lag_sum for one in to_read], sum),
        ("evensplit_cluster_lag_max_offsets", [one.lag_max for one in to_read], max),
    ):
        known = [lag for lag in lags if lag is not None]
        if known:
            yield Sample(name, labels, whole(known))
    waited = [view.lags.ages[one.id].least_ms for one in to_read if one.id in view.lags.ages]
    if waited:
        yield Sample("evensplit_cluster_lag_seconds", labels, max(waited) / 1000)
    for state in Lifecycle:
        count = sum(one.splits.get(state, 0) for one in ones)
        yield Sample("evensplit_cluster_splits", (*labels, str(state)), count)


def _of_readers(view: View, labels: tuple[str, ...]) -> Iterator[Sample]:
    readers, work, own = view.explanation.readers, view.totals.work, _own_readers(view)
    for one in readers:
        if one.reader in own:
            name = str(one.reader)
            yield Sample("evensplit_reader_splits", (*labels, name), one.splits)
            yield Sample("evensplit_reader_offsets_total", (*labels, name), work.get(one.reader, 0))
    if any(key not in own for key in work):
        splits = sum(one.splits for one in readers if one.reader not in own)
        yield Sample("evensplit_reader_splits", (*labels, OTHERS), splits)
        offsets = sum(count for key, count in work.items() if key not in own)
        yield Sample("evensplit_reader_offsets_total", (*labels, OTHERS), offsets)


def _of_partitions(view: View, labels: tuple[str, ...]) -> Iterator[Sample]:
    for one in islice(view.splits(), PARTITIONS_MAX):
        values = {
            "evensplit_partition_position": one.position,
            "evensplit_partition_lag_offsets": one.lag,
            "evensplit_partition_reader": one.owner,
        }
        key = (*labels, one.id.cluster, one.id.topic, str(one.id.partition))
        yield from (Sample(name, key, value) for name, value in values.items() if value is not None)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
