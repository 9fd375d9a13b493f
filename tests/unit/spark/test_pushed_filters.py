"""Filters that Spark hands to a batch reader: which are taken, and as which condition."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import datasource
from pyspark.sql.datasource import EqualNullSafe, EqualTo, Filter, GreaterThan, In, IsNotNull, IsNull, LessThan, Not

from evensplit.spark.options.parse import parse_options
from evensplit.spark.pushed_filters import FilteringReader, asked, sql

GIVEN = {
    "kafka.bootstrap.servers": "broker:9092",
    "subscribe": "t",
    "value.format": "json",
    "value.schema": "id BIGINT, note STRING, tags ARRAY<STRING>, other INT",
    "columns": "value.id, value.note, offset",
}


def reader(**more: str) -> FilteringReader:
    given = {**GIVEN, **more}
    return FilteringReader(parse_options(given), 1, given, parse_options)


def condition(of: FilteringReader) -> str | None:
    where = of._options.reading.where
    return None if where is None else where.condition.text


@pytest.mark.parametrize(
    "of, expected",
    [
        (EqualTo(("value", "id"), 5), "`value`.`id` = 5"),
        (EqualNullSafe(("a`b",), None), "`a``b` <=> NULL"),
        (Not(LessThan(("offset",), -1)), "NOT (`offset` < -1)"),
        (In(("offset",), (1, None)), "`offset` IN (1, NULL)"),
        (In(("tags",), (["a"],)), None),
        (IsNull(("key",)), "`key` IS NULL"),
        (IsNotNull(("key",)), "`key` IS NOT NULL"),
        (datasource.StringContains(("topic",), "it's \\"), "contains(`topic`, 'it\\'s \\\\')"),
        (GreaterThan(("a",), True), "`a` > True"),
        (GreaterThan(("a",), 1.5), "`a` > 1.5D"),
        (GreaterThan(("a",), float("nan")), "`a` > double('nan')"),
        (GreaterThan(("a",), Decimal("1E+2")), "`a` > 100BD"),
        (GreaterThan(("a",), b"\xff"), "`a` > X'ff'"),
        (GreaterThan(("a",), dt.date(2026, 1, 2)), "`a` > DATE '2026-01-02'"),
        (GreaterThan(("a",), dt.datetime(2026, 1, 2)), "`a` > TIMESTAMP_NTZ '2026-01-02 00:00:00.000000'"),  # noqa: DTZ001
        (
            GreaterThan(("a",), dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
            "`a` > TIMESTAMP '2026-01-01 23:00:00.000000'",
        ),
        (GreaterThan(("a",), object()), None),
        (Not(GreaterThan(("a",), object())), None),
    ],
)
def test_filters_as_sql(of: Filter, expected: str | None) -> None:
    assert sql(of) == expected


def test_what_is_not_taken_is_left_to_spark() -> None:
    taken = [EqualTo(("value", "note"), "x"), IsNotNull(("value", "id"))]
    left = [EqualTo(("value", "tags"), ["a"]), EqualTo(("value", "other"), 1), IsNull(("value_error",))]
    one = reader(onDecodeError="column")
    assert list(one.pushFilters([left[0], *taken, *left[1:]])) == left
    assert condition(one) == "(`value`.`note` = 'x') AND (`value`.`id` IS NOT NULL)"
    assert one._options.reading.columns == ("value", "offset")


def test_filters_hold_beside_the_option() -> None:
    one = reader(WHERE="offset > 5 OR value.other = 1")
    assert list(one.pushFilters([EqualTo(("value", "id"), 1)])) == []
    assert condition(one) == "(offset > 5 OR value.other = 1) AND (`value`.`id` = 1)"
    alone = reader(where="offset > 5")
    assert list(alone.pushFilters([])) == []
    assert condition(alone) == "offset > 5"


def test_too_many_values_are_left_to_spark() -> None:
    many = In(("offset",), tuple(range(10**6, 10**6 + 5000)))
    one = reader()
    assert list(one.pushFilters([many])) == [many]
    assert condition(one) is None


def test_only_spark_itself_asks() -> None:
    assert not asked()
