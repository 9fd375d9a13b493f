"""Keys and values that the kernel decodes, as the lane hands them out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from evensplit._kernel import ColumnBuilder, KernelError
from evensplit.core.model import SplitId
from evensplit.errors import UndecodableRecord
from evensplit.kafka.fetch.problems import refused_by_kernel
from evensplit.typed.decoding import STRING_FORMAT, Decoding, Decodings
from evensplit.typed.schema import parse_struct
from evensplit.typed.types import STRING
from tests.support.decoded import decoded, frame_of

EVERY = (
    "b BOOLEAN, y TINYINT, h SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(10,2), s STRING, x BINARY, "
    "e DATE, t TIMESTAMP, u TIMESTAMP_NTZ, o STRUCT<s: STRING>, a ARRAY<STRUCT<i: INT>>, m MAP<STRING, ARRAY<BIGINT>>"
)
OF_EVERY = {
    "b": True,
    "y": -1,
    "h": 300,
    "i": 7,
    "l": 1 << 40,
    "f": 1.5,
    "d": 2.25,
    "n": 1.25,
    "s": "Köln",
    "x": "QUJD",
    "e": "2024-02-29",
    "t": "2024-02-29T12:00:00Z",
    "u": "2024-02-29 12:00:00",
    "o": {"s": None},
    "a": [{"i": 1}, None],
    "m": {"k": [1, None]},
}


def test_a_value_of_every_type_is_what_arrow_makes_of_it() -> None:
    value = Decoding("json", parse_struct(EVERY))
    batch, faults = decoded(frame_of([json.dumps(OF_EVERY).encode(), None]), ("value",), Decodings(value=value))
    (found, nothing) = batch.column("value").to_pylist()
    assert (found["t"], found["u"]) == (datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2024, 2, 29, 12))  # noqa: DTZ001
    assert found["x"] == b"ABC"
    assert str(found["n"]) == "1.25"
    assert found["e"].isoformat() == OF_EVERY["e"]
    assert found["m"] == [("k", [1, None])]
    plain = ("b", "y", "h", "i", "l", "f", "d", "s", "o", "a")
    assert {name: found[name] for name in plain} == {name: OF_EVERY[name] for name in plain}
    assert nothing is None
    assert faults == 0


def test_what_cannot_be_decoded_is_null_and_says_why() -> None:
    key, value = Decoding(STRING_FORMAT, STRING), Decoding("json", parse_struct("id BIGINT"))
    columns = ("key", "value", "value_error", "value_raw")
    batch, faults = decoded(
        frame_of([b'{"id":1}', b'{"id":"x"}', None]), columns, Decodings(key, value, null_faults=True)
    )
    assert batch.to_pylist() == [
        {"key": '{"id":1}', "value": {"id": 1}, "value_error": None, "value_raw": None},
        {
            "key": '{"id":"x"}',
            "value": None,
            "value_error": 'id: byte 6: expected bigint, found "\\"x\\"}"',
            "value_raw": b'{"id":"x"}',
        },
        {"key": None, "value": None, "value_error": None, "value_raw": None},
    ]
    assert faults == 1


def test_an_error_names_the_record_and_what_to_do() -> None:
    frame = frame_of([b'{"id":1}', b'{"id":1.5}'])
    value = Decoding("json", parse_struct("id BIGINT"))
    with pytest.raises(KernelError) as refused:
        decoded(frame, ("value",), Decodings(value=value))
    with pytest.raises(UndecodableRecord) as caught:
        raise refused_by_kernel(SplitId("east", "orders", 3), 0, frame, 0, refused.value, 1 << 20)
    said = str(caught.value)
    assert caught.value.offset == 1
    assert "cluster 'east', topic 'orders', partition 3, offset 1: its value cannot be decoded: id: byte 6" in said
    assert "onDecodeError=column" in said


@pytest.mark.parametrize(
    "wrong",
    [
        ("xml", ("struct", ())),
        ("json", ("decimal", 39, 0)),
        ("json", ("decimal", 5, 6)),
        ("json", ("interval",)),
    ],
)
def test_a_decoding_that_there_is_not(wrong: tuple[str, tuple[Any, ...]]) -> None:
    with pytest.raises(ValueError):
        ColumnBuilder(
            columns=("value",), rows_max=1, bytes_max=1, uncompressed_bytes_max=1, value=((wrong[0],), wrong[1], "none")
        )


def test_what_is_framed_by_a_schema_that_nobody_knows() -> None:
    values = [b"\x00\x00\x00\x00\x07{}", b'{"id":1}']
    value = Decoding("json", parse_struct("id BIGINT"), framed=True)
    batch, _ = decoded(frame_of(values), ("value", "value_error"), Decodings(value=value, null_faults=True))
    assert batch.column("value").to_pylist() == [{"id": None}, None]
    assert "expected the frame of a schema registry" in str(batch.column("value_error")[1])


def test_types_that_are_nested_too_deep() -> None:
    deep: tuple[Any, ...] = ("int",)
    for _ in range(100):
        deep = ("array", deep)
    with pytest.raises(ValueError, match="more than 64 levels"):
        ColumnBuilder(
            columns=("value",), rows_max=1, bytes_max=1, uncompressed_bytes_max=1, value=(("json",), deep, "none")
        )
