"""The questions that find a log's leader epochs out, over what brokers answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit.core.machine.data_loss import epoch_before
from evensplit.core.model import EpochStart, EpochTable
from evensplit.kafka.admin.epoch_lookup import EPOCH_ROUNDS_MAX, EpochWalk
from evensplit.testing.fake_kafka import FakeKafka

KEY = ("t", 0)

Log = dict[int, int]
"""Epoch -> where it begins, as a broker has it."""


def answer(log: Log, end: int, wanted: int) -> tuple[int, int]:
    """As a broker's cache of epochs answers (`LeaderEpochFileCache.endOffsetFor`)."""
    if wanted == max(log, default=-1):
        return wanted, end
    later = [epoch for epoch in log if epoch > wanted]
    if not later:
        return -1, -1
    return max((epoch for epoch in log if epoch <= wanted), default=wanted), log[min(later)]


def walk(
    log: Log,
    *,
    end: int = 100,
    leader: int | None = None,
    start: int = 0,
    begins: int = 0,
    known: Sequence[tuple[int, int]] = (),
    questions: int = 99,
) -> list[tuple[int, int]]:
    table = tuple(EpochStart(*entry) for entry in known)
    one = EpochWalk(max(log, default=0) if leader is None else leader, start, table)
    asked = 0
    while one.asks is not None:
        one.take(*answer(log, end, one.asks))
        asked += 1
    assert asked <= min(len(log) + 1, questions)
    one.settle(begins)
    return [(entry.epoch, entry.start) for entry in one.table]


@pytest.mark.parametrize(
    "log, found",
    [
        ({0: 0}, [(0, 0)]),
        ({0: 0, 1: 60}, [(1, 60), (0, 0)]),
        ({0: 0, 3: 60, 4: 70}, [(4, 70), (3, 60), (0, 0)]),
        ({0: 0, 7: 60, 9: 60 + 9}, [(9, 69), (7, 60), (0, 0)]),
        # Epochs before the first record leave no trace.
        ({2: 0, 5: 10}, [(5, 10), (2, 0)]),
        ({1: 0}, [(1, 0)]),
    ],
)
def test_the_whole_table(log: Log, found: list[tuple[int, int]]) -> None:
    assert walk(log) == found


def test_an_epoch_without_a_record_begins_at_the_end() -> None:
    assert walk({0: 0, 1: 100}) == [(1, 100), (0, 0)]
    # Whether the leader has noted it down already or not.
    assert walk({0: 0}, leader=1) == [(1, 100), (0, 0)]


def test_nothing_is_asked_for_below_the_start() -> None:
    assert walk({0: 0, 1: 40, 2: 60, 3: 80}, start=60) == [(3, 80), (2, 60)]
    assert walk({0: 0, 1: 40, 2: 60, 3: 80}, start=59) == [(3, 80), (2, 60), (1, 40)]


@pytest.mark.parametrize("start", [0, 15, 30])
def test_what_was_deleted_at_the_beginning_is_of_no_epoch_that_is_known(start: int) -> None:
    """The first epoch begins with the log then, and the record before it need not be of the epoch before."""
    assert walk({1: 30, 4: 80}, start=start, begins=30) == [(4, 80), (1, 30)]
    assert walk({3: 30, 4: 80}, start=start, begins=30) == [(4, 80), (3, 30)]
    assert walk({4: 100}, start=start, begins=100) == [(4, 100)]
    assert walk({1: 100}, start=start, begins=100) == [(1, 100)]


def test_a_log_without_epochs_has_an_empty_table() -> None:
    assert walk({}, leader=3) == []


@pytest.mark.parametrize("nonsense", [(9, 50), (4, -1), (-1, 50)])
def test_an_answer_that_makes_no_sense_ends_it(nonsense: tuple[int, int]) -> None:
    one = EpochWalk(6, 0)
    one.take(4, 80)
    one.take(*nonsense)
    assert (one.asks, one.table) == (None, ((6, 80),))


LONG = {epoch: 10 * epoch for epoch in range(EPOCH_ROUNDS_MAX + 1)}


def test_what_is_known_is_not_asked_for_again() -> None:
    """As many entries as there may be: with a new one, the last one goes."""
    table = walk(LONG, end=650)
    assert len(table) == len(LONG)
    found = walk({**LONG, 70: 650}, end=660, known=table, questions=2)
    assert found == [(70, 650), *table[:-1]]
    # A leader without a record is known, which left no trace.
    assert walk({**LONG, 70: 650}, end=660, known=[(69, 650), *table], questions=2) == found


def test_what_was_replaced_is_asked_for_until_both_logs_have_an_epoch() -> None:
    known = [(9, 80), (7, 60), (5, 50), (0, 0)]
    assert walk({0: 0, 5: 50, 10: 55}, known=known, questions=3) == [(10, 55), (5, 50), (0, 0)]
    assert walk({0: 0, 5: 50, 8: 55, 10: 90}, known=known) == [(10, 90), (8, 55), (5, 50), (0, 0)]


Step = tuple[str, int]
STEPS = st.lists(st.tuples(st.sampled_from(["append", "elect", "cut", "delete"]), st.integers(0, 5)), max_size=30)


@given(STEPS)
def test_whatever_happens_to_a_log_what_is_known_of_it_leads_to_what_is_true(steps: list[Step]) -> None:
    """It leads as far as asking for everything does, and says nothing of what the log has had that is wrong."""
    kafka = FakeKafka("east")
    kafka.create_topic("t")
    truth: list[int] = []
    start = 0
    table: Mapping[tuple[str, int], EpochTable] = {}
    for what, number in steps:
        end, epoch = (of[KEY] for of in kafka.list_ends([KEY]))
        if what == "append":
            kafka.append(*KEY, number)
            truth += [epoch] * number
        elif what == "delete":
            start = min(start + number, end)
            kafka.delete_records(*KEY, start)
        elif what == "elect":
            kafka.elect(*KEY)
        else:
            kafka.truncate(*KEY, max(end - number, start))
            del truth[max(end - number, start) :]
        leaders, begins = kafka.list_ends([KEY]).epochs, {KEY: start}
        table, alone = kafka.list_epochs(leaders, begins, table), kafka.list_epochs(leaders, begins)
        for offset in range(1, len(truth) + 1):
            found = epoch_before(table[KEY], offset)
            assert found in (None, truth[offset - 1])
            assert found is not None or epoch_before(alone[KEY], offset) is None
