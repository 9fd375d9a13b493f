"""What the metadata says, in the oracle: which clusters there are, what is to be read of them, and what is left out."""

from __future__ import annotations

from evensplit.core.machine.events import NOW, Asked, ClustersListed
from evensplit.core.model import SplitId, Topics
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.oracle.known import Known, Missed

STRATEGY, EARLIEST = "strategy", "earliest"
"""How the first discovery of a cluster starts."""


def is_unwanted(model: Known, key: SplitId) -> bool:
    """Whether the metadata subscribes to other topics of its cluster."""
    return key.cluster in model.subscribed and key.topic not in model.subscribed[key.cluster]


def missed(model: Known, key: SplitId | str, asked: Asked = NOW) -> None:
    """A complete answer lacks it."""
    if model.now_ms is not None:
        model.missing[key] = _once_more(model.missing.get(key), model.asked_ms(asked), turned=asked.turned)


def _once_more(one: Missed | None, at_ms: int, *, turned: bool = True) -> Missed:
    return Missed(at_ms, 1, at_ms, turned) if one is None else Missed(one.since_ms, one.times + 1, at_ms, turned)


def clusters_listed(model: Known, event: ClustersListed, before: EnumeratorState) -> None:
    """The clusters that are listed are known from now on; others, and topics that nobody wants, begin to be missing."""
    repeated = 0 < event.answer == model.listed
    complete, model.listed = event.complete and not repeated, event.answer
    model.listings += complete
    wanted = {key: not is_unwanted(model, key) for key in model.missing if isinstance(key, SplitId)}
    subscribed = {one.id: one.subscription.names for one in event.clusters if isinstance(one.subscription, Topics)}
    model.subscribed = subscribed if complete else {**model.subscribed, **subscribed}
    for key in [key for key, was in wanted.items() if was == is_unwanted(model, key)]:
        # Not to be there and not to be wanted are two things.
        del model.missing[key]
    if complete:
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
        if name not in listed_ids and not complete:
            continue
        if name not in listed_ids:
            missed(model, name)
            if model.is_gone(name) or (model.listings == 1 and event.confirmed):
                model.leaving[name] = True
        else:
            model.leaving.pop(name, None)


def _note_unwanted(model: Known) -> None:
    unwanted: dict[SplitId, Missed] = {}
    now_ms = model.now_ms
    for key in model.known:
        if now_ms is not None and is_unwanted(model, key):
            unwanted[key] = _once_more(model.unwanted.get(key), now_ms)
    model.unwanted = unwanted
