"""Messages of Protocol Buffers are decoded as Spark's `from_protobuf` decodes them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from evensplit.typed.projection import Path as Names
from evensplit.typed.protobuf.descriptors import find_message, from_set
from evensplit.typed.protobuf.reading import read_type
from evensplit.typed.types import Array, DataType, Struct
from tests.support import protobuf_messages
from tests.support.from_json import Answer, Comparison, Difference
from tests.support.from_protobuf import (
    Question,
    compiled,
    decoding,
    descriptor_set,
    kernel_answers,
    projected,
    spark_answers,
)
from tests.support.protobuf_facts import MESSAGES

pytestmark = pytest.mark.lengthy

TYPES, MESSAGES_OF_EACH = 60, 60
SEED = 20

DIFFERENCES = (
    Difference(
        "a field of messages without a field",
        "Spark has no column for it, and still looks how it is written; what nobody can ask for is passed over here",
        lambda case: case.spark.bad and not case.ours.bad and case.document == b"\x58\x00",
    ),
)
"""Where the kernel is meant to differ from Spark, and why. So does what is wrong in fields that nobody asked for."""


def generated(seed: int, types: int = TYPES) -> list[Question]:
    """Types, and messages for each."""
    random = Random(seed)
    time = FileDescriptorProto.FromString(TIMESTAMP_FILE.serialized_pb)
    questions: list[Question] = []
    for number in range(types):
        made = protobuf_messages.file_of(random, number, proto3=random.random() < 0.5)
        name, described = f"{made.package}.Root", descriptor_set(time, made)
        of = find_message(from_set(described), name)
        whole = [protobuf_messages.message(random, of, random.choice((0, 0.1, 0.3))) for _ in range(MESSAGES_OF_EACH)]
        damaged = [one if random.random() < 0.8 else protobuf_messages.damaged(random, one) for one in whole]
        questions.append((described, name, damaged))
    return questions


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    """Those of one seed."""
    return generated(SEED)


@pytest.fixture(scope="module")
def answers(questions: list[Question]) -> list[list[Answer]]:
    """What Spark says of them."""
    return spark_answers(questions)


def test_a_seed_says_what_is_made() -> None:
    assert generated(7, 3) == generated(7, 3) != generated(8, 3)


def test_messages_are_of_all_kinds(answers: list[list[Answer]]) -> None:
    flat = [answer for said in answers for answer in said]
    assert len(flat) == TYPES * MESSAGES_OF_EACH
    assert len(flat) // 8 < sum(answer.bad for answer in flat) < len(flat) // 2


def test_what_is_known_of_spark(tmp_path: Path) -> None:
    described = [compiled(tmp_path, ("facts.proto", fact.source)) for fact in MESSAGES]
    asked = [(one, "facts.Root", fact.messages) for one, fact in zip(described, MESSAGES, strict=True)]
    comparison = Comparison(DIFFERENCES)
    for (one, name, messages), fact, said in zip(asked, MESSAGES, spark_answers(asked), strict=True):
        comparison.add(fact.name, messages, said, kernel_answers(one, name, messages))
    comparison.check()
    assert comparison.same // 5 < comparison.bad < comparison.same // 2


def test_the_kernel_decodes_as_spark_does(questions: list[Question], answers: list[list[Answer]]) -> None:
    comparison = Comparison(differences=())
    for (described, name, messages), said in zip(questions, answers, strict=True):
        comparison.add(
            str(read_type(from_set(described), name)), messages, said, kernel_answers(described, name, messages)
        )
    comparison.check()


def test_fields_that_are_asked_for_are_the_same_without_the_others(
    questions: list[Question], answers: list[list[Answer]]
) -> None:
    random = Random(SEED)
    noticed = 0
    for (described, name, messages), said in zip(questions, answers, strict=True):
        descriptors = from_set(described)
        whole = read_type(descriptors, name)
        paths = all_paths(whole)
        chosen = random.sample(paths, min(len(paths), random.choice((1, 2, 4))))
        part = decoding(descriptors, name, *(".".join(path) for path in chosen)).type
        found = kernel_answers(described, name, messages, *(".".join(path) for path in chosen))
        for message, spark, ours in zip(messages, said, found, strict=True):
            # What is wrong in fields that nobody asked for is not looked at.
            if not spark.bad:
                assert not ours.bad, (name, chosen, message)
                assert ours.value == projected(spark.value, whole, part), (name, chosen, message)
            noticed += spark.bad and ours.bad
    assert noticed > 100


def all_paths(of: DataType, here: Names = ()) -> list[Names]:
    """The fields of a type, those inside of others, too."""
    if isinstance(of, Array):
        return all_paths(of.element, here)
    if not isinstance(of, Struct):
        return []
    found = []
    for field in of.fields:
        found += [(*here, field.name), *all_paths(field.type, (*here, field.name))]
    return found
