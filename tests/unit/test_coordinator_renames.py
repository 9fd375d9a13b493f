"""A cluster that has another name after a restart, over clusters in memory."""

from __future__ import annotations

import pytest

from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock
from tests.support.hosts import NONE, Source, ranges, restored
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.mark.parametrize("own", [{}, {"startingOffsets": "latest"}], ids=["none", "latest"])
def test_it_is_read_on_while_one_partition_has_no_leader(own: dict[str, str]) -> None:
    """Starting offsets of its own are for clusters that were never read, which takes a whole answer to be sure of."""
    clock, kafka = Clock(), FakeKafka("old", cluster_id="K")
    kafka.create_topic("t", 2)
    for partition in range(2):
        kafka.append("t", partition, 10)
    first = restored(Source(kafka, clock=clock).plan(NONE))
    kafka.cluster = "new"
    kafka.hide_leader("t", 1)
    kafka.append("t", 0, 5)
    source = Source(kafka, clock=clock, each={"new": own})

    def found() -> dict[str, tuple[int, int]]:
        clock.now_s += 1
        return ranges(first, source.plan(first))

    wait_for(lambda: found() == {"new/t/0": (10, 15)}, what="the records of the partition that has a leader")
