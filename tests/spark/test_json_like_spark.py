"""JSON is decoded as Spark's `from_json` decodes it: the judge, and what shows that it judges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from tests.support import json_documents
from tests.support.from_json import (
    Answer,
    Case,
    Decoder,
    Difference,
    all_spark_answers,
    compare,
    failfast,
    hand_made,
    public_questions,
    public_suite,
    spark_answers,
)
from tests.support.json_differences import DIFFERENCES
from tests.support.json_kernel import kernel_answers

pytestmark = pytest.mark.spark

SCHEMAS, DOCUMENTS = 40, 50
BATCH = 8
"""Schemas that one job of Spark takes: a plan of many more takes longer than its job."""

SEED = 20

TAKEN_BY_SPARK = [
    "n_number_NaN.json",
    "n_number_infinity.json",
    "n_number_minus_infinity.json",
    "n_object_single_quote.json",
    "n_string_single_quote.json",
    "n_structure_object_followed_by_closing_object.json",
]
"""What no parser should accept: quotes and numbers that are not JSON's, and what follows the end of a document."""

Questions: TypeAlias = list[tuple[str, list[bytes]]]
Answers: TypeAlias = list[list[Answer]]


def generated(seed: int) -> Questions:
    """Schemas, and documents for each."""
    random = Random(seed)
    schemas = [json_documents.schema(random) for _ in range(SCHEMAS)]
    return [(json_documents.ddl(one), json_documents.documents(random, one, DOCUMENTS)) for one in schemas]


def answered(spark: SparkSession, questions: Questions) -> Answers:
    """Spark's answers to all of them."""
    jobs = [questions[at : at + BATCH] for at in range(0, len(questions), BATCH)]
    return [answers for job in jobs for answers in all_spark_answers(spark, job)]


@pytest.fixture(scope="module")
def questions() -> Questions:
    """Those of one seed."""
    return generated(SEED)


@pytest.fixture(scope="module")
def answers(spark: SparkSession, questions: Questions) -> Answers:
    """What Spark says of them."""
    return answered(spark, questions)


def recited(questions: Questions, answers: Answers, change: Callable[[bytes, Answer], Answer]) -> Decoder:
    """A decoder that knows Spark's answers by heart, besides those that it changes."""
    known = {ddl: said for (ddl, _), said in zip(questions, answers, strict=True)}

    def decoder(ddl: str, documents: Sequence[bytes]) -> list[Answer]:
        return [change(document, answer) for document, answer in zip(documents, known[ddl], strict=True)]

    return decoder


def kept(document: bytes, answer: Answer) -> Answer:
    """No change."""
    return answer


def test_a_seed_says_what_is_made() -> None:
    assert generated(7) == generated(7) != generated(8)


def test_documents_are_of_all_kinds(answers: Answers) -> None:
    flat = [answer for said in answers for answer in said]
    bad, null = sum(answer.bad for answer in flat), sum(answer.value is None for answer in flat)
    assert len(flat) == SCHEMAS * DOCUMENTS
    assert len(flat) // 5 < bad < len(flat) // 2
    assert 0 < null < len(flat) // 50


def test_failfast_stops_at_the_documents_that_permissive_calls_corrupt(
    spark: SparkSession, questions: Questions, answers: Answers
) -> None:
    # Each that it stops at takes time, for the text of the error: a few of each schema have to do.
    for (ddl, documents), said in zip(questions, answers, strict=True):
        pairs = list(zip(documents, said, strict=True))
        tried = [pair for pair in pairs if not pair[1].bad] + [pair for pair in pairs if pair[1].bad][:2]
        assert failfast(spark, ddl, [document for document, _ in tried]) == [answer.bad for _, answer in tried]


def test_one_schema_alone_has_the_same_answers(spark: SparkSession, questions: Questions, answers: Answers) -> None:
    for (ddl, documents), said in list(zip(questions, answers, strict=True))[:3]:
        assert spark_answers(spark, ddl, documents) == said


def test_values_compare_exactly(spark: SparkSession) -> None:
    ddl = "d double, f float, n decimal(20,2), t timestamp, l timestamp_ntz, y date, m map<string,int>, b binary"
    whole = (
        b'{"d":-0.0,"f":0.1,"n":1,"t":"294247-01-10T04:00:54.775807Z","l":"-0001-01-01","y":"5881580-07-11",'
        b'"m":{"k":1,"k":2},"b":"AP8="}'
    )
    nothing, empty, wrong = spark_answers(spark, ddl, [b"", b"{}", b'{"d":NaN,"f":"x"}'])
    assert nothing == Answer(bad=False, value=None)
    assert empty == Answer(bad=False, value=(None,) * 8)
    assert wrong == Answer(bad=True, value=("nan", *(None,) * 7))
    (answer,) = spark_answers(spark, ddl, [whole])
    assert isinstance(answer.value, tuple)
    *numbers, pairs, raw = answer.value
    assert list(map(str, numbers)) == [
        *("-0.0", "0.10000000149011612", "1.00"),
        *(str(2**63 - 1), str(-62_198_755_200_000_000), str(2**31 - 1)),
    ]
    assert (pairs, raw) == ((("k", 1), ("k", 2)), b"\x00\xff")


def test_a_decoder_that_says_the_same_has_no_difference(questions: Questions, answers: Answers) -> None:
    found = compare(recited(questions, answers, kept), questions, answers, differences=())
    found.check()
    assert (found.same, found.explained) == (SCHEMAS * DOCUMENTS, {})
    assert found.bad == sum(answer.bad for said in answers for answer in said)


def test_the_value_of_a_bad_document_does_not_count(questions: Questions, answers: Answers) -> None:
    def forgets(document: bytes, answer: Answer) -> Answer:
        return replace(answer, value=None) if answer.bad else answer

    compare(recited(questions, answers, forgets), questions, answers, differences=()).check()


def test_a_difference_that_nothing_explains_fails(questions: Questions, answers: Answers) -> None:
    document = questions[5][1][9]

    def lenient(asked: bytes, answer: Answer) -> Answer:
        return replace(answer, bad=not answer.bad) if asked == document else answer

    found = compare(recited(questions, answers, lenient), questions, answers, differences=())
    with pytest.raises(AssertionError, match=r"1 documents differ(.|\n)*Spark: "):
        found.check()


def test_a_difference_that_is_listed_passes_and_one_that_never_occurs_fails(
    questions: Questions, answers: Answers
) -> None:
    def nulls(document: bytes, answer: Answer) -> Answer:
        return Answer(bad=True, value=None) if answer.value is None and not answer.bad else answer

    def blank(case: Case) -> bool:
        return case.ours.bad and not case.document.strip()

    decoder = recited(questions, answers, nulls)
    listed = Difference("blank", "an empty value is no document", blank)
    found = compare(decoder, questions, answers, [listed])
    found.check()
    assert found.explained["blank"] > 0
    never = Difference("never", "nothing does this", lambda case: False)
    with pytest.raises(AssertionError, match=r"did not occur.*'never'"):
        compare(decoder, questions, answers, [listed, never]).check()


def test_the_public_suite_is_judged_in_a_field_that_nobody_wants(spark: SparkSession) -> None:
    names = [name for name, _ in public_suite()]
    ddl, documents = public_questions()[-1]
    bad = {name for name, answer in zip(names, spark_answers(spark, ddl, documents), strict=True) if answer.bad}
    assert len(set(names)) == 293
    assert not [name for name in names if name.startswith("y_") and name in bad]
    assert [name for name in names if name.startswith("n_") and name not in bad] == TAKEN_BY_SPARK


def test_every_document_that_was_collected_has_an_answer(spark: SparkSession) -> None:
    for asked in (public_questions(), hand_made()):
        said = answered(spark, asked)
        assert [len(documents) for _, documents in asked] == [len(one) for one in said]
        flat = [answer.bad for one in said for answer in one]
        assert len(flat) // 5 < sum(flat) < len(flat) * 9 // 10


def test_the_kernel_decodes_as_spark_does(spark: SparkSession, questions: Questions, answers: Answers) -> None:
    collected = [*public_questions(), *hand_made()]
    said = [*answered(spark, collected), *answers]
    compare(kernel_answers, [*collected, *questions], said, DIFFERENCES).check()
