"""What the metadata says, in the oracle: which clusters there are, what is to be read of them, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evensplit.core.machine.events import ClustersListed
from evensplit.core.model import SplitId, Topics
from evensplit.core.state.state import EnumeratorState

if TYPE_CHECKING:
    from evensplit.testing.sim.oracle.splits import Model

STRATEGY, EARLIEST = "strategy", "earliest"
"""How the first discovery of a cluster starts."""


def is_unwanted(model: Model, key: SplitId) -> bool:
    """Whether the metadata subscribes to other topics of its cluster."""
    return key.cluster in model.subscribed and key.topic not in model.subscribed[key.cluster]


def missed(model: Model, key: SplitId | str) -> None:
    """A complete answer lacks it."""
    if model.now_ms is not None:
        since, count = model.missing.get(key, (model.now_ms, 0))
        model.missing[key] = since, count + 1


def clusters_listed(model: Model, event: ClustersListed, before: EnumeratorState) -> None:
    """The clusters that are listed are known from now on; others, and topics that nobody wants, begin to be missing."""
    model.listings += 1
    wanted = {key: not is_unwanted(model, key) for key in model.missing if isinstance(key, SplitId)}
    model.subscribed = {
        one.id: one.subscription.names for one in event.clusters if isinstance(one.subscription, Topics)
    }
    for key in [key for key, was in wanted.items() if was == is_unwanted(model, key)]:
        # Not to be there and not to be wanted are two things.
        del model.missing[key]
    _note_unwanted(model)
    for listed in event.clusters:
        model.missing.pop(listed.id, None)
        known = model.clusters.get(listed.id)
        if known is None:
            model.clusters[listed.id] = STRATEGY if listed.starts_by_strategy or not before.begun else EARLIEST
        elif known == EARLIEST and listed.starts_by_strategy:
            model.clusters[listed.id] = STRATEGY
    listed_ids = [listed.id for listed in event.clusters]
    for name in model.clusters:
        if name not in listed_ids:
            missed(model, name)
            if model.is_gone(name) or (model.listings == 1 and event.confirmed):
                model.leaving[name] = True
        else:
            model.leaving.pop(name, None)


def _note_unwanted(model: Model) -> None:
    unwanted: dict[SplitId, tuple[int, int]] = {}
    now_ms = model.now_ms
    for key in model.known:
        if now_ms is not None and is_unwanted(model, key):
            since, count = model.unwanted.get(key, (now_ms, 0))
            unwanted[key] = since, count + 1
    model.unwanted = unwanted
