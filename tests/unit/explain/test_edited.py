"""Edits in sentences."""

from __future__ import annotations

from evensplit.core.model import SplitId
from evensplit.core.state.edits import Edit, Jump
from evensplit.explain.edited import PARTITIONS_NAMED_MAX, edit_sentence


def test_of_many_partitions_the_first_are_named() -> None:
    jumps = tuple(Jump(SplitId("east", "orders", number), 7, 8) for number in range(2_000))
    assert edit_sentence(Edit("skip", "orders/0:7", 0, jumps[:1])) == (
        "`evensplit skip orders/0:7`: east/orders/0: offset 7 is never read"
    )
    told = edit_sentence(Edit("skip", "orders/0:7 …", 0, jumps))
    assert told.count("offset 7 is never read") == PARTITIONS_NAMED_MAX
    assert told.endswith("east/orders/9: offset 7 is never read; … 2,000 partitions in all")
