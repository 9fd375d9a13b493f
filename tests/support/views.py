"""Recorders with batches in them, made of what they are to show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from evensplit.core.model import ClusterState, Split, SplitId
from evensplit.core.state.codec import encode
from evensplit.core.state.observation import Report
from evensplit.core.state.settings import Settings
from evensplit.core.state.state import EnumeratorState
from evensplit.observe.recorder import QueryStatus, Recorder
from evensplit.observe.source_view import Batch, Source, View

ORDERS = Source("query-1", 0, "orders")
PLANNED_MS = 1_790_000_000_000
NASTY = "<script>alert(1)</script>\"'&\n" + "é" * 60
"""A name that Kafka would refuse, but that a page must show safely."""


def state(
    owners: Mapping[SplitId, int | None],
    positions: Mapping[SplitId, int],
    readers: int,
    settings: Settings | None = None,
) -> EnumeratorState:
    """Every split with its owner and its position."""
    keys = sorted(owners)
    clusters = sorted({key.cluster for key in keys})
    return EnumeratorState(
        readers,
        {name: ClusterState(name, (f"{name[:20]}:9092",), False, True) for name in clusters},
        {key: Split(key, f"id-{key.topic}", positions[key], None, owners[key]) for key in keys},
        settings or Settings(),
        begun=True,
        assigned_readers=tuple(range(readers)),
    )


def dealt(keys: Sequence[SplitId], readers: int) -> dict[SplitId, int | None]:
    """Splits in turn to readers."""
    return {key: place % readers for place, key in enumerate(sorted(keys))}


def keys_of(topics: Mapping[tuple[str, str], int]) -> list[SplitId]:
    """Cluster and topic -> so many partitions."""
    return [SplitId(cluster, topic, one) for (cluster, topic), count in topics.items() for one in range(count)]


def states(
    topics: Mapping[tuple[str, str], int], readers: int, batches: int, size: Callable[[SplitId, int], int]
) -> list[EnumeratorState]:
    """The ends of batches in which `size` offsets of each split are read, owners as they are."""
    keys = keys_of(topics)
    owners, at = dealt(keys, readers), dict.fromkeys(keys, 0)
    found = [EnumeratorState()]
    for batch in range(batches):
        first = replace_first(state(owners, {key: at[key] + size(key, batch) for key in keys}, readers), batch == 0)
        found.append(first)
        at = {key: at[key] + size(key, batch) for key in keys}
    return found


def replace_first(one: EnumeratorState, begins: bool) -> EnumeratorState:
    """The same, where every split begins at 0 in this very batch, if it does."""
    if not begins:
        return one
    return replace(one, splits={key: split._replace(first=0) for key, split in one.splits.items()})


def feed(
    recorder: Recorder,
    ends: Sequence[EnumeratorState],
    reports: Sequence[Report] = (),
    source: Source = ORDERS,
    stage: QueryStatus = QueryStatus.RUNNING,
    first: int = 0,
) -> View:
    """Tell the batches between these states, a second each."""
    for place, (start, end) in enumerate(pairwise(ends)):
        at_ms = PLANNED_MS + 1_000 * (first + place)
        report = reports[place] if place < len(reports) else Report()
        batch = Batch(source, first + place, start, end, report, at_ms, "run-1", 10, 800)
        view = recorder.add(batch, encode(end), stage=stage, heard_ms=at_ms)
    return view


def behind(one: EnumeratorState, lag: Callable[[SplitId], int]) -> Report:
    """A report in which each log ends `lag` offsets after the position."""
    return Report({key: (split.position or 0) + lag(key) for key, split in one.splits.items()})


def small(recorder: Recorder, batches: int = 12) -> View:
    """Two clusters, four readers and skewed topics, with a move, a lost cluster and an invalid topic name."""
    topics = {("east", "orders"): 12, ("east", "payments"): 6, ("west", "orders"): 8, ("west", NASTY): 2}
    ends = states(topics, 4, batches, lambda key, batch: 40 * (1 + key.partition % 5) + 13 * batch)
    moved = ends[-1].splits[SplitId("east", "orders", 3)]
    target = 0 if moved.owner else 1
    last = {**ends[-1].splits, moved.id: moved._replace(owner=target)}
    ends[-1] = replace(ends[-1], splits=last, generation=1)
    reports = [behind(end, lambda key: 10 ** (key.partition % 6) * (key.partition % 3)) for end in ends[1:]]
    away = {key: at for key, at in reports[-1].latest.items() if key.cluster == "east"}
    reports[-1] = Report(away, {"west": "no broker of west:9092 answered within 10 s"}, ("the metadata is 5 min old",))
    return feed(recorder, ends, reports)


def large(recorder: Recorder, splits: int = 10_000, readers: int = 16, batches: int = 3) -> View:
    """Ten clusters with ten topics each."""
    topics = {(f"cluster-{one}", f"topic-{other}"): splits // 100 for one in range(10) for other in range(10)}
    ends = states(topics, readers, batches, lambda key, batch: 10 + key.partition * 3 + batch)
    reports = [behind(end, lambda key: key.partition * 3 ** int(key.cluster[-1])) for end in ends[1:]]
    return feed(recorder, ends, reports, Source("query-2", 0, "all of it"))


def recorder_of(fill: Callable[..., View], batches: int) -> Recorder:
    """A recorder that has so many batches of `small` or `large` in it."""
    found = Recorder()
    fill(found, batches=batches)
    return found
