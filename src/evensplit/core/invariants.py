"""The laws that every state keeps, checked from scratch: for tests and simulation, and cheap enough to run often."""

from __future__ import annotations

from evensplit.core.state import EnumeratorState
from evensplit.core.story import loads


def check(state: EnumeratorState) -> tuple[str, ...]:
    """One sentence for each law that `state` breaks, beginning with the law's id; empty for a sound state."""
    broken: list[str] = []
    if list(state.splits) != sorted(state.splits) or list(state.clusters) != sorted(state.clusters):
        broken.append("S10: clusters and splits are in the order of their ids")
    for key, split in state.splits.items():
        if key != split.id or key.cluster not in state.clusters:
            broken.append(f"S1: split {key} is filed under its own id, in a known cluster")
        if split.owner is not None and not 0 <= split.owner < state.readers:
            broken.append(f"S2: split {key} is owned by reader {split.owner}, of {state.readers}")
        if split.owner is not None and split.position is None:
            broken.append(f"S4: split {key} has an owner but no start")
        if split.first is not None and (split.position is None or split.position < split.first):
            broken.append(f"S3: split {key} begins at {split.first} and stands at {split.position}")
    owned = sum(split.owner is not None for split in state.splits.values())
    counts = loads(state)
    if owned and max(counts) - min(counts) > 1:
        broken.append(f"S6: loads are {counts}; they differ by more than one")
    return tuple(broken)
