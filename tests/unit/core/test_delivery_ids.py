"""Transactional ids, and which slots a task may take."""

from __future__ import annotations

import pytest

from evensplit.core.delivery.ids import GIVEN_BACK, asked_for, is_free, ledger_id, task_id, task_ids_begin, used_for


@pytest.mark.parametrize(
    "last, free",
    [
        (b"", True),
        (GIVEN_BACK, True),
        (used_for(6), True),
        (used_for(7), False),
        (used_for(8), False),
        (used_for(10), False),
        (asked_for(6), False),
        (b"6x", False),
        (b"-1", False),
    ],
)
def test_a_slot_is_free_if_an_earlier_batch_has_used_it(last: bytes, free: bool) -> None:
    assert is_free(last, 7) is free


def test_ids_of_tasks_begin_alike_and_that_of_the_ledger_does_not() -> None:
    assert task_id("my.app", "q", "h-1") == "my.app.q.h-1"
    assert task_id("my.app", "q", "h-1").startswith(task_ids_begin("my.app", "q"))
    assert not ledger_id("my.app", "q").startswith(task_ids_begin("my.app", "q"))
