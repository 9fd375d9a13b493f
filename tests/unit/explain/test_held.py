"""What held a batch back, in words."""

from __future__ import annotations

import pytest

from evensplit.core.model import Held, SplitId
from evensplit.explain.held import held_by, held_sentence, is_under, over, without_partitions


@pytest.mark.parametrize(
    "held, said",
    [
        (Held("maxOffsetsPerTrigger"), "maxOffsetsPerTrigger"),
        (Held("maxBytesPerTrigger", "eu"), "maxBytesPerTrigger of cluster eu"),
        (Held("maxBytesPerTrigger", "eu/orders"), "maxBytesPerTrigger of topic eu/orders"),
        (Held("alignment", "west/orders/3"), "alignment, which waits for west/orders/3"),
    ],
)
def test_each_is_said(held: Held, said: str) -> None:
    assert held_by(held) == said
    assert held_sentence((held,)) == f"held by {said}"


def test_all_are_said_up_to_a_number() -> None:
    assert held_sentence(()) == ""
    many = tuple(Held("maxBytesPerTrigger", f"c{number}") for number in range(7))
    assert held_sentence(many).endswith("of cluster c4, … 7 in all")


def test_what_is_under_a_limit() -> None:
    split = SplitId("eu", "orders", 3)
    assert all(is_under(split, Held("maxBytesPerTrigger", scope)) for scope in ("", "eu", "eu/orders"))
    assert not any(is_under(split, Held("maxBytesPerTrigger", scope)) for scope in ("us", "eu/clicks"))
    assert is_under(split, Held("alignment", "us/orders/3"))
    assert not any(is_under(split, Held("alignment", waited)) for waited in ("eu/orders/3", "eu"))


def test_alignment_comes_last_and_once() -> None:
    waits = tuple(Held("alignment", f"eu/orders/{number}") for number in range(2))
    assert held_sentence(waits) == "held by alignment, which waits for eu/orders/0, eu/orders/1"
    assert held_sentence((*waits, Held("maxBytesPerTrigger", "us"))) == (
        "held by maxBytesPerTrigger of cluster us, and alignment, which waits for eu/orders/0, eu/orders/1"
    )
    assert (
        held_sentence((Held("alignment"), Held("maxOffsetsPerTrigger")))
        == "held by maxOffsetsPerTrigger, and alignment"
    )


def test_of_the_limits_around_a_split_the_narrowest_are_meant() -> None:
    split = SplitId("eu", "orders", 3)
    all_, cluster, topic = (Held("maxOffsetsPerTrigger", scope) for scope in ("", "eu", "eu/orders"))
    in_bytes, other = Held("maxBytesPerTrigger", "eu"), Held("maxBytesPerTrigger", "us")
    assert over(split, (all_, cluster, topic, in_bytes, other)) == (topic,)
    assert over(split, (in_bytes, other, all_, cluster)) == (in_bytes, cluster)
    assert over(split, (other, all_)) == (all_,)
    assert over(split, (other,)) == ()


def test_alignment_to_other_limits_is_not_what_keeps_what_is_under_them() -> None:
    aligned, of_topic = Held("alignment"), Held("maxOffsetsPerTrigger", "eu/orders")
    assert over(SplitId("eu", "orders", 3), (aligned, of_topic)) == (of_topic,)
    assert over(SplitId("us", "orders", 3), (aligned, of_topic)) == (aligned,)
    waits = Held("alignment", "us/orders/3")
    assert over(SplitId("us", "orders", 3), (waits, of_topic)) == ()
    assert over(SplitId("eu", "orders", 3), (waits, of_topic)) == (waits, of_topic)


def test_partitions_are_named_by_their_topics() -> None:
    held = (
        Held("alignment", "eu/orders/0"),
        Held("alignment", "eu/orders/1"),
        Held("alignment", "us"),
        Held("x", "a/b"),
    )
    assert without_partitions(held) == (
        Held("alignment", "eu/orders"),
        Held("alignment", "us"),
        Held("x", "a/b"),
    )
