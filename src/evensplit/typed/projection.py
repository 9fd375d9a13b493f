"""Columns and fields by name, and the part of a type that only has the fields that are wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from evensplit.typed.types import Array, DataType, Field, Map, Struct

Path = tuple[str, ...]
"""The name of a column, then those of fields, each inside the one before."""

_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

_TRIED_MAX = 20
"""How many fields are looked at for an example."""


def parse_names(text: str) -> list[Path]:
    """The names in `text`, such as `value.id, value.address.city, offset`, in their order.

    A name with other characters than letters, digits and `_` may stand in backquotes, in which two stand for one.
    Raises ValueError for backquotes that are not closed, and for what follows one.
    """
    paths: list[Path] = []
    parts: list[str] = []
    name, quoted, closed = "", False, False
    at = 0
    while at <= len(text):
        char = text[at] if at < len(text) else ","
        if quoted:
            if at == len(text):
                raise ValueError("a backquote is not closed")
            if char == "`" and text[at + 1 : at + 2] == "`":
                name, at = name + "`", at + 1
            elif char == "`":
                quoted, closed = False, True
            else:
                name += char
        elif char == "`" and not name.strip() and not closed:
            name, quoted = "", True
        elif char in ",.":
            parts.append(name if closed else name.strip())
            name, closed = "", False
            if char == ",":
                paths.append(tuple(parts))
                parts = []
        elif closed and not char.isspace():
            raise ValueError(f"{char!r} follows a backquote")
        elif not closed:
            name += char
        at += 1
    return paths


def find(fields: Sequence[Field], name: str) -> int | None:
    """The number of the field with this name: in this case, or else in any if there is only one."""
    for number, field in enumerate(fields):
        if field.name == name:
            return number
    found = [number for number, field in enumerate(fields) if field.name.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def prune(of: Struct, paths: Iterable[Path]) -> tuple[Struct, list[str]]:
    """The part of `of` with the fields at `paths` (without the column's name), in the order of the type.

    Also one sentence about each path that leads nowhere. Through arrays a path leads to the fields of their elements.
    """
    problems: list[str] = []
    pruned = _pruned(of, sorted(set(paths)), (), problems)
    assert isinstance(pruned, Struct)
    return pruned, problems


class Fields(NamedTuple):
    """What a schema gives, of which some fields may not be decoded."""

    whole: DataType
    """The type with all fields."""
    refused: Mapping[Path, str] = MappingProxyType({})
    """Fields that nothing is decoded to, whose type in `whole` is only a placeholder -> a sentence that says why. The
    empty path is the whole."""

    def decoded(self) -> DataType:
        """All of it that can be decoded. Raises ValueError, which says why, if nothing can be."""
        found = _without(self.whole, (), self.refused)
        if found is None:
            raise ValueError("; ".join(self.refused.values()))
        return found

    def at(self, paths: Iterable[Path]) -> DataType:
        """The part with the fields at `paths`, as by `prune`; all of it without any.

        Raises ValueError if one of them is not there, or nothing is decoded to it or to what is in it.
        """
        wanted = sorted(set(paths))
        pruned = self.whole
        problems: list[str] = []
        if isinstance(self.whole, Struct):
            pruned, problems = self.pruned(wanted)
        elif wanted:
            problems = [f"{_dotted(wanted[0])} is not there: the schema gives {self.whole}, which has no fields"]
        else:
            problems = [*self.refused.values()]
        if problems:
            raise ValueError("; ".join(problems))
        return pruned

    def pruned(self, paths: Iterable[Path]) -> tuple[Struct, list[str]]:
        """Of a struct, the same, and one sentence about each path that is wrong. With any, it is not to be used."""
        assert isinstance(self.whole, Struct)
        wanted = sorted(set(paths))
        problems = [why for path in wanted if (why := _refused_on(self.whole, path, self.refused)) is not None]
        if problems:
            return self.whole, problems
        pruned, problems = prune(self.whole, wanted)
        return pruned, [*problems, *(why for path, why in self.refused.items() if _has(pruned, path))]

    def example(self) -> str | None:
        """The path of a field that can be asked for alone, as `parse_names` reads it; None: there is none at hand."""
        if not isinstance(self.whole, Struct):
            return None
        for path in islice(_leaves(self.decoded(), ()), _TRIED_MAX):
            if not self.pruned([path])[1]:
                return ".".join(map(quoted, path))
        return None


def quoted(name: str) -> str:
    """A name as `parse_names` reads it: in backquotes if it is no plain word."""
    return name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _without(of: DataType, here: Path, refused: Mapping[Path, str]) -> DataType | None:
    """A type without the fields that are refused, and without structs that have no others; None: nothing is left."""
    if here in refused:
        return None
    if isinstance(of, Array):
        element = _without(of.element, here, refused)
        return None if element is None else Array(element)
    if isinstance(of, Map):
        value = _without(of.value, here, refused)
        return None if value is None else Map(of.key, value)
    if not isinstance(of, Struct) or not of.fields:
        return of
    kept = ((one.name, _without(one.type, (*here, one.name), refused)) for one in of.fields)
    fields = tuple(Field(name, inner) for name, inner in kept if inner is not None)
    return Struct(fields) if fields else None


def _leaves(of: DataType, here: Path) -> Iterator[Path]:
    """The paths of fields that have no fields themselves."""
    while isinstance(of, Array):
        of = of.element
    if not isinstance(of, Struct):
        yield here
    else:
        for one in of.fields:
            yield from _leaves(one.type, (*here, one.name))


def _refused_on(whole: Struct, path: Path, refused: Mapping[Path, str]) -> str | None:
    """Why a field on the way to `path` is not decoded; None: it may be."""
    here: Path = ()
    of: DataType = whole
    for name in path:
        while isinstance(of, Array):
            of = of.element
        number = find(of.fields, name) if isinstance(of, Struct) else None
        if number is None or not isinstance(of, Struct):
            return None
        here, of = (*here, of.fields[number].name), of.fields[number].type
        if here in refused:
            return refused[here]
    return None


def _has(of: DataType, path: Path) -> bool:
    """Whether a type has the field at `path`."""
    for name in path:
        while isinstance(of, (Array, Map)):
            of = of.element if isinstance(of, Array) else of.value
        inner = next((one.type for one in of.fields if one.name == name), None) if isinstance(of, Struct) else None
        if inner is None:
            return False
        of = inner
    return True


def _pruned(of: DataType, paths: Sequence[Path], here: Path, problems: list[str]) -> DataType:
    if not paths or () in paths:
        return of
    if isinstance(of, Array):
        return Array(_pruned(of.element, paths, here, problems))
    if not isinstance(of, Struct):
        hint = "name it whole: its keys are no fields" if isinstance(of, Map) else "it has no fields"
        problems.extend(
            f"{_dotted((*here, *path))} is not there: {_dotted(here)} is of type {of}; {hint}" for path in paths
        )
        return of
    wanted: dict[int, list[Path]] = {}
    for path in paths:
        number = find(of.fields, path[0])
        if number is None:
            names = ", ".join(field.name for field in of.fields)
            problems.append(f"{_dotted((*here, *path))} is not there; expected one of {names}")
        else:
            wanted.setdefault(number, []).append(path[1:])
    fields = [
        Field(field.name, _pruned(field.type, wanted[number], (*here, field.name), problems))
        for number, field in enumerate(of.fields)
        if number in wanted
    ]
    return Struct(tuple(fields)) if fields else of


def _dotted(path: Path) -> str:
    return ".".join(path)
