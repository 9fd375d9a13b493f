"""Which metadata is older than what was said before."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.kafka.staleness import FORMER_IDS_MAX, Newest, topic_id

A, B, C = (uuid.UUID(int=number) for number in (1, 2, 3))
NONE = uuid.UUID(int=0)


def topic(name: str, of: uuid.UUID, *epochs: int, code: int = 0) -> Any:
    partitions = [SimpleNamespace(partition_index=number, leader_epoch=epoch) for number, epoch in enumerate(epochs)]
    return SimpleNamespace(name=name, topic_id=of, error_code=code, partitions=partitions)


def answer(*topics: Any) -> Any:
    return SimpleNamespace(topics=topics)


def told(*answers: Any) -> Newest:
    newest = Newest()
    for one in answers:
        assert newest.take(one) == ""
    return newest


def text(of: uuid.UUID) -> str:
    return topic_id(SimpleNamespace(topic_id=of))


@pytest.mark.parametrize(
    "before, after, why",
    [
        ([(A, 3, 5)], (A, 3, 4), "topic 't', partition 1: expected leader epoch 5 or a later one, found 4"),
        ([(A, 3, 5), (A, 4, 5)], (A, 3, 6), "topic 't', partition 0: expected leader epoch 4 or a later one, found 3"),
        ([(A, 3, 5)], (A, 3), "topic 't': expected 2 partitions or more, found 1"),
        ([(A, 3), (B, 0)], (A, 3), f"topic 't': expected topic id {text(B)}, found {text(A)}, which it had before"),
        (
            [(A, 3), (B, 0), (C, 0)],
            (A, 9),
            f"topic 't': expected topic id {text(C)}, found {text(A)}, which it had before",
        ),
    ],
)
def test_what_is_older(before: list[tuple[Any, ...]], after: tuple[Any, ...], why: str) -> None:
    assert told(*(answer(topic("t", *one)) for one in before)).take(answer(topic("t", *after))) == why


@pytest.mark.parametrize(
    "before, after",
    [
        ((A, 3, 5), (A, 3, 5)),
        ((A, 3, 5), (A, 4, 9, 0)),
        # Created anew: another topic.
        ((A, 3, 5), (B, 0)),
        # Brokers from before leader epochs, and partitions that are about to be deleted.
        ((A, 3, 5), (A, -1, -1)),
        ((A, 3, 5), (A, -2, -2)),
        # Brokers from before topic ids.
        ((NONE, 3, 5), (NONE, 0)),
        ((A, 3, 5), (NONE, 0)),
    ],
)
def test_what_is_not(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    told(answer(topic("t", *before)), answer(topic("t", *after)))


def test_a_topic_that_cannot_be_listed_says_nothing() -> None:
    newest = told(answer(topic("t", A, 3)), answer(topic("t", NONE, code=3)), answer(topic("t", B, 0)))
    assert "which it had before" in newest.take(answer(topic("t", A, 3)))


def test_topics_that_are_not_in_an_answer_are_remembered_up_to_twice_the_largest_one() -> None:
    newest = told(*(answer(topic(f"t{number}", A, 3), topic("always", A, 3)) for number in range(9)))
    assert [bool(newest.take(answer(topic(f"t{number}", A, 2)))) for number in (8, 7, 6, 5)] == [True] * 3 + [False]
    assert newest.take(answer(topic("always", A, 2)))


def test_the_latest_of_many_former_ids_are_remembered() -> None:
    ids = [uuid.UUID(int=number) for number in range(1, FORMER_IDS_MAX + 3)]
    newest = told(*(answer(topic("t", of, 0)) for of in ids))
    assert [bool(newest.take(answer(topic("t", of, 0)))) for of in ids[::-1]] == [
        False,
        *[True] * FORMER_IDS_MAX,
        False,
    ]
