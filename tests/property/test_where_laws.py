"""What holds for a condition: the rows are those without it that pass a filter, in whatever parts they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import KernelError
from evensplit.kafka.columns import FAULT_COLUMNS
from evensplit.typed.decoding import RowFilter
from evensplit.typed.projection import prune
from evensplit.typed.schema import parse_struct
from evensplit.typed.where.compiler import compile_condition
from tests.support.where import all_types, decodings, rows_of

SCHEMA = "a BIGINT, b STRING, c STRUCT<x: INT>, d ARRAY<INT>"

Row: TypeAlias = Mapping[str, Any]
Value: TypeAlias = Mapping[str, Any] | None


def field(value: Value, *names: str) -> Any:
    """A field of a value, null if there is none."""
    for name in names:
        value = None if value is None else value[name]
    return value


CONDITIONS: Mapping[str, tuple[tuple[tuple[str, ...], ...], Callable[[Row, Value], bool]]] = {
    "value.a > 2": ((("a",),), lambda row, value: (field(value, "a") or 0) > 2),
    "value.a IS NULL OR value.a > 2": (
        (("a",),),
        lambda row, value: field(value, "a") is None or field(value, "a") > 2,
    ),
    "NOT (value.a > 2)": (
        (("a",),),
        lambda row, value: field(value, "a") is not None and field(value, "a") <= 2,
    ),
    "value IS NULL": ((), lambda row, value: value is None),
    "value IS NOT NULL AND offset % 2 = 0": ((), lambda row, value: value is not None and row["offset"] % 2 == 0),
    "value.b = 'x' OR key IS NULL": (
        (("b",),),
        lambda row, value: field(value, "b") == "x" or row["key"] is None,
    ),
    "value.c IS NOT NULL AND value.c.x IS NULL": (
        (("c", "x"),),
        lambda row, value: field(value, "c") is not None and field(value, "c", "x") is None,
    ),
    "coalesce(value.c.x, -1) < 0 AND topic LIKE 'o%'": (
        (("c", "x"),),
        lambda row, value: (-1 if field(value, "c", "x") is None else field(value, "c", "x")) < 0,
    ),
    "headers IS NULL AND size(value.d) > 0": (
        (("d",),),
        lambda row, value: row["headers"] is None and len(field(value, "d") or ()) > 0,
    ),
    "timestamp > '1970-01-01 00:00:01'": ((), lambda row, value: row["timestamp"].timestamp() > 1),
}
"""A condition -> the fields that it names, and what it is in Python."""

PARTS = ((("a",),), (("b",), ("c", "x")), (("a",), ("b",), ("c",), ("d",)), (("d",),))
"""The fields of values that rows have."""

fields = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-3, 6) | st.sampled_from([None, "no"]),
        "b": st.sampled_from(["x", "y", None, "long " * 9]),
        "c": st.sampled_from([{}, {"x": 1}, {"x": -1}, {"x": "no"}, None, 5]),
        "d": st.lists(st.integers(0, 9), max_size=3) | st.just("no"),
    },
)
values = st.none() | st.sampled_from([b"", b"{", b"null", b"[]"]) | fields.map(lambda one: json.dumps(one).encode())
records = st.tuples(st.integers(0, 2000), st.none() | st.just(b"k"), values, st.booleans())
logs = st.lists(st.lists(records, min_size=1, max_size=12), min_size=1, max_size=4)


def frame_of(log: list[list[tuple[int, bytes | None, bytes | None, bool]]]) -> bytearray:
    """Record batches, one after the other."""
    frame, base_offset = bytearray(), 0
    for batch in log:
        builder: Any = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
        for timestamp, key, value, header in batch:
            builder.append(timestamp=timestamp, key=key, value=value, headers=[("h", b"1")] if header else [])
        builder.close()
        frame += base_offset.to_bytes(8, "big") + builder.buffer()[8:]
        base_offset += len(batch)
    return frame


@settings(deadline=None, max_examples=120)
@given(
    log=logs,
    text=st.sampled_from(sorted(CONDITIONS)),
    paths=st.sampled_from(PARTS),
    rows_max=st.sampled_from([1, 2, 5, 1 << 20]),
    bytes_max=st.sampled_from([1, 60, 300, 1 << 20]),
)
def test_the_rows_are_those_without_a_condition_that_pass_a_filter(
    log: list[list[tuple[int, bytes | None, bytes | None, bool]]],
    text: str,
    paths: tuple[tuple[str, ...], ...],
    rows_max: int,
    bytes_max: int,
) -> None:
    frame = frame_of(log)
    columns = ("key", "value", "offset", "timestamp", "headers")
    named, passes = CONDITIONS[text]
    whole = decodings(SCHEMA, null_faults=True)
    condition = compile_condition(text, all_types(whole), FAULT_COLUMNS)
    # A value that does not fit a field that only the condition names is null in the row, too.
    both, _ = prune(parse_struct(SCHEMA), [*paths, *named])
    pruned, _ = prune(parse_struct(SCHEMA), paths)
    assert whole.value is not None
    kind = type(whole.value)
    united = whole._replace(value=kind(whole.value.format, both))
    where = RowFilter.of(condition, whole.key, whole.value)
    wanted = whole._replace(value=kind(whole.value.format, pruned), where=where)

    found, builder = rows_of(frame, columns, wanted, rows_max=rows_max, bytes_max=bytes_max)
    all_rows, _ = rows_of(frame, columns, united)
    expected = [
        {**row, "value": cut(row["value"], pruned)}
        for batch in all_rows
        for row in batch.to_pylist()
        if passes(row, row["value"])
    ]
    assert [row for batch in found for row in batch.to_pylist()] == expected
    assert builder.filtered + len(expected) == sum(map(len, log))


def cut(value: Any, of: Any) -> Any:
    """A value with only the fields of a type."""
    if value is None or not hasattr(of, "fields"):
        return value
    return {one.name: cut(value[one.name], one.type) for one in of.fields}


@settings(deadline=None, max_examples=40)
@given(log=logs, text=st.sampled_from(sorted(CONDITIONS)))
def test_a_value_that_cannot_be_decoded_is_an_error_only_where_the_condition_or_its_row_needs_it(
    log: list[list[tuple[int, bytes | None, bytes | None, bool]]], text: str
) -> None:
    frame = frame_of(log)
    named, passes = CONDITIONS[text]
    whole = decodings(SCHEMA)
    condition = compile_condition(text, all_types(whole), FAULT_COLUMNS)
    assert whole.value is not None
    kind = type(whole.value)
    needed, _ = prune(parse_struct(SCHEMA), named) if named else (parse_struct("nothing INT"), [])
    columns = ("key", "offset", "timestamp", "headers", "value_error", "value")
    probe = whole._replace(value=kind(whole.value.format, needed), null_faults=True)
    seen = [row for batch in rows_of(frame, columns, probe)[0] for row in batch.to_pylist()]
    uses_value = condition.value is not None
    bad = [row["offset"] for row in seen if uses_value and row["value_error"] is not None]
    offsets = [row["offset"] for row in seen if passes(row, row["value"])]
    wanted = decodings("nothing INT", where=RowFilter.of(condition, whole.key, whole.value))
    given = wanted._replace(value=kind(whole.value.format, whole.value.type))
    # Rows that have only their offset: nothing but the condition decodes the values.
    if bad:
        with pytest.raises(KernelError) as caught:
            rows_of(frame, ("offset",), given)
        assert caught.value.args[:2] == ("undecodable", bad[0])
    else:
        found, _ = rows_of(frame, ("offset",), given)
        assert pa.Table.from_batches(found).column(0).to_pylist() == offsets
