"""The checkpoint of a simulated driver: an offset log, a commit log, and copies that can be damaged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any

from evensplit.core.batch.plan import BatchPlan
from evensplit.core.batch.tasks import plan_tasks
from evensplit.core.model import Loss, Range, SplitId
from evensplit.core.state.codec import SIGNATURE, VERSION
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import CheckpointError, CheckpointForeign, CheckpointVersionUnknown
from evensplit.testing.sim.edits.deliveries import Deliveries, Given, given
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.oracle.plan_laws import check_plan, check_tasks
from evensplit.testing.sim.oracle.splits import Model
from evensplit.testing.sim.rules import OFFSETS_MIN, Rules

KEPT = 6
"""How many batches a checkpoint goes back."""

Reports = Mapping[int, Mapping[SplitId, tuple[int, str]]]
"""Reader -> split -> next offset and topic id: the readers' part of a checkpoint."""


@dataclass(slots=True)
class Entry:
    """One batch in the offset log: `text` is its end offset, and `state` what was read back from it.

    `ranges`: what the batch reads, by the model log; `again`: what it reads if it is planned again, from what was
    logged before it. `owed`: what tasks have skipped by then, and no logged offset declares.
    """

    text: str
    state: EnumeratorState
    model: Model
    reports: Reports
    ranges: tuple[Range, ...]
    again: tuple[Range, ...]
    committed: bool = False
    owed: tuple[Loss, ...] = ()
    number: int = 0
    """That of its batch."""
    given: Given = ()
    """What its tasks have read, and those of batches before it that are not in the log."""
    passed: tuple[Range, ...] = ()
    """What had been read by the time that its batch was planned, and was not to be read by it any more."""
    passed_again: tuple[Range, ...] = ()
    """The same if it is planned again."""
    made: bool = False
    """It is the work of a command, and not of a query."""
    before_edit: Entry | None = None
    """What was in its place before that command; None: nothing."""


class Checkpoints:
    """All that survives the driver: `entries`. `planned`: the last batch, which may not be among them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.entries: list[Entry] = []
        self.planned: Entry | None = None
        self.deliveries = Deliveries()
        self._unlogged: Given = ()
        self._declared: list[Loss] = []

    @property
    def last(self) -> Entry | None:
        """The newest entry."""
        return self.entries[-1] if self.entries else None

    def restored(self) -> None:
        """A process begins with the newest entry."""
        self.planned, self._declared, self._unlogged = self.last, [], ()
        self.deliveries.begin(entry.given for entry in self.entries)

    def done(self, entry: Entry, parts: Iterable[Range], *, again: bool) -> None:
        """The tasks of a batch have read these `parts`; `again`: another process had planned it. S21"""
        entry.committed = True
        read = given([*parts, *(entry.passed_again if again else entry.passed)], entry.model)
        self.deliveries.read(read, entry.model)
        self._unlogged += read
        if entry is self.last:
            entry.given, self._unlogged = self._unlogged, ()

    def write(self, state: EnumeratorState, text: str, model: Model, reports: Reports, *, logged: bool = True) -> Entry:
        """Write the end of a batch down, unless it is not `logged`: then the next one is planned all the same.

        S15: its ranges go on where the batch before it ended, in the log and out of it; S9, S10, S11 hold.
        """
        try:
            back = self.read(text)
        except CheckpointError as error:
            raise Broken("S10", f"the offset of a good state is refused: {error}") from error
        if back != state:
            raise Broken("S10", f"the state is not what its offset says: {first_difference(state, back)}")
        if (other := dump(self._rules.encode(back))) != text:
            raise Broken("S10", f"equal states gave different offsets: {text[:200]} and {other[:200]}")
        before = self.planned
        if before is not None and (before.state == state) != (before.text == text):
            raise Broken("S16", "the offset's bytes and the state do not change together")
        ranges, passed = self._expected(before, state, model)
        again, passed_again = self._expected(self.last, state, model)
        self._declared += model.undeclared
        for loss in self._declared:
            if loss not in state.losses:
                raise Broken("S9", f"{loss} was reported, and what is logged next does not say so", loss.split)
        known = (*self._declared, *(before.state.losses if before is not None else ()))
        for loss in Counter(state.losses) - Counter(known):
            raise Broken("S9", f"{loss} is declared, and was never reported, or not so often", loss.split)
        model.undeclared.clear()
        entry = Entry(text, back, model.copy(), reports, ranges, again, passed=passed, passed_again=passed_again)
        entry.number = 0 if before is None else before.number + 1
        self._plan(ranges, EnumeratorState() if before is None else before.state, back)
        self._plan(again, EnumeratorState() if self.last is None else self.last.state, back)
        self.planned = entry
        if logged:
            self.entries.append(entry)
            self._declared.clear()
        self._forget()
        return entry

    def put(self, entry: Entry, *, new: bool) -> None:
        """A command writes the newest entry, in place of the last one unless it is `new`. S10, S11, S15"""
        if self.read(entry.text) != entry.state:
            raise Broken("S10", "an edited state is not what its offset says")
        if not new:
            self.entries.pop()
        before = self.last
        self._plan(entry.again, EnumeratorState() if before is None else before.state, entry.state)
        self.entries.append(entry)
        self._forget()

    def _forget(self) -> None:
        for entry in self.entries[:-KEPT]:
            self.deliveries.fold(entry.given)
        del self.entries[:-KEPT]

    def _expected(
        self, before: Entry | None, state: EnumeratorState, model: Model
    ) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
        """The ranges from `before` to `state` by the model log: each goes on where the split was in the same run of
        offsets, or begins where the run did. What is to be read no longer has been read up to where it stands: that
        comes second.
        """
        read: dict[int, int] = {}
        if before is not None:
            read = {number: before.model.marks[key] for key, (number, _) in before.model.runs.items()}
        ranges: list[Range] = []
        passed: list[Range] = []
        for key, end in sorted(model.marks.items()):
            number, begin = model.runs[key]
            begin = read.get(number, begin)
            if begin != end:
                (ranges if state.splits[key].removed_at_ms is None else passed).append(Range(key, begin, end))
        return tuple(ranges), tuple(passed)

    def replay(self, entry: Entry, before: Entry | None) -> BatchPlan:
        """The tasks of a batch again, from what the offset log holds."""
        start = EnumeratorState() if before is None else self.read(before.text)
        return self._plan(entry.again, start, self.read(entry.text))

    def _plan(self, ranges: Sequence[Range], start: EnumeratorState, end: EnumeratorState) -> BatchPlan:
        """The tasks of a batch. S2, S11, S15: made from the two offsets alone, they read exactly its ranges, once."""
        try:
            plan = self._rules.plan_batch(start, end)
        except CheckpointError as error:
            raise Broken("S15", f"the batch cannot be planned: {error}") from error
        check_plan(plan, ranges, start, end, OFFSETS_MIN)
        tasks = plan_tasks(plan, tasks_min=end.settings.tasks_min, offsets_max=end.settings.task_offsets_max)
        check_tasks(tasks, plan, ranges)
        if again := self._rules.plan_batch(end, end).readers:
            raise Broken("S11", f"between a state and itself there is something to read: {again[0]}")
        return plan

    def lean(self, entry: Entry, random: Random) -> tuple[Entry, Sequence[str]]:
        """A checkpoint after `entry` that lacks some splits which readers report, and what was done to it.

        It may lack among whom owners were dealt as well, as a state does before its first assignment.
        """
        reported = {key: True for held in entry.reports.values() for key in held}
        lacking = [
            key
            for key, split in entry.state.splits.items()
            if key in reported
            and split.active
            and split.stop is None
            and entry.model.marks[key] == max(held[key][0] for held in entry.reports.values() if key in held)
            and random.random() < 0.3
        ]
        if not lacking:
            return entry, ()
        said = [f"the checkpoint lacks {', '.join(map(str, lacking))}"]
        kept = {key: split for key, split in entry.state.splits.items() if key not in lacking}
        splits = {key: split._replace(first=None, since=0) for key, split in kept.items()}
        state = replace(entry.state, splits=MappingProxyType(splits))
        model = entry.model.copy()
        for key in lacking:
            for of in (model.known, model.marks, model.by_strategy, model.runs):
                of.pop(key, None)
            model.one_log.end(key)
        if random.random() < 0.5:
            said.append("the checkpoint does not say among whom owners were dealt")
            state, model.assigned_readers = replace(state, assigned_readers=()), ()
        lean = self.write(state, dump(self._rules.encode(state)), model, entry.reports)
        self.done(lean, lean.ranges, again=False)
        lean.owed = tuple(loss for loss in entry.owed if loss.split not in lacking)
        return lean, said

    def read(self, text: str) -> EnumeratorState:
        """The state in an offset."""
        return self._rules.decode(json.loads(text))

    def damaged(self, random: Random) -> str:
        """Damage a copy of the last entry, and see that it is refused. S10. Says what was done."""
        text = self.entries[-1].text
        if random.random() < 0.2:
            return self._foreign(random, json.loads(text))
        place = random.randrange(len(text))
        if random.random() < 0.3:
            broken, how = text[:place], f"torn at {place}"
        else:
            flipped = chr(ord(text[place]) ^ (1 << random.randrange(7)))
            broken, how = text[:place] + flipped + text[place + 1 :], f"a bit flipped at {place}"
        try:
            document = json.loads(broken)
        except ValueError:
            return how
        if document == json.loads(text) or document == {}:
            return how
        try:
            self._rules.decode(document)
        except CheckpointError:
            return how
        raise Broken(
            "S10", f"a damaged offset was taken for a good one ({how}): {broken[max(0, place - 40) : place + 40]}"
        )

    def _foreign(self, random: Random, document: dict[str, Any]) -> str:
        """An offset that is none of this version's: each kind has an error of its own."""
        others: tuple[tuple[object, type[CheckpointError], str], ...] = (
            ({**document, SIGNATURE: VERSION + 1}, CheckpointVersionUnknown, "of a newer version"),
            ({"orders": {"0": 7}}, CheckpointForeign, "of Spark's own Kafka source"),
            ({key: value for key, value in document.items() if key != SIGNATURE}, CheckpointForeign, "unsigned"),
        )
        other, expected, what = random.choice(others)
        try:
            self._rules.decode(other)
        except expected:
            return what
        except CheckpointError as error:
            raise Broken("S10", f"an offset {what} is refused as {error!r}") from error
        raise Broken("S10", f"an offset {what} was taken for a good one: {other}")


def dump(document: Mapping[str, Any]) -> str:
    """The bytes of an offset."""
    return json.dumps(document, separators=(",", ":"))


def first_difference(left: EnumeratorState, right: EnumeratorState) -> str:
    """What two states disagree on, for people."""
    for key in sorted({**left.splits, **right.splits}):
        if left.splits.get(key) != right.splits.get(key):
            return f"{left.splits.get(key)} became {right.splits.get(key)}"
    parts: tuple[Callable[[EnumeratorState], object], ...] = (
        lambda state: state.clusters,
        lambda state: state.settings,
        lambda state: state.losses,
        lambda state: (state.readers, state.generation, state.begun, state.assigned_readers),
    )
    return next((f"{part(left)} became {part(right)}" for part in parts if part(left) != part(right)), "nothing")
