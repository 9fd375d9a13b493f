"""Planted bugs of edits: of the commands, and of how a query carries out what they have written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

from evensplit.core.batch import plan
from evensplit.core.machine.enumerator import Step, step
from evensplit.core.machine.events import BatchOpened, Event
from evensplit.core.model import Range, Readable, SplitId
from evensplit.core.repair import edit, places, records
from evensplit.core.repair.edit import OpenBatch, Told
from evensplit.core.repair.records import Record
from evensplit.core.state.edits import Jump, pieces
from evensplit.core.state.state import EnumeratorState
from evensplit.testing.sim import Rules
from tests.sim.planting import Planted, by_step, swapped

_rewind, _skip, _drop, _rename, _open = edit.rewind, edit.skip, edit.drop, edit.rename_cluster, edit.open_batch
_made_by, _targets_of_batch = records.made_by, places.targets_of_batch


def swaps(name: str, other: object, module: ModuleType = edit) -> Callable[[], AbstractContextManager[None]]:
    """A function that commands, or plans, are made of is another one."""
    return partial(swapped, name, other, module)


def forgets_one(batch: OpenBatch, targets: Mapping[SplitId, int], told: Told) -> EnumeratorState:
    """The last of several partitions stays where it is."""
    ahead = [
        key for key in sorted(targets) if (known := batch.end.splits.get(key)) and (known.position or 0) > targets[key]
    ]
    return _rewind(batch, {key: targets[key] for key in ahead[:-1] or ahead}, told)


def reads_first(batch: OpenBatch, ranges: Iterable[Range], told: Told) -> EnumeratorState:
    """The first record that is to be left out is read."""
    return _skip(batch, [one._replace(start=min(one.start + 1, one.end - 1)) for one in ranges], told)


def skips_one_more(batch: OpenBatch, ranges: Iterable[Range], told: Told) -> EnumeratorState:
    """TO is left out, too, as if it were not the end already."""
    return _skip(batch, [one._replace(end=one.end + 1) for one in ranges], told)


def skips_the_first(batch: OpenBatch, ranges: Iterable[Range], told: Told) -> EnumeratorState:
    """Of several ranges, the last one is read."""
    return _skip(batch, sorted(ranges)[:-1] or ranges, told)


def skips_in_between(batch: OpenBatch, ranges: Iterable[Range], told: Told) -> EnumeratorState:
    """What lies between two ranges of one partition is left out, too."""
    found: dict[SplitId, Range] = {}
    for one in sorted(ranges):
        before = found.get(one.split, one)
        found[one.split] = Range(one.split, before.start, max(before.end, one.end))
    return _skip(batch, found.values(), told)


def rewinds_its_own_batch(batch: OpenBatch, targets: Mapping[SplitId, int], told: Told) -> EnumeratorState:
    """A batch that is not done ends where it was to go back to: what it was to read beyond that is not read."""
    state = _rewind(batch, targets, told)
    last = state.edits[-1]
    jumps = tuple(one._replace(at=max(one.to, one.at - 1)) for one in last.jumps)
    return state if batch.is_new else replace(state, edits=(*state.edits[:-1], replace(last, jumps=jumps)))


def keeps_epoch(batch: OpenBatch, targets: Mapping[SplitId, int], told: Told) -> EnumeratorState:
    """A rewound partition still says who wrote the record before its position of before."""
    state = _rewind(batch, targets, told)
    back = {key: split._replace(epoch=batch.end.splits[key].epoch) for key, split in state.splits.items()}
    return replace(state, splits=MappingProxyType(back))


def keeps_edit(made: Sequence[Record], batch: int, data: bytes) -> list[Record]:
    """What is written back is what is there."""
    return [replace(one, before=one.before and data.decode()) for one in _made_by(made, batch, data)]


def undoes_all(made: Sequence[Record], batch: int, data: bytes) -> list[Record]:
    """Of several edits of one batch, all are taken back at once."""
    return _made_by(made, batch, data)[-1:]


def believes_records(made: Sequence[Record], batch: int, data: bytes) -> list[Record]:
    """The last record counts, whether what it says was ever written or not."""
    return [one for one in reversed(made) if one.batch == batch][:1]


def edits_again(state: EnumeratorState, event: Event) -> Step:
    """What was edited in one batch is carried out in the batches after it as well."""
    done = step(state, event)
    return Step(replace(done.state, edits=state.edits), done.effects)


def told_as_skipped(state: EnumeratorState, event: Event) -> Step:
    """What a command has left out counts as read, and so as skipped by tasks where it is gone."""
    return step(replace(state, edits=()) if isinstance(event, BatchOpened) else state, event)


def keeps_no_edits(state: EnumeratorState, event: Event) -> Step:
    """The first event of a process takes the edits away, and not where their batch began."""
    done = step(state, event)
    return Step(replace(done.state, edits=()), done.effects)


def reads_what_is_left_out(begin: int, end: int, jumps: Iterable[Jump]) -> tuple[tuple[int, int], ...]:
    """A batch that is edited is read from its beginning to its end."""
    return pieces(begin, end, [jump for jump in jumps if jump.to < jump.at])


def done_if_planned(start: EnumeratorState, end: EnumeratorState, *, done: bool) -> OpenBatch:
    """A batch that is planned counts as done, so nobody reads what it was to read."""
    return _open(end, end, done=True) if end.begun and end.readers else _open(start, end, done=done)


def drops_others(batch: OpenBatch, scope: Readable, told: Told) -> EnumeratorState:
    """With a partition, the next one of its topic is forgotten."""
    state = _drop(batch, scope, told)
    if not isinstance(scope, SplitId):
        return state
    after = scope._replace(partition=scope.partition + 1)
    return replace(state, splits=MappingProxyType({key: one for key, one in state.splits.items() if key != after}))


def from_where_it_ended(
    number: int, ends: Mapping[int, EnumeratorState], wanted: Sequence[SplitId]
) -> dict[SplitId, int]:
    """A batch is taken to begin where it ended."""
    return _targets_of_batch(number + 1 if number in ends else number, ends, wanted)


def without_owner(batch: OpenBatch, before: str, after: str, told: Told) -> EnumeratorState:
    """Partitions of a cluster that is renamed are read by nobody until owners are decided."""
    state = _rename(batch, before, after, told)
    splits = {key: one._replace(owner=None) if key.cluster == after else one for key, one in state.splits.items()}
    return replace(state, splits=MappingProxyType(splits))


def _edited(
    says: str,
    name: str,
    other: object,
    *,
    seed: int,
    laws: tuple[str, ...] = ("S21",),
    like: str = "",
    **module: Any,
) -> Planted:
    return Planted(says, laws, Rules(), seed=seed, like=like, host=swaps(name, other, **module))


BUGS: Mapping[str, Planted] = {
    "rewind-forgets-one": _edited("one of several partitions is not rewound", "rewind", forgets_one, seed=3),
    "rewind-keeps-epoch": _edited(
        "a rewound partition has the epoch of its former position",
        "rewind",
        keeps_epoch,
        laws=("S3", "S9", "R1"),
        seed=4,
    ),
    "rewind-ends-batch": _edited(
        "a rewind takes records from the batch that it is in", "rewind", rewinds_its_own_batch, laws=("S15",), seed=5
    ),
    "rewind-to-end-of-batch": _edited(
        "batch:N is where it ended", "targets_of_batch", from_where_it_ended, module=places, seed=9
    ),
    "skip-reads-first": _edited("the first record of a skipped range is read", "skip", reads_first, seed=2),
    "skip-one-more": _edited("one record more is skipped", "skip", skips_one_more, seed=9),
    "skip-first-alone": _edited("of several ranges, the last one is read", "skip", skips_the_first, seed=2),
    "skip-in-between": _edited(
        "what is between two ranges is skipped", "skip", skips_in_between, laws=("S21", "S15"), seed=39
    ),
    "skip-reads-all": _edited(
        "a batch reads what is left out of it", "pieces", reads_what_is_left_out, laws=("S15",), module=plan, seed=9
    ),
    "skip-told-as-loss": Planted(
        "what was skipped by a command is declared lost",
        ("S9", "S21"),
        by_step(told_as_skipped),
        like="evensplit, before: a skipped range declared lost",
        seed=48,
    ),
    "drop-one-more": _edited("two partitions are dropped instead of one", "drop", drops_others, seed=4),
    "rename-without-owners": _edited(
        "a renamed cluster has no owners", "rename_cluster", without_owner, laws=("R1",), seed=5
    ),
    "undo-keeps-edit": _edited("what is taken back stays", "made_by", keeps_edit, module=records, seed=5),
    "undo-takes-all": _edited(
        "all edits of a batch are taken back at once", "made_by", undoes_all, module=records, seed=5
    ),
    "undo-of-unwritten": _edited(
        "an edit that was never written is taken back", "made_by", believes_records, module=records, seed=165
    ),
    "edit-of-planned-batch": _edited(
        "a batch that is planned is left out", "open_batch", done_if_planned, laws=("S21", "S15"), seed=9
    ),
    "edit-carried-out-again": Planted(
        "an edit is carried out in each batch after it", ("S3", "S15", "S10", "crash"), by_step(edits_again), seed=4
    ),
    "edit-forgotten-at-once": Planted(
        "a rewound split stands before its beginning",
        ("S3", "S9"),
        by_step(keeps_no_edits),
        like="evensplit, before: a split rewound in its first batch",
        seed=48,
    ),
}
"""Name -> bug."""
