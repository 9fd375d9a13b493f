"""Another broker is asked whenever one broker's word is not enough, also where nothing is discovered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evensplit.core.model import SplitId
from evensplit.core.state.state import EnumeratorState, new_losses
from tests.support.brokers import Brokers
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source

pytestmark = pytest.mark.usefixtures("no_waiting")


def created_anew(east: Brokers) -> None:
    east.anew()


def cut_short(east: Brokers) -> None:
    east.tells_epochs = False
    east.truncate("t", 0, 5)


def run(source: Source, state: EnumeratorState, clock: Clock, within_s: float) -> EnumeratorState:
    """Plan four times a second, for so long."""
    for _ in range(int(within_s * 4)):
        clock.now_s += 0.25
        state = source.plan(state)
    return state


@pytest.mark.parametrize("change", [created_anew, cut_short])
@pytest.mark.parametrize("interval", ["0", "10s"])
def test_another_broker_is_asked_before_something_is_believed(
    interval: str, change: Callable[[Brokers], None], clock: Clock
) -> None:
    east = Brokers(3)
    source = Source(east, clock=clock, discoveryInterval=interval, failOnDataLoss="false")
    state = run(source, source.plan(NONE), clock, 1)
    change(east)
    east.asked.clear()
    after = run(source, state, clock, 35)
    key = SplitId("east", "t", 0)
    assert after.splits[key].topic_id != state.splits[key].topic_id or new_losses(state, after)
    assert set(east.asked[:20]) == {0, 1, 2}
