"""For how long a log has to be seen to end before its position until that is believed: quick answers are not time."""

from __future__ import annotations

import pytest

from evensplit.core.machine.effects import ReportLoss
from evensplit.core.machine.events import BatchOpened, BatchPlanned, LogsObserved, TimePassed
from evensplit.core.model import Cause, Loss
from evensplit.core.state.open_questions import TRUNCATION_WAIT_MS_MIN, truncation_wait_ms
from evensplit.core.state.settings import DECLARE
from evensplit.core.state.state import Session
from tests.support.enumeration import EAST, ONE, Enumeration, running


def seen(one: Enumeration, at_ms: int, number: int, end: int = 7) -> list[Loss]:
    """Answer `number`, at a time since `running`, says that the log ends there. What is lost with it."""
    effects = one.tell(TimePassed(1000 + at_ms), LogsObserved("east", {ONE: end}, answer=number))
    return [effect.loss for effect in effects if isinstance(effect, ReportLoss)]


@pytest.mark.parametrize(
    "interval_ms, wait_ms",
    [(0, TRUNCATION_WAIT_MS_MIN), (TRUNCATION_WAIT_MS_MIN, TRUNCATION_WAIT_MS_MIN), (60_000, 60_000)],
)
def test_three_answers_count_when_they_are_far_enough_apart(interval_ms: int, wait_ms: int) -> None:
    assert truncation_wait_ms(Session(discovery_interval_ms=interval_ms)) == wait_ms
    one = running(1, 1, loss=DECLARE, discovery_interval_ms=interval_ms)
    for number in range(1, 6):
        assert seen(one, 10 * number, number) == []
    assert seen(one, 9 + wait_ms, 6, end=5) == []
    assert seen(one, 10 + wait_ms, 7) == [Loss(ONE, Cause.TRUNCATED, 10, 5)]


def test_two_answers_never_do() -> None:
    one = running(1, 1, loss=DECLARE)
    assert seen(one, 0, 1) == seen(one, 900_000, 2) == seen(one, 999_000, 2) == []
    assert len(seen(one, 999_000, 3)) == 1


def test_the_time_begins_again_with_an_answer_that_has_the_position() -> None:
    one = running(1, 1, loss=DECLARE)
    for number, at_ms in enumerate((0, 10_000, 20_000), start=1):
        seen(one, at_ms, number)
    assert seen(one, 40_000, 4, end=10) == []
    assert [seen(one, at_ms, number) for number, at_ms in enumerate((41_000, 42_000, 43_000, 70_000), start=5)] == [
        [],
        [],
        [],
        [],
    ]
    assert len(seen(one, 71_000, 9)) == 1


def test_batches_in_between_change_nothing() -> None:
    one = running(1, 1, loss=DECLARE)
    for number in (1, 2):
        one.tell(BatchOpened())
        assert seen(one, number * 1000, number) == []
        one.tell(BatchPlanned({}))
    one.tell(BatchOpened())
    assert len(seen(one, 40_000, 3)) == 1


def test_without_a_clock_it_is_never_believed() -> None:
    """A host that tells no time has not waited."""
    one = Enumeration(1, loss=DECLARE)
    one.discover(EAST, at=10, t=1)
    one.register()
    for number in range(1, 9):
        assert one.tell(LogsObserved("east", {ONE: 7}, answer=number)) == ()
