"""Reads what an audit compares: the records of a ledger, and the headers of logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from evensplit.cli.audit.markers import LogParts
from evensplit.cli.audit.offset_sets import OffsetCounts
from evensplit.cli.audit.sink_rows import by_split
from evensplit.cli.live.log_ends import connected
from evensplit.core.model import Range, SplitId, Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import ClusterError
from evensplit.kafka.fetch.reader import LaneLimits, read_headers, read_ranges
from evensplit.kafka.options.client import ClientSettings

LIMITS = LaneLimits(response_bytes_max=16 << 20, buffer_bytes_max=64 << 20)
"""Headers need little of a processor, so larger responses save requests."""

Progress = Callable[[int, int], object]
"""Is told how many offsets were passed, of how many."""


def bounds_of(
    cluster: str, settings: ClientSettings, topics: Collection[str]
) -> tuple[list[Range], dict[tuple[str, str], str]]:
    """Where the logs of these topics begin and end by now, in this cluster, and the ids of the topics.

    Topics that do not exist have no ranges. Empty logs have empty ranges. Raises ClusterError.
    """
    client = connected(cluster, settings)
    try:
        listing = client.list_partitions(Topics(tuple(sorted(topics))))
        if listing.incomplete:
            raise ClusterError(cluster, f"{'; '.join(listing.incomplete)}. An audit needs all partitions")
        ends = client.list_offsets(dict.fromkeys(listing.keys, LATEST))
        begins = client.list_offsets(dict.fromkeys(listing.keys, EARLIEST))
    finally:
        client.close()
    ids = {(cluster, one.topic): one.topic_id for one in listing.partitions}
    return [Range(SplitId(cluster, *key), begins[key], max(begins[key], end)) for key, end in ends.items()], ids


def read_logs(
    ranges: Collection[Range],
    clusters: dict[str, ClientSettings],
    topic_ids: dict[tuple[str, str], str],
    progress: Progress = lambda done, total: None,
) -> dict[SplitId, LogParts]:
    """The transactions in each of these logs. Raises as `read_headers` does."""
    found = {one.split: LogParts(one.start, one.start) for one in ranges}
    total, done = sum(one.size for one in ranges), 0
    for split, census in read_headers(list(ranges), clusters, topic_ids=topic_ids, skip_lost=True, limits=LIMITS):
        parts = found[split]
        before = parts.end
        parts.take(census)
        done += parts.end - before
        progress(done, total)
    for one in ranges:
        found[one.split].seal()
    return found


def ledger_records(cluster: str, settings: ClientSettings, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values of the committed records of a ledger, in the order of each partition. Raises ClusterError."""
    committed = replace(settings, read_committed=True)
    ranges, ids = bounds_of(cluster, committed, [topic])
    if not ranges:
        raise ClusterError(cluster, f"topic {topic!r} does not exist; expected the ledger of the query (--ledger)")
    clusters = {cluster: committed}
    for batch in read_ranges(ranges, clusters, columns=("key", "value"), topic_ids=ids, skip_lost=True):
        yield from zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)


def records_in(
    ranges: Collection[Range], clusters: dict[str, ClientSettings], topic_ids: dict[tuple[str, str], str]
) -> dict[SplitId, OffsetCounts]:
    """The offsets in these ranges that have a record, by the isolation level of the settings. Raises ClusterError."""
    found = {one.split: OffsetCounts() for one in ranges}
    columns = ("topic", "partition", "offset", "cluster")
    for batch in read_ranges(list(ranges), clusters, columns=columns, topic_ids=topic_ids):
        for split, offsets in by_split(batch, ""):
            found[split].add(offsets)
    return found
