"""Which fields of keys, values and headers a condition needs."""

from __future__ import annotations

from collections.abc import Iterable

from evensplit.typed.types import Array, DataType, Field, Struct
from evensplit.typed.where.node import Place


def pruned(of: Struct, places: Iterable[Place]) -> Struct:
    """The part of a column's type that has only the fields that lead to `places`.

    A place that is not `open` needs nothing inside: it is only asked whether it is null.
    """
    made = _pruned(of, [(place.fields, place.open) for place in places])
    assert isinstance(made, Struct)
    return made


def _pruned(of: DataType, wanted: list[tuple[tuple[str, ...], bool]]) -> DataType:
    if any(not fields and whole for fields, whole in wanted):
        return of
    if isinstance(of, Array):
        return Array(_pruned(of.element, wanted))
    if not isinstance(of, Struct):
        return of
    inner: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for fields, whole in wanted:
        if fields:
            inner.setdefault(fields[0], []).append((fields[1:], whole))
    return Struct(tuple(Field(one.name, _pruned(one.type, inner[one.name])) for one in of.fields if one.name in inner))
