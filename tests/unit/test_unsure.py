"""What is not sure when a run ends: it is settled by another answer, or it is an error that names it."""

from __future__ import annotations

import pytest

from evensplit.core.model import Cause
from evensplit.core.state import new_losses
from tests.support.brokers import Brokers, Passing
from tests.support.hosts import NONE, Source, ranges, restored

pytestmark = pytest.mark.usefixtures("no_waiting")

OPTIONS = {"failOnDataLoss": "false", "kafka.request.timeout.ms": "5000"}


@pytest.mark.parametrize("interval", ["0", "1s", "5m"])
def test_a_topic_that_was_created_anew_is_read_by_a_run_that_ends(interval: str) -> None:
    """However long the discovery interval is, and if there is none."""
    east = Brokers(1)
    state = restored(Source(east).plan(NONE))
    topic_id = east.anew()
    clock = Passing()
    one = Source(east, clock=clock, **OPTIONS, discoveryInterval=interval)
    begun_s = clock.now_s
    end = one.plan(state, fix_ends=True)
    assert ranges(state, end) == {"east/t/0": (0, 25)}
    assert {split.topic_id for split in end.splits.values()} == {topic_id}
    assert [loss.cause for loss in new_losses(state, end)] == [Cause.RECREATED]
    assert 1 <= clock.now_s - begun_s < 4
