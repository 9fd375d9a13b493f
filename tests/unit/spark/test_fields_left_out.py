"""Fields that nothing is decoded to are left out by `columns`, and passed over in what was written."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION
from google.protobuf.message_factory import GetMessageClass

from evensplit.errors import OptionError
from evensplit.registry.schemas import Schema
from evensplit.spark.options.parse import SourceOptions, parse_options
from evensplit.typed.decoding import Decodings
from tests.support.decoded import decoded, frame_of
from tests.support.from_json import cells

BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "nodes"}
NODE: dict[str, Any] = {
    "type": "record",
    "name": "tree.Node",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "next", "type": ["null", "tree.Node"], "default": None},
        {"name": "children", "type": {"type": "array", "items": "tree.Node"}},
        {"name": "by_name", "type": {"type": "map", "values": ["null", "string", "tree.Node"]}},
        {"name": "nothing", "type": "null"},
        {"name": "name", "type": "string"},
    ],
}
AVRO = {**BASE, "value.format": "avro", "value.schema": json.dumps(NODE)}
RING = "value.next is a tree.Node, which it is inside of; what is recursive is not decoded"


def node(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "next": None, "children": [], "by_name": {}, "nothing": None, "name": f"n{number}", **more}


def in_avro(value: Any, schema: Any = NODE) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def rows(parsed: SourceOptions, values: Sequence[bytes]) -> list[Any]:
    """The values as the kernel decodes them; of what it cannot, why."""
    decodings = Decodings(value=parsed.reading.value, null_faults=True, where=parsed.reading.where)
    found, _ = decoded(frame_of(values), ("value", "value_error"), decodings)
    errors = found.column("value_error").to_pylist()
    return [cell if error is None else error for cell, error in zip(cells(found.column("value")), errors, strict=True)]


def problems(options: Mapping[str, str]) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        parse_options(options)
    return tuple(caught.value.problems)


def deep(levels: int) -> dict[str, Any]:
    made = node(0)
    for number in range(1, levels):
        made = node(number, next=made)
    return made


def test_recursive_fields_of_avro_are_passed_over() -> None:
    values = [
        node(1),
        node(2, next=deep(40), children=[node(5), node(6, children=[node(7), node(8)], next=node(9))]),
        node(3, by_name={"a": node(1, by_name={"b": "text", "c": None}), "d": None}, children=[node(4)] * 100),
    ]
    parsed = parse_options({**AVRO, "columns": "value.name, value.id, offset"})
    assert rows(parsed, [in_avro(one) for one in values]) == [(1, "n1"), (2, "n2"), (3, "n3")]
    only = parse_options({**AVRO, "columns": "value.name", "where": "value.id >= 2 AND value.name <> 'n3'"})
    assert rows(only, [in_avro(one) for one in values]) == [("n2",)]
    for data in (in_avro(values[1])[:-1], in_avro(values[2])[:-40]):
        assert "found the end" in rows(parsed, [data])[0] or "expected" in rows(parsed, [data])[0]


def test_what_is_recursive_is_passed_over_to_a_bound() -> None:
    parsed = parse_options({**AVRO, "columns": "value.id"})
    assert rows(parsed, [in_avro(deep(100))]) == [(99,)]
    (said,) = rows(parsed, [b"\x02" + b"\x02\x02" * 1_000_000])
    assert "expected values in 256 levels at most, found more" in said
    # A record that can have no end, of no bytes at all.
    endless = {"type": "record", "name": "E", "fields": [{"name": "e", "type": "E"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "e", "type": endless}, {"name": "i", "type": "int"}]}
    parsed = parse_options({**AVRO, "value.schema": json.dumps(schema), "columns": "value.i"})
    assert "256 levels" in rows(parsed, [b"\x02"])[0]


@pytest.mark.parametrize("columns", [None, "value", "value, offset", "offset, value, key"])
def test_all_fields_are_refused_with_what_may_be_done(columns: str | None) -> None:
    (said,) = problems({**AVRO, **({} if columns is None else {"columns": columns})})
    assert said.startswith(f"value is wanted with all its fields, and {RING}; value.children is a")
    assert said.endswith("expected columns with the fields that are needed, such as value.id, or another schema")


@pytest.mark.parametrize(
    "options, said",
    [
        ({"columns": "value.next"}, RING),
        ({"columns": "value.id, value.NEXT.id"}, RING),
        ({"columns": "value.nothing"}, "value.nothing is always null"),
        ({"columns": "value.id", "where": "value.next IS NULL"}, f"where: {RING}"),
        ({"columns": "value.id", "where": "value.next.id > 1"}, f"where: {RING}"),
        ({"columns": "value.id, value.nowhere"}, "value.nowhere is not there"),
    ],
)
def test_a_field_that_is_not_decoded_cannot_be_asked_for(options: dict[str, str], said: str) -> None:
    assert said in "; ".join(problems({**AVRO, **options}))


def test_nothing_of_a_value_is_needed() -> None:
    """Its column is left out, or only said to be wrong."""
    assert parse_options({**AVRO, "columns": "key, offset"}).reading.columns == ("key", "offset")
    parse_options({**AVRO, "columns": "value_error, offset", "onDecodeError": "column"})


def test_other_columns_are_no_other_schema() -> None:
    """The state has all fields that can be decoded, whichever are asked for."""
    asked = ("value.id", "value.name, offset", "offset")
    (schema,) = {parse_options({**AVRO, "columns": columns}).settings.value_schema for columns in asked}
    named = '["by_name",["map",["string"],["struct",[["member0",["string"]]]]]]'
    assert schema.column == f'["struct",[["id",["long"]],{named},["name",["string"]]]]'


def test_fields_beside_it_in_records_arrays_and_maps() -> None:
    item = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}, {"name": "of", "type": "R"}]}
    fields = [
        {"name": "one", "type": ["null", item]},
        {"name": "many", "type": {"type": "array", "items": "I"}},
        {"name": "named", "type": {"type": "map", "values": "I"}},
    ]
    record = {"type": "record", "name": "R", "fields": [*fields]}
    options = {**AVRO, "value.schema": json.dumps(record)}
    empty: dict[str, Any] = {"one": None, "many": [], "named": {}}
    inner = {"x": 1, "of": {**empty, "many": [{"x": 5, "of": empty}]}}
    values = [in_avro({"one": inner, "many": [inner, {"x": 2, "of": empty}], "named": {"k": inner}}, record)]
    parsed = parse_options({**options, "columns": "value.many.x, value.one.x"})
    assert rows(parsed, values) == [((1,), ((1,), (2,)))]
    # In a map, a condition asks for a part of what is in it; `columns` has maps whole.
    asked = parse_options({**options, "columns": "value.one.x", "where": "value.named['k'].x = 1"})
    assert rows(asked, values) == [((1,),)]
    (said,) = problems({**options, "columns": "value.named"})
    assert "value.named.of is a R, which it is inside of" in said
    (said,) = problems(options)
    assert said.endswith("such as value.one.x, or another schema")


def test_a_schema_of_which_nothing_is_decoded() -> None:
    ring = {"type": "record", "name": "E", "fields": [{"name": "e", "type": ["null", "E"]}]}
    (said,) = problems({**AVRO, "value.schema": json.dumps(ring), "columns": "value.e"})
    assert "e is a E, which it is inside of" in said
    (said,) = problems({**AVRO, "value.schema": json.dumps({"type": "array", "items": NODE})})
    assert said.endswith("expected another schema")


def descriptors() -> FileDescriptorSet:
    """A message that is inside of itself, by itself, in a list, in a map and in a oneof, and has a Duration."""
    file = FileDescriptorProto(name="tree.proto", package="tree", syntax="proto3", dependency=[DURATION.name])
    message = file.message_type.add(name="Node")
    entry = message.nested_type.add(name="ByNameEntry")
    entry.options.map_entry = True
    kinds = FieldDescriptorProto
    for number, (name, kind, label, of) in enumerate(
        [
            ("id", kinds.TYPE_INT64, kinds.LABEL_OPTIONAL, ""),
            ("next", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".tree.Node"),
            ("children", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".tree.Node"),
            ("by_name", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".tree.Node.ByNameEntry"),
            ("took", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".google.protobuf.Duration"),
            ("name", kinds.TYPE_STRING, kinds.LABEL_OPTIONAL, ""),
        ],
        1,
    ):
        message.field.add(name=name, number=number, type=kind, label=label, type_name=of or None)
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    of_value = {"type": kinds.TYPE_MESSAGE, "label": kinds.LABEL_OPTIONAL, "type_name": ".tree.Node"}
    entry.field.add(name="value", number=2, **of_value)
    return FileDescriptorSet(file=[file])


def test_recursive_fields_of_protobuf_are_passed_over(tmp_path: Any) -> None:
    file = tmp_path / "tree.pb"
    file.write_bytes(descriptors().SerializeToString())
    options = {**BASE, "value.format": "protobuf", "value.schema": f"file:{file}"}
    pool = DescriptorPool()
    pool.AddSerializedFile(DURATION.serialized_pb)
    pool.AddSerializedFile(descriptors().file[0].SerializeToString())
    made: Any = GetMessageClass(pool.FindMessageTypeByName("tree.Node"))
    inner = made(id=2, name="in", next=made(id=3, children=[made(id=4), made(id=5)]))
    inner.took.seconds = 7
    value = made(id=1, name="out", next=inner, children=[inner, inner])
    value.by_name["k"].CopyFrom(inner)
    parsed = parse_options({**options, "columns": "value.name, value.id", "where": "value.id < 2"})
    assert rows(parsed, [value.SerializeToString(), inner.SerializeToString()]) == [(1, "out")]
    (said,) = problems(options)
    assert "value.took is a google.protobuf.Duration, which Spark makes an interval of" in said
    assert said.endswith("such as value.id, or another schema")
    (said,) = problems({**options, "columns": "value.id, value.by_name"})
    assert "value.by_name is a tree.Node, which it is inside of" in said
    kept = [parse_options({**options, "columns": one}).settings.value_schema for one in ("value.id", "value.name")]
    assert kept[0] == kept[1]
    assert kept[0].column == '["struct",[["id",["long"]],["name",["string"]]]]'


def test_by_the_schema_of_a_registry() -> None:
    schema = Schema(7, "AVRO", json.dumps(NODE))
    options = {**BASE, "schema.registry.url": "http://registry:8081", "value.format": "avro", "columns": "value.name"}
    parsed = parse_options(options, lambda *_: schema)
    value = parsed.reading.value
    assert value is not None
    assert (value.by_writer, str(value.type)) == (True, "struct<name:string>")
    writer = {**NODE, "fields": [*NODE["fields"], {"name": "more", "type": {"type": "array", "items": "tree.Node"}}]}
    assert value.reader is not None
    program = value.written(value.reader.as_writer(())._replace(text=json.dumps(writer)))  # type: ignore[union-attr]
    assert program[0] == "avro"
    with pytest.raises(OptionError, match=r"value is wanted with all its fields, and value\.next is"):
        parse_options({**options, "columns": "value"}, lambda *_: schema)
