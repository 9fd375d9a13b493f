"""Batches that no log has, as where progress is written later: none is read twice or not at all when one is planned
again from a state of long before, and what is declared lost is declared once.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.batch.plan import batch_ranges, plan_batch
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    RecordsLost,
    SplitsFinished,
    TimePassed,
)
from evensplit.core.model import Cause, Loss, Range
from evensplit.core.state.codec import decode, encode, same
from evensplit.core.state.settings import DECLARE
from evensplit.core.state.state import EnumeratorState, new_losses
from evensplit.errors import CheckpointError
from evensplit.explain.changes import changes
from tests.support.enumeration import INTERVAL_MS, ONE, THREE, TWO, Enumeration, listed, running


class Log:
    """The ends of all batches of a run; only some of them are ever kept, the latest of which is `durable`."""

    def __init__(self, one: Enumeration) -> None:
        self.one = one
        self.durable = one.state.revision
        self.ends: dict[int, EnumeratorState] = {one.state.revision: one.checkpoint()}

    def open(self) -> None:
        self.one.tell(BatchOpened(self.durable))

    def plan(self, **ends: int) -> EnumeratorState:
        """A batch that ends there: `p0=7` is the end of partition 0."""
        self.one.tell(BatchPlanned({ONE._replace(partition=int(name[1:])): end for name, end in ends.items()}))
        state = self.one.checkpoint()
        self.ends[state.revision] = state
        return state

    def batch(self, **ends: int) -> EnumeratorState:
        self.open()
        return self.plan(**ends)

    def ranges(self, since: int, upto: int) -> dict[int, tuple[int, int]]:
        """Partition -> what is read of it between two revisions."""
        return {part.split.partition: part[1:] for part in batch_ranges(self.ends[since], self.ends[upto])}


def log(count: int = 1, **wanted: object) -> Log:
    """All that there is stands at 10, in revision 2, which is durable."""
    return Log(running(count, 2, **wanted))  # type: ignore[arg-type]


# How batches are counted


def test_every_batch_that_is_planned_has_a_number() -> None:
    one = running(1, 1)
    revision = one.state.revision
    for number in range(1, 4):
        one.tell(BatchOpened(), TimePassed(1000 + number))
        assert one.state.revision == revision + number - 1, "one that is only opened has none"
        one.tell(BatchPlanned({}))
        assert one.checkpoint().revision == revision + number
    assert EnumeratorState().revision == 0


def test_a_new_process_counts_on() -> None:
    one = running(1, 1)
    one.restart(before := one.checkpoint())
    assert one.commit().revision == before.revision + 1


# A partition that is new


def test_a_new_partition_keeps_its_beginning_until_it_is_durable() -> None:
    done = log()
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}))
    done.plan(p1=8)
    done.batch(p0=12, p1=9)
    done.batch(p1=20)
    for number in (3, 4, 5):
        assert (done.ends[number].splits[TWO].first, done.ends[number].splits[TWO].since) == (5, 3)
    assert [done.ranges(2, upto) for upto in (3, 4, 5)] == [
        {1: (5, 8)},
        {0: (10, 12), 1: (5, 9)},
        {0: (10, 12), 1: (5, 20)},
    ]
    assert done.ranges(3, 5) == {0: (10, 12), 1: (8, 20)}, "it goes on from a state that has it"
    assert done.ranges(4, 5) == {1: (9, 20)}
    done.durable = 3
    after = done.batch()
    assert (after.splits[TWO].first, after.splits[TWO].since) == (None, 0)


def test_a_host_that_keeps_every_state_keeps_no_beginnings() -> None:
    one = running(1, 1)
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}), BatchPlanned({}))
    assert one.state.splits[TWO].first == 5
    one.tell(BatchOpened())
    assert one.state.splits[TWO].first is None


def test_no_revision_that_is_still_to_come_is_durable() -> None:
    """What begins with the batch that comes keeps its first position, whatever the host says."""
    one = running(1, 1)
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}), BatchOpened(99))
    assert one.state.splits[TWO].first == 5
    one.tell(BatchPlanned({}), BatchOpened(99))
    assert one.state.splits[TWO].first is None


def test_what_is_restored_keeps_what_may_have_to_be_planned_again() -> None:
    done = log()
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}))
    end = done.plan(p1=8)
    done.one.restart(end)
    done.one.register()
    done.batch(p1=11)
    assert done.ranges(2, 4) == {1: (5, 11)}


def test_what_a_reader_finished_before_the_batch_was_planned_is_read_once() -> None:
    """A checkpoint between two batches has it at its stop, and its beginning is of the batch that comes."""
    one = running(1, 1)
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}, {TWO: 9}))
    before, owner = one.checkpoint(), one.state.splits[TWO].owner
    assert owner is not None
    one.tell(SplitsFinished(owner, one.state.session.registrations[owner].epoch, {TWO: 9}))
    between = one.checkpoint()
    one.tell(BatchPlanned({}))
    assert batch_ranges(before, between) == (Range(TWO, 5, 9),)
    assert batch_ranges(between, between) == batch_ranges(between, one.checkpoint()) == ()


def test_a_state_that_has_neither_position_nor_beginning_is_of_another_batch() -> None:
    done = log()
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}))
    done.plan(p1=8)
    done.durable = 3
    done.batch(p1=9)
    with pytest.raises(CheckpointError, match=r"east/t/1 is to be read up to offset 9, and neither offset says from"):
        done.ranges(2, 4)
    splits = {**done.ends[4].splits, TWO: done.ends[4].splits[TWO]._replace(position=0)}
    assert batch_ranges(done.ends[2], replace(done.ends[4], splits=splits)) == ()


def test_batches_in_the_wrong_order_are_not_one_batch() -> None:
    done = log()
    done.batch(p0=20)
    with pytest.raises(CheckpointError, match=r"east/t/0 would be read from offset 20 to 10"):
        done.ranges(3, 2)


# A log that is another one


@pytest.mark.parametrize("position", [3, 10, 40], ids=["shorter", "as long", "longer"])
def test_a_recreation_in_a_gap_is_read_from_its_beginning(position: int) -> None:
    """However far the earlier one had been read, and wherever the gap begins."""
    done = log()
    done.batch(p0=25)
    done.one.observe()
    done.open()
    done.one.hear_twice(PartitionsListed("east", listed("t", 1, "id-2")))
    done.one.tell(OffsetsResolved({ONE: 0}))
    done.plan(p0=position)
    done.batch()
    for since in (2, 3):
        for upto in (4, 5):
            assert done.ranges(since, upto) == {0: (0, position)}
    assert done.ranges(4, 5) == {}


def test_a_recreation_whose_start_is_found_a_batch_later() -> None:
    done = log()
    done.one.observe()
    done.open()
    done.one.hear_twice(PartitionsListed("east", listed("t", 1, "id-2")))
    assert (done.plan().splits[ONE].position, done.ranges(2, 3)) == (None, {})
    done.open()
    done.one.tell(OffsetsResolved({ONE: 2}))
    done.plan(p0=15)
    assert done.ranges(2, 4) == done.ranges(3, 4) == {0: (2, 15)}


def truncated(done: Log) -> None:
    """The log ends at 6, before the position, as three answers say; it goes on from there."""
    now_ms = done.one.state.session.now_ms or 0
    done.open()
    for number in (1, 2, 3):
        done.one.tell(TimePassed(now_ms + number * INTERVAL_MS), LogsObserved("east", {ONE: 6}, answer=100 + number))
    assert done.one.state.splits[ONE].position == 6


@pytest.mark.parametrize("position", [8, 10, 40])
def test_a_truncation_in_a_gap_is_read_from_where_the_log_was_cut(position: int) -> None:
    done = log(loss=DECLARE)
    done.batch(p0=25)
    truncated(done)
    done.plan(p0=position)
    done.batch()
    for since in (2, 3):
        for upto in (4, 5):
            assert done.ranges(since, upto) == {0: (6, position)}


def test_records_that_aged_out_in_a_gap_are_passed_over() -> None:
    done = log(loss=DECLARE)
    done.batch(p0=12)
    done.open()
    done.one.tell(LogsObserved("east", {ONE: 90}, {ONE: 50}))
    done.plan(p0=60)
    assert done.ranges(2, 4) == {0: (50, 60)}


# What is not there at the end


def test_what_is_removed_in_a_gap_was_read_by_the_batches_before() -> None:
    done = log(2)
    done.batch(p0=12, p1=20)
    done.one.observe()
    done.open()
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    done.one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    done.plan(p0=15)
    assert done.one.lives()["east/t/1"] == "retained"
    assert done.ranges(2, 4) == {0: (10, 15)}
    assert plan_batch(done.ends[2], done.ends[4]).offsets == 5
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 2, "id-t")))
    done.plan(p1=22)
    assert done.ranges(3, 5) == {0: (12, 15), 1: (20, 22)}, "what is back goes on"
    assert done.ranges(4, 5) == {1: (20, 22)}


def test_a_split_that_comes_and_goes_in_a_gap_reads_nothing_at_its_end() -> None:
    done = log(2)
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 3, "id-t")), OffsetsResolved({THREE: 5}))
    done.plan(p2=9)
    done.one.observe()
    done.open()
    less = PartitionsListed("east", listed("t", 2, "id-t"))
    done.one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    done.plan()
    assert done.ranges(2, 4) == {}
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 3, "id-t")))
    done.plan(p2=11)
    assert done.ranges(2, 5) == {2: (5, 11)}


# What is declared


def test_a_loss_is_carried_until_it_is_durable_and_told_once() -> None:
    done = log(loss=DECLARE)
    first, second = Loss(ONE, Cause.OUT_OF_RANGE, 3, 5, 2), Loss(ONE, Cause.OUT_OF_RANGE, 7, 9, 2)
    done.open()
    done.one.tell(RecordsLost((first,)))
    done.plan()
    done.batch()
    done.open()
    done.one.tell(RecordsLost((second,)))
    done.plan()
    done.durable = 3
    done.batch()
    done.durable = 6
    done.batch()
    assert [done.ends[number].losses for number in range(2, 8)] == [
        (),
        (first,),
        (first,),
        (first, second),
        (second,),
        (),
    ]
    told = [changes(done.ends[number - 1], done.ends[number]).losses for number in range(3, 8)]
    assert told == [(first,), (), (second,), (), ()]
    assert changes(done.ends[2], done.ends[5]).losses == (first, second), "whatever is kept of it"
    assert [same(done.ends[number], done.ends[number - 1]) for number in range(3, 8)] == [
        False,
        True,
        False,
        True,
        True,
    ]


def test_a_loss_that_is_noticed_between_batches_is_carried_as_one_of_the_next() -> None:
    done = log(loss=DECLARE)
    loss = Loss(ONE, Cause.OUT_OF_RANGE, 3, 5, 2)
    done.one.tell(RecordsLost((loss,)))
    done.batch()
    done.durable = 2
    assert done.batch().losses == (loss,)
    done.durable = 3
    assert done.batch().losses == ()


def test_a_loss_that_comes_twice_is_two() -> None:
    loss = Loss(ONE, Cause.OUT_OF_RANGE, 3, 5, 2)
    once, again = EnumeratorState(losses=(loss,)), EnumeratorState(losses=(loss, loss))
    assert new_losses(once, again) == (loss,)
    assert new_losses(again, again) == new_losses(again, once) == ()
    done = log(loss=DECLARE)
    for number in (3, 4):
        done.open()
        done.one.tell(RecordsLost((loss,)))
        done.plan()
        assert changes(done.ends[number - 1], done.ends[number]).losses == (loss,)


def test_an_unchanged_world_in_a_gap_is_no_news() -> None:
    done = log()
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 5}))
    before = done.plan(p1=8)
    after = done.batch()
    assert same(after, before)
    assert same(decode(encode(after)), before)
    assert not changes(before, after)
    assert batch_ranges(before, after) == ()


# States of formats that did not count batches


def test_a_state_that_counts_goes_on_from_one_that_did_not() -> None:
    """First positions of such a state are of the batch that it is the end of, and are dropped with the next."""
    done = log(2)
    old = replace(done.ends[2], revision=0)
    began = replace(old, splits={**old.splits, TWO: old.splits[TWO]._replace(first=3)})
    done.one.restart(began)
    done.one.register()
    done.durable = 0
    done.batch(p1=14)
    assert done.one.state.splits[TWO].first is None
    assert batch_ranges(began, done.ends[1]) == (Range(TWO, 10, 14),)
    done.open()
    done.one.tell(PartitionsListed("east", listed("t", 3, "id-t")), OffsetsResolved({THREE: 5}))
    done.plan(p2=6)
    assert batch_ranges(began, done.ends[2]) == (Range(TWO, 10, 14), Range(THREE, 5, 6))
