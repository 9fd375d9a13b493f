"""What held a batch back, in words."""

from __future__ import annotations

import pytest

from evensplit.core.model import Held, SplitId
from evensplit.explain.held import held_by, held_sentence, is_under


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
    assert held_sentence((held,)) == f"held: {said}"


def test_all_are_said_up_to_a_number() -> None:
    assert held_sentence(()) == ""
    many = tuple(Held("maxBytesPerTrigger", f"c{number}") for number in range(7))
    assert held_sentence(many).endswith("of cluster c4, …")


def test_what_is_under_a_limit() -> None:
    split = SplitId("eu", "orders", 3)
    assert all(is_under(split, Held("maxBytesPerTrigger", scope)) for scope in ("", "eu", "eu/orders"))
    assert not any(is_under(split, Held("maxBytesPerTrigger", scope)) for scope in ("us", "eu/clicks"))
    assert is_under(split, Held("alignment", "us/orders/3"))
    assert not any(is_under(split, Held("alignment", waited)) for waited in ("eu/orders/3", "eu"))
