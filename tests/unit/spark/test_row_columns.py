"""The options that say what keys and values are decoded to."""

from __future__ import annotations

from pathlib import Path

import pytest

from evensplit.errors import OptionError
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.spark.options.parse import parse_options
from evensplit.spark.options.reading import ReadOptions

BASE = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "t"}
SCHEMA = "id BIGINT, address STRUCT<city: STRING, zip: STRING>"
JSON = {"value.format": "json", "value.schema": SCHEMA}


def reading(**options: str) -> ReadOptions:
    return parse_options({**BASE, **options}).reading


def problems(**options: str) -> tuple[str, ...]:
    with pytest.raises(OptionError) as caught:
        reading(**options)
    return tuple(caught.value.problems)


def test_nothing_is_decoded_unless_it_is_said() -> None:
    assert (reading().key, reading().value, reading(**{"value.format": "binary"}).value) == (None, None, None)


def test_fields_are_those_that_columns_names() -> None:
    found = reading(**JSON, columns="offset, Value.ADDRESS.city, value.id")
    assert found.columns == ("value", "offset")
    assert str(found.value and found.value.type) == "struct<id:bigint,address:struct<city:string>>"
    assert str((whole := reading(**JSON, columns="value").value) and whole.type) == (
        "struct<id:bigint,address:struct<city:string,zip:string>>"
    )


def test_columns_about_faults_are_there_if_they_are_asked_for() -> None:
    assert reading(**JSON, onDecodeError="column").columns == (*KAFKA_COLUMNS, "value_error", "value_raw")
    assert reading(**JSON, onDecodeError="null").columns == KAFKA_COLUMNS
    assert reading(**JSON, onDecodeError="column", columns="value_error").columns == ("value_error",)
    assert "there is no 'value_error'" in problems(**JSON, columns="value_error")[0]


def test_a_schema_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.ddl"
    file.write_text(f"{SCHEMA}\n")
    assert reading(**{**JSON, "value.schema": f"file:{file}"}).value == reading(**JSON).value
    (found,) = problems(**{**JSON, "value.schema": f"file:{tmp_path / 'none'}"})
    assert "No such file" in found


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"value.format": "json"}, "value.format is json, and neither value.schema nor schema.registry.url is given"),
        ({"value.format": "string", "value.schema": "a INT"}, "value.schema is given and value.format is string"),
        ({"value.schema": "a INT"}, "value.schema is given without value.format"),
        ({**JSON, "value.schema": "a VARIANT"}, "a is of type VARIANT"),
        ({**JSON, "columns": "value.nope"}, "value.nope is not there; expected one of id, address"),
        ({**JSON, "columns": "value, value.id"}, "value is named whole, and value.id beside it"),
        ({**JSON, "columns": "value.id, value.id"}, "value.id is there more than once"),
        ({**JSON, "columns": "offset.x"}, "offset.x: only key and value have fields"),
        ({**JSON, "columns": "key.id"}, "key.id is named, and key.format does not give key any fields"),
        ({"columns": "value.id"}, "value.id is named, and value.format does not give value any fields"),
    ],
)
def test_what_is_wrong_is_one_sentence(options: dict[str, str], expected: str) -> None:
    (found,) = problems(**options)
    assert expected in found


def test_an_option_without_effect_is_named() -> None:
    assert "onDecodeError" in parse_options({**BASE, "onDecodeError": "null"}).ignored
    assert "onDecodeError" not in parse_options({**BASE, **JSON, "onDecodeError": "null"}).ignored


def test_which_rows_are_wanted() -> None:
    found = reading(**JSON, columns="offset", where="value.Address.city = 'x' AND topic LIKE 'o%'")
    assert found.where is not None
    assert str(found.where.condition.value) == "struct<address:struct<city:string>>"
    assert found.columns == ("offset",)
    assert reading().where is None
    given = {**BASE, "onTimestampOverflow": "null", "columns": "offset"}
    assert "onTimestampOverflow" in parse_options(given).ignored
    assert "onTimestampOverflow" not in parse_options({**given, "where": "timestamp > '2026-01-01'"}).ignored


def test_all_that_is_wrong_with_a_condition_is_said_with_all_else() -> None:
    found = problems(where="nope = 1 AND value.id > 2", includeHeaders="maybe")
    assert sorted(one.partition(";")[0] for one in found) == [
        "includeHeaders is 'maybe'",
        "where: nope: there is no column nope",
        "where: value.id: id is not there: what it would be in is of type binary",
    ]
    assert problems(where="")[0].startswith("where: it is empty; expected a condition such as")
