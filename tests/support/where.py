"""Conditions through Spark's own filter and through the kernel, over the same rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import ColumnBuilder, KernelError
from evensplit.kafka.columns import COLUMNS, FAULT_COLUMNS, types_of
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.typed.decoding import JSON_FORMAT, STRING_FORMAT, Decoding, Decodings, RowFilter
from evensplit.typed.schema import parse_struct
from evensplit.typed.types import STRING, DataType
from evensplit.typed.where.compiler import compile_condition
from evensplit.typed.where.node import ConditionRefused
from tests.support.decoded import BYTES_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE = (
    "b BOOLEAN, y TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10,2), w DECIMAL(20,5), t STRING, "
    "x BINARY, a DATE, z TIMESTAMP, o TIMESTAMP_NTZ, st STRUCT<p: INT, q: STRING>, tags ARRAY<STRING>, "
    "nums ARRAY<INT>, items ARRAY<STRUCT<price: DECIMAL(10,2), name: STRING>>, "
    "m MAP<STRING,INT>, ms MAP<STRING,STRUCT<p: INT>>, "
    "ti STRING, td STRING, tb STRING, ta STRING, tz STRING"
)
"""The schema of values. Fields from `ti` on are texts that can be cast: to bigint, double, boolean, date, timestamp."""

ROWS = 120
END = 1 << 62

_POOLS: Mapping[str, Sequence[object]] = {
    "b": (True, False),
    "y": (0, 1, -1, 127, -128, 5),
    "s": (0, 1, -1, 32767, -32768, 5, 300),
    "i": (0, 1, -1, 2**31 - 1, -(2**31), 5, 900, 100_000),
    "l": (0, 1, -1, 2**63 - 1, -(2**63), 5, 900, 2**53 + 1),
    "f": (0.0, 1.5, -2.25, 0.1, 3.0e38, "NaN", "Infinity", 5),
    "d": (0.0, -0.0, 1.5, 900, 899.99, 0.1, 1e300, "NaN", "-INF", 5, 9.223372036854775e18, 2147483647.5),
    "n": (0, 1, 5, 1.5, -99999999.99, 12.34, 0.01, 900),
    "w": (0, 1, 5, 1.5, 1.50001, -123456789012345.67891, 0.5),
    "t": (
        "",
        "a",
        "A",
        "abc",
        "aBc",
        "ab%c",
        "a_c",
        " a ",
        "é",
        "Größe",
        "日本",
        "😀x",
        "5",
        "true",
        "orders",
        "x\ny",
        "\\",
        "it's",
    ),
    "x": ("", "YQ==", "AP8=", "YWJj"),
    "a": ("1970-01-01", "2020-02-29", "1969-12-31", "9999-12-31", "0001-01-01", "2026-01-31"),
    "z": ("1970-01-01T00:00:00Z", "2020-02-29T12:30:00.123456Z", "1969-12-31T23:59:59.5Z", "2026-01-31T00:00:00Z"),
    "o": ("1970-01-01T00:00:00", "2020-02-29T12:30:00.123456", "1969-12-31T23:59:59.5", "2026-01-31T00:00:00"),
    "st": ({}, {"p": 1}, {"p": 5, "q": "abc"}, {"q": ""}),
    "tags": ([], ["a"], ["a", None], ["x", "abc", "é"]),
    "nums": ([], [1], [1, None, 5], [0, 900]),
    "items": ([], [{"price": 1.5, "name": "a"}], [{"price": 12.34}, {"name": "abc"}]),
    "m": ({}, {"a": 1}, {"a": None, "b": 5}, {"abc": 900}),
    "ms": ({}, {"a": {"p": 1}}, {"a": None}, {"a": {}}),
    "ti": ("0", " 5 ", "+900", "-1", "9223372036854775807", "100000"),
    "td": ("0", "1.5", " 1e3", "-0.0", "NaN", "infinity", "-inf", "5.", ".5", "899.99", "1.5D", "2f"),
    "tb": ("true", "F", "yes", " n ", "1", "0"),
    "ta": ("2020-02-29", "1970", "1969-12", " 2026-1-31 ", "2020-02-29 junk", "2020-02-29T"),
    "tz": ("2020-02-29 12:30:00.123456", "1970-01-01", "2026-01-31T00:00:00Z", "2026-01-31 01:00:00+01:00", "1969"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a condition."""

    offsets: tuple[int, ...] = ()
    """The rows of which it is true; those before the one with an error."""
    failed_at: int | None = None
    """The first row for which it is an error."""
    refused: tuple[str, ...] = ()
    """Why it is none that the kernel evaluates."""


@cache
def frame(count: int = ROWS, seed: int = 20, cut: int = 0) -> bytearray:
    """Records with values of the schema VALUE in one record batch, each `cut`th of which is no JSON."""
    random = Random(seed)
    builder: Any = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=BYTES_MAX)
    for number in range(count):
        fields = {name: random.choice(pool) for name, pool in _POOLS.items() if random.random() > 0.12}
        value = json.dumps(fields, ensure_ascii=False).encode()
        if cut and number % cut == cut - 1:
            value = value[:-3] if number % 2 else b'{"i": "no"}'
        headers = [("a", b"1"), ("trace", None)][: random.randrange(3)]
        key = random.choice((None, b"", b"a", b"5", "é".encode(), b"\xff\xfe", b"abc"))
        timestamp = random.choice((0, 1_577_836_800_000, 1_582_979_400_123, -1))
        given = value if random.random() > 0.05 else None
        assert builder.append(timestamp=max(timestamp, 0), key=key, value=given, headers=headers) is not None
    builder.close()
    return bytearray(builder.buffer())


def decodings(schema: str = VALUE, *, null_faults: bool = False, where: Any = None) -> Decodings:
    """Values of JSON, and keys that stay bytes."""
    return Decodings(None, Decoding(JSON_FORMAT, parse_struct(schema)), null_faults, where)


TEXTS = Decodings(Decoding(STRING_FORMAT, STRING), Decoding(STRING_FORMAT, STRING))
"""Keys and values that are text."""


def all_types(of: Decodings) -> Mapping[str, DataType]:
    """The columns that a condition can name, with their types."""
    return types_of(COLUMNS, of.key, of.value)


def rows_of(
    data: bytearray, columns: tuple[str, ...], of: Decodings, *, rows_max: int = 1 << 30, bytes_max: int = BYTES_MAX
) -> tuple[list[pa.RecordBatch], ColumnBuilder]:
    """The rows of `data` in whatever parts the limits make, and what built them."""
    builder = ColumnBuilder(
        columns=columns,
        rows_max=rows_max,
        bytes_max=bytes_max,
        uncompressed_bytes_max=BYTES_MAX,
        key=None if of.key is None else of.key.tree,
        value=None if of.value is None else of.value.tree,
        null_faults=of.null_faults,
        condition=of.condition,
    )
    schema = row_schema(columns, of.key, of.value)
    made, at, offset, stopped = [], 0, 0, True
    while stopped:
        done = builder.append(
            data, at, len(data), cluster="east", topic="orders", partition=3, offset_start=offset, offset_end=END
        )
        at, offset, stopped = done.position, done.offset_next, done.stopped
        made.append(to_record_batch(builder.finish(), schema))
    for batch in made:
        batch.validate(full=True)
    return made, builder


def kernel_answer(text: str, of: Decodings, data: bytearray) -> Answer:
    """What the kernel makes of a condition."""
    try:
        condition = compile_condition(text, all_types(of), FAULT_COLUMNS)
    except ConditionRefused as refused:
        return Answer(refused=tuple(refused.problems))
    try:
        made, _ = rows_of(data, ("offset",), of._replace(where=RowFilter.of(condition, of.key, of.value)))
    except KernelError as error:
        kind, offset, _ = error.args
        if kind != "condition":
            raise
        before = kernel_answer(f"offset < {offset} AND ({text})", of, data)
        assert before.failed_at is None
        return Answer(before.offsets, failed_at=offset)
    return Answer(tuple(one for batch in made for one in batch.column(0).to_pylist()))


def spark_answers(rows: DataFrame, questions: Sequence[tuple[str, int | None]]) -> list[tuple[int, ...] | None]:
    """The offsets of the rows of which each condition is true; None if it is an error.

    With each the offset from which on it is not asked, if any.
    """
    from pyspark.errors import PySparkException

    columns = [
        f"({text}) IS TRUE AS c{at}" if end is None else f"CASE WHEN offset < {end} THEN ({text}) IS TRUE END AS c{at}"
        for at, (text, end) in enumerate(questions)
    ]
    try:
        found = rows.selectExpr("offset", *columns).toArrow()
    except PySparkException:
        if len(questions) == 1:
            return [None]
        half = len(questions) // 2
        return spark_answers(rows, questions[:half]) + spark_answers(rows, questions[half:])
    offsets = found.column("offset").to_pylist()
    return [
        tuple(offset for offset, true in zip(offsets, found.column(f"c{at}").to_pylist(), strict=True) if true)
        for at in range(len(questions))
    ]
