"""Avro is decoded as Spark's `from_avro` decodes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evensplit.typed.avro.reading import read_type
from tests.support.avro_differences import DIFFERENCES
from tests.support.avro_schemas import Schemas, kind_of, text
from tests.support.from_avro import Question, kernel_answers, load_avro, ordered, spark_answers, written
from tests.support.from_json import Answer, Comparison

pytestmark = pytest.mark.spark

SCHEMAS, VALUES = 100, 8
BATCH = 25
"""Schemas that one job of Spark takes: a plan of many more takes longer than its job."""

SEED = 21


def damaged(chance: Random, value: bytes) -> bytes:
    """A value with other bytes."""
    made = bytearray(value)
    for _ in range(chance.randint(1, 3)):
        made[chance.randrange(len(made))] = chance.choice([0, 1, 2, 128, 255, chance.randrange(256)])
    return bytes(made)


def generated(seed: int) -> Question:
    """A writer's schema, a reader's that was made of it, and values: good ones, damaged ones, beginnings of them."""
    chance = Random(seed)
    schemas = Schemas(chance, plain_defaults=False)
    writer = schemas.record()
    reader = writer if seed % 5 == 0 else schemas.evolve(writer)
    if kind_of(reader) == "union":
        reader = next(branch for branch in reader if branch != "null")
    values = [written(writer, schemas.value(writer)) for _ in range(VALUES)]
    wrong = [damaged(chance, value) for value in values if value]
    short = [value[: chance.randrange(len(value) + 1)] for value in values]
    return text(writer), text(reader), values + wrong + short


def record(*types: Any, name: str = "R", **defaults: Any) -> str:
    """A record with the fields f0, f1, ...; and some of other names with defaults, null for none."""
    fields = [{"name": f"f{number}", "type": of} for number, of in enumerate(types)]
    fields += [{"name": of, "type": ["null", "int"], "default": default} for of, default in defaults.items()]
    return json.dumps({"type": "record", "name": name, "fields": fields})


def same(of: Any, *values: bytes) -> Question:
    """Values of a field, read as they were written."""
    return record(of), record(of), values


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A named type."""
    return {"type": kind, "name": name, **more}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}
LONG_DECIMAL = {**DECIMAL, "precision": 38}
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
X = [{"name": "x", "type": "int"}]
LAST = b"\xff" * 9 + b"\x01"

FACTS: list[Question] = [
    same("int", b"\x01", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x01", b"\x80"),
    same("long", LAST, b"\xff" * 9 + b"\x7f", b"\xff" * 10, b"\x80" * 5 + b"\x01"),
    same("boolean", b"\x00", b"\x01", b"\x02"),
    same("string", b"\x06a\xed\xa0", b"\x04\xc0\xaf", b"\x00", b"\x01", b"\x08abc", LAST),
    same("bytes", b"\x02a trailing", b"\x01", LAST),
    same({"type": "array", "items": named("fixed", "F", size=0)}, b"\x06\x00", b"\x05\x00\x00", b"\x00"),
    same({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x02\x06\x00", b"\x03\x7f\x02\x04\x00", b"\x04\x02\x00"),
    same({"type": "map", "values": "int"}, b"\x04\x02a\x02\x02a\x04\x00", b"\x01\x00\x02b\x02\x02\x02b\x04\x00"),
    same(DECIMAL, b"\x00", b"\x02\xff", b"\x04\x27\x0f", b"\x04\x27\x10", b"\x06\xff\xd8\xf0", b"\x12\x01" + bytes(8)),
    same(LONG_DECIMAL, b"\x00", b"\x20\x7f" + b"\xff" * 15, b"\x24" + b"\xff" * 18, b"\x22\x00\x80" + bytes(15)),
    same(named("fixed", "F", size=2, logicalType="decimal", precision=4), b"\x27\x0f", b"\x7f\xff", b"\x00"),
    same(MILLIS, b"\x02", LAST, b"\x80\x80\x80\x80\x80\x80\x80\x80\x40"),
    same({"type": "int", "logicalType": "date"}, b"\x01", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"),
    same({"type": "int", "logicalType": "timestamp-millis"}, b"\x02"),
    same(named("enum", "E", symbols=["A", "B"]), b"\x00", b"\x02", b"\x04", b"\x01"),
    same(["null", "int", "long"], b"\x00", b"\x02\x02", b"\x04" + LAST, b"\x06"),
    same(["int", "string", "null"], b"\x00\x02", b"\x02\x02a", b"\x04"),
    (record("int"), record(MILLIS), [b"\x02"]),
    (record("int"), record("float"), [b"\xff\xff\xff\xff\x0f"]),
    (record("long"), record("float"), [LAST, b"\x82\x80\x80\x80\x80\x80\x80\x10"]),
    (record("long"), record("double"), [LAST]),
    (record("int"), record(["null", "double", "long", "string"]), [b"\x02"]),
    (record("bytes"), record(["null", "string"]), [b"\x02a"]),
    (record("string"), record(LONG_DECIMAL), [b"\x02a"]),
    (record(["int", "string"]), record("long"), [b"\x00\x02", b"\x02\x02a"]),
    (record(["null", "int"]), record("int"), [b"\x00", b"\x02\x02"]),
    (record(named("enum", "a.E", symbols=["A", "B"])), record(named("enum", "b.E", symbols=["B"])), [b"\x00", b"\x02"]),
    (
        record(named("enum", "a.E", symbols=["A", "B"])),
        record(["null", named("enum", "b.E", symbols=["A", "B"])]),
        [b"\x00"],
    ),
    (
        record(["null", named("enum", "a.E", symbols=["A", "B"])]),
        record(["null", named("enum", "b.E", symbols=["A", "B"])]),
        [b"\x00", b"\x02\x02"],
    ),
    (
        record(named("record", "a.Q", fields=X)),
        record([named("record", "a.P", fields=X), named("record", "b.Q", fields=X)]),
        [b"\x02"],
    ),
    (record("int", name="Other"), record("int", new=None), [b"\x02"]),
    (
        record("int", "string"),
        json.dumps(named("record", "New", aliases=["R"], fields=[{"name": "g", "aliases": ["f1"], "type": "string"}])),
        [b"\x02\x02a"],
    ),
    (record("string", "int"), json.dumps(named("record", "R", fields=[{"name": "f1", "type": "int"}])), [b"\x01\x02"]),
    (
        record("int"),
        json.dumps(
            named(
                "record",
                "R",
                fields=[{"name": "g", "type": [{"type": "array", "items": "int"}, "string"], "default": []}],
            )
        ),
        [b"\x02"],
    ),
]


def answers(writer: str, reader: str, values: Sequence[bytes]) -> list[Answer]:
    """The kernel's answers; none if nothing that the writer writes can be read."""
    try:
        return kernel_answers(writer, reader, values)
    except ValueError:
        return []


def test_values_become_what_spark_makes_of_them(spark: SparkSession) -> None:
    load_avro(spark)
    comparison = Comparison(DIFFERENCES)
    questions = FACTS + [generated(SEED * 1000 + number) for number in range(SCHEMAS)]
    refused = 0
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        for (writer, reader, values), (spark_type, theirs) in zip(batch, spark_answers(spark, batch), strict=True):
            of = read_type(reader)
            assert str(of) == spark_type
            ours = answers(writer, reader, values)
            if not ours:
                # Only lists without an item can be read so.
                assert all(answer.bad or "()" in repr(answer.value) for answer in theirs), (writer, reader)
                refused += 1
                continue
            theirs, ours = (
                [one if one.bad else Answer(False, ordered(of, one.value)) for one in said] for said in (theirs, ours)
            )
            comparison.add(f"{writer}\n{reader}", values, theirs, ours)
    comparison.check()
    assert comparison.same > 12 * SCHEMAS
    assert comparison.bad > 4 * SCHEMAS
    assert refused < SCHEMAS // 10
