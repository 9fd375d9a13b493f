"""Leader epochs: a log that is another one than that which was read is noticed by them, however long it is by then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evensplit.core.batch.plan import batch_ranges
from evensplit.core.machine.data_loss import epoch_before, is_older, replaced_from
from evensplit.core.machine.effects import Effect, ReportLoss
from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    LogsObserved,
    OffsetsResolved,
    PartitionsListed,
    TimePassed,
)
from evensplit.core.model import Cause, EpochStart, EpochTable, Loss, Range, SplitId
from evensplit.core.state.codec import decode, encode
from evensplit.core.state.settings import DECLARE, FAIL
from tests.support.enumeration import INTERVAL_MS, ONE, TWO, Enumeration, listed, running

NO_EPOCHS: EpochTable = ()


def epochs(*entries: tuple[int, int]) -> EpochTable:
    """(epoch, offset of its first record) each, the latest first."""
    return tuple(EpochStart(*entry) for entry in entries)


# Tables


@pytest.mark.parametrize(
    "table, offset, epoch",
    [
        (NO_EPOCHS, 5, None),
        (epochs((3, 0)), 0, None),
        (epochs((3, 0)), 1, 3),
        (epochs((7, 90), (3, 0)), 90, 3),
        (epochs((7, 90), (3, 0)), 91, 7),
        (epochs((7, 90), (3, 40)), 40, None),
    ],
    ids=str,
)
def test_the_epoch_of_the_record_before_an_offset(table: EpochTable, offset: int, epoch: int | None) -> None:
    """One that begins at the offset itself wrote none of what is before it."""
    assert epoch_before(table, offset) == epoch


@pytest.mark.parametrize(
    "table, older",
    [(NO_EPOCHS, False), (epochs((4, 0)), True), (epochs((5, 0)), False), (epochs((6, 9), (4, 0)), False)],
    ids=str,
)
def test_a_leader_from_before_an_epoch_has_no_word_on_it(table: EpochTable, older: bool) -> None:
    assert is_older(table, 5) == older


@pytest.mark.parametrize(
    "table, seen, found",
    [
        pytest.param(NO_EPOCHS, NO_EPOCHS, None, id="unknown"),
        pytest.param(epochs((2, 0)), NO_EPOCHS, None, id="of a leader of the past"),
        pytest.param(epochs((3, 0)), NO_EPOCHS, None, id="the same leader"),
        pytest.param(epochs((4, 100), (3, 0)), NO_EPOCHS, None, id="clean, at the position"),
        pytest.param(epochs((4, 130), (3, 0)), NO_EPOCHS, None, id="clean, behind the position"),
        pytest.param(epochs((9, 130), (7, 100), (3, 50), (2, 0)), NO_EPOCHS, None, id="clean, several times"),
        pytest.param(epochs((4, 99), (3, 0)), NO_EPOCHS, 99, id="unclean, by one record"),
        pytest.param(epochs((4, 80), (3, 0)), NO_EPOCHS, 80, id="unclean"),
        pytest.param(epochs((9, 150), (6, 90), (4, 80), (3, 0)), NO_EPOCHS, 80, id="unclean, then clean twice"),
        pytest.param(epochs((6, 80), (2, 0)), NO_EPOCHS, 80, id="the epoch is gone, and began behind"),
        pytest.param(epochs((6, 120), (2, 0)), NO_EPOCHS, 100, id="the epoch is gone, nobody knows from where"),
        pytest.param(epochs((6, 120), (2, 0)), epochs((3, 70), (2, 0)), 70, id="the epoch is gone, and began at 70"),
        pytest.param(epochs((6, 60), (2, 0)), epochs((3, 70), (2, 0)), 60, id="the epoch is gone, others begin before"),
        pytest.param(epochs((6, 120), (2, 0)), epochs((2, 0)), 100, id="the epoch is gone, and was never seen"),
        pytest.param(epochs((5, 40)), NO_EPOCHS, 40, id="only a later epoch is left"),
        pytest.param(epochs((5, 100)), NO_EPOCHS, None, id="all that was read has aged out"),
        pytest.param(epochs((7, 50), (5, 100)), NO_EPOCHS, 50, id="only later epochs are left"),
    ],
)
def test_from_where_on_a_log_is_another_one(table: EpochTable, seen: EpochTable, found: int | None) -> None:
    """It was read up to 100, and the record before that had epoch 3."""
    assert replaced_from(table, 100, 3, seen) == found


def test_back_and_forth_between_two_brokers() -> None:
    """B leads with 80 of A's 100 records, and A again, which did not hear of it; then B as it was."""
    a, b = epochs((5, 100), (3, 0)), epochs((4, 80), (3, 0))
    assert replaced_from(b, 100, 3, epochs((3, 0))) == 80
    assert replaced_from(a, 95, 4, b) == 80
    assert replaced_from(b, 130, 5, a) is None, "it is not heard while it is older than what was read"


Log = list[int]
"""The epoch of each record."""


def table_of(log: Log) -> EpochTable:
    found = [(epoch, next(at for at, _ in group)) for epoch, group in groupby(enumerate(log), key=lambda one: one[1])]
    return epochs(*reversed(found))


@st.composite
def replaced_logs(draw: st.DrawFn) -> tuple[Log, Log, int]:
    """A log that was read, the one that there is now, and up to where the first was read.

    Each epoch has one leader, so where two logs have it at one offset, they are the same up to there.
    """
    read = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=8)))
    kept = draw(st.integers(0, len(read)))
    others = st.integers(0, 14).filter(lambda epoch: epoch not in read)
    more = draw(st.lists(others, min_size=1, max_size=6))
    if kept and kept < len(read) and read[kept] != read[kept - 1]:
        # The leader that wrote the last record which both have may have gone on.
        more += [read[kept - 1]] * draw(st.integers(0, 2))
    now = [*read[:kept], *sorted(epoch for epoch in more if not kept or epoch >= read[kept - 1])]
    return read, now, draw(st.integers(1, len(read)))


def differs_from(read: Log, now: Log) -> int:
    return next((at for at, (was, one) in enumerate(zip(read, now, strict=False)) if was != one), len(now))


@given(replaced_logs(), st.booleans())
def test_another_log_is_always_noticed_and_the_same_never(logs: tuple[Log, Log, int], known: bool) -> None:
    """Unless a leader of the past tells of it, or it just ends earlier."""
    read, now, position = logs
    found = replaced_from(table_of(now), position, read[position - 1], table_of(read) if known else ())
    at = differs_from(read, now)
    if at >= position or now == read[:at] or now[-1] < read[position - 1]:
        assert found is None
    else:
        assert found is not None
        assert at <= found <= position


@given(replaced_logs())
@example(([3] * 10 + [5] * 2, [3] * 8 + [4] + [6] * 3, 12))
@example(([3] * 2 + [4] * 2 + [6] * 2, [3] * 7 + [7], 6))
@example(([3] * 2 + [4] * 2 + [6] * 2, [3] * 3 + [5] * 4 + [7], 6))
def test_where_all_epochs_of_the_log_that_was_read_are_known_the_first_other_record_is_found(
    logs: tuple[Log, Log, int],
) -> None:
    """Otherwise the records from there on are never read. The first example: B leads, A again without having heard of
    it, then B again.
    """
    read, now, position = logs
    at = differs_from(read, now)
    if at < position and now != read[:at] and now[-1] >= read[position - 1]:
        assert replaced_from(table_of(now), position, read[position - 1], table_of(read)) == at


# What is kept of them


def observed(number: int, end: int, *entries: tuple[int, int], split: SplitId = ONE) -> LogsObserved:
    return LogsObserved("east", {split: end}, answer=number, epochs={split: epochs(*entries)} if entries else {})


def read_up_to(position: int, *entries: tuple[int, int], loss: str = DECLARE) -> Enumeration:
    """One partition, read from 10 up to `position`, of a log that had these epochs."""
    one = running(1, 1, loss=loss)
    one.tell(observed(1, position, *entries), BatchPlanned({ONE: position}))
    return one


def reported(effects: Sequence[Effect]) -> list[tuple[Loss, bool]]:
    return [(effect.loss, effect.fatal) for effect in effects if isinstance(effect, ReportLoss)]


def epoch_of(one: Enumeration, split: SplitId = ONE) -> int | None:
    return one.state.splits[split].epoch


def test_a_batch_keeps_the_epoch_of_the_last_record_that_it_reads() -> None:
    one = read_up_to(100, (7, 90), (3, 0))
    assert epoch_of(one) == 7
    one = read_up_to(90, (7, 90), (3, 0))
    assert epoch_of(one) == 3
    one.tell(BatchPlanned({}))
    assert epoch_of(one) == 3, "what reads nothing keeps it"
    one.tell(observed(2, 95, (7, 90), (3, 0)), BatchPlanned({ONE: 91}))
    assert epoch_of(one) == 7
    one.tell(observed(3, 95), BatchPlanned({ONE: 95}))
    assert epoch_of(one) is None, "it is not known of the last record that was read"


def test_an_epoch_that_becomes_known_later_is_kept_by_the_next_batch() -> None:
    one = read_up_to(50)
    assert epoch_of(one) is None
    one.tell(observed(2, 60, (4, 20), (1, 0)))
    assert epoch_of(one) is None
    one.tell(BatchPlanned({}))
    assert epoch_of(one) == 4


def test_what_is_not_read_any_more_is_not_looked_up() -> None:
    one = running(2, 1)
    less = PartitionsListed("east", listed("t", 1, "id-t"))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less, observed(2, 10, (4, 0), split=TWO), BatchPlanned({}))
    assert (one.lives()["east/t/1"], epoch_of(one, TWO)) == ("retained", None)


@pytest.mark.parametrize("cut", [False, True], ids=["at once", "and of one that was longer before"])
def test_a_log_that_ends_before_an_offset_has_no_epoch_of_it(cut: bool) -> None:
    """A leader of the past answered, and where to start was heard of from the one that leads now."""
    one = running(1, 1, loss=DECLARE)
    before = [observed(1, 100, (4, 80), (3, 0), split=TWO)] if cut else []
    one.tell(
        PartitionsListed("east", listed("t", 2, "id-t")),
        *before,
        observed(2, 70, (3, 0), split=TWO),
        OffsetsResolved({TWO: 90}, topic_ids={TWO: "id-t"}),
        BatchPlanned({}),
    )
    assert epoch_of(one, TWO) is None
    one.tell(observed(3, 200, (4, 80), (3, 0), split=TWO), BatchPlanned({}))
    assert (one.state.losses, epoch_of(one, TWO)) == ((), 4)


def test_a_start_has_no_epoch() -> None:
    one = read_up_to(100, (3, 0))
    (loss,) = reported(one.tell(LogsObserved("east", {ONE: 200}, {ONE: 150}, 2, {ONE: epochs((3, 0))})))
    assert loss[0].cause is Cause.AGED_OUT
    assert epoch_of(one) is None


# What follows from them


@pytest.mark.parametrize("end", [90, 100, 170])
@pytest.mark.parametrize("loss", [FAIL, DECLARE])
def test_replaced_records_are_a_loss_at_once_wherever_the_log_ends(loss: str, end: int) -> None:
    one = read_up_to(100, (3, 0), loss=loss)
    before = one.state
    found = Loss(ONE, Cause.REPLACED, 100, 80)
    assert reported(one.tell(observed(2, end, (4, 80), (3, 0)))) == [(found, loss == FAIL)]
    if loss == FAIL:
        assert one.state == before
        return
    assert one.state.losses == (found,)
    assert (one.state.splits[ONE].position, epoch_of(one)) == (80, None)
    assert one.state.session.ends["east"][ONE] == end, "what the other log had is no end of this one"
    after = one.commit({ONE: end})
    assert batch_ranges(before, after) == (Range(ONE, 80, end),)
    assert epoch_of(one) == 4
    assert one.tell(observed(3, end, (4, 80), (3, 0))) == ()


def test_what_was_seen_of_an_epoch_that_is_gone_says_where_it_began() -> None:
    one = read_up_to(100, (3, 70), (2, 0))
    assert reported(one.tell(observed(2, 200, (6, 120), (2, 0)))) == [(Loss(ONE, Cause.REPLACED, 100, 70), False)]


@pytest.mark.parametrize("entries", [((4, 100), (3, 0)), ((3, 0),), ()], ids=["clean", "the same", "unknown"])
def test_the_same_log_is_read_on(entries: tuple[tuple[int, int], ...]) -> None:
    one = read_up_to(100, (3, 0))
    before = one.state
    assert one.tell(observed(2, 200, *entries)) == ()
    assert one.state == before


def test_a_position_of_which_no_epoch_is_known_is_not_compared() -> None:
    one = read_up_to(100)
    assert one.tell(observed(2, 200, (4, 80), (3, 0))) == ()


def test_what_a_leader_of_the_past_says_counts_for_nothing() -> None:
    """Neither where its log ends, nor where it begins, nor its epochs."""
    one = read_up_to(100, (5, 60), (3, 0))
    one.tell(PartitionsListed("east", listed("t", 2, "id-t")), OffsetsResolved({TWO: 10}))
    ends = one.state.session.ends
    for number in range(2, 7):
        late = LogsObserved("east", {ONE: 70, TWO: 33}, {ONE: 120}, number, {ONE: epochs((3, 0))})
        assert one.tell(TimePassed(number * INTERVAL_MS), late) == ()
    assert one.state.session.truncation_observations == {}
    assert one.state.session.ends["east"] == {**ends["east"], TWO: 33}, "of another partition, it does"
    one.tell(BatchPlanned({}))
    assert epoch_of(one) == 5


def test_what_was_read_before_a_restart_is_compared_after_it() -> None:
    one = read_up_to(100, (3, 0))
    for checkpoint in (one.checkpoint(), decode(encode(one.state))):
        one.restart(checkpoint, loss=DECLARE)
        assert reported(one.tell(observed(1, 200, (4, 80), (3, 0)))) == [(Loss(ONE, Cause.REPLACED, 100, 80), False)]


def test_what_is_back_is_compared_with_what_was_read_of_it() -> None:
    one = running(2, 1, loss=DECLARE)
    one.tell(observed(1, 100, (3, 0), split=TWO), BatchPlanned({TWO: 100}))
    less, more = (PartitionsListed("east", listed("t", count, "id-t")) for count in (1, 2))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    assert one.tell(observed(2, 300, (4, 80), (3, 0), split=TWO)) == (), "it is not to be read"
    one.tell(more)
    assert reported(one.tell(observed(3, 300, (4, 80), (3, 0), split=TWO))) == [
        (Loss(TWO, Cause.REPLACED, 100, 80), False)
    ]


def test_what_was_seen_while_it_was_away_was_not_compared() -> None:
    """The first look after it is back may hear where its log ends, and not yet where it begins: it is not back yet."""
    one = running(2, 1, loss=DECLARE)
    one.tell(observed(1, 100, (3, 0), split=TWO), BatchPlanned({TWO: 100}))
    less, more = (PartitionsListed("east", listed("t", count, "id-t")) for count in (1, 2))
    one.tell(less, TimePassed(1000 + INTERVAL_MS), less)
    table = {TWO: epochs((4, 80), (3, 0))}
    assert one.tell(LogsObserved("east", {TWO: 300}, answer=2, epochs=table)) == ()
    one.tell(more)
    assert reported(one.tell(LogsObserved("east", {TWO: 300}, answer=3, epochs=table))) == [
        (Loss(TWO, Cause.REPLACED, 100, 80), False)
    ]


def test_another_incarnation_has_epochs_of_its_own() -> None:
    one = read_up_to(100, (9, 0))
    one.hear_twice(PartitionsListed("east", listed("t", 1, "id-2")))
    assert (epoch_of(one), one.state.session.leader_epochs["east"]) == (None, {})


# Where a batch began to read


def test_a_run_that_declares_losses_keeps_from_where_each_batch_read() -> None:
    one = running(2, 1, loss=DECLARE)

    def read_from() -> list[int | None]:
        return [split.read_from for split in one.state.splits.values()]

    one.tell(BatchPlanned({ONE: 20}))
    assert read_from() == [10, None]
    one.tell(BatchPlanned({ONE: 20, TWO: 12}))
    assert read_from() == [None, 10], "what ends where it was has read nothing"
    one.tell(BatchOpened(), LogsObserved("east", {TWO: 40}, {TWO: 30}))
    assert read_from() == [None, None], "it begins anew"
    one.tell(BatchPlanned({ONE: 25, TWO: 40}))
    assert read_from() == [20, 30]


def test_a_run_that_fails_on_losses_keeps_none_of_it() -> None:
    one = running(1, 1, loss=DECLARE)
    one.tell(BatchPlanned({ONE: 20}))
    one.restart(one.checkpoint(), loss=FAIL)
    one.tell(BatchPlanned({ONE: 30}))
    assert one.state.splits[ONE].read_from is None
