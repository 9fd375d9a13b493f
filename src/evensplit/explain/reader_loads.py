"""What each reader has: its splits, what it read in a batch, and how much they bring."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from evensplit.core.batch.plan import BatchPlan
from evensplit.core.model import Split
from evensplit.core.state import rates
from evensplit.core.state.settings import RATE
from evensplit.core.state.state import EnumeratorState

_owner_of = itemgetter(Split._fields.index("owner"))


@dataclass(frozen=True, slots=True)
class ReaderLoad:
    """One reader, and its load."""

    reader: int
    splits: int
    """How many it owns."""
    offsets: int
    """How many it had to go through in the batch."""
    work: int | None = None
    """With `balance=rate`: the offsets a minute that its splits bring, by their rates; None: those are not known."""
    capacity: int = 1
    """How much it takes beside the others."""

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types."""
        return {
            "reader": self.reader,
            "splits": self.splits,
            "offsets": self.offsets,
            "offsetsPerMinute": self.work,
            "capacity": self.capacity,
        }


def reader_loads(after: EnumeratorState, plan: BatchPlan) -> tuple[ReaderLoad, ...]:
    """The readers that splits are given to, and any other that has splits or had work."""
    offsets = {plan.reader: plan.offsets for plan in plan.readers}
    splits = dict.fromkeys(sorted({*after.assigned_readers, *offsets}), 0)
    for owner, count in Counter(map(_owner_of, after.splits.values())).items():
        if owner is not None:
            splits[owner] = splits.get(owner, 0) + count
    settings, load = after.settings, tuple(after.load())
    work: Counter[int | None] | None = None
    if settings.balance == RATE and rates.is_known(load):
        work, brought = Counter(), rates.weights(load)
        for split in load:
            work[split.owner] += brought[split.id]
    capacity = dict(settings.capacities)
    return tuple(
        ReaderLoad(
            reader,
            splits[reader],
            offsets.get(reader, 0),
            None if work is None else work[reader],
            capacity.get(reader, 1),
        )
        for reader in sorted(splits)
    )
