"""The options that say which columns rows have, and what keys and values are decoded to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from evensplit.core.state.reader_schema import ReaderSchema
from evensplit.kafka.columns import COLUMNS, KAFKA_COLUMNS, TABLE
from evensplit.spark.options.rows.condition import row_condition
from evensplit.spark.options.rows.sides import SchemaSource, Side, parse_sides
from evensplit.spark.options.spec.formats import ON_DECODE_ERROR
from evensplit.spark.options.spec.query import COLUMNS_OPTION, INCLUDE_CLUSTER, INCLUDE_HEADERS
from evensplit.spark.options.values import RawOptions, shown
from evensplit.typed.decoding import COLUMN, Decoding, RowFilter
from evensplit.typed.projection import Fields, Path, parse_names
from evensplit.typed.types import Struct

_SHOWN_MAX = 5
"""So many fields that are not decoded are named."""

_EXTRA = ((INCLUDE_HEADERS, "headers"), (INCLUDE_CLUSTER, "cluster"))


class RowColumns(NamedTuple):
    """What rows have."""

    columns: tuple[str, ...]
    """Some of `kafka.columns.TABLE`, in that order."""
    key: Decoding | None
    """How keys are decoded; None: they stay bytes."""
    value: Decoding | None
    """How values are decoded; None: they stay bytes."""
    where: RowFilter | None
    """Which rows are wanted; None: all."""


class ReaderSchemas(NamedTuple):
    """How keys and values are decoded, with all their fields."""

    key: ReaderSchema
    value: ReaderSchema
    known: bool
    """Whether they are known: not, where only a registry has one and was not asked."""


def row_columns(given: RawOptions, source: SchemaSource, *, several: bool) -> tuple[RowColumns, ReaderSchemas]:
    """The columns of rows, how keys and values become theirs, which rows are wanted, and by which schemas that is,
    however it was written.

    `source`: where schemas are, beside the options of keys and of values. `several`: there can be several clusters, so
    rows have the column `cluster` unless it is declined. Raises RegistryError.
    """
    sides = parse_sides(given, source)
    key_schema, value_schema = (side.schema for side in sides.values())
    schemas = ReaderSchemas(key_schema, value_schema, all(side.known for side in sides.values()))
    where = None
    if schemas.known:
        where = row_condition(given, sides)
    faults = [f"{name}_{what}" for name, side in sides.items() if side.can_fail for what in ("error", "raw")]
    if given.read(ON_DECODE_ERROR) != COLUMN:
        faults = []
    flags = {name: given.read(option) for option, name in _EXTRA}
    if COLUMNS_OPTION.name not in given:
        wanted = {*KAFKA_COLUMNS, *faults}
        wanted |= {"headers"} if flags["headers"] else set()
        wanted |= {"cluster"} if (several if flags["cluster"] is None else flags["cluster"]) else set()
        key, value = (_with_fields(given, name, side, ((),)) for name, side in sides.items())
        return RowColumns(_in_order(wanted), _ready(key), _ready(value), where), schemas
    fields = any(side.can_fail for side in sides.values())
    named = _named(given, (*COLUMNS, *faults), fields=fields)
    for option, name in _EXTRA:
        if named and flags[name] is not None and flags[name] != (name in named):
            flag, joint = ("true", "without") if flags[name] else ("false", "with")
            given.problems.append(
                f"{option.name} is {flag} and columns is {shown(given.value('columns'))}, {joint} {name}; expected "
                "columns alone"
            )
    key, value = (_with_fields(given, name, side, named.get(name, ())) for name, side in sides.items())
    return RowColumns(_in_order(named) or KAFKA_COLUMNS, _ready(key), _ready(value), where), schemas


def _named(given: RawOptions, known: Sequence[str], *, fields: bool) -> Mapping[str, Sequence[Path]]:
    """Column -> the paths of its fields that `columns` names, the empty path where it is named whole.

    A wrong value names none, and is one sentence about all that is wrong.
    """
    by_lower = {name.lower(): name for name in known}
    try:
        written = parse_names(str(given.value(COLUMNS_OPTION.name)))
    except ValueError as error:
        given.wrong(COLUMNS_OPTION, str(error), expected=_expected(known, fields=fields))
        return {}
    found = [(by_lower.get(path[0].lower(), path[0]), *path[1:]) for path in written]
    reasons: list[str] = []
    if unknown := [".".join(path) for path in found if path[0] not in known]:
        reasons.append(f"there is no {' and no '.join(map(shown, dict.fromkeys(unknown)))}")
    if repeated := [".".join(path) for path in dict.fromkeys(found) if path[0] in known and found.count(path) > 1]:
        reasons.append(f"{' and '.join(repeated)} {'are' if len(repeated) > 1 else 'is'} there more than once")
    plain = [path for path in found if len(path) > 1 and path[0] in known and path[0] not in ("key", "value")]
    if plain:
        reasons.append(f"{' and '.join('.'.join(path) for path in plain)}: only key and value have fields")
    if reasons:
        given.wrong(COLUMNS_OPTION, "; ".join(reasons), expected=_expected(known, fields=fields))
        return {}
    named: dict[str, list[Path]] = {}
    for path in found:
        named.setdefault(path[0], []).append(path[1:])
    return named


def _expected(known: Sequence[str], *, fields: bool) -> str:
    named = f"one or more of {', '.join(known)}, separated by commas"
    return f"{named}; or fields of key and value, as in value.id" if fields else named


def _with_fields(given: RawOptions, name: str, side: Side, paths: Sequence[Path]) -> Decoding | None:
    """How `side` is decoded, with only the fields at `paths`; the empty one is all of it."""
    whole, fields = side.decoding, side.fields
    inner = [path for path in paths if path]
    if not inner or not side.known:
        if paths and fields is not None and fields.refused:
            _refuse_whole(given, name, fields)
        return whole
    first = f"{name}.{'.'.join(inner[0])}"
    if whole is None or fields is None or not isinstance(whole.type, Struct):
        given.wrong(COLUMNS_OPTION, f"{first} is named, and {name}.format does not give {name} any fields")
        return whole
    if len(inner) < len(paths):
        given.wrong(COLUMNS_OPTION, f"{name} is named whole, and {first} beside it")
        return whole
    pruned, problems = fields.pruned(inner)
    if problems:
        given.wrong(COLUMNS_OPTION, "; ".join(f"{name}.{problem}" for problem in problems))
        return whole
    return replace(whole, type=pruned)


def _refuse_whole(given: RawOptions, name: str, fields: Fields) -> None:
    """Say that not all fields of keys or values can be decoded, and what may be done."""
    reasons = [f"{name}.{reason}" if path else reason for path, reason in islice(fields.refused.items(), _SHOWN_MAX)]
    more = len(fields.refused) - len(reasons)
    others = f"; {more} more are not decoded either" if more else ""
    example = fields.example()
    hint = (
        ""
        if example is None
        else f"{COLUMNS_OPTION.name} with the fields that are needed, such as {name}.{example}, or "
    )
    given.problems.append(
        f"{name} is wanted with all its fields, and {'; '.join(reasons)}{others}; expected {hint}another schema"
    )


def _ready(decoding: Decoding | None) -> Decoding | None:
    """It as tasks take it."""
    return None if decoding is None else decoding.narrowed(decoding.type)


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    wanted = set(names)
    return tuple(name for name in TABLE if name in wanted)
