"""What tasks skip, since it is gone when they come to it: how a simulated host notices, and the law about it (S9).

The host does what Spark's does: in the process that handed ranges out it compares them with what the clusters still
have when they have been read; another process knows only of what the restored state says that its batch read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evensplit.core.model import Loss, Range, SplitId
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.lookout import Lookout
from evensplit.testing.sim.rules import Rules


@dataclass(slots=True)
class Skips:
    """The ranges that were read and not looked for since, each with its topic id; of one process.

    `declared`: what this process has declared to be skipped: split -> runs of offsets, with the beginnings and ends.
    """

    rules: Rules
    lookout: Lookout
    read: dict[Range, str] = field(default_factory=dict)
    declared: dict[SplitId, list[tuple[int, int, int]]] = field(default_factory=dict)

    def begin(self) -> None:
        """A process begins, and knows nothing."""
        self.read, self.declared = {}, {}

    def add(self, ranges: Iterable[Range], state: EnumeratorState) -> None:
        """These are read, in a batch that ends at `state`."""
        self.read.update((part, state.splits[part.split].topic_id) for part in ranges)

    def restore(self, state: EnumeratorState) -> None:
        """The batch that ended at `state` was read, perhaps by this process, which did the same batch again."""
        again = {part.split: part for part in self.read}
        for key, split in state.splits.items():
            if split.read_from is None or split.position is None:
                continue
            if key not in again or again[key].start > split.read_from or again[key].end < split.position:
                self.read[Range(key, split.read_from, split.position)] = split.topic_id

    def losses(self, runs: Mapping[SplitId, tuple[int, int]]) -> tuple[Loss, ...]:
        """What of it is not there any more. `runs`: of the model; a record is skipped once, as long as one goes on."""
        found: list[Loss] = []
        for part, topic_id in self.read.items():
            listed, starts = self.lookout.left([part], {part.split: topic_id})
            found.extend(self.rules.skipped([part], {part.split: topic_id}, listed, starts))
        self.read = {}
        for loss in found:
            run, end = runs.get(loss.split, (0, 0))[0], loss.position + (loss.offsets_max or 0)
            earlier = self.declared.setdefault(loss.split, [])
            if any(number == run and loss.position < last and first < end for number, first, last in earlier):
                raise Broken("S9", f"{loss} is declared, and this process has done so before", loss.split)
            earlier.append((run, loss.position, end))
        return tuple(found)


def check_declared(skipped: Iterable[Loss], state: EnumeratorState) -> None:
    """S9: what the tasks of the batch before really skipped is among the losses of the batch that ends at `state`.

    It may say more, since a record that went after it had been read cannot be told from one that went before.
    """
    for loss in skipped:
        if not any(_covers(declared, loss) for declared in state.losses):
            raise Broken("S9", f"tasks have skipped {loss}, and the next batch does not say so", loss.split)


def _covers(declared: Loss, loss: Loss) -> bool:
    if declared.split != loss.split or declared.position > loss.position:
        return False
    size, least = declared.offsets_max, loss.position + (loss.offsets_max or 0) - declared.position
    return size is None or size >= least
