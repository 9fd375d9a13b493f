"""What Spark's `from_avro` and what fastavro say of values, and what the kernel says."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from evensplit.testing.process.spark_kafka_jars import avro_jar
from evensplit.typed.avro.programs import program
from evensplit.typed.avro.reading import is_plain_union, read_type
from evensplit.typed.avro.schemas import Schema, read_schema
from evensplit.typed.decoding import AVRO_FORMAT, Decoding, Decodings
from evensplit.typed.projection import Path
from evensplit.typed.types import Array, DataType, Map, Struct
from tests.support.avro_schemas import text, without_logic
from tests.support.decoded import decoded, frame_of
from tests.support.from_json import Answer, cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Question = tuple[str, str, Sequence[bytes]]
"""A writer's schema, a reader's, both records, and what the writer has written."""

_READ = "__read"
"""The field that tells a value that is bad from one whose fields are null."""

_PYTHON = {"boolean": bool, "string": str, "bytes": bytes, "array": list, "map": dict}


def decoding(writer: str, reader: str, paths: Sequence[Path] = ()) -> Decoding:
    """How what `writer` has written is decoded."""
    of = read_type(reader, (), paths)
    return Decoding(AVRO_FORMAT, of, program=program(writer, reader, of))


def kernel_answers(writer: str, reader: str, values: Sequence[bytes], paths: Sequence[Path] = ()) -> list[Answer]:
    """The kernel's answer to each value. Of what is bad, the value says why."""
    decodings = Decodings(value=decoding(writer, reader, paths), null_faults=True)
    rows, _ = decoded(frame_of(values), ("value", "value_error"), decodings)
    found = zip(rows.column("value_error").to_pylist(), cells(rows.column("value")), strict=True)
    return [Answer(error is not None, value if error is None else error) for error, value in found]


def load_avro(spark: SparkSession) -> None:
    """Give a session the jar that has `from_avro`."""
    spark.sql(f"ADD JAR {avro_jar()}")


def spark_answers(spark: SparkSession, questions: Sequence[Question]) -> list[tuple[str, list[Answer]]]:
    """The type that Spark gives to each reader's schema, and its answers to the values, all in one job."""
    from pyspark.sql import functions
    from pyspark.sql.avro.functions import from_avro

    asked = pa.table(
        {
            "question": pa.array([at for at, (*_, values) in enumerate(questions) for _ in values], pa.int32()),
            "value": pa.array([value for *_, values in questions for value in values], pa.binary()),
        }
    )
    columns = []
    for at, (writer, reader, _) in enumerate(questions):
        options = {"mode": "PERMISSIVE", "avroSchema": _marked(reader)}
        answer = functions.when(functions.col("question") == at, from_avro("value", writer, options))
        columns.append(answer.alias(f"answer{at}"))
    answered = spark.createDataFrame(asked).select("question", *columns)
    table = answered.toArrow().combine_chunks()
    rows = table.column("question").combine_chunks().to_numpy()
    found = []
    for at in range(len(questions)):
        of = answered.schema[f"answer{at}"].dataType.simpleString().removesuffix(f",{_READ}:int>") + ">"
        mine = table.column(f"answer{at}").combine_chunks().filter(pa.array(rows == at))
        *fields, read = mine.flatten()
        values = zip(*map(cells, fields), strict=True)
        good = read.is_valid().to_pylist()
        found.append((of, [Answer(not good[row], value) for row, value in enumerate(values)]))
    return found


def _marked(reader: str) -> str:
    """A reader's schema with a field that is never null but in a value that is bad."""
    schema = json.loads(reader)
    schema["fields"].append({"name": _READ, "type": "int", "default": 1})
    return json.dumps(schema)


def ordered(of: DataType, value: Any) -> Any:
    """A value with the entries of its maps in the order of their keys, as Spark has them in no order."""
    if value is None:
        return None
    if isinstance(of, Struct):
        return tuple(ordered(field.type, cell) for field, cell in zip(of.fields, value, strict=True))
    if isinstance(of, Array):
        return tuple(ordered(of.element, cell) for cell in value)
    if isinstance(of, Map):
        return tuple(sorted(((key, ordered(of.value, cell)) for key, cell in value), key=lambda entry: str(entry[0])))
    return value


def part_of(value: Any, whole: DataType, part: DataType) -> Any:
    """What a value of type `whole` has of the fields of `part`."""
    if value is None or whole == part:
        return value
    if isinstance(whole, Struct) and isinstance(part, Struct):
        inner = {one.name: (cell, one.type) for one, cell in zip(whole.fields, value, strict=True)}
        return tuple(part_of(*inner[one.name], one.type) for one in part.fields)
    assert isinstance(whole, Array)
    assert isinstance(part, Array)
    return tuple(part_of(one, whole.element, part.element) for one in value)


def written(writer: Any, value: Any) -> bytes:
    """A value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(text(without_logic(writer))), value)
    return out.getvalue()


def fastavro_answers(writer: Any, reader: Any, values: Sequence[bytes]) -> list[Answer]:
    """The answer of fastavro to each value, as Spark has it."""
    schema = read_schema(text(reader))
    written_as, read_as = (fastavro.parse_schema(json.loads(text(without_logic(one)))) for one in (writer, reader))
    found = []
    for value in values:
        try:
            read = fastavro.schemaless_reader(io.BytesIO(value), written_as, read_as, return_named_type=True)
            found.append(Answer(False, exact(schema, read)))
        except (fastavro.read.SchemaResolutionError, ValueError, EOFError, IndexError):
            found.append(Answer(True, None))
    return found


def exact(schema: Schema, value: Any) -> object:
    """A value of fastavro as `from_json.cells` has it. Raises ValueError for what Spark does not take."""
    kind = schema.kind
    if kind == "union":
        return _union(schema, value)
    if isinstance(value, tuple):
        # It was in a union of the writer.
        value = value[1]
    if kind == "record":
        return tuple(exact(one.schema, value[one.name]) for one in schema.fields)
    if kind == "array":
        return tuple(exact(schema.inner[0], one) for one in value)
    if kind == "map":
        return tuple((key, exact(schema.inner[0], one)) for key, one in value.items())
    if kind in ("float", "double"):
        return repr(struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else float(value))
    if isinstance(value, str) and kind in ("bytes", "fixed"):
        # fastavro leaves a default as it is in JSON.
        value = value.encode("latin-1")
    if schema.logical == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        if not value or abs(number) >= 10**schema.precision:
            raise ValueError("it does not fit")
        return Decimal(number).scaleb(-schema.scale)
    if schema.logical.endswith("timestamp-millis"):
        if not -(1 << 63) <= value * 1000 < 1 << 63:
            raise ValueError("it is too far")
        return value * 1000
    return value


def _union(schema: Schema, value: Any) -> object:
    if value is None:
        return None
    branches = [branch for branch in schema.inner if branch.kind != "null"]
    name = value[0] if isinstance(value, tuple) else ""
    number = 0 if len(branches) == 1 else next(at for at, one in enumerate(branches) if _is(one, name, value))
    if isinstance(value, tuple):
        value = value[1]
    if is_plain_union(schema):
        return exact(branches[number], value) if len(branches) == 1 or isinstance(value, int) else repr(float(value))
    return tuple(exact(branch, value) if at == number else None for at, branch in enumerate(branches))


def _is(branch: Schema, name: str, value: Any) -> bool:
    if branch.name:
        return branch.name == name
    if branch.kind in ("int", "long"):
        return isinstance(value, int) and not isinstance(value, bool)
    if branch.kind in ("float", "double"):
        return isinstance(value, float)
    return isinstance(value, _PYTHON[branch.kind])
