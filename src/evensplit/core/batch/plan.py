"""Plan which reader reads which ranges of a batch.

A pure function of the states that it begins and ends at. So a batch that is planned again after a crash, from the two
offsets that Spark has kept, is the same batch (law S11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter, ne
from types import MappingProxyType
from typing import TYPE_CHECKING

from evensplit.core.batch.join_readers import join
from evensplit.core.batch.lend_ranges import Piece, lend
from evensplit.core.batch.split_ranges import Kind, least_bound, level
from evensplit.core.html import lines, table, title
from evensplit.core.model import Cause, Range, Readable, Split, SplitId, scopes
from evensplit.core.state.edits import Jump, jumps_of, pieces
from evensplit.core.state.settings import LEVEL, OWNERS, WHOLE
from evensplit.core.state.state import EnumeratorState, as_named, edits_between, new_losses
from evensplit.core.state.validation import named
from evensplit.core.text import counted
from evensplit.errors import CheckpointError

if TYPE_CHECKING:
    from evensplit.charts import Drawing

CUT_OFFSETS_MIN = 10_000
"""A reader with so few offsets has nothing taken from it: what moves work costs more than it saves then."""


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """The ranges that one reader reads in one batch: none of them empty, in the order of their splits."""

    reader: int
    ranges: tuple[Range, ...]

    @property
    def offsets(self) -> int:
        """The offsets to go through, which is the work of this reader; records are at most as many."""
        ends: Iterable[int] = map(itemgetter(2), self.ranges)
        begins: Iterable[int] = map(itemgetter(1), self.ranges)
        return sum(ends) - sum(begins)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Which reader reads what in one batch."""

    kind: str
    """One of `settings.PLANS`."""
    readers: tuple[ReaderPlan, ...]
    """One plan for each reader that has work, ascending."""
    bound: int
    """The least offsets that the busiest reader can have if ranges may be lent (`owners`, `whole`) or cut (`level`).
    Never less than what one has that reads for others."""
    share: int
    """The same if ranges may be cut, whatever the kind."""
    lent: int
    """How many ranges, or parts of them, were lent to another reader than the owner, to level the work."""
    cuts: int
    """How many ranges were cut."""
    joined: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Reader -> the one that reads for it, since it would have too few offsets (`Settings.reader_offsets_min`)."""

    @property
    def offsets(self) -> int:
        """The offsets of the batch."""
        return sum(plan.offsets for plan in self.readers)

    @property
    def offsets_max(self) -> int:
        """The offsets of the busiest reader."""
        return max((plan.offsets for plan in self.readers), default=0)

    def plot(self) -> Drawing:
        """The offsets of each reader that has work as bars, with the bound. Needs `evensplit[plots]`."""
        from evensplit.charts import Bars, draw

        names, offsets = [str(one.reader) for one in self.readers], [one.offsets for one in self.readers]
        return draw(Bars(self._title(), names, offsets, "offsets", self.bound, "the busiest has at least this"))

    def _repr_html_(self) -> str:
        rows = ((one.reader, one.offsets, len(one.ranges)) for one in self.readers)
        most = f"busiest reader: {self.offsets_max:,} offsets, best possible with this plan: {self.bound:,}"
        return (
            title(self._title())
            + lines([f"{most}; {counted(self.lent, 'range')} lent, {self.cuts:,} cut"])
            + table(["reader", "offsets", "ranges"], rows, len(self.readers))
        )

    def _title(self) -> str:
        return f"plan {self.kind}: {counted(self.offsets, 'offset')} for {counted(len(self.readers), 'reader')}"


def batch_ranges(start: EnumeratorState, end: EnumeratorState) -> tuple[Range, ...]:
    """The ranges between two states, without empty ones, in the order of their splits.

    A split that began at a later revision than that of `start` begins at its first position, which `end` carries,
    unless `start` has that beginning already; all others go on from their positions in `start`. So there can be batches
    between the two that no log has, as where Spark tracks progress asynchronously. What was removed by the time of
    `end` is left out: the batches before had read it, up to its position. A cluster that was renamed is the same. Where
    a command has edited the batch, a split may have several ranges, ascending, or none; see `edits.pieces`.

    Raises:
        CheckpointError: a position of `end` lies before that of `start`, or a split has no beginning although `start`
            is the end of a batch: the two are not the start and the end of one batch.
    """
    found: list[tuple[SplitId, int, int]] = []
    jumps = jumps_of(edits_between(start, end))
    known_splits = as_named(start, end)
    before = map(known_splits.get, end.splits)
    for (key, split), known in zip(end.splits.items(), before, strict=True):
        position = split.position
        if position is None or split.removed_at_ms is not None:
            continue
        begin = _begin(start, known, split, end)
        if begin is None and position > 0 and start.begun:
            raise CheckpointError(
                f"partition {key} is to be read up to offset {position}, and neither offset says from where. The two "
                "are not of one batch: restore the checkpoint's offsets directory as a whole"
            )
        begin = position if begin is None else begin
        if key in jumps:
            found.extend((key, *piece) for piece in _edited(key, begin, position, jumps[key]))
            continue
        if begin > position:
            raise CheckpointError(
                f"partition {key} would be read from offset {begin} to {position}; expected an end at or after its "
                "start. The two offsets are not of one batch: restore the checkpoint's offsets directory as a whole"
            )
        if begin < position:
            found.append((key, begin, position))
    return tuple(named(Range, found))


def offsets_by_split(ranges: Iterable[Range]) -> dict[SplitId, int]:
    """Split -> how many offsets `ranges` have of it."""
    found: dict[SplitId, int] = {}
    for split, start, end in ranges:
        found[split] = found.get(split, 0) + end - start
    return found


def beginnings(start: EnumeratorState, end: EnumeratorState, keys: Iterable[SplitId]) -> dict[SplitId, int]:
    """Where the batch from `start` to `end` begins in each of `keys`, splits of `end` whose positions are known."""
    known, found = as_named(start, end), {}
    for key in keys:
        split = end.splits[key]
        begin = _begin(start, known.get(key), split, end)
        found[key] = (split.position or 0) if begin is None else begin
    return found


def _begin(start: EnumeratorState, known: Split | None, split: Split, end: EnumeratorState) -> int | None:
    """Where the range of `split` begins, which is `known` in `start`; None: at its position."""
    if split.first is None or (end.revision and split.since <= start.revision):
        return known.position if known is not None else None
    if end.revision:
        # A state between two batches may have the beginning of the next one, and be beyond it.
        return known.position if known is not None and _has_begun(known, split) else split.first
    return _begin_of_old(start, known, split, end)


def _edited(key: SplitId, begin: int, end: int, jumps: Sequence[Jump]) -> tuple[tuple[int, int], ...]:
    try:
        return pieces(begin, end, jumps)
    except ValueError as error:
        raise CheckpointError(
            f"partition {key} is read from offset {begin} to {end}, and edited on the way: {error}. The two offsets "
            "are not of one batch: restore the checkpoint's offsets directory as a whole"
        ) from error


def _has_begun(known: Split, split: Split) -> bool:
    """Whether `known`, of an earlier state, began where `split` did, and reading went on from its position."""
    if (known.first, known.since, known.topic_id) != (split.first, split.since, split.topic_id):
        return False
    return known.position is not None and split.position is not None and known.position <= split.position


def _begin_of_old(start: EnumeratorState, known: Split | None, split: Split, end: EnumeratorState) -> int | None:
    """Where the range of `split` begins, in states of formats without revisions.

    Such a state has first positions for what began in its own batch, and no others. One that equals that of `start` is
    left from there, and reading went on from the position.
    """
    cut = any(loss.split == split.id and loss.cause is Cause.TRUNCATED for loss in new_losses(start, end))
    if known is None or known.position is None or split.position is None or cut:
        return split.first
    same = (known.first, known.topic_id) == (split.first, split.topic_id) and known.position <= split.position
    return known.position if same else split.first


def plan_batch(start: EnumeratorState, end: EnumeratorState, *, offsets_min: int = CUT_OFFSETS_MIN) -> BatchPlan:
    """Which reader reads what in the batch from `start` to `end`, as the plan among the settings of `end` says.

    Whatever is planned, owners stay what they are, and owners may read what is theirs; others only what `end` says that
    they are eligible for. `offsets_min`: a reader with so few offsets, or fewer, has nothing taken from it, unless
    `level` cannot do without.

    - `owners`: every range is read by the owner of its split.
    - `whole`: no range is cut, so a split is read in order by one reader; for this batch, a range may be lent to
      another reader if that leaves the busiest one less to do, longest first.
    - `level`: ranges are cut too. No reader has more than `max(bound, offsets_min)` offsets, with `bound` the least
      that is possible (`ceil(work / readers)` where all may read everything), and there are at most as many cuts as
      readers less one. Parts of a split ascend with the numbers of their readers.

    With `whole`, and with `level` where nothing is cut, readers whose offsets are fewer than `reader_offsets_min` of
    the settings are joined: see `join_readers.join`.

    The last range of a split that is finished in `end`, and so has no owner there, counts as that of its owner in
    `start`; if it had none, the batch being its first and last, as that of the reader with the fewest offsets so far.

    Laws: S2 (the plans hold every range of the batch, or its parts, exactly once), S11. Raises as `batch_ranges` does.
    """
    owned = _owned(start, end)
    loads: list[dict[int, int]] = [{} for _ in owned.kinds]
    for size, owner, kind in zip(owned.sizes, owned.owners, owned.kind, strict=True):
        load = loads[kind]
        load[owner] = load.get(owner, 0) + size
    work = [Kind(readers, load) for readers, load in zip(owned.kinds, loads, strict=True)]
    plan = end.settings.plan
    share = least_bound(work)
    bound = share if plan == LEVEL else max(share, max(owned.sizes, default=0))
    doing = owned.owners
    if plan == LEVEL:
        shared = _levelled(owned, work, offsets_min)
        if any(len(shares) > 1 for shares in shared):
            return _cut(owned, shared, bound, share)
        doing = [reader for shares in shared for reader, _ in shares]
    elif plan == WHOLE:
        pieces = list(named(Piece, zip(owned.sizes, owned.owners, owned.kind, strict=True)))
        doing = lend(pieces, owned.kinds, max(bound, offsets_min), kept_max=offsets_min)
    lent = sum(map(ne, doing, owned.owners))
    joined: Mapping[int, int] = {}
    if plan != OWNERS:
        joined = join(doing, owned.sizes, owned.kind, owned.kinds, end.settings.reader_offsets_min)
        doing = [joined.get(reader, reader) for reader in doing] if joined else doing
    by_reader: dict[int, list[Range]] = {}
    for part, reader in zip(owned.parts, doing, strict=True):
        by_reader.setdefault(reader, []).append(part)
    plans = _plans(by_reader)
    least = max((one.offsets for one in plans if one.reader in joined.values()), default=0)
    return BatchPlan(plan, plans, max(bound, least), max(share, least), lent, 0, MappingProxyType(joined))


def _cut(owned: _Owned, shared: Sequence[Sequence[tuple[int, int]]], bound: int, share: int) -> BatchPlan:
    """A plan in which ranges are cut. `shared`: which reader takes how many offsets of each."""
    by_reader: dict[int, list[Range]] = {}
    for part, shares in zip(owned.parts, shared, strict=True):
        begin = part.start
        for reader, size in sorted(shares):
            by_reader.setdefault(reader, []).append(Range(part.split, begin, begin + size))
            begin += size
    lent = sum(reader != owner for owner, shares in zip(owned.owners, shared, strict=True) for reader, _ in shares)
    return BatchPlan(LEVEL, _plans(by_reader), bound, share, lent, sum(len(shares) - 1 for shares in shared))


def _plans(by_reader: Mapping[int, Sequence[Range]]) -> tuple[ReaderPlan, ...]:
    return tuple(ReaderPlan(reader, tuple(by_reader[reader])) for reader in sorted(by_reader))


@dataclass(frozen=True, slots=True)
class _Owned:
    """The ranges of a batch in the order of their splits, by columns.

    `sizes`, `owners`: of each range. `kind`: the place in `kinds` of those who may read it. `kinds`: ascending.
    """

    parts: Sequence[Range]
    sizes: Sequence[int]
    owners: list[int]
    kind: Sequence[int]
    kinds: Sequence[tuple[int, ...]]


def _owned(start: EnumeratorState, end: EnumeratorState) -> _Owned:
    """The ranges of a batch, with whose each is and who may read it."""
    able = _Able(end.assigned_readers or tuple(range(end.readers)), end.eligible)
    parts = batch_ranges(start, end)
    earlier = as_named(start, end)
    sizes = [last - first for _, first, last in parts]
    owned: list[int | None] = [end.splits[split].owner for split, _, _ in parts]
    if None in owned or any(owner is not None and owner >= end.readers for owner in dict.fromkeys(owned)):
        jumps = jumps_of(edits_between(start, end))
        owned = [_owner(part, earlier, start, end, is_edited=part.split in jumps) for part in parts]
    kinds = able.readers([part.split for part in parts], owned)
    loads: dict[int | None, int] = {}
    for owner, size in zip(owned, sizes, strict=True):
        loads[owner] = loads.get(owner, 0) + size
    owners: list[int] = []
    for owner, size, readers in zip(owned, sizes, kinds, strict=True):
        if owner is None:
            owner = min(readers, key=lambda reader: (loads.get(reader, 0), reader))
            loads[owner] = loads.get(owner, 0) + size
        owners.append(owner)
    ascending = sorted(set(kinds))
    number = {readers: place for place, readers in enumerate(ascending)}
    return _Owned(parts, sizes, owners, list(map(number.__getitem__, kinds)), ascending)


def _owner(
    part: Range, earlier: Mapping[SplitId, Split], start: EnumeratorState, end: EnumeratorState, *, is_edited: bool
) -> int | None:
    """Whose a range is; None: the last one of a split of which no reader that there is knows."""
    split = end.splits[part.split]
    owner = split.owner
    # Where batches between the two are not logged, somebody may have read it in one of them that may do so no more.
    if owner is None and not (split.finished or is_edited) and end.revision <= start.revision + 1:
        raise CheckpointError(
            f"partition {part.split} is to be read up to offset {part.end} but has no owner; expected a reader from 0 "
            f"to {end.readers - 1}"
        )
    if owner is None:
        before = earlier.get(part.split)
        owner = before.owner if before is not None else None
    return owner if owner is None or owner < end.readers else None


def _levelled(owned: _Owned, work: Sequence[Kind], bound_min: int) -> list[list[tuple[int, int]]]:
    """For each range: which reader takes how many of its offsets."""
    _, shares = level(work, bound_min)
    shared: list[list[tuple[int, int]]] = [[] for _ in owned.parts]
    own: list[dict[int, list[int]]] = [{} for _ in work]
    for number, (owner, kind) in enumerate(zip(owned.owners, owned.kind, strict=True)):
        own[kind].setdefault(owner, []).append(number)
    for one, mine, share in zip(work, own, shares, strict=True):
        over: list[tuple[int, int]] = []
        for owner in sorted(mine):
            left = share.get(owner, 0)
            # The small ones stay where they are, so that few are lent and the long ones are what is cut.
            for number in sorted(mine[owner], key=lambda number: (owned.sizes[number], number)):
                size = owned.sizes[number]
                kept = min(size, left)
                left -= kept
                if kept:
                    shared[number].append((owner, kept))
                if kept < size:
                    over.append((number, size - kept))
        room = [(reader, more) for reader in share if (more := share[reader] - one.owned.get(reader, 0)) > 0]
        _hand_over(over, room, shared)
    return shared


def _hand_over(
    over: Sequence[tuple[int, int]], room: Sequence[tuple[int, int]], shared: Sequence[list[tuple[int, int]]]
) -> None:
    """Deal what is `over` of some ranges, one after the other, to readers that have `room`, one after the other."""
    takers = iter(room)
    reader, more = -1, 0
    for number, size in over:
        while size:
            if not more:
                reader, more = next(takers)
            taken = min(size, more)
            shared[number].append((reader, taken))
            size, more = size - taken, more - taken


class _Able:
    """Who may read what; a reader that is not named in `eligible` may read everything."""

    def __init__(self, readers: tuple[int, ...], eligible: Mapping[int, Sequence[Readable]]) -> None:
        self._everybody = readers
        self._free = tuple(reader for reader in readers if reader not in eligible)
        self._named: dict[Readable, tuple[int, ...]] = {}
        for reader in readers:
            for readable in eligible.get(reader, ()):
                self._named[readable] = (*self._named.get(readable, ()), reader)

    def readers(self, keys: Sequence[SplitId], owners: Sequence[int | None]) -> list[tuple[int, ...]]:
        """The readers that may read each of `keys`, its owner always among them, ascending; all of them where nobody
        may.
        """
        if not self._named:
            found = {owner: self._joined(self._free, owner) for owner in dict.fromkeys(owners)}
            return list(map(found.__getitem__, owners))
        return [self._joined(self._able(key), owner) for key, owner in zip(keys, owners, strict=True)]

    def _able(self, key: SplitId) -> tuple[int, ...]:
        others = chain.from_iterable(self._named.get(one, ()) for one in scopes(key))
        return tuple(sorted({*self._free, *others}))

    def _joined(self, found: tuple[int, ...], owner: int | None) -> tuple[int, ...]:
        if owner is not None and owner not in found:
            return tuple(sorted({*found, owner}))
        return found or self._everybody
