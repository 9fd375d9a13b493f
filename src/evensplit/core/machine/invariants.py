"""The laws that every state keeps, checked from scratch: for tests and simulation, and cheap enough to run often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evensplit.core.machine.enumerator import TRANSITIONS, Change
from evensplit.core.machine.events import Event
from evensplit.core.model import Split
from evensplit.core.policies import BALANCED
from evensplit.core.state.edits import Jump, jumps_of
from evensplit.core.state.settings import ALL_CLUSTERS, ALWAYS, COUNT
from evensplit.core.state.state import EnumeratorState


def check(state: EnumeratorState) -> tuple[str, ...]:
    """One sentence for each law that `state` breaks, beginning with the law's id; empty for a sound state."""
    broken: list[str] = []
    if list(state.splits) != sorted(state.splits) or list(state.clusters) != sorted(state.clusters):
        broken.append("S10: clusters and splits are in the order of their ids")
    jumps = jumps_of(state.edits)
    for key, split in state.splits.items():
        if key != split.id or key.cluster not in state.clusters:
            broken.append(f"S1: split {key} is filed under its own id, in a known cluster")
        broken.extend(_split(split, state, jumps.get(key, ())))
    broken.extend(_evenness(state))
    return tuple(broken)


def check_step(before: EnumeratorState, event: Event, after: EnumeratorState) -> tuple[str, ...]:
    """One sentence for each change in the life of a split that the table does not have for such an event (law S1)."""
    known = frozenset(TRANSITIONS[type(event)].changes)
    return tuple(
        f"S1: split {split.id} went from {change[0] or 'nothing'} to {change[1] or 'nothing'} by {type(event).__name__}"
        for split, change in _changes(before, after)
        if change not in known
    )


def _changes(before: EnumeratorState, after: EnumeratorState) -> Iterator[tuple[Split, Change]]:
    for key, split in after.splits.items():
        known = before.splits.get(key)
        was = known.lifecycle if known is not None else None
        if was is not split.lifecycle:
            yield split, (was, split.lifecycle)
    for key, split in before.splits.items():
        if key not in after.splits:
            yield split, (split.lifecycle, None)


def _split(split: Split, state: EnumeratorState, jumps: Sequence[Jump]) -> Iterator[str]:
    key = split.id
    if split.owner is not None and not split.active:
        yield f"S1: split {key} is {split.lifecycle}, and owned by reader {split.owner}"
    if split.finished and (split.removed_at_ms is not None or split.position is None):
        yield f"S1: split {key} is finished, and retained or without an end"
    if split.settled and split.removed_at_ms is None:
        yield f"S1: split {key} is {split.lifecycle}, and settled"
    if split.owner is not None and not 0 <= split.owner < state.readers:
        yield f"S2: split {key} is owned by reader {split.owner}, of {state.readers}"
    if split.owner is not None and split.position is None:
        yield f"S4: split {key} has an owner but no start"
    if split.initial and split.position is not None:
        yield f"S4: split {key} is at {split.position}, and its start is still to be found"
    is_back = split.first is not None and (split.position is None or split.position < split.first)
    if is_back and not any(jump.to < jump.at for jump in jumps):
        yield f"S3: split {key} begins at {split.first} and stands at {split.position}"
    if (split.first is None and split.since) or split.since > state.revision + 1:
        yield f"S3: split {key} began at {split.first} in revision {split.since} of {state.revision}"
    if split.read_from is not None and (split.position is None or split.read_from >= split.position):
        yield f"S3: split {key} was read from {split.read_from} and stands at {split.position}"
    if split.stop is not None and split.position is not None and split.position > split.stop:
        yield f"S3: split {key} stops at {split.stop} and stands at {split.position}"


def _evenness(state: EnumeratorState) -> Iterator[str]:
    """S6, as far as one state shows it: all splits have owners, and loads are even where they have to be."""
    session, settings = state.session, state.settings
    if not session.assigned or session.open or state.eligible:
        return
    readers = state.participants
    counts = dict.fromkeys(readers, 0)
    for split in state.load():
        if split.owner in counts:
            counts[split.owner] += 1
        elif readers:
            yield f"S6: split {split.id} belongs to {split.owner}, and there are readers for it"
    uneven = readers and max(counts.values()) - min(counts.values()) > 1
    promised = ALWAYS, BALANCED, ALL_CLUSTERS, COUNT
    if uneven and (settings.rebalance, settings.policy, settings.scope, settings.balance) == promised:
        yield f"S6: loads are {list(counts.values())}; they differ by more than one"
