"""Clusters by what Kafka calls them, in the oracle: which answer is whose, and what a new name means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evensplit.core.machine.events import PartitionsListed
from evensplit.core.model import Split, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.oracle.known import Known

DONE = "done"
"""The first discovery of a cluster is over."""


def is_the_one(model: Known, event: PartitionsListed, before: EnumeratorState) -> bool:
    """Whether the answer is of the cluster that is meant, and of no other that is read as well."""
    known, told = model.kafka.get(event.cluster, ""), event.kafka_id
    others = [name for name, kafka_id in model.kafka.items() if kafka_id == told and name != event.cluster]
    listed = before.session.listed or ()
    removed_at_ms = {name: before.clusters[name].removed_at_ms for name in others}
    another = known and known != told
    if told and (another or any(name in listed for name in others)):
        model.refused, model.void = (event.cluster,), True
    elif told and others and _is_new(model, event.cluster):
        # Of several names that it had, the one that went last is what it was.
        was = max(others, key=lambda name: (removed_at_ms[name] is None, removed_at_ms[name] or 0, name))
        _rename(model, was, event.cluster)
    elif told and None in removed_at_ms.values():
        # What is not listed any more will be removed, and is no other cluster then.
        model.void = True
    if told and not model.void:
        model.kafka[event.cluster] = told
    return not model.void


def renamed_splits(model: Known, before: EnumeratorState) -> Mapping[SplitId, Split]:
    """The splits before the event, by the names that their clusters have now; what went with a name is back."""
    if model.renamed is None:
        return before.splits
    was, now = model.renamed
    gone_at_ms = before.clusters[was].removed_at_ms
    found: dict[SplitId, Split] = {}
    for key, split in before.splits.items():
        if key.cluster == was:
            back = split.removed_at_ms == gone_at_ms and not split.settled
            found[key._replace(cluster=now)] = split._replace(removed_at_ms=None) if back else split
        else:
            found[key] = split
    return found


def _is_new(model: Known, name: str) -> bool:
    return model.clusters[name] != DONE and not any(key.cluster == name for key in model.known)


def _rename(model: Known, was: str, now: str) -> None:
    """A cluster turns out to be one that is known by a name that is not used any more."""
    model.renamed = was, now
    call(model, was, now)


def call(model: Known, was: str, now: str) -> None:
    """What is known of one name of a cluster is what is known of the other one."""
    for of in (
        model.known,
        model.marks,
        model.stops,
        model.by_strategy,
        model.runs,
        model.ends,
        model.settled,
        model.skips,
    ):
        kept: dict[SplitId, Any] = of
        for key in [key for key in kept if key.cluster == was]:
            kept[key._replace(cluster=now)] = kept.pop(key)
    for gone in (model.missing, model.short, model.unwanted):
        lost: dict[Any, Any] = gone
        for key in [key for key in lost if key == was or (isinstance(key, SplitId) and key.cluster == was)]:
            del lost[key]
    model.ids.rename(was, now)
    model.one_log.rename(was, now)
    model.read.rename(was, now)
    model.clusters[now] = model.clusters.pop(was)
    if was in model.kafka:
        model.kafka[now] = model.kafka.pop(was)
    for of_cluster in (model.heard, model.discoveries, model.observed):
        of_cluster.pop(was, None)
    model.leaving.pop(was, None)
