"""Which metadata is older than what was said before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evensplit.kafka.admin.staleness import Newest

A, B, NONE = "a", "b", ""


def topic(name: str, of: str, *epochs: int, code: int = 0) -> Any:
    partitions = [SimpleNamespace(partition_index=number, leader_epoch=epoch) for number, epoch in enumerate(epochs)]
    return SimpleNamespace(name=name, topic_id=of, error_code=code, partitions=partitions)


def answer(*topics: Any) -> Any:
    return SimpleNamespace(topics=topics)


def told(*answers: Any) -> Newest:
    newest = Newest()
    for one in answers:
        assert newest.take(one) == ""
    return newest


@pytest.mark.parametrize(
    "before, after, why",
    [
        ([(A, 3, 5)], (A, 3, 4), "topic 't', partition 1: expected leader epoch 5 or a later one, found 4"),
        ([(A, 3, 5), (A, 4, 5)], (A, 3, 6), "topic 't', partition 0: expected leader epoch 4 or a later one, found 3"),
        ([(A, 3, 5)], (A, 3), "topic 't': expected 2 partitions or more, found 1"),
        ([(A, 3), (B, 0)], (A, 2), "topic 't', partition 0: expected leader epoch 3 or a later one, found 2"),
    ],
)
def test_what_is_older(before: list[tuple[Any, ...]], after: tuple[Any, ...], why: str) -> None:
    assert told(*(answer(topic("t", *one)) for one in before)).take(answer(topic("t", *after))) == why


@pytest.mark.parametrize(
    "before, after",
    [
        ((A, 3, 5), (A, 3, 5)),
        ((A, 3, 5), (A, 4, 9, 0)),
        # Created anew: another topic. Or the first answer was the old one: that is not to be told here.
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


def test_an_id_that_came_once_makes_no_other_one_old() -> None:
    """Whoever lags behind is asked in between, and names the topic that was there before."""
    told(answer(topic("t", B, 0)), answer(topic("t", A, 3)), answer(topic("t", B, 0)), answer(topic("t", B, 1)))


def test_a_topic_that_cannot_be_listed_says_nothing() -> None:
    newest = told(answer(topic("t", A, 3)), answer(topic("t", NONE, code=3)))
    assert "leader epoch 3" in newest.take(answer(topic("t", A, 2)))


def test_topics_that_are_not_in_an_answer_are_remembered_up_to_twice_the_largest_one() -> None:
    newest = told(*(answer(topic(f"t{number}", A, 3), topic("always", A, 3)) for number in range(9)))
    assert [bool(newest.take(answer(topic(f"t{number}", A, 2)))) for number in (8, 7, 6, 5)] == [True] * 3 + [False]
    assert newest.take(answer(topic("always", A, 2)))
