"""Columns and fields by name, and the part of a type that only has the fields that are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evensplit.typed.types import Array, DataType, Field, Map, Struct

Path = tuple[str, ...]
"""The name of a column, then those of fields, each inside the one before."""


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


def narrowed(whole: Struct, paths: Iterable[Path], refused: Mapping[Path, str]) -> Struct:
    """The part of `whole` with the fields at `paths`, as by `prune`; all of it without any.

    `refused`: fields whose type is only a placeholder -> why. Raises ValueError if one of them is wanted, or a field
    that is not there.
    """
    wanted = sorted(set(paths))
    problems = [reason for path in wanted if (reason := _refused_on(whole, path, refused)) is not None]
    if problems:
        raise ValueError("; ".join(problems))
    pruned, problems = prune(whole, wanted)
    problems += [reason for path, reason in refused.items() if _has(pruned, path)]
    if problems:
        raise ValueError("; ".join(problems))
    return pruned


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
