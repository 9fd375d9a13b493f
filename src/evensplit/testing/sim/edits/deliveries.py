"""How often each offset was read along a checkpoint, by what tasks were given, and how often it had to be (S21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evensplit.core.model import Range
from evensplit.testing.sim.edits.counts import Counts
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.splits import Model

Given = tuple[tuple[int, int, int], ...]
"""Number of a run of offsets (see `Known.runs`), and the first offset and the end of what was read of it."""


def given(parts: Iterable[Range], model: Model) -> Given:
    """What tasks were given, in the runs of `model`."""
    return tuple((model.runs[part.split][0], part.start, part.end) for part in parts if part.split in model.runs)


def wanted(model: Model, number: int, begin: int, mark: int) -> Counts:
    """How often the offsets of a run that stands at `mark` had to be read: once, but for what was edited."""
    return Counts((begin, mark)).plus(model.edited.get(number, Counts()))


class Deliveries:
    """Of one checkpoint. `before`: what was read by batches that are not kept any more."""

    def __init__(self) -> None:
        self.before: dict[int, Counts] = {}
        self._all: dict[int, Counts] = {}

    def copy(self) -> Deliveries:
        """The same of a copy of the checkpoint."""
        found = Deliveries()
        found.before = {number: counts.plus(Counts()) for number, counts in self.before.items()}
        return found

    def begin(self, kept: Iterable[Given]) -> None:
        """A process begins, or an edit, where these are what the kept batches have read."""
        self._all = {number: counts.plus(Counts()) for number, counts in self.before.items()}
        for one in kept:
            _add(self._all, one)

    def fold(self, one: Given) -> None:
        """A batch is not kept any longer."""
        _add(self.before, one)

    def of(self, number: int) -> Counts:
        """How often the offsets of a run have been read."""
        return self._all.get(number, Counts())

    def read(self, one: Given, model: Model) -> None:
        """A batch has read this, and ends as `model` says. Raises `Broken` for what is read too often, or never."""
        _add(self._all, one)
        touched: Mapping[int, bool] = {number: True for number, _, _ in one}
        for key, (number, begin) in model.runs.items():
            if number not in touched:
                continue
            expected = wanted(model, number, begin, model.marks[key])
            if self._all[number] != expected:
                raise Broken("S21", f"{key} has been read in {self._all[number]}; expected {expected}", key)


def _add(counts: dict[int, Counts], one: Given) -> None:
    for number, start, end in one:
        counts.setdefault(number, Counts()).add(start, end)
