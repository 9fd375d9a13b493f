"""The grid of readers and splits. Cells are splits, or topics, clusters or readers if there are too many splits.

At most `ELEMENTS_MAX` cells and labels are shown at a time. Choosing a cell shows its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2s

from evensplit.core.model import Lifecycle, SplitId
from evensplit.core.text import counted
from evensplit.observe.dashboard.view.formatting import UNKNOWN, exact, short
from evensplit.observe.dashboard.view.query import PageQuery, Shade
from evensplit.observe.source_view import SplitView

ELEMENTS_MAX = 420
"""The most cells and labels of groups on a page."""

ROWS_MAX = 40
"""The most readers on a page."""

STEPS = 5
"""The number of shades, without the one for zero. Each stands for values ten times those of the one before."""

MARKS = {Lifecycle.RETAINED: "kept", Lifecycle.FINISHED: "done", Lifecycle.UNASSIGNED: "waits"}
"""The text in the cell of a split that is not read."""


class Level(StrEnum):
    """The kind of thing that a cell stands for."""

    SPLIT = "split"
    TOPIC = "topic"
    CLUSTER = "cluster"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    id: str
    """The same as long as it stands for the same thing."""
    name: str
    value: str
    """Lag or rate, in few characters."""
    label: str
    """All of it in words."""
    shade: str
    """Its classes in the style sheet."""
    params: PageQuery
    """The page that choosing it opens."""


@dataclass(frozen=True, slots=True)
class Group:
    """Cells under one label. Without a label it is the only group of its row."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One reader, or the splits without one. `note`: how much it has."""

    name: str
    note: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """One page of the grid."""

    level: Level
    rows: tuple[Row, ...]
    legend: tuple[tuple[str, str], ...]
    """The class and the meaning of each shade."""
    splits: int
    """How many splits match, on all pages."""
    known: int
    """How many splits there are."""
    crumbs: tuple[tuple[str, PageQuery], ...]
    """The steps back to all splits."""
    page: int
    pages: int
    earlier: PageQuery | None
    later: PageQuery | None


Splits = Sequence[SplitView]


def make_grid(
    splits: Splits, params: PageQuery, readers: Mapping[int, int], moved: frozenset[SplitId] = frozenset()
) -> Grid:
    """The part of the grid that `params` ask for.

    `readers`: all readers -> their offsets in the last batch. `moved`: the splits that moved in it.
    """
    chosen = [one for one in splits if _wanted(one, params)]
    by_reader: dict[int, list[SplitView]] = {}
    if not (params.cluster or params.topic or params.find):
        by_reader.update({reader: [] for reader in readers if params.reader in (None, reader)})
    for one in chosen:
        by_reader.setdefault(-1 if one.owner is None else one.owner, []).append(one)
    # Splits without a reader come last.
    order = sorted(by_reader, key=lambda reader: (reader < 0, reader))
    have = {reader: len(by_reader[reader]) for reader in order}
    pages = max(1, -(-len(order) // ROWS_MAX))
    page = min(params.page, pages - 1)
    order = order[page * ROWS_MAX : (page + 1) * ROWS_MAX]
    shown: dict[int, Splits] = {reader: by_reader[reader] for reader in order}
    level = next((one for one in Level if _cost(shown, one) <= ELEMENTS_MAX), Level.READER)
    if len(have) == 1:
        ((reader, alone),) = shown.items()
        level, parts = _paged(alone)
        pages = len(parts)
        page = min(params.page, pages - 1)
        shown = {reader: parts[page]}
    scale = _scale(shown, level, params.shade)
    draw = _Draw(params, scale, readers, moved)
    return Grid(
        level,
        tuple(draw.row(reader, shown[reader], level, have[reader]) for reader in order),
        scale.legend(),
        len(chosen),
        len(splits),
        tuple(_crumbs(params)),
        page,
        pages,
        replace(params, page=page - 1) if page else None,
        replace(params, page=page + 1) if page + 1 < pages else None,
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """Shades by powers of ten below the largest value, whose power is `top`."""

    top: int
    unit: str

    @classmethod
    def of(cls, values: Iterable[int | float | None], unit: str) -> Scale:
        """The scale for these values."""
        most = max((value for value in values if value is not None), default=0)
        # Small values are light, even if there are no larger ones.
        return cls(max(STEPS - 1, _power(most)), unit)

    def shade(self, value: int | float | None) -> str:
        """The class of a value; `q0` for zero, `qx` for None, a value that is not known."""
        if value is None:
            return "qx"
        return f"q{min(STEPS, max(1, STEPS - self.top + _power(value)))}" if value > 0 else "q0"

    def legend(self) -> tuple[tuple[str, str], ...]:
        """The class and the meaning of each shade, lightest first."""
        above = [(f"q{step}", f"≥ {short(10 ** (self.top - STEPS + step))}") for step in range(2, STEPS + 1)]
        return (("q0", f"0 {self.unit}"), ("q1", "> 0"), *above, ("qx", UNKNOWN))


@dataclass(frozen=True, slots=True)
class _Draw:
    params: PageQuery
    scale: Scale
    readers: Mapping[int, int]
    moved: frozenset[SplitId]

    def row(self, reader: int, splits: Splits, level: Level, have: int) -> Row:
        """The row of a reader with `have` splits, of which `splits` are on this page."""
        name = "no reader" if reader < 0 else f"reader {reader}"
        note = counted(have, "partition")
        # Not the offsets of its splits: ranges can be lent to other readers.
        if reader in self.readers:
            note += f", read {counted(self.readers[reader], 'offset')}"
        groups: tuple[Group, ...]
        if level is Level.SPLIT:
            groups = tuple(
                Group(f"{cluster}/{topic}", tuple(map(self.split, found)))
                for (cluster, topic), found in _grouped(splits, Level.TOPIC).items()
            )
        else:
            cells = tuple(self.group(reader, key, found) for key, found in _grouped(splits, level).items())
            groups = (Group("", cells),) if cells else ()
        return Row(name, note, groups)

    def split(self, one: SplitView) -> Cell:
        value = _value(one, self.params.shade)
        mark = MARKS.get(one.stands)
        shade = self.scale.shade(value) if mark is None else f"mark {one.stands}"
        moved = one.id in self.moved
        lag = UNKNOWN if one.lag is None else counted(one.lag, "offset")
        parts = [
            f"{one.id}",
            "no reader" if one.owner is None else f"reader {one.owner}",
            str(one.stands) if mark else f"lag {lag}",
            f"{counted(one.offsets, 'offset')} in the last batch",
            *(["moved in the last batch"] if moved else []),
        ]
        if one.rate is not None:
            parts.insert(3, f"{exact(one.rate)} offsets per second")
        return Cell(
            cell_id("s", *one.id),
            str(one.id.partition),
            mark or short(value),
            ", ".join(parts),
            f"{shade} moved" if moved else shade,
            replace(self.params, split=one.id),
        )

    def group(self, reader: int, key: tuple[str, ...], splits: Splits) -> Cell:
        value = _sum(splits, self.params.shade)
        what = "/".join(key) or ("no reader" if reader < 0 else f"reader {reader}")
        unit = "offsets of lag" if self.params.shade is Shade.LAG else "offsets per second"
        ends_unknown = sum(_value(one, self.params.shade) is None for one in splits if one.stands not in MARKS)
        moved = sum(one.id in self.moved for one in splits)
        said = [
            what,
            "no reader" if reader < 0 else f"reader {reader}",
            counted(len(splits), "partition"),
            f"{unit}: {exact(value)}" + (f", {ends_unknown:,} unknown" if value is not None and ends_unknown else ""),
            *([f"{moved:,} moved in the last batch"] if moved else []),
        ]
        shade = self.scale.shade(value)
        return Cell(
            cell_id("g", str(reader), *key),
            what,
            f"{len(splits):,} · {short(value)}",
            ", ".join(said),
            f"wide {shade} moved" if moved else f"wide {shade}",
            self.params.zoomed(reader, *key)
            if key
            else self.params.zoomed(reader, self.params.cluster, self.params.topic),
        )


def cell_id(*parts: object) -> str:
    """An id for HTML. It holds no name: names can have quotes, blanks and newlines."""
    return "c" + blake2s(repr(parts).encode(errors="surrogatepass"), digest_size=9).hexdigest()


def _wanted(one: SplitView, params: PageQuery) -> bool:
    return (
        (params.reader is None or params.reader == (-1 if one.owner is None else one.owner))
        and (params.cluster is None or params.cluster == one.id.cluster)
        and (params.topic is None or params.topic == one.id.topic)
        and (not params.find or params.find.casefold() in str(one.id).casefold())
    )


def _value(one: SplitView, shade: Shade) -> int | float | None:
    return one.lag if shade is Shade.LAG else one.rate


def _sum(splits: Splits, shade: Shade) -> int | float | None:
    """The sum of the known values; None if some should be known and none is. Splits that are not read have no value."""
    values = [_value(one, shade) for one in splits if one.stands not in MARKS]
    known = [value for value in values if value is not None]
    return None if values and not known else sum(known)


def _grouped(splits: Splits, level: Level) -> Mapping[tuple[str, ...], list[SplitView]]:
    depth = {Level.SPLIT: 3, Level.TOPIC: 2, Level.CLUSTER: 1, Level.READER: 0}[level]
    groups: dict[tuple[str, ...], list[SplitView]] = {}
    for one in splits:
        groups.setdefault(one.id[:depth], []).append(one)  # type: ignore[arg-type]
    return groups


def _cost(by_reader: Mapping[int, Splits], level: Level) -> int:
    """How many elements the grid has with cells of this kind."""
    if level is Level.SPLIT:
        groups = sum(len({one.id[:2] for one in splits}) for splits in by_reader.values())
        return sum(map(len, by_reader.values())) + 2 * groups
    return sum(len(_grouped(splits, level)) for splits in by_reader.values())


def _paged(splits: Splits) -> tuple[Level, list[Splits]]:
    """The kind of the cells of the only row, and the splits on each of its pages.

    It is the smallest kind that fits on one page. If none does, it is the largest with at least two cells, on several
    pages, so that choosing a cell always narrows the view.
    """
    levels = [one for one in (Level.SPLIT, Level.TOPIC, Level.CLUSTER) if len(_grouped(splits, one)) > 1]
    for level in levels:
        if _cost({0: splits}, level) <= ELEMENTS_MAX:
            return level, [splits]
    if not levels:
        return Level.SPLIT, [splits]
    level = levels[-1]
    groups = list(_grouped(splits, level).values())
    size = ELEMENTS_MAX - 2 if level is Level.SPLIT else ELEMENTS_MAX
    pages = [groups[first : first + size] for first in range(0, len(groups), size)]
    return level, [[one for group in groups for one in group] for groups in pages]


def _scale(by_reader: Mapping[int, Splits], level: Level, shade: Shade) -> Scale:
    value: Callable[[Splits], int | float | None] = lambda found: _sum(found, shade)  # noqa: E731
    if level is Level.SPLIT:
        values: Iterator[int | float | None] = (_value(one, shade) for ones in by_reader.values() for one in ones)
    else:
        values = (value(found) for ones in by_reader.values() for found in _grouped(ones, level).values())
    return Scale.of(values, "offsets" if shade is Shade.LAG else "offsets/s")


def _power(value: int | float) -> int:
    """The power of ten in a value, 0 for all below 10."""
    return len(str(int(value))) - 1 if value >= 1 else 0


def _crumbs(params: PageQuery) -> Iterator[tuple[str, PageQuery]]:
    if params.reader is None and params.cluster is None and not params.find:
        return
    everything = replace(params, reader=None, cluster=None, topic=None, find="", page=0)
    yield "all readers", everything
    if params.reader is not None:
        yield "no reader" if params.reader < 0 else f"reader {params.reader}", everything.zoomed(params.reader)
    if params.cluster is not None:
        yield params.cluster, everything.zoomed(params.reader, params.cluster)
    if params.topic is not None:
        yield params.topic, everything.zoomed(params.reader, params.cluster, params.topic)
    if params.find:
        yield f"“{params.find}”", replace(params, page=0)
