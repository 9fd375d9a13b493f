"""What Spark's `from_json` says of JSON documents, and whether another decoder says the same.

A document is bad if FAILFAST stops at it. What PERMISSIVE makes of it is the value, as Python objects that compare
exactly: a struct is a tuple of its fields, an array a tuple, a map a tuple of pairs in order (a key may come twice), a
date its days, a timestamp its microseconds (Python's own reach only to the year 9999), a float the text that says it
exactly (NaN is NaN, -0.0 is not 0.0).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent.parent / "data" / "json"

CORRUPT = "__bad"
"""The column that Spark fills for documents that are bad. No schema here has a field of this name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of a document."""

    bad: bool
    """FAILFAST stops at it."""

    value: object
    """What PERMISSIVE makes of it; None is null."""


Decoder: TypeAlias = Callable[[str, Sequence[bytes]], list[Answer]]
"""Takes a schema as DDL, and documents; gives an answer to each. The value of a bad one does not count."""


def cells(column: pa.Array) -> list[object]:
    """The values of an Arrow array as objects that compare exactly."""
    kind = column.type
    if pa.types.is_struct(kind):
        inner = [cells(child) for child in column.flatten()]
        return [
            tuple(child[row] for child in inner) if valid else None
            for row, valid in enumerate(column.is_valid().to_pylist())
        ]
    if pa.types.is_map(kind):
        return _runs(column, list(zip(cells(column.keys), cells(column.items), strict=True)))
    if pa.types.is_list(kind):
        return _runs(column, cells(column.values))
    if pa.types.is_timestamp(kind):
        return list(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist())
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in column.to_pylist()]
    if pa.types.is_string(kind):
        # Spark's may be no UTF-8.
        texts = column.cast(pa.binary()).to_pylist()
        return [None if text is None else text.decode("utf-8", "surrogateescape") for text in texts]
    return list(column.to_pylist())


def _runs(column: pa.Array, values: Sequence[object]) -> list[object]:
    """What lies between the offsets of a list or a map."""
    offsets = column.offsets.to_pylist()
    return [
        tuple(values[offsets[row] : offsets[row + 1]]) if valid else None
        for row, valid in enumerate(column.is_valid().to_pylist())
    ]


def spark_answers(spark: SparkSession, ddl: str, documents: Sequence[bytes]) -> list[Answer]:
    """Spark's answer to each document."""
    return all_spark_answers(spark, [(ddl, documents)])[0]


def all_spark_answers(spark: SparkSession, questions: Sequence[tuple[str, Sequence[bytes]]]) -> list[list[Answer]]:
    """Spark's answers to the documents of each schema, in one job."""
    from pyspark.sql import functions

    asked = pa.table(
        {
            "question": pa.array([at for at, (_, documents) in enumerate(questions) for _ in documents], pa.int32()),
            "value": pa.array([document for _, documents in questions for document in documents], pa.binary()),
        }
    )
    text = functions.col("value").cast("string")
    options = {"columnNameOfCorruptRecord": CORRUPT}
    columns = [
        functions.when(
            functions.col("question") == at, functions.from_json(text, f"{ddl}, `{CORRUPT}` string", options)
        ).alias(f"answer{at}")
        for at, (ddl, _) in enumerate(questions)
    ]
    answered = spark.createDataFrame(asked).select("question", *columns).toArrow().combine_chunks()
    rows = answered.column("question").combine_chunks().to_numpy()
    found: list[list[Answer]] = []
    for at in range(len(questions)):
        mine = answered.column(f"answer{at}").combine_chunks().filter(pa.array(rows == at))
        found.append(_answers(mine))
    return found


def _answers(structs: pa.StructArray) -> list[Answer]:
    """Answers by what Spark gives with the column CORRUPT, whose text may be no UTF-8."""
    *fields, corrupt = structs.flatten()
    rows = zip(*map(cells, fields), strict=True) if fields else [()] * len(structs)
    present, bad = structs.is_valid().to_pylist(), corrupt.is_valid().to_pylist()
    return [Answer(bad[at], tuple(row) if present[at] else None) for at, row in enumerate(rows)]


def failfast(spark: SparkSession, ddl: str, documents: Iterable[bytes]) -> list[bool]:
    """Whether FAILFAST stops at each document: asked of Spark's evaluator itself, since a job for each takes long."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    jvm: Any = spark.sparkContext._jvm
    kind = spark._jsparkSession.parseDataType(spark.createDataFrame([], ddl).schema.json())
    zone = jvm.scala.Option.apply(spark.conf.get("spark.sql.session.timeZone"))
    mode = jvm.PythonUtils.toScalaMap({"mode": "FAILFAST"})
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    evaluator = catalyst.json.JsonToStructsEvaluator(mode, kind.asNullable(), "_corrupt_record", zone, False)
    texts = jvm.org.apache.spark.unsafe.types.UTF8String
    stopped: list[bool] = []
    for document in documents:
        # Not always for the reason that Spark means: of some it fails to say what is wrong.
        try:
            evaluator.evaluate(texts.fromBytes(document))
        except (Py4JJavaError, PySparkException):
            stopped.append(True)
        else:
            stopped.append(False)
    return stopped


@dataclass(frozen=True, slots=True)
class Case:
    """A document and what the two say of it."""

    ddl: str
    document: bytes
    spark: Answer
    ours: Answer

    @property
    def same(self) -> bool:
        """Both say that it is bad, or both have the same value."""
        return self.spark.bad == self.ours.bad and (self.spark.bad or self.spark.value == self.ours.value)

    def __str__(self) -> str:
        document = self.document if len(self.document) <= 400 else self.document[:400] + b"..."
        spark, ours = ("bad" if answer.bad else repr(answer.value) for answer in (self.spark, self.ours))
        return f"{self.ddl}\n  {document!r}\n  Spark: {spark[:1000]}\n  ours:  {ours[:1000]}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference that is meant."""

    name: str
    reason: str
    explains: Callable[[Case], bool]
    """Whether a case that differs does so for this reason."""


@dataclass(slots=True)
class Comparison:
    """Counts what is the same, what differs as it is meant to, and keeps what differs otherwise."""

    differences: Sequence[Difference]
    same: int = 0
    bad: int = 0
    """How many documents both call bad."""
    explained: dict[str, int] = field(default_factory=dict)
    """Differences by name -> how often they occurred."""
    unexplained: list[Case] = field(default_factory=list)

    def add(self, ddl: str, documents: Sequence[bytes], spark: Sequence[Answer], ours: Sequence[Answer]) -> None:
        """Compare the answers to documents of one schema."""
        for document, theirs, own in zip(documents, spark, ours, strict=True):
            case = Case(ddl, document, theirs, own)
            reason = None if case.same else next((one for one in self.differences if one.explains(case)), None)
            if case.same:
                self.same += 1
                self.bad += theirs.bad
            elif reason is not None:
                self.explained[reason.name] = self.explained.get(reason.name, 0) + 1
            else:
                self.unexplained.append(case)

    def check(self) -> None:
        """Fail for differences that nothing explains, and for listed ones that never occurred."""
        shown = "\n".join(map(str, self.unexplained[:20]))
        assert not self.unexplained, f"{len(self.unexplained)} documents differ, the first are:\n{shown}"
        never = [one.name for one in self.differences if one.name not in self.explained]
        assert not never, f"listed differences that did not occur, so they may be none: {never}"


def compare(
    decoder: Decoder,
    questions: Sequence[tuple[str, Sequence[bytes]]],
    answers: Sequence[Sequence[Answer]],
    differences: Sequence[Difference],
) -> Comparison:
    """Ask a decoder what Spark has answered."""
    comparison = Comparison(differences)
    for (ddl, documents), spark in zip(questions, answers, strict=True):
        comparison.add(ddl, documents, spark, decoder(ddl, documents))
    return comparison


def document_of(written: Any) -> bytes:
    """A document as the files in tests/data/json have it: text, {"base64": …}, or {"parts": [[document, times], …]}."""
    if isinstance(written, str):
        return written.encode("utf-8", "surrogatepass")
    if "base64" in written:
        return base64.b64decode(written["base64"], validate=True)
    return b"".join(document_of(part) * times for part, times in written["parts"])


def hand_made() -> list[tuple[str, list[bytes]]]:
    """Schemas and documents, one for each fact that is known of Spark."""
    topics = json.loads((DATA / "facts.json").read_text("utf-8"))
    return [(topic["schema"], [document_of(one) for one in topic["documents"]]) for topic in topics]


def public_suite() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each document of JSONTestSuite."""
    for line in (DATA / "json-test-suite.jsonl").read_text("utf-8").splitlines():
        one = json.loads(line)
        yield one["name"], document_of(one["document"])


def public_questions() -> list[tuple[str, list[bytes]]]:
    """The public suite as a whole document, and as the value of a field that is wanted and of one that is not."""
    suite = [document for _, document in public_suite()]
    inside = [b'{"x":%b,"y":1}' % document for document in suite]
    schemas = ("x string, y int", "x array<string>, y int", "x array<double>, y int", "x map<string,string>", "y int")
    return [("a string, b int", suite), *((ddl, inside) for ddl in schemas)]
