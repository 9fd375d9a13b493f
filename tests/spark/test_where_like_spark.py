"""The condition `where` is what Spark's filter says of the same rows: hundreds of conditions through both."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from evensplit.kafka.columns import COLUMNS
from tests.support.where import VALUE, Answer, decodings, frame, kernel_answer, rows_of, spark_answers

pytestmark = pytest.mark.spark

FIELDS = ("b", "y", "s", "i", "l", "f", "d", "n", "w", "t", "x", "a", "z", "o", "ti", "td", "tb", "ta", "tz")
NUMBERS = ("y", "s", "i", "l", "f", "d", "n", "w", "ti", "td")
COMPARISONS = ("=", "<", "<=>", ">=", "<>", ">", "<=")
OPERATORS = ("+", "-", "*", "%", "/", "DIV")
LITERALS = (
    *("5", "'5'", "1.5", "1.5D", "'abc'", "true", "DATE '2020-02-29'", "TIMESTAMP '2020-02-29 12:30:00'", "NULL"),
    *("X'61'", "0", "900L", "1e3", "3000000000", "0.01BD"),
)
TYPES = {
    "boolean": "b",
    "tinyint": "y",
    "smallint": "s",
    "int": "i",
    "bigint": "l",
    "float": "f",
    "double": "d",
    "decimal(12,3)": "n",
    "decimal(5,1)": "w",
    "string": "t",
    "binary": "x",
    "date": "a",
    "timestamp": "z",
    "timestamp_ntz": "o",
}
"""A type -> the field whose type it is, or one like it."""

REFUSED_BY_SPARK = "# what Spark refuses"
REFUSED_HERE = "# what is refused here alone"

BATCH = 150
"""Conditions that one job of Spark takes."""
FAILURES = 6
"""So many errors are shown to be Spark's, too: each is a job of its own."""

ROWS = (
    f"key binary, value struct<{VALUE}>, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>, cluster string"
)


def by_hand() -> dict[str, list[str]]:
    """The conditions of the file, by the headings above them."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (Path(__file__).parent.parent / "data" / "where-conditions.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = line
        elif line:
            found.setdefault(heading, []).append(line)
    return found


def generated() -> list[str]:
    """Comparisons, arithmetic and casts of every type with every other one."""
    made = []
    for at, (one, other) in enumerate(product(FIELDS, repeat=2)):
        made.append(f"value.{one} {COMPARISONS[at % len(COMPARISONS)]} value.{other}")
    for at, (one, other) in enumerate(product(NUMBERS, repeat=2)):
        made.append(f"value.{one} {OPERATORS[at % len(OPERATORS)]} value.{other} > 3")
    for at, (one, literal) in enumerate(product(FIELDS, LITERALS)):
        made.append(f"value.{one} {COMPARISONS[at % len(COMPARISONS)]} {literal}")
    for at, (one, (kind, same)) in enumerate(product(FIELDS, TYPES.items())):
        cast = ("CAST", "TRY_CAST")[at % 2]
        made.append(f"{cast}(value.{one} AS {kind}) = value.{same}")
        made.append(f"TRY_CAST(value.{one} AS {kind}) IS NULL")
    return made


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    """The rows as this source gives them without a condition, the session in UTC."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    made, _ = rows_of(frame(), COLUMNS, decodings())
    yield spark.createDataFrame(pa.Table.from_batches(made), ROWS)
    spark.conf.set("spark.sql.session.timeZone", zone)


def compared(rows: DataFrame, asked: list[tuple[str, Answer]]) -> list[str]:
    """The conditions of which Spark says something else, with what both say."""
    questions = [(text, answer.failed_at) for text, answer in asked]
    said: list[tuple[int, ...] | None] = []
    for at in range(0, len(questions), BATCH):
        said += spark_answers(rows, questions[at : at + BATCH])
    return [
        f"{text}\n  Spark: {spark}\n  ours: {answer}"
        for (text, answer), spark in zip(asked, said, strict=True)
        if spark != answer.offsets
    ]


def fails_in_spark(rows: DataFrame, text: str, offset: int) -> bool:
    """Whether a condition is an error of Spark's for the row at `offset`."""
    try:
        rows.where(f"offset = {offset}").selectExpr(f"({text}) IS TRUE").toArrow()
    except PySparkException:
        return True
    return False


def test_conditions_of_every_type_with_every_other_one(rows: DataFrame) -> None:
    asked = [(text, kernel_answer(text, decodings(), frame())) for text in generated()]
    answered = [(text, answer) for text, answer in asked if not answer.refused]
    differ = compared(rows, answered)
    assert not differ, f"{len(differ)} conditions differ:\n" + "\n".join(differ[:20])
    failed = [(text, answer.failed_at) for text, answer in answered if answer.failed_at is not None]
    assert len(answered) > 700
    assert len(failed) > 20
    step = len(failed) // FAILURES
    assert [text for text, at in failed[::step] if not fails_in_spark(rows, text, at)] == []


def test_conditions_by_hand(rows: DataFrame) -> None:
    headings = by_hand()
    refused = headings.pop(REFUSED_BY_SPARK), headings.pop(REFUSED_HERE)
    asked = [(text, kernel_answer(text, decodings(), frame())) for texts in headings.values() for text in texts]
    assert [(text, answer.refused) for text, answer in asked if answer.refused] == []
    differ = compared(rows, asked)
    assert not differ, f"{len(differ)} conditions differ:\n" + "\n".join(differ[:20])
    failed = [(text, answer.failed_at) for text, answer in asked if answer.failed_at is not None]
    step = len(failed) // FAILURES
    assert [text for text, at in failed[::step] if not fails_in_spark(rows, text, at)] == []
    assert [text for texts in refused for text in texts if not kernel_answer(text, decodings(), frame()).refused] == []


def test_what_is_listed_as_refused_here_alone_is_right_for_spark(rows: DataFrame) -> None:
    rows.selectExpr(*(f"({text}) IS TRUE AS c{at}" for at, text in enumerate(by_hand()[REFUSED_HERE])))
    for text in by_hand()[REFUSED_BY_SPARK]:
        with pytest.raises(PySparkException):
            rows.where(text)
