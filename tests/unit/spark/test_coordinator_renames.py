"""A cluster that has another name after a restart, or in new metadata, over clusters in memory."""

from __future__ import annotations

import pytest

from evensplit.core.model import Cause, HandedOut, Loss, SplitId
from evensplit.core.state.state import new_losses
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, ranges, restored
from tests.support.metadata_answers import metadata
from tests.support.metadata_hosts import Service, active, cluster, go_on, host, kafka
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.mark.parametrize("own", [{}, {"startingOffsets": "latest"}], ids=["none", "latest"])
def test_it_is_read_on_while_one_partition_has_no_leader(own: dict[str, str]) -> None:
    """Starting offsets of its own are for clusters that were never read, which takes a whole answer to be sure of."""
    clock, old = Clock(), FakeKafka("old", cluster_id="K")
    old.create_topic("t", 2)
    for partition in range(2):
        old.append("t", partition, 10)
    first = restored(Source(old, clock=clock).plan(NONE))
    old.cluster = "new"
    old.hide_leader("t", 1)
    old.append("t", 0, 5)
    source = Source(old, clock=clock, each={"new": own})

    def found() -> dict[str, tuple[int, int]]:
        clock.now_s += 1
        return ranges(first, source.plan(first))

    wait_for(lambda: found() == {"new/t/0": (10, 15)}, what="the records of the partition that has a leader")


def test_without_discovery_a_renamed_cluster_is_read_on_at_once(clock: Clock) -> None:
    """There is no second answer that could confirm the first one, and Kafka's id of the cluster is the same."""
    fakes = {"old": kafka("one", "a"), "new": kafka("one", "a")}
    state = host(fakes, Service(metadata(cluster("old", "a"))), clock).plan(NONE, limited=False)
    one = host(fakes, Service(metadata(cluster("new", "a"))), clock, discoveryInterval="0")
    after = one.plan(restored(state), limited=False)
    assert ranges(state, after) == {}
    assert active(after) == ["new/a/0"]
    fakes["new"].append("a", 0, 5)
    later = one.plan(after, limited=False)
    assert ranges(after, later) == {"new/a/0": (10, 15)}


def test_what_was_skipped_before_a_cluster_was_renamed_is_declared_under_its_new_name(clock: Clock) -> None:
    """The first look after its records have gone is the first one under its new name."""

    class Renamed(dict[str, FakeKafka]):
        def __getitem__(self, name: str) -> FakeKafka:
            if name == "north":
                east.delete_records("a", 0, 7)
            return east

    east = kafka("east", "a")
    service = Service(metadata(cluster("east", "a")))
    one = host(Renamed(), service, clock, failOnDataLoss="false", startingOffsets="earliest")
    end = one.plan(NONE, limited=False)
    one.partitions(NONE, end)
    service.answer = metadata(cluster("north", "a"))
    after = go_on(one, end, clock, times=3)
    assert list(after.clusters) == ["north"]
    assert new_losses(end, after) == (Loss(SplitId("north", "a", 0), Cause.AGED_OUT, 0, 7, 7, HandedOut.EARLIER),)
