"""A checkpoint knows by which schema keys and values were decoded; another one is an explicit change."""

from __future__ import annotations

from typing import Any

import pytest

from evensplit.core.state.state import EnumeratorState
from evensplit.errors import SchemaChanged
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
        ("", "value: id (bigint) is gone"),
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


def test_a_checkpoint_without_a_schema_takes_any(east: FakeKafka) -> None:
    before = restored(source(east).plan(NONE))
    assert source(east, "id BIGINT").plan(before).settings.value_schema.column == '["struct",[["id",["long"]]]]'
