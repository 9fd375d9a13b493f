"""How what one schema has written is read by another: the rules of Avro, as its library for Java follows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from evensplit.typed.avro.schemas import FieldOf, Schema

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""Type -> those that it may be read as."""

_COMPARED_MAX = 1_000_000
"""Two schemas whose types need more comparisons are refused: that many take a second."""

_NAMED = ("record", "enum", "fixed")

Path = tuple[str, ...]


@dataclass(slots=True)
class Resolution:
    """How a reader's types match those of a writer."""

    reader: Schema
    names: dict[str, str] = field(default_factory=dict)
    """Another name of one of the reader's types -> its name."""

    field_names: dict[tuple[str, str], str] = field(default_factory=dict)
    """Name of a record, another name of a field -> the field's name."""

    matching: dict[tuple[int, int], str | None] = field(default_factory=dict)
    """Records that were compared -> why they do not match."""

    same: dict[tuple[int, int], bool] = field(default_factory=dict)
    """Records that were compared -> whether they are the same."""

    compared: int = 0
    """How often types were compared."""

    def __post_init__(self) -> None:
        known: set[int] = set()
        left = [self.reader]
        while left:
            schema = left.pop()
            if id(schema) in known:
                continue
            known.add(id(schema))
            self.names.update((alias, schema.name) for alias in schema.aliases)
            for one in schema.fields:
                self.field_names.update(((schema.name, alias), one.name) for alias in one.aliases)
                left.append(one.schema)
            left.extend(schema.inner)

    def counted(self) -> None:
        """Count a comparison."""
        self.compared += 1
        if self.compared > _COMPARED_MAX:
            raise ValueError(f"the schemas need more than {_COMPARED_MAX:,} comparisons of types")

    def name(self, writer: Schema) -> str:
        """The full name of a writer's type, as the reader calls it."""
        return self.names.get(writer.name, writer.name)

    def short_name(self, writer: Schema) -> str:
        """The same without its namespace."""
        return self.name(writer).rpartition(".")[2]

    def fields(self, writer: Schema) -> dict[str, FieldOf]:
        """The fields of a writer's record by the names that the reader has for them.

        Raises ValueError if it has one name for two of them.
        """
        record = self.name(writer)
        found: dict[str, FieldOf] = {}
        for one in writer.fields:
            name = self.field_names.get((record, one.name), one.name)
            if name in found:
                raise ValueError(f"the writer's fields {found[name].name} and {one.name} are both the reader's {name}")
            found[name] = one
        return found

    def mismatch(self, writer: Schema, reader: Schema, here: Path = ()) -> str | None:
        """Why nothing that `writer` has written can be read as a `reader`; None: it can, or some of it can.

        `here`: the fields on the way to it.
        """
        self.counted()
        if writer.kind == "union":
            found = [
                self.mismatch(one, self.branch_reader(writer, number, reader), here)
                for number, one in enumerate(writer.inner)
            ]
            # Nothing is known of values that an empty union has written, for there are none.
            return next((why for why in found if why is not None), None) if None not in found else None
        if writer.kind != reader.kind:
            if reader.kind == "union":
                at = self.branch(writer, reader)
                if at is None:
                    return self.differ(writer, reader, here)
                return self.mismatch(writer, reader.inner[at], here)
            return None if reader.kind in _PROMOTED.get(writer.kind, ()) else self.differ(writer, reader, here)
        if writer.kind in ("array", "map"):
            return self.mismatch(writer.inner[0], reader.inner[0], here)
        if writer.kind == "record":
            return self.record_mismatch(writer, reader, here)
        if writer.kind in _NAMED and self.short_name(writer) != reader.short_name:
            return self.differ(writer, reader, here)
        if writer.size != reader.size:
            sizes = f"is written as {writer} of {writer.size} bytes, expected {reader.size}"
            return f"{_dotted(here)} {sizes}"
        return None

    def record_mismatch(self, writer: Schema, reader: Schema, here: Path) -> str | None:
        """Why no record of `writer` is one of `reader`."""
        pair = (id(writer), id(reader))
        if pair in self.matching:
            return self.matching[pair]
        # For records that are inside of themselves.
        self.matching[pair] = None
        try:
            fields = self.fields(writer)
        except ValueError as error:
            self.matching[pair] = f"{_dotted(here)}: {error}"
            return self.matching[pair]
        why = None
        for one in reader.fields:
            found = fields.get(one.name)
            if found is not None:
                why = self.mismatch(found.schema, one.schema, (*here, one.name))
            elif not one.has_default:
                why = f"{_dotted((*here, one.name))} is not in the writer's {writer}, and has no default"
            if why is not None:
                break
        self.matching[pair] = why
        return why

    def branch(self, writer: Schema, reader: Schema) -> int | None:
        """Which of the branches of a reader's union is that for a type, which is no union; None: none is."""
        alike = None
        for number, one in enumerate(reader.inner):
            if one.kind != writer.kind:
                continue
            if writer.kind not in _NAMED or self.name(writer) == one.name:
                return number
            better = alike is None or self.short_name(writer) == one.short_name
            if better and writer.kind == "record" and self.record_mismatch(writer, one, ()) is None:
                alike = number
        if alike is not None:
            return alike
        promoted = _PROMOTED.get(writer.kind, ())
        return next((number for number, one in enumerate(reader.inner) if one.kind in promoted), None)

    def branch_reader(self, writer: Schema, number: int, reader: Schema) -> Schema:
        """What a branch of a writer's union is read as: of the same union, the same branch."""
        assumed: set[tuple[int, int]] = set()
        if not self.is_same(writer, reader, assumed):
            return reader
        self.same.update(dict.fromkeys(assumed, True))
        return reader.inner[number]

    def is_same(self, writer: Schema, reader: Schema, assumed: set[tuple[int, int]]) -> bool:
        """Whether two types are the same, but for namespaces and what is no part of the types."""
        self.counted()
        if writer.kind != reader.kind or len(writer.inner) != len(reader.inner):
            return False
        if writer.kind in _NAMED and self.short_name(writer) != reader.short_name:
            return False
        if writer.kind != "record":
            alike = (writer.size, writer.symbols) == (reader.size, reader.symbols)
            pairs = zip(writer.inner, reader.inner, strict=True)
            return alike and all(self.is_same(*pair, assumed) for pair in pairs)
        pair = (id(writer), id(reader))
        if pair in assumed or pair in self.same:
            return self.same.get(pair, True)
        assumed.add(pair)
        same = self.is_same_record(writer, reader, assumed)
        if not same:
            self.same[pair] = False
        return same

    def is_same_record(self, writer: Schema, reader: Schema, assumed: set[tuple[int, int]]) -> bool:
        """The same for records: those that are `assumed` to be the same are only so if all are."""
        try:
            fields = self.fields(writer)
        except ValueError:
            return False
        return list(fields) == [one.name for one in reader.fields] and all(
            self.is_same(fields[one.name].schema, one.schema, assumed) for one in reader.fields
        )

    def differ(self, writer: Schema, reader: Schema, here: Path) -> str:
        """That two types do not match."""
        return f"{_dotted(here)} is written as {_shown(writer)}, expected {_shown(reader)}"


def _shown(schema: Schema) -> str:
    return f"a union of {', '.join(map(str, schema.inner))}" if schema.kind == "union" else str(schema)


def _dotted(path: Path) -> str:
    return ".".join(path) or "the whole"
