"""Events that cannot happen in a state: the enumerator has to refuse them, and stay as it is."""

from __future__ import annotations

from evensplit.core.machine.events import (
    BatchPlanned,
    ClustersListed,
    Event,
    ListedCluster,
    OffsetsResolved,
    ParallelismChanged,
    PartitionsListed,
    TimePassed,
)
from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState

NOWHERE = SplitId("nowhere", "t", 0)


def impossible_events(state: EnumeratorState) -> tuple[Event, ...]:
    """Some of them, at least two."""
    events: list[Event] = [
        ParallelismChanged(0),
        PartitionsListed("nowhere", ()),
        BatchPlanned({NOWHERE: 1}),
        ClustersListed((ListedCluster("a", ()), ListedCluster("a", ()))),
    ]
    if state.session.now_ms is not None:
        events.append(TimePassed(state.session.now_ms - 1))
    for key, split in state.splits.items():
        if split.position is None:
            events.append(OffsetsResolved({key: -1}))
        elif not split.active:
            events.append(BatchPlanned({key: split.position + 1}))
        elif split.position > 0:
            events.append(BatchPlanned({key: split.position - 1}))
    return tuple(events)
