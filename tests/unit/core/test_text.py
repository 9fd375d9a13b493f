"""Names in sentences."""

from __future__ import annotations

from evensplit.core.text import few


def test_the_first_few_are_named_and_all_are_counted() -> None:
    assert few([]) == ""
    assert few(["a", "b", "c"]) == "a, b, c"
    assert few(["a", "b", "c", "d"]) == "a, b, c, … 4 in all"
