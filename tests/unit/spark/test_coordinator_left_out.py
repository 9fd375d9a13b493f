"""Runs that end do without a cluster that is away, where that is allowed; what is known of it stays as it was."""

from __future__ import annotations

import pytest

from evensplit.core.machine.enumerator import step
from evensplit.core.machine.events import BatchPlanned
from evensplit.core.model import SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.hosts import NONE, Source, ranges

pytestmark = pytest.mark.usefixtures("no_waiting")

AWAY = ClusterUnreachable("west", "nobody is there")


@pytest.fixture
def clusters() -> list[FakeKafka]:
    """East and west, with a topic `t` of one partition with ten records each."""
    found = [FakeKafka("east"), FakeKafka("west")]
    for one in found:
        one.create_topic("t")
        one.append("t", 0, 10)
    return found


@pytest.mark.parametrize("retention", ["7d", "0"])
def test_a_run_to_the_end_leaves_it_out_and_keeps_its_positions(clusters: list[FakeKafka], retention: str) -> None:
    east, west = clusters
    first = Source(east, west).plan(NONE)
    east.append("t", 0, 5)
    west.fail_with(AWAY)
    source = Source(east, west, allowUnreachable="true", removedRetention=retention)
    second = source.plan(first, fix_ends=True)
    assert ranges(first, second) == {"east/t/0": (10, 15)}
    assert second.splits[SplitId("west", "t", 0)] == first.splits[SplitId("west", "t", 0)]._replace(first=None, since=0)
    assert source.coordinator.report().left_out == ("west",)
    west.recover()
    west.append("t", 0, 1)
    assert ranges(second, Source(east, west).plan(second)) == {"west/t/0": (10, 11)}


@pytest.mark.parametrize("retention", ["7d", "0"])
def test_one_that_may_be_a_known_one_renamed_takes_nothing_away(clusters: list[FakeKafka], retention: str) -> None:
    """Which cluster it is nobody knows before it answers; so the old name stays until then."""
    east, west = clusters
    west.cluster_id = "K"

    def source() -> Source:
        return Source(east, west, allowUnreachable="true", removedRetention=retention, clusterWait="10ms")

    first = source().plan(NONE, fix_ends=True)
    west.cluster = "north"
    west.fail_with(AWAY)
    east.append("t", 0, 1)
    second = source().plan(first, fix_ends=True)
    assert ranges(first, second) == {"east/t/0": (10, 11)}
    west.recover()
    west.append("t", 0, 2)
    assert ranges(second, source().plan(second, fix_ends=True)) == {"north/t/0": (10, 12)}


def test_a_batch_query_leaves_it_out(clusters: list[FakeKafka]) -> None:
    west = clusters[1]
    west.fail_with(AWAY)
    source = Source(*clusters, allowUnreachable="true", batch=True)
    start = source.coordinator.observe(NONE, fix_ends=True)
    assert list(map(str, start.splits)) == ["east/t/0"]
    assert step(start, BatchPlanned({SplitId("east", "t", 0): 10})).state.begun
    assert source.coordinator.report().left_out == ("west",)


@pytest.mark.parametrize("state", [True, False])
def test_otherwise_it_is_an_error(clusters: list[FakeKafka], state: bool) -> None:
    first = Source(*clusters).plan(NONE)
    clusters[1].fail_with(AWAY)
    with pytest.raises(ClusterUnreachable, match="nobody is there"):
        Source(*clusters).plan(first if state else NONE, fix_ends=True)


def test_without_any_state_a_stream_cannot_leave_it_out(clusters: list[FakeKafka]) -> None:
    """Where it starts is said by the user's strategy, and for the first time only."""
    clusters[1].fail_with(AWAY)
    with pytest.raises(ClusterUnreachable, match="nobody is there"):
        Source(*clusters, allowUnreachable="true").plan(NONE, fix_ends=True)
