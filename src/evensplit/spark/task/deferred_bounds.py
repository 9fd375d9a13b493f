"""Bounds that are looked up where they are read, and not where a batch query is planned.

Spark plans a DataFrame once, however often it is collected. `earliest` and `latest` stand for the log as it is when it
is read, as in Spark's own Kafka source: what came since the plan was made is read too, and what was cut off since is no
loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evensplit.core.batch.plan import ReaderPlan
from evensplit.core.model import Range, SplitId
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, Earliest, Latest, stands_for
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import BrokerError
from evensplit.kafka.fetch.connection_pool import POOL
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    # Tasks need no options.
    from evensplit.spark.options.parse import ClusterOptions

LookUp = Callable[[str, Mapping[tuple[str, int], int]], Mapping[tuple[str, int], int]]
"""Cluster, (topic, partition) -> EARLIEST or LATEST: the offsets, of what still has them."""


@dataclass(frozen=True, slots=True)
class DeferredBounds:
    """Which splits are read from the beginning of their logs, and which up to the end: split -> where that was."""

    starts: Mapping[SplitId, int] = field(default_factory=dict)
    ends: Mapping[SplitId, int] = field(default_factory=dict)

    def among(self, ranges: Iterable[Range]) -> DeferredBounds:
        """As much of it as is about `ranges`."""
        splits = {part.split for part in ranges}
        return DeferredBounds(
            {key: at for key, at in self.starts.items() if key in splits},
            {key: at for key, at in self.ends.items() if key in splits},
        )


def late_bounds(
    clusters: Iterable[ClusterOptions], start: EnumeratorState, ends: Mapping[SplitId, int]
) -> DeferredBounds:
    """The bounds of a batch from `start` to `ends` that the options give as `earliest` and `latest`, said or not."""
    strategies = {one.id: (one.starting or Earliest(), one.ending or Latest()) for one in clusters}
    starts: dict[SplitId, int] = {}
    open_ends: dict[SplitId, int] = {}
    for key, end in ends.items():
        position, at = start.splits[key].position, (key.topic, key.partition)
        starting, ending = strategies[key.cluster]
        if position is not None and stands_for(starting, at, Earliest, EARLIEST):
            starts[key] = position
        if stands_for(ending, at, Latest, LATEST):
            open_ends[key] = end
    return DeferredBounds(starts, open_ends)


def carry(tasks: Sequence[ReaderPlan], late: DeferredBounds, end: EnumeratorState) -> tuple[ReaderPlan, ...]:
    """`tasks`, with an empty range of each split that has no record yet and may have some when it is read.

    It goes to the first task of its owner, or to one more.
    """
    read = {part.split for task in tasks for part in task.ranges}
    found = list(tasks)
    for key, at in late.ends.items():
        owner = end.splits[key].owner
        if key in read or owner is None:
            continue
        number = next((number for number, task in enumerate(found) if task.reader >= owner), len(found))
        if number == len(found) or found[number].reader != owner:
            found.insert(number, ReaderPlan(owner, ()))
        found[number] = ReaderPlan(owner, tuple(sorted((*found[number].ranges, Range(key, at, at)))))
    return tuple(found)


def bind(ranges: Sequence[Range], late: DeferredBounds, look_up: LookUp) -> tuple[Range, ...]:
    """`ranges` as their logs are now, without what has nothing to be read.

    The last range of a split goes on to the end of its log, if that is further on; none begins before its log does. A
    log that is not there any more, or ends earlier than it did, changes nothing: reading it tells. No log begins before
    where it did, so one that seems to is another one; its beginning is asked for, so that reading it tells that too.
    """
    earliest, latest = _ask(late.starts, EARLIEST, look_up), _ask(late.ends, LATEST, look_up)
    found: list[Range] = []
    for part in ranges:
        log_start = earliest.get(part.split, part.start)
        is_another = log_start < part.start == late.starts.get(part.split)
        begin = log_start if is_another else max(part.start, log_start)
        end = part.end
        if late.ends.get(part.split) == end:
            end = max(end, latest.get(part.split, end))
        if begin < end:
            found.append(Range(part.split, begin, end))
    return tuple(found)


def looking_up(settings: Mapping[str, ClientSettings], cluster_ids: Mapping[str, str]) -> LookUp:
    """Asks the clusters, over connections of this process that stay open, until all leaders have answered.

    Left out is only what does not exist any more.
    """

    def look_up(cluster: str, wanted: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        client, cluster_id = POOL.client(cluster, settings[cluster]), cluster_ids.get(cluster, "")
        try:
            return client.list_offsets(wanted, cluster_id=cluster_id)
        except BrokerError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return client.list_offsets(wanted, complete=False, cluster_id=cluster_id)

    return look_up


def _ask(keys: Iterable[SplitId], wanted: int, look_up: LookUp) -> dict[SplitId, int]:
    by_cluster: dict[str, dict[tuple[str, int], int]] = {}
    for key in keys:
        by_cluster.setdefault(key.cluster, {})[key.topic, key.partition] = wanted
    answers = {cluster: look_up(cluster, asked) for cluster, asked in by_cluster.items()}
    return {SplitId(cluster, *at): offset for cluster, found in answers.items() for at, offset in found.items()}
