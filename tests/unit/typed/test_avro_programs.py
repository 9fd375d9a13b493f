"""Avro decoded by programs for a writer's schema and a reader's, beside fastavro."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import pytest

from evensplit.typed.avro import resolution
from evensplit.typed.avro.programs import program
from evensplit.typed.avro.reading import read_type
from evensplit.typed.decoding import AVRO_FORMAT, Decoding, Decodings
from evensplit.typed.projection import Path
from evensplit.typed.types import INT, STRING, Array, DataType, Field, Struct
from tests.support.avro_differences import FROM_FASTAVRO
from tests.support.avro_schemas import Schemas, text, without_logic
from tests.support.decoded import decoded, frame_of
from tests.support.from_avro import fastavro_answers, kernel_answers, part_of, written
from tests.support.from_json import Answer, Comparison

SCHEMAS, VALUES = 400, 6


def generated(seed: int) -> tuple[Any, Any, list[bytes]]:
    """A writer's schema, a reader's, and what the writer writes."""
    schemas = Schemas(Random(seed))
    writer = schemas.record()
    reader = writer if seed % 5 == 0 else schemas.evolve(writer)
    return writer, reader, [written(writer, schemas.value(writer)) for _ in range(VALUES)]


def answers(writer: Any, reader: Any, values: list[bytes]) -> list[Answer]:
    """The kernel's answers; none if nothing that the writer writes can be read."""
    try:
        return kernel_answers(text(writer), text(reader), values)
    except ValueError:
        return []


def test_values_become_what_fastavro_makes_of_them() -> None:
    comparison = Comparison(FROM_FASTAVRO)
    refused = failed = 0
    for seed in range(SCHEMAS):
        writer, reader, values = generated(seed)
        try:
            theirs = fastavro_answers(writer, reader, values)
        except TypeError:
            # It loses named types that are first used in a field with a default.
            failed += 1
            continue
        ours = answers(writer, reader, values)
        if ours:
            comparison.add(f"{text(writer)}\n{text(reader)}", values, theirs, ours)
        else:
            # Only lists without an item can be read so.
            assert all(answer.bad or "()" in repr(answer.value) for answer in theirs), seed
            refused += 1
    comparison.check()
    assert comparison.same > (VALUES - 1) * SCHEMAS
    assert comparison.bad > SCHEMAS // 10
    assert max(refused, failed) < SCHEMAS // 20


def paths_in(chance: Random, of: DataType, here: Path = ()) -> list[Path]:
    """Some of the fields of a type."""
    while isinstance(of, Array):
        of = of.element
    if not isinstance(of, Struct) or (here and chance.random() < 0.3):
        return [here]
    inner = [(field, paths_in(chance, field.type, (*here, field.name))) for field in of.fields]
    chosen = [paths for _, paths in inner if chance.random() < 0.5]
    return [path for paths in chosen or [inner[0][1]] for path in paths]


def test_fields_that_are_not_wanted_change_nothing() -> None:
    compared = 0
    for seed in range(0, SCHEMAS, 2):
        writer, reader, values = generated(seed)
        whole = read_type(text(reader))
        found = answers(writer, reader, values)
        paths = paths_in(Random(seed), whole)
        if not found or not isinstance(whole, Struct):
            continue
        part = read_type(text(reader), (), paths)
        for all_of_it, some in zip(found, kernel_answers(text(writer), text(reader), values, paths), strict=True):
            # What is passed over may have no value of its type.
            if not all_of_it.bad:
                assert some == Answer(False, part_of(all_of_it.value, whole, part)), seed
                compared += 1
    assert compared > SCHEMAS


def one(writer: Any, reader: Any, value: Any, **more: Any) -> Any:
    """What becomes of a field with this value."""
    fields = [fastavro.parse_schema(json.loads(record(of))) for of in (without_logic(writer),)]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fields[0], {"f": value})
    [answer] = kernel_answers(record(writer), record(reader, **more), [out.getvalue()])
    if answer.bad:
        return f"bad: {answer.value}"
    assert isinstance(answer.value, tuple)
    return answer.value if more else answer.value[0]


def record(of: Any, **more: Any) -> str:
    """A record with the field f, and others with their types and defaults."""
    fields = [{"name": name, "type": kind, "default": default} for name, (kind, default) in more.items()]
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": of}, *fields]})


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "int", "default": 7}, {"name": "y", "type": ["null", "string"], "default": None}],
}


def test_defaults_of_every_type() -> None:
    defaults = {
        "a": ("null", None),
        "b": ("boolean", True),
        "c": ("int", -5),
        "d": ("long", 1 << 40),
        "e": ("float", 1.5),
        "g": ("double", 2),
        "h": ("string", "K\u00f6ln"),
        "i": ("bytes", "\u00ff\u0001"),
        "j": (FIXED, "\u00ffz"),
        "k": (ENUM, "B"),
        "l": ({"type": "array", "items": "int"}, [1, 2]),
        "m": ({"type": "map", "values": ["null", "int"]}, {"k": None}),
        "n": (INNER, {"y": None}),
        "o": (["string", "null"], "x"),
        "p": (["null", "string"], "second"),
        "q": (["int", "string"], "member"),
        "r": ({"type": "long", "logicalType": "timestamp-millis"}, 3),
    }
    del defaults["a"]
    found = one("int", "int", 1, **defaults)
    assert found == (
        1,
        True,
        -5,
        1 << 40,
        "1.5",
        "2.0",
        "K\u00f6ln",
        b"\xff\x01",
        b"\xffz",
        "B",
        (1, 2),
        (("k", None),),
        (7, None),
        "x",
        "second",
        (None, "member"),
        3000,
    )


@pytest.mark.parametrize(
    "kind, default",
    [
        ("int", 1 << 31),
        ("int", 1.5),
        ("int", True),
        ("string", 1),
        ("boolean", 0),
        (ENUM, "C"),
        (["null", "int"], "text"),
        ({"type": "array", "items": "int"}, ["x"]),
        ({"type": "record", "name": "J", "fields": [{"name": "x", "type": "int"}]}, {}),
    ],
)
def test_a_default_that_is_none(kind: Any, default: Any) -> None:
    with pytest.raises(ValueError, match=r"d: the default|Default value <"):
        one("int", "int", 1, d=(kind, default))


def test_only_what_comes_has_to_be_known() -> None:
    assert one(["int", "string"], "int", 5) == 5
    assert one(["int", "string"], "int", "x").startswith("bad: f: f is written as string, expected int")
    assert one(ENUM, {**ENUM, "symbols": ["B"]}, "B") == "B"
    assert (
        one(ENUM, {**ENUM, "symbols": ["B"]}, "A") == 'bad: f: byte 1: expected a symbol that the reader has, found "A"'
    )
    assert one(ENUM, {**ENUM, "symbols": ["B"], "default": "B"}, "A") == "B"


@pytest.mark.parametrize(
    "writer, reader, why",
    [
        ("string", "int", "f is written as string, expected int"),
        ("long", "int", "f is written as long, expected int"),
        (["null", "string"], "int", "f is written as null, expected int"),
        ("string", ["null", "int"], "f is written as string, expected a union of null, int"),
        (ENUM, {**ENUM, "name": "Other"}, "f is written as enum E, expected enum Other"),
        (FIXED, {**FIXED, "size": 3}, "f is written as fixed F of 2 bytes, expected 3"),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"}, "f is written as string"),
        (
            {**INNER, "fields": []},
            {**INNER, "fields": [{"name": "x", "type": "int"}]},
            r"f\.x is not in the writer's record I, and has no default",
        ),
        (
            {**INNER, "fields": [{"name": "x", "type": "int"}, {"name": "old", "type": "int"}]},
            {**INNER, "fields": [{"name": "x", "type": "int", "aliases": ["old"]}]},
            "f: the writer's fields x and old are both the reader's x",
        ),
    ],
)
def test_what_can_never_be_read(writer: Any, reader: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        program(record(writer), record(reader), read_type(record(reader)))


def test_a_type_that_is_not_the_readers() -> None:
    with pytest.raises(ValueError, match="record R has no field g"):
        program(record("int"), record("int"), Struct((Field("g", INT),)))
    wrong = Struct((Field("f", STRING),))
    decodings = Decodings(value=Decoding(AVRO_FORMAT, wrong, program=program(record("int"), record("int"), wrong)))
    with pytest.raises(ValueError, match="f: what is decoded into string is not of its type"):
        decoded(frame_of([b"\x02"]), ("value",), decodings)


def nested(levels: int) -> Any:
    """Steps in steps."""
    step: Any = ("int", 1)
    for _ in range(levels):
        step = ("default", b"", step)
    return step


@pytest.mark.parametrize(
    "step, skips, why",
    [
        (("what",), (), 'there is no step "what"'),
        (("record", ((None, ("what",)),)), (), 'there is no step "what" that passes over a value'),
        (("bytes",), (), "what is decoded into int is not of its type"),
        (nested(300), (), "steps are nested in more than 256 levels"),
        (("int", 1), ((("record", 1),),), "record 1 is passed over, but 1 are known"),
    ],
)
def test_a_program_that_is_none(step: Any, skips: Any, why: str) -> None:
    decodings = Decodings(value=Decoding(AVRO_FORMAT, INT, program=(step, skips)))
    with pytest.raises(ValueError, match=why):
        decoded(frame_of([b"\x02"]), ("value",), decodings)


def test_a_list_that_is_passed_over() -> None:
    ring = {"type": "record", "name": "Ring", "fields": [{"name": "next", "type": ["null", "Ring"]}]}
    writer = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": ring}, {"name": "f", "type": "int"}]}
    )
    found = kernel_answers(writer, record("int"), [b"\x02" * 60 + b"\x00\x0e", b"\x02" * 300 + b"\x00\x0e"])
    assert found == [Answer(False, (7,)), Answer(True, "byte 256: expected values in 256 levels at most, found more")]


def test_schemas_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each field is a union of a record that has all of them.
    fields = [{"name": f"f{at}", "type": ["null", "R"]} for at in range(2000)]
    of = {"type": "record", "name": "Q", "fields": [{"name": "x", "type": "int"}, *fields]}
    more = {**of, "fields": [*of["fields"], {"name": "y", "type": "int", "default": 0}]}
    for reader in (of, more):
        wanted = read_type(record(reader), (), [("f", "x")])
        step, skips = program(record(of), record(reader), wanted)
        assert len(step[1][0][1][1]) == 2001
        assert len(skips) == 2
    monkeypatch.setattr(resolution, "_COMPARED_MAX", 1000)
    with pytest.raises(ValueError, match="more than 1,000 comparisons"):
        program(record(of), record(of), wanted)


def test_types_that_are_nested_too_deeply() -> None:
    deep = json.loads('{"type":"array","items":' * 220 + '"int"' + "}" * 220)
    writer = json.dumps({"type": "record", "name": "R", "fields": [{"name": "deep", "type": deep}]})
    with pytest.raises(ValueError, match=r"nested (in more than 200 levels|too deeply)"):
        program(writer, json.dumps({"type": "record", "name": "R", "fields": []}), Struct(()))


def test_what_is_no_record() -> None:
    assert kernel_answers('"int"', '"long"', [b"\x03"]) == [Answer(False, -2)]
    assert kernel_answers('["null","int"]', '["int","null"]', [b"\x02\x03", b"\x00"]) == [
        Answer(False, -2),
        Answer(False, None),
    ]


def test_schemas_with_references() -> None:
    enum = json.dumps(ENUM)
    of = read_type(record("E"), (enum,))
    made = program(record("E"), record("E"), of, writer_references=[enum], reader_references=[enum])
    assert made == (("record", ((0, ("enum", (("A", "A"), ("B", "B")))),)), ())
