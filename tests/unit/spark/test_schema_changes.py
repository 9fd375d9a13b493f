"""A checkpoint knows by which schema keys and values were decoded; another one is an explicit change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.state.reader_schema import NO_SCHEMA, changes
from evensplit.core.state.state import EnumeratorState
from evensplit.errors import SchemaChanged
from evensplit.spark.options.parse import parse_options
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import NONE, Source, plan_news, restored

pytestmark = pytest.mark.usefixtures("no_waiting")

JSON = {"value.format": "json"}


def source(east: FakeKafka, schema: str = "", **options: Any) -> Source:
    decoded: dict[str, Any] = {**JSON, "value.schema": schema} if schema else {}
    return Source(east, **decoded, **options)


@pytest.fixture
def before(east: FakeKafka) -> EnumeratorState:
    """The end of a batch of the schema `id BIGINT`, as a checkpoint has it."""
    return restored(source(east, "id BIGINT").plan(NONE))


def test_the_same_schema_goes_on(east: FakeKafka, before: EnumeratorState) -> None:
    one = source(east, "id: LONG", columns="value.id, offset")
    assert one.coordinator.partitions(NONE, before)
    east.append("t", 0, 1)
    assert plan_news(one, before).settings.value_schema == before.settings.value_schema


@pytest.mark.parametrize(
    "schema, said",
    [
        ("id INT", "value: id was bigint and is int"),
        ("id BIGINT, city STRING", "value: city (string) is new"),
        ("", "value: the format was json and is binary now; id (bigint) is gone"),
    ],
)
def test_another_schema_is_an_error_that_says_what_changes(
    east: FakeKafka, before: EnumeratorState, schema: str, said: str
) -> None:
    one = source(east, schema)
    with pytest.raises(SchemaChanged, match=said.replace("(", r"\(").replace(")", r"\)")) as repeated:
        one.coordinator.partitions(NONE, before)
    with pytest.raises(SchemaChanged) as begun:
        one.plan(before)
    assert str(begun.value) == str(repeated.value)


def test_so_many_differences_are_said(east: FakeKafka, before: EnumeratorState) -> None:
    with pytest.raises(
        SchemaChanged, match=r"column value: id \(bigint\) is gone; f0 .*; f18 \(int\) is new; and 81 more\."
    ):
        source(east, ", ".join(f"f{number} INT" for number in range(100))).plan(before)


def test_a_change_is_accepted_by_its_fingerprint_and_kept(east: FakeKafka, before: EnumeratorState) -> None:
    schema = "id BIGINT, city STRING"
    with pytest.raises(SchemaChanged) as refused:
        source(east, schema).plan(before)
    fingerprint = str(refused.value).partition("acceptSchema to ")[2].partition(";")[0]
    with pytest.raises(SchemaChanged):
        source(east, schema, acceptSchema="0" * 16).plan(before)
    one = source(east, schema, acceptSchema=fingerprint)
    assert one.coordinator.partitions(NONE, before)
    after = restored(one.plan(before))
    assert after.settings.value_schema.fingerprint == fingerprint
    east.append("t", 0, 1)
    assert plan_news(source(east, schema), after).settings == after.settings
    with pytest.raises(SchemaChanged, match="city \\(string\\) is gone"):
        source(east, "id BIGINT", acceptSchema=fingerprint).plan(after)


def test_options_that_leave_the_schema_to_a_registry_are_not_compared(east: FakeKafka, before: EnumeratorState) -> None:
    """As on the command line, which does not ask the registry."""
    one = Source(east, **{**JSON, "schema.registry.url": "http://registry:8081", "value.subject": "t-value"})  # type: ignore[arg-type]
    assert one.coordinator.partitions(NONE, before)


AVRO = {"value.format": "avro", "value.schema": '{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}'}


@pytest.mark.parametrize(
    "first, then, said",
    [
        ({}, {"value.format": "string"}, "value: the format was binary and is string now"),
        ({}, {**JSON, "value.schema": "id BIGINT"}, "value: the format was binary and is json now; id (bigint) is new"),
        ({"key.format": "string"}, {}, "key: the format was string and is binary now"),
        (AVRO, {**JSON, "value.schema": "id BIGINT"}, "value: the format was avro and is json now"),
        (AVRO, {**AVRO, "value.framing": "confluent"}, "value: the framing was none and is confluent now"),
        (
            {},
            {"key.format": "string", "value.format": "string"},
            "key: the format was binary and is string now. And the column value: the format was binary and is string",
        ),
    ],
)
def test_another_format_or_framing_is_a_change(
    east: FakeKafka, first: dict[str, str], then: dict[str, str], said: str
) -> None:
    before = restored(Source(east, **first).plan(NONE))  # type: ignore[arg-type]
    assert Source(east, **first).coordinator.partitions(NONE, before)  # type: ignore[arg-type]
    with pytest.raises(SchemaChanged) as refused:
        Source(east, **then).plan(before)  # type: ignore[arg-type]
    assert said in str(refused.value)
    accepted = str(refused.value).partition("acceptSchema to ")[2].partition(";")[0]
    after = restored(Source(east, acceptSchema=accepted, **then).plan(before))  # type: ignore[arg-type]
    east.append("t", 0, 1)
    assert plan_news(Source(east, **then), after).settings == after.settings  # type: ignore[arg-type]


def test_whether_a_registry_says_how_values_are_read_is_part_of_the_framing() -> None:
    framed = {**AVRO, "value.framing": "confluent", "subscribe": "t", "kafka.bootstrap.servers": "a:9092"}
    alone, asked = (
        parse_options({**framed, **more}).settings.value_schema
        for more in ({}, {"schema.registry.url": "http://registry:8081"})
    )
    assert changes(alone, asked) == ("the framing was confluent and is confluent with a schema registry now",)
    assert not alone.is_followed_by(asked)


@pytest.mark.parametrize("options", [{}, {"value.format": "string"}, AVRO])
def test_a_checkpoint_from_before_takes_any(east: FakeKafka, options: dict[str, str]) -> None:
    began = restored(source(east).plan(NONE))
    before = replace(began, settings=replace(began.settings, key_schema=NO_SCHEMA, value_schema=NO_SCHEMA))
    after = Source(east, **options).plan(before)  # type: ignore[arg-type]
    assert after.settings.value_schema.format == options.get("value.format", "binary")
