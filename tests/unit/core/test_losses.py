"""Records that are gone: what is a loss and how large, when it is believed, and what becomes of the position (S9)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.machine.effects import Assign, Effect, Forget, ReportLoss, ResolveStart
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    ClustersListed,
    Event,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    ReadLogsPolled,
    RecordsLost,
    SettingsChanged,
    TimePassed,
)
from evensplit.core.model import Cause, ListedPartition, Loss, Range, SplitId, StartBy
from evensplit.core.state.settings import DECLARE, FAIL, Settings
from tests.support.enumeration import EAST, INTERVAL_MS, ONE, TWO, WEST, Enumeration, listed


def running(loss: str = DECLARE, position: int = 10, **settings: object) -> Enumeration:
    """Two partitions, read from offset 5 up to `position`; it is 1,000 ms. No batch is open; the logs were not seen.

    All that was read was there.
    """
    one = Enumeration(2, Settings(**settings), loss=loss)  # type: ignore[arg-type]
    one.tell(TimePassed(1000))
    one.discover(EAST, at=5, t=2)
    one.register()
    one.tell(BatchOpened(), BatchPlanned({ONE: position, TWO: position}), BatchOpened())
    one.tell(ReadLogsPolled("east", {ONE: "id-t", TWO: "id-t"}, {ONE: 5, TWO: 5}, answer=1), BatchPlanned({}))
    return one


LATER = TimePassed(1000 + INTERVAL_MS)
"""So long after `running` began that a log which ends before its position may be believed."""


def reported(effects: Sequence[Effect]) -> list[tuple[Loss, bool]]:
    return [(effect.loss, effect.fatal) for effect in effects if isinstance(effect, ReportLoss)]


def ends(number: int, **by_partition: int) -> LogsObserved:
    """Answer `number`: `p0=7` is the end of partition 0."""
    found = {SplitId("east", "t", int(name[1:])): end for name, end in by_partition.items()}
    return LogsObserved("east", found, answer=number)


def gone(one: Enumeration) -> tuple[Effect, ...]:
    """Partition 1 is not there any more, as two complete answers say."""
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    now_ms = one.state.session.now_ms or 0
    return one.tell(less, TimePassed(now_ms + INTERVAL_MS), less)


# What was unread of it


@pytest.mark.parametrize(
    "seen, loss",
    [
        ((), Loss(TWO, Cause.DELETED, 10)),
        ((14,), Loss(TWO, Cause.DELETED, 10, 14, 4)),
        ((11,), Loss(TWO, Cause.DELETED, 10, 11, 1)),
        ((10,), None),
        ((9,), None),
        # Another broker has not heard of everything yet.
        ((14, 12), Loss(TWO, Cause.DELETED, 10, 14, 4)),
        ((14, 8), Loss(TWO, Cause.DELETED, 10, 14, 4)),
    ],
    ids=str,
)
def test_a_deletion_loses_what_was_seen_and_not_read(seen: tuple[int, ...], loss: Loss | None) -> None:
    one = running()
    for number, end in enumerate(seen):
        one.tell(ends(number, p0=10, p1=end))
    assert reported(gone(one)) == ([] if loss is None else [(loss, False)])
    assert one.state.losses == (() if loss is None else (loss,))
    assert one.lives()["east/t/1"] == "retained"


def test_a_deletion_that_ends_the_run_changes_nothing_that_lasts() -> None:
    one = running(FAIL)
    one.tell(ends(0, p0=10, p1=14))
    before = one.state
    effects = gone(one)
    assert reported(effects) == [(Loss(TWO, Cause.DELETED, 10, 14, 4), True)]
    (effect,) = (effect for effect in effects if isinstance(effect, ReportLoss))
    assert effect.split == TWO
    assert effect.detail.startswith("it was deleted")
    assert effect.detail.endswith(
        ". At most 4 offsets from 10 on were lost. To go on without them, set failOnDataLoss=false, or start with a "
        "new checkpoint"
    )
    assert one.state == before


def test_without_retention_a_deleted_split_is_forgotten_and_its_loss_is_not() -> None:
    one = running(retention_ms=0)
    one.tell(ends(0, p1=14))
    assert Forget(TWO) in gone(one)
    assert [loss.split for loss in one.state.losses] == [TWO]
    assert TWO not in one.state.session.ends["east"]
    # What comes back is new: what was seen of the earlier one says nothing about it.
    one.tell(BatchOpened(), PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 3}))
    assert reported(gone(one)) == [(Loss(TWO, Cause.DELETED, 3), False)]


def test_behind_its_stop_nothing_is_lost() -> None:
    one = running(bounded=True)
    one.tell(OffsetsResolved({}, stops={TWO: 12}), ends(0, p1=99))
    assert reported(gone(one)) == [(Loss(TWO, Cause.DELETED, 10, 12, 2), False)]


def test_a_recreation_says_which_topic_ids_and_that_it_is_read_anew() -> None:
    one = running()
    one.tell(ends(0, p0=10, p1=11))
    effects = one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    (report,) = (effect for effect in effects if isinstance(effect, ReportLoss))
    assert report.loss == Loss(TWO, Cause.RECREATED, 10, 11, 1)
    assert report.detail == (
        "the topic was deleted and created anew: expected topic id id-t, found id-2. The new one is read from its "
        "beginning. At most 1 offset from 10 on was lost"
    )
    assert ResolveStart("east", (ONE, TWO), StartBy.EARLIEST) in effects
    # Of the new one nothing has been seen yet.
    one.tell(OffsetsResolved({ONE: 0, TWO: 0}))
    assert reported(one.hear_twice(PartitionsListed("east", listed("t", 1, "id-3")))) == [
        (Loss(ONE, Cause.RECREATED, 0), False)
    ]


def test_a_topic_that_gets_another_id_before_it_has_a_start_is_another_one() -> None:
    """What was seen of the log before says nothing."""
    one = running()
    key, two = SplitId("east", "u", 0), listed("t", 2, "id-t")
    one.tell(PartitionsListed("east", (*two, *listed("u", 1, "id-1"))), LogsObserved("east", {key: 100}))
    one.tell(PartitionsListed("east", (*two, *listed("u", 1, "id-2"))), OffsetsResolved({key: 4}))
    less = PartitionsListed("east", listed("t", 2, "id-t"))
    assert reported(one.tell(less, TimePassed(1000 + INTERVAL_MS), less)) == [(Loss(key, Cause.DELETED, 4), False)]


# A log that begins behind the position


@pytest.mark.parametrize("loss", [FAIL, DECLARE])
def test_a_log_that_begins_behind_the_position_has_lost_what_was_before(loss: str) -> None:
    one = running(loss)
    before = one.state
    found = Loss(ONE, Cause.AGED_OUT, 10, 30, 20)
    observed = LogsObserved("east", {ONE: 40, TWO: 40}, {ONE: 30, TWO: 10})
    assert reported(one.tell(observed)) == [(found, loss == FAIL)]
    if loss == FAIL:
        assert one.state == before
    else:
        assert (one.state.splits[ONE].position, one.state.splits[TWO].position) == (30, 10)
        start = before
        assert batch_ranges(start, one.commit({ONE: 33})) == (Range(ONE, 30, 33),)
        assert reported(one.tell(observed)) == []


def test_a_log_that_begins_behind_the_stop_is_finished() -> None:
    one = running(bounded=True)
    one.tell(OffsetsResolved({}, stops={ONE: 20}))
    effects = one.tell(LogsObserved("east", {ONE: 40}, {ONE: 30}))
    assert reported(effects) == [(Loss(ONE, Cause.AGED_OUT, 10, 30, 10), False)]
    assert one.lives()["east/t/0"] == "finished"


def test_a_split_that_nobody_may_read_can_come_to_its_stop_by_a_loss() -> None:
    one = running(bounded=True)
    one.tell(OffsetsResolved({}, stops={ONE: 20}))
    one.tell(SettingsChanged(Settings(bounded=True), eligible={0: (), 1: ()}, loss=DECLARE))
    assert one.lives()["east/t/0"] == "unassigned"
    one.tell(LogsObserved("east", {ONE: 40}, {ONE: 30}))
    assert one.lives()["east/t/0"] == "finished"


# A log that ends before the position


@pytest.mark.parametrize("loss", [FAIL, DECLARE])
def test_a_log_that_ends_before_the_position_is_believed_after_three_answers(loss: str) -> None:
    one = running(loss)
    before = one.checkpoint()
    assert one.tell(ends(1, p0=7), ends(2, p0=6), LATER) == ()
    assert one.checkpoint() == before
    found = Loss(ONE, Cause.TRUNCATED, 10, 6)
    assert reported(one.tell(ends(3, p0=8))) == [(found, loss == FAIL)]
    if loss == FAIL:
        assert one.checkpoint() == before
    else:
        assert one.state.splits[ONE].position == 6
        assert one.state.losses == (found,)
        assert batch_ranges(before, one.commit({ONE: 9})) == (Range(ONE, 6, 9),)


def test_the_same_answer_looked_at_again_is_no_second_one() -> None:
    one = running()
    assert one.tell(*(ends(number, p0=7) for number in (1, 1, 1, 2, 2)), LATER, ends(2, p0=7)) == ()
    assert one.state.session.truncation_observations[ONE].answers == 2
    assert len(reported(one.tell(ends(3, p0=7)))) == 1
    assert one.state.session.truncation_observations == {}


@pytest.mark.parametrize("end", [10, 11])
def test_an_answer_that_has_the_position_begins_the_count_again(end: int) -> None:
    one = running()
    one.tell(ends(1, p0=7), ends(2, p0=7), LATER, ends(3, p0=end), ends(4, p0=7), ends(5, p0=7))
    assert one.state.losses == ()
    one.tell(TimePassed(LATER.now_ms + INTERVAL_MS))
    assert len(reported(one.tell(ends(6, p0=7)))) == 1


def test_an_answer_without_the_partition_or_of_another_cluster_says_nothing_about_it() -> None:
    one = running()
    one.discover(EAST, WEST, t=2)
    one.tell(ends(1, p0=7), ends(2, p1=10), LogsObserved("west", {SplitId("west", "t", 0): 5}, answer=3))
    assert one.state.session.truncation_observations[ONE].answers == 1
    one.tell(ends(4, p0=7), LATER)
    assert len(reported(one.tell(ends(5, p0=7)))) == 1


def test_a_truncation_to_where_the_batch_before_began_is_read_anew() -> None:
    """The batch before began at 5 and went to 10; there are other records now from 5 on."""
    one = Enumeration(1, loss=DECLARE)
    one.discover(EAST, at=5, t=1)
    one.register()
    one.tell(BatchPlanned({ONE: 10}))
    first = one.checkpoint()
    for told in ([BatchOpened()], []):
        again = Enumeration(1, loss=DECLARE)
        again.restart(first, loss=DECLARE)
        again.register()
        seen = (TimePassed(1000), ends(1, p0=5), ends(2, p0=5), LATER, ends(3, p0=5))
        again.tell(*told, *seen, *([] if told else [BatchOpened()]))
        assert batch_ranges(first, again.commit({ONE: 12})) == (Range(ONE, 5, 12),)


def test_after_a_truncation_the_end_is_where_it_was_seen_last() -> None:
    """What was beyond is declared lost; it is not lost again when the topic goes."""
    one = running()
    one.tell(ends(1, p1=20), ends(2, p1=7), ends(3, p1=6), LATER, ends(4, p1=8))
    one.tell(BatchPlanned({TWO: 8}))
    assert one.state.session.ends["east"][TWO] == 8
    assert reported(gone(one)) == []


def test_a_log_counts_from_when_its_split_is_known() -> None:
    """What was seen of it before may have been another topic of the name."""
    one, third = running(), SplitId("east", "t", 2)
    one.tell(ends(2, p2=14))
    one.tell(PartitionsListed("east", listed("t", 3, "id-t")), OffsetsResolved({third: 5}), ends(3, p2=9))
    one.tell(BatchOpened(), BatchPlanned({third: 9}))
    less = PartitionsListed("east", listed("t", 2, "id-t"))
    assert reported(one.tell(less, LATER, less)) == []


def test_sightings_end_with_the_incarnation() -> None:
    one = running()
    one.tell(ends(0, p0=10, p1=10), ends(1, p0=7), ends(2, p0=7), LATER)
    one.hear_twice(PartitionsListed("east", listed("t", 2, "id-2")))
    one.tell(OffsetsResolved({ONE: 8, TWO: 8}))
    assert one.state.session.truncation_observations == {}
    assert reported(one.tell(ends(3, p0=7))) == []


def test_only_what_is_read_can_be_behind() -> None:
    """Not what is retained, unknown or without a start; nor anything of a cluster that is unknown or removed."""
    one = running()
    one.tell(ends(0, p0=10, p1=10))
    gone(one)
    one.tell(PartitionsListed("east", (*listed("t", 1, "id-t"), ListedPartition("t", 2, "id-t")), complete=False))
    before = one.checkpoint()
    unknown = SplitId("east", "x", 0)
    for number in range(1, 5):
        observed = {TWO: 3, SplitId("east", "t", 2): 3, unknown: 3}
        assert one.tell(LogsObserved("east", observed, dict.fromkeys(observed, 99), number)) == ()
        assert one.tell(LogsObserved("north", {SplitId("north", "t", 0): 3}, answer=number)) == ()
    assert one.checkpoint() == before
    one.tell(ClustersListed((WEST,)), TimePassed(90_000), ClustersListed((WEST,)))
    before = one.checkpoint()
    assert one.tell(*(ends(number, p0=3) for number in range(5, 9))) == ()
    assert one.checkpoint() == before


# What the host has found


def test_what_the_host_has_found_is_written_down_and_moves_nothing() -> None:
    one = running()
    losses = (Loss(ONE, Cause.OUT_OF_RANGE, 3, 5, 2), Loss(SplitId("north", "x", 1), Cause.AGED_OUT, 0, 9, 9))
    splits = one.state.splits
    assert reported(one.tell(RecordsLost(losses))) == [(loss, False) for loss in losses]
    assert (one.state.splits, one.state.losses) == (splits, losses)


def test_what_the_host_has_found_may_end_the_run() -> None:
    one = running(FAIL)
    before = one.state
    loss = Loss(ONE, Cause.OUT_OF_RANGE, 3, 5, 2)
    assert reported(one.tell(RecordsLost((loss,)))) == [(loss, True)]
    assert one.state == before
    assert one.tell(RecordsLost(())) == ()


def test_a_split_is_moved_by_a_loss_together_with_its_owner() -> None:
    """The position that a reader is told when it starts is that behind the loss."""
    one = running()
    one.tell(LogsObserved("east", {ONE: 40, TWO: 40}, {ONE: 30, TWO: 10}))
    owner = one.state.splits[ONE].owner
    assert owner is not None
    event: tuple[Effect, ...] = one.register(owner)
    assert [effect.position for effect in event if isinstance(effect, Assign) and effect.split == ONE] == [30]


def test_an_event_of_many_losses_reports_each() -> None:
    one = running()
    observed: Event = LogsObserved("east", {ONE: 40, TWO: 40}, {ONE: 30, TWO: 20})
    assert [loss.split for loss, _ in reported(one.tell(observed))] == [ONE, TWO]
    assert [loss.offsets_max for loss in one.state.losses] == [20, 10]
