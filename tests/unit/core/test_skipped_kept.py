"""What tasks may have skipped is kept in the state until it is compared, also over restarts (S9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evensplit.core.machine.events import (
    BatchOpened,
    BatchPlanned,
    TimePassed,
)
from evensplit.core.machine.skipped_records import is_unsaid, uncompared
from evensplit.core.model import Range, Split
from evensplit.core.repair.edit import Told, open_batch, skip
from evensplit.core.state.settings import DECLARE, FAIL
from evensplit.core.state.state import EnumeratorState
from tests.support.enumeration import EAST, ONE, THREE, TWO, Enumeration, running
from tests.support.skips import BEFORE_RESTART, EARLIER, aged, has_read, lost, polled, reading


@pytest.fixture
def done() -> Enumeration:
    return has_read()


def read_from(one: Enumeration) -> list[int | None]:
    return [split.read_from for split in one.state.splits.values()]


def test_what_is_not_compared_stays_in_the_state_whatever_is_read_after_it() -> None:
    one = reading()
    assert read_from(one) == [10, 10, None]
    one.tell(BatchOpened(polls=1), BatchPlanned({THREE: 12}))
    assert read_from(one) == [10, 10, 10]
    one.tell(BatchOpened(polls=2), polled(10, None, 10, number=3), BatchPlanned({ONE: 25, THREE: 14}))
    assert read_from(one) == [20, 10, 12], "of two, all was compared that had been read"
    one.tell(BatchOpened(polls=4), BatchPlanned({ONE: 30}))
    assert read_from(one) == [20, 10, 12]
    one.tell(BatchOpened(polls=5), polled(10, 10, 10, number=6), BatchPlanned({}))
    assert read_from(one) == [None, None, None]


def test_a_state_between_two_batches_does_not_ask_again_for_what_it_declares(done: Enumeration) -> None:
    """A host with reader processes may write it down, and another process begins there."""
    gone = polled(14, 10, 10)
    assert lost(done, gone) == [*done.checkpoint().losses] == [aged(ONE, 10, 14, 4)]
    assert read_from(done) == [None, 10, None]
    done.restart(done.checkpoint(), loss=DECLARE)
    assert lost(done, TimePassed(2000), BatchOpened(polls=5), gone) == []


def test_what_was_read_since_stays_in_a_state_between_two_batches(done: Enumeration) -> None:
    done.tell(BatchPlanned({ONE: 25, THREE: 14}), BatchOpened(polls=8))
    assert lost(done, polled(14, 10, 10)) == [aged(ONE, 10, 14, 4)]
    assert read_from(done) == [20, 10, 10]


def test_what_is_not_compared_is_kept_by_a_run_that_fails_on_losses_and_nothing_else() -> None:
    one = reading()
    one.restart(one.checkpoint(), loss=FAIL)
    one.tell(BatchOpened())
    one.discover(EAST, t=3)
    one.register()
    one.tell(BatchPlanned({ONE: 25, THREE: 15}))
    assert read_from(one) == [10, 10, None]
    one.tell(BatchOpened(polls=1), polled(10, 10, 10, number=2), BatchPlanned({ONE: 30, TWO: 40}))
    assert read_from(one) == [None, None, None]


def test_what_is_beyond_the_position_was_handed_out_of_a_log_that_was_cut(done: Enumeration) -> None:
    done.state = replace(
        done.state, splits={**done.state.splits, ONE: done.state.splits[ONE]._replace(position=10, read_from=None)}
    )
    assert not is_unsaid(replace(done.state, splits={ONE: done.state.splits[ONE]}), done.state, last=False)
    done.tell(BatchPlanned({}))
    assert read_from(done) == [None, 10, None]


def test_of_what_has_no_start_nothing_was_handed_out(done: Enumeration) -> None:
    unknown = Split(TWO, "id-t")
    done.state = replace(done.state, splits={**done.state.splits, TWO: unknown})
    del done.held[0][TWO]
    done.tell(BatchPlanned({}))
    assert done.state.splits[TWO] == unknown


def test_what_is_forgotten_is_in_no_state(done: Enumeration) -> None:
    assert uncompared(done.state) == {ONE: 10, TWO: 10}
    assert uncompared(replace(done.state, splits={ONE: done.state.splits[ONE]})) == {ONE: 10}


# Restarts


def restarted(*repeated: Range, loss: str = DECLARE, position: int = 20) -> Enumeration:
    """Another process begins where 10 to `position` was read of the first partition, and had `repeated` done again."""
    one = running(1, 1, loss=DECLARE)
    one.tell(BatchOpened(), BatchPlanned({ONE: position}))
    one.restart(one.checkpoint(), loss=loss)
    one.tell(TimePassed(2000), BatchOpened(repeated=repeated))
    return one


@pytest.mark.parametrize(
    "known, left",
    [
        ((10, 20), []),
        ((0, 50), []),
        ((50, 60), [(10, 20)]),
        ((0, 10), [(10, 20)]),
        ((0, 15), [(15, 20)]),
        ((15, 20), [(10, 15)]),
        ((12, 14), [(10, 12), (14, 20)]),
    ],
)
def test_what_another_process_handed_out_is_compared_once(known: tuple[int, int], left: list[tuple[int, int]]) -> None:
    """A batch over others that no log has is done again; its end says only what the last of them had read."""
    one = restarted(Range(ONE, *known))
    losses = lost(one, polled(100))
    before = [(loss.position, loss.position + (loss.offsets_max or 0)) for loss in losses if loss.handed_out != EARLIER]
    assert before == left
    assert aged(ONE, known[0], 100, known[1] - known[0]) in losses
    assert len(losses) == 1 + len(left)


def test_what_this_process_has_read_without_skipping_is_not_compared() -> None:
    """Batches are done again after a crash, and now a task that misses something fails."""
    one = restarted(Range(ONE, 15, 20), loss=FAIL)
    assert lost(one, polled(100)) == [aged(ONE, 10, 100, 5, BEFORE_RESTART)]


def test_a_batch_that_was_done_again_and_is_not_in_the_state_any_more_is_nothing() -> None:
    one = restarted(Range(TWO, 0, 9))
    assert lost(one, polled(10)) == []


def test_only_the_first_batch_of_a_session_takes_up_what_the_state_says() -> None:
    one = restarted()
    assert lost(one, polled(14), BatchOpened(polls=6), polled(19, number=7)) == [aged(ONE, 10, 14, 4, BEFORE_RESTART)]


@pytest.mark.parametrize("done", [False, True], ids=["in a batch that is not done", "in one of its own"])
def test_what_a_command_left_out_is_no_loss(done: bool) -> None:
    one = running(1, 1, loss=DECLARE)
    start = one.checkpoint()
    one.tell(BatchOpened(), BatchPlanned({ONE: 20}))
    batch = open_batch(start, one.checkpoint(), done=done)
    first = 20 if done else 15
    one.restart(skip(batch, [Range(ONE, first, 30)], Told("skip", "east/t/0", 1)), loss=DECLARE)
    one.tell(TimePassed(2000), BatchOpened(polls=5))
    assert one.state.edits == ()
    assert lost(one, polled(30)) == [aged(ONE, 10, 30, first - 10, BEFORE_RESTART)]


def test_what_lies_beyond_the_position_is_not_said_again_and_again(done: Enumeration) -> None:
    def start(position: int, begin: int | None) -> EnumeratorState:
        return replace(done.state, splits={ONE: Split(ONE, "id-t", position, owner=0, read_from=begin)})

    assert is_unsaid(start(20, 15), done.state, last=False)
    assert is_unsaid(start(20, None), done.state, last=False)
    assert not is_unsaid(start(20, 10), done.state, last=False)
    assert not is_unsaid(start(10, None), done.state, last=False)


def test_a_run_that_ends_says_that_more_was_compared(done: Enumeration) -> None:
    start = done.state
    assert not is_unsaid(start, start, last=True)
    done.tell(polled(None, 10))
    assert not is_unsaid(replace(start, splits={ONE: start.splits[ONE]}), done.state, last=True), "not of this one"
    assert is_unsaid(start, done.state, last=True)
    assert not is_unsaid(start, done.state, last=False)
    done.tell(polled(10, 10, number=7), BatchPlanned({}))
    assert not is_unsaid(done.state, done.state, last=True), "nothing was read"
