"""Programs for the kernel: how to read what one schema has written as another (`native/kernel/src/avro/program.rs`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evensplit.typed.avro.defaults import written
from evensplit.typed.avro.reading import is_plain_union
from evensplit.typed.avro.resolution import Path, Resolution
from evensplit.typed.avro.schemas import NESTED, Schema, read_schema
from evensplit.typed.types import TIMESTAMP, TIMESTAMP_NTZ, Array, DataType, Map, Struct

Tree = tuple[Any, ...]
"""A step, such as `("int", 1)`, `("array", step)` or `("record", ((column, step), ...))`; a field that is passed over
has no column, and what `_Programs.skip` gives for a step."""

_STEPS_MAX = 100_000
"""The most steps of a program. Unions may read a type in several ways, and so again what is in it."""

_DEPTH_MAX = 200
"""How deep types that are passed over may be nested, records left out: the kernel takes some more."""

_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""Type -> how many bytes a value has."""


def program(
    writer: str,
    reader: str,
    wanted: DataType,
    *,
    writer_references: Sequence[str] = (),
    reader_references: Sequence[str] = (),
) -> Tree:
    """How what `writer` has written becomes rows of `wanted`, which has some of the fields that `read_type` gives for
    `reader`: a step, and how records are passed over.

    Raises ValueError where nothing that the writer writes can be read so: it says where, and why.
    """
    written_as, read_as = read_schema(writer, writer_references), read_schema(reader, reader_references)
    try:
        programs = _Programs(Resolution(read_as))
        why = programs.resolution.mismatch(written_as, read_as)
        if why is not None:
            raise ValueError(why)
        step = programs.step(written_as, read_as, wanted, ())
    except RecursionError:
        raise ValueError(f"the schema: {NESTED}") from None
    return step, tuple(programs.skips)


@dataclass(slots=True)
class _Programs:
    """Makes a program."""

    resolution: Resolution
    skips: list[Tree] = field(default_factory=list)
    """How records are passed over: the steps for their fields."""

    numbers: dict[int, int] = field(default_factory=dict)
    """Record -> its number in `skips`."""

    count: int = 0
    """How many steps there are."""

    def counted(self) -> None:
        """Count a step."""
        self.count += 1
        if self.count > _STEPS_MAX:
            raise ValueError(f"the schemas need more than {_STEPS_MAX:,} steps")

    def step(self, writer: Schema, reader: Schema, of: DataType, here: Path) -> Tree:
        """How what `writer` has written becomes a value of `of`, the reader's type or a part of it."""
        self.counted()
        if writer.kind == "union":
            return (
                "union",
                tuple(self.branch(writer, number, reader, of, here) for number in range(len(writer.inner))),
            )
        if reader.kind == "union":
            return self.chosen(writer, reader, of, here)
        if writer.kind in ("int", "long"):
            times = 1000 if of in (TIMESTAMP, TIMESTAMP_NTZ) and reader.logical.endswith("millis") else 1
            return (writer.kind, times)
        if writer.kind in ("string", "bytes"):
            return ("bytes",)
        if writer.kind == "fixed":
            return ("fixed", writer.size)
        if writer.kind == "enum":
            known = {symbol: symbol for symbol in reader.symbols}
            return ("enum", tuple((symbol, known.get(symbol, reader.default)) for symbol in writer.symbols))
        if writer.kind == "record" and isinstance(of, Struct):
            return self.record(writer, reader, of, here)
        if isinstance(of, Array):
            return ("array", self.step(writer.inner[0], reader.inner[0], of.element, here))
        if isinstance(of, Map):
            return ("map", self.step(writer.inner[0], reader.inner[0], of.value, here))
        return (writer.kind,)

    def branch(self, writer: Schema, number: int, reader: Schema, of: DataType, here: Path) -> Tree:
        """How a branch of a writer's union is read, or that it is not."""
        branch, read_as = writer.inner[number], self.resolution.branch_reader(writer, number, reader)
        why = self.resolution.mismatch(branch, read_as, here)
        if why is not None:
            return ("refused", why)
        if read_as is not reader:
            return self.in_union(branch, reader, number, of, here)
        return self.step(branch, reader, of, here)

    def chosen(self, writer: Schema, reader: Schema, of: DataType, here: Path) -> Tree:
        """How what is in no union is read as a union."""
        number = self.resolution.branch(writer, reader)
        if number is None:
            raise ValueError(self.resolution.differ(writer, reader, here))
        return self.in_union(writer, reader, number, of, here)

    def in_union(self, writer: Schema, reader: Schema, number: int, of: DataType, here: Path) -> Tree:
        """How this branch of a reader's union is read."""
        branch = reader.inner[number]
        if branch.kind == "null":
            return ("null",)
        if is_plain_union(reader):
            return self.step(writer, branch, of, here)
        assert isinstance(of, Struct)
        member = sum(one.kind != "null" for one in reader.inner[:number])
        for column, one in enumerate(of.fields):
            if one.name == f"member{member}":
                return ("member", column, self.step(writer, branch, one.type, (*here, one.name)))
        return ("member", None, self.skip(writer))

    def record(self, writer: Schema, reader: Schema, of: Struct, here: Path) -> Tree:
        """How a record becomes a struct."""
        columns = {one.name: (column, one.type) for column, one in enumerate(of.fields)}
        read_as = {one.name: one for one in reader.fields}
        lacking = columns.keys() - read_as.keys()
        if lacking:
            raise ValueError(f"{reader} has no field {', '.join(sorted(lacking))}")
        fields = self.resolution.fields(writer)
        steps: list[Tree] = []
        for name, one in fields.items():
            if name in columns:
                column, inner = columns[name]
                steps.append((column, self.step(one.schema, read_as[name].schema, inner, (*here, name))))
            else:
                steps.append((None, self.skip(one.schema)))
        for name, (column, inner) in columns.items():
            if name not in fields:
                steps.append((column, self.default(read_as[name].schema, read_as[name].default, inner, (*here, name))))
        return ("record", tuple(steps))

    def default(self, reader: Schema, value: Any, of: DataType, here: Path) -> Tree:
        """How a field is read that is not written."""
        try:
            as_written = written(reader, value)
        except ValueError as error:
            raise ValueError(f"{'.'.join(here)}: {error}") from None
        if value is None:
            return ("null",)
        return ("default", as_written, self.step(reader, reader, of, here))

    def skip(self, writer: Schema, depth: int = 1) -> Tree:
        """How to pass over a value."""
        self.counted()
        if depth > _DEPTH_MAX:
            raise ValueError(f"the writer's schema is nested in more than {_DEPTH_MAX} levels")
        if writer.kind in _FIXED:
            return ("fixed", _FIXED[writer.kind])
        if writer.kind == "fixed":
            return ("fixed", writer.size)
        if writer.kind in ("int", "long", "enum"):
            return ("long",) if writer.kind == "long" else ("int",)
        if writer.kind in ("string", "bytes"):
            return ("bytes",)
        if writer.kind == "record":
            return self.record_skip(writer)
        return (writer.kind, *(self.skip(one, depth + 1) for one in writer.inner))

    def record_skip(self, writer: Schema) -> Tree:
        number = self.numbers.get(id(writer))
        if number is None:
            number = self.numbers[id(writer)] = len(self.skips)
            self.skips.append(())
            self.skips[number] = tuple(self.skip(one.schema) for one in writer.fields)
        return ("record", number)
