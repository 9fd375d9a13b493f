"""The enumerator: `step(state, event) -> Step(state, effects)`.

How to read it
--------------
Everything that changes a state is in this file. A state is immutable; `step` looks the event's class up in
`TRANSITIONS` and calls the one function that handles it, which returns the next state and the orders that
follow from the change. There is no other input: what time it is, what a cluster answers and what the user
wants reach the enumerator as events only. The same state and event always give the same step.

One batch, as a host drives it:

    BatchOpened         the batch before is committed: its first positions are not needed any more
    ParallelismChanged  when the number of readers differs from the state's
    ClustersListed      -> ListPartitions for each cluster
    PartitionsListed    -> ResolveStart for what is new      (one event per cluster that answered completely)
    OffsetsResolved     -> Assign, once the state is settled
    BatchPlanned        positions advance to the batch's ends

Where a split starts (FLIP-288)
-------------------------------
A cluster that is listed before the first batch is `initial`: what its first discovery finds starts by
the user's strategy. Whatever is found later (another partition, topic or cluster, after a restart or not) starts
at earliest, for it did not exist, or was not wanted, when the user chose where to start. A later cluster that
brings starting offsets of its own is the one exception. A first discovery that finds nothing is still a
discovery: `Cluster.discovered` tells the two apart.

Who owns a split
----------------
Owners are first decided when every initial cluster has answered and every start is known, so that the first
assignment sees all splits at once, and again whenever splits or readers have changed. A split joins when its start
is known. A known split that is missing from a later answer keeps its position and its owner: an answer can be
wrong, and nothing may be read twice when it comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from evensplit.core.assign import balance
from evensplit.core.effects import Assign, Effect, ListPartitions, ReportLoss, ResolveStart
from evensplit.core.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
)
from evensplit.core.model import ClusterState, Split, SplitId, StartBy
from evensplit.core.state import EnumeratorState
from evensplit.errors import TransitionError


@dataclass(frozen=True, slots=True)
class Step:
    """The state after an event, and what the host is to do about it, in this order."""

    state: EnumeratorState
    effects: tuple[Effect, ...] = ()


def step(state: EnumeratorState, event: Event) -> Step:
    """The state after `event`, and the orders that follow.

    Raises TransitionError, leaving the state as it was, for an event that cannot happen in it.
    """
    return TRANSITIONS[type(event)](state, event)


def _batch_opened(state: EnumeratorState, _: BatchOpened) -> Step:
    if all(split.first is None for split in state.splits.values()):
        return Step(state)
    splits = {key: split if split.first is None else split._replace(first=None) for key, split in state.splits.items()}
    return Step(replace(state, splits=MappingProxyType(splits)))


def _parallelism_changed(state: EnumeratorState, event: ParallelismChanged) -> Step:
    if event.readers < 1:
        raise TransitionError(f"the number of readers is {event.readers}; expected at least 1")
    return _assigned(replace(state, readers=event.readers))


def _clusters_listed(state: EnumeratorState, event: ClustersListed) -> Step:
    ids = [listed.id for listed in event.clusters]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise TransitionError(f"clusters were listed twice: {', '.join(twice)}; expected each id once")
    clusters = dict(state.clusters)
    for listed in event.clusters:
        known = clusters.get(listed.id)
        initial = listed.starts_by_strategy or (known.initial if known else not state.begun)
        clusters[listed.id] = ClusterState(
            id=listed.id,
            bootstrap_servers=listed.bootstrap_servers,
            # Once discovered it makes no difference; a fixed value keeps equal states equal.
            initial=initial and not (known and known.discovered),
            discovered=bool(known and known.discovered),
        )
    ordered = MappingProxyType({name: clusters[name] for name in sorted(clusters)})
    return Step(replace(state, clusters=ordered), tuple(ListPartitions(name) for name in sorted(ids)))


def _partitions_listed(state: EnumeratorState, event: PartitionsListed) -> Step:
    cluster = state.clusters.get(event.cluster)
    if cluster is None:
        raise TransitionError(
            f"cluster {event.cluster!r} answered, but the metadata names only: {', '.join(state.clusters) or 'none'}"
        )
    fresh: list[Split] = []
    pending: list[SplitId] = []
    losses: list[Effect] = []
    for listed in event.partitions:
        key = SplitId(event.cluster, listed.topic, listed.partition)
        known = state.splits.get(key)
        if known is None:
            fresh.append(Split(key, topic_id=listed.topic_id))
        elif listed.topic_id and (not known.topic_id or known.position is None):
            # The brokers were upgraded to some that have ids, or nothing of the old topic was ever read.
            fresh.append(known._replace(topic_id=listed.topic_id))
        elif listed.topic_id and known.topic_id != listed.topic_id:
            losses.append(
                ReportLoss(
                    key,
                    f"the topic was deleted and created anew: expected topic id {known.topic_id}, "
                    f"found {listed.topic_id}; what was unread at offset {known.position} is gone",
                )
            )
        if known is None or known.position is None:
            pending.append(key)
    by = StartBy.STRATEGY if cluster.initial else StartBy.EARLIEST
    clusters = {**state.clusters, cluster.id: replace(cluster, discovered=True, initial=False)}
    after = replace(state, clusters=MappingProxyType(clusters), splits=_with(state.splits, fresh))
    if pending:
        return Step(after, (*losses, ResolveStart(cluster.id, tuple(sorted(pending)), by)))
    assigned = _assigned(after)
    return Step(assigned.state, (*losses, *assigned.effects))


def _offsets_resolved(state: EnumeratorState, event: OffsetsResolved) -> Step:
    resolved: list[Split] = []
    for key in sorted(event.starts):
        split = state.splits.get(key)
        if split is None:
            raise TransitionError(f"a start was resolved for {key}, which has not been discovered")
        # A start is final: a second answer (late, or asked twice) changes nothing.
        if split.position is None:
            offset = event.starts[key]
            if offset < 0:
                raise TransitionError(f"the start of {key} was resolved to {offset}; expected an offset of at least 0")
            resolved.append(split._replace(position=offset, first=offset))
    return _assigned(replace(state, splits=_with(state.splits, resolved)))


def _batch_planned(state: EnumeratorState, event: BatchPlanned) -> Step:
    if not state.settled:
        raise TransitionError(
            "a batch was planned before the first discovery was done; expected a start for every split"
        )
    advanced: list[Split] = []
    for key in sorted(event.ends):
        split = state.splits.get(key)
        if split is None or split.position is None:
            raise TransitionError(f"a batch was planned for {key}, which has no start yet")
        end = event.ends[key]
        if end < split.position:
            raise TransitionError(
                f"a batch was planned to end at {end} for {key}, which already is at {split.position}"
            )
        if end > split.position:
            advanced.append(split._replace(position=end))
    return Step(replace(state, begun=True, splits=_with(state.splits, advanced) if advanced else state.splits))


def _assigned(state: EnumeratorState) -> Step:
    """`state` with owners for all splits that have a start, once it is settled; unchanged where they stand already."""
    if not state.settled or state.readers < 1:
        return Step(state)
    started = [split for split in state.splits.values() if split.position is not None]
    previous = {split.id: split.owner for split in started if split.owner is not None}
    owners = balance([split.id for split in started], state.readers, previous)
    changed = [split._replace(owner=owners[split.id]) for split in started if split.owner != owners[split.id]]
    orders = tuple(
        Assign(split.id, owners[split.id], split.position or 0, previous.get(split.id), 0) for split in changed
    )
    return Step(replace(state, splits=_with(state.splits, changed)) if changed else state, orders)


def _with(splits: Mapping[SplitId, Split], changed: list[Split]) -> Mapping[SplitId, Split]:
    """`splits` with the changed or added ones, in the order of their ids."""
    merged = dict(splits)
    merged.update((split.id, split) for split in changed)
    if len(merged) == len(splits):
        return MappingProxyType(merged)
    return MappingProxyType({key: merged[key] for key in sorted(merged)})


TRANSITIONS: Mapping[type, Callable[[EnumeratorState, Any], Step]] = MappingProxyType(
    {
        BatchOpened: _batch_opened,
        ParallelismChanged: _parallelism_changed,
        ClustersListed: _clusters_listed,
        PartitionsListed: _partitions_listed,
        OffsetsResolved: _offsets_resolved,
        BatchPlanned: _batch_planned,
    }
)
