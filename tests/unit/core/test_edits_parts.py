"""What edits are worked out by: ranges put together, and what can be gone back to."""

from __future__ import annotations

from typing import Any

from evensplit.core.repair import advice, past, proof
from evensplit.core.repair.places import left_out
from evensplit.core.state.edits import Jump
from tests.unit.core.test_edits import DONE, END, A, C


def test_ranges_that_meet_are_one_and_empty_ones_are_none() -> None:
    assert past.union([(5, 5), (1, 2), (2, 4), (9, 10)]) == ((1, 4), (9, 10))
    assert proof._joined([(3, 5), (1, 3), (7, 8)]) == [(1, 5), (7, 8)]


def test_only_what_was_left_out_is_a_place_to_go_back_to() -> None:
    """Not where a rewind led."""
    jumps = [Jump(A, 150, 160), Jump(A, 120, 130), Jump(C, 9, 5)]
    assert left_out(jumps, [END], DONE) == {A: 120}


def test_of_a_copy_there_is_nothing_to_advise_but_what_is_said_of_copies() -> None:
    record: Any = type("Record", (), {"said": ("fork", "/new")})()
    assert list(advice._on_last("/place", record, [])) == []
