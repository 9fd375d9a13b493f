"""The driver's side, over clusters in memory: what it says is lost, and what it does not."""

from __future__ import annotations

import json
import logging

import pytest

from evensplit.errors import DataLossError
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.brokers import Passing
from tests.support.hosts import NONE, Source, plan_news, ranges
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_topic_deleted_with_unread_records_is_a_loss(east: FakeKafka) -> None:
    source = Source(east, maxOffsetsPerTrigger="4")
    first = source.plan(NONE, limited=True)
    east.delete_topic("t")
    with pytest.raises(DataLossError, match="deleted with offsets 2 to 9 unread"):
        wait_for(lambda: source.plan(first, limited=True) is None)


def test_a_topic_deleted_when_it_was_read_is_no_loss(east: FakeKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "evensplit")
    source = Source(east, assign='{"t": [0, 1]}', discoveryInterval="30s")
    first = source.plan(NONE)
    east.delete_topic("t")
    for _ in range(5):
        assert source.plan(first) is first
    assert [record.getMessage() for record in caplog.records] == [
        "cluster 'east': topic 't' does not exist; its known partitions keep their positions, and are not read"
    ]


def test_a_recreated_topic_that_had_not_been_read_is_a_loss(east: FakeKafka) -> None:
    source = Source(east, maxOffsetsPerTrigger="4")
    first = source.plan(NONE, limited=True)
    east.recreate_topic("t")
    for partition in range(2):
        east.append("t", partition, 50)
    assert source.plan(first) is first, "one answer is not enough"
    with pytest.raises(DataLossError, match=r"created anew.*At most 8 offsets from 2 on.*1 more partition lost"):
        plan_news(source, first)


@pytest.mark.parametrize("records", [3, 50], ids=["shorter than before", "longer than before"])
def test_a_recreated_topic_that_had_been_read_is_read_from_its_beginning(east: FakeKafka, records: int) -> None:
    source = Source(east)
    first = source.plan(NONE)
    east.recreate_topic("t")
    for partition in range(2):
        east.append("t", partition, records)
    second = plan_news(source, first)
    assert ranges(first, second) == {"east/t/0": (0, records), "east/t/1": (0, records)}
    assert second.losses == ()


def test_a_recreated_topic_of_which_nothing_was_seen_in_this_run_is_a_loss_of_unknown_size(east: FakeKafka) -> None:
    first = Source(east).plan(NONE)
    east.recreate_topic("t")
    with pytest.raises(DataLossError, match="How many offsets from 10 on were lost is not known"):
        plan_news(Source(east), first)
    second = plan_news(Source(east, failOnDataLoss="false"), first)
    assert [(loss.cause, loss.position, loss.offsets_max) for loss in second.losses] == [("recreated", 10, None)] * 2


@pytest.mark.parametrize("fix_ends", [False, True])
@pytest.mark.parametrize(
    "tells, said",
    [
        (True, "an unclean leader election replaced its records from offset 4 on, and position 10 had been read up to"),
        (False, "its log ends at offset 4, before position 10"),
    ],
    ids=["epochs", "no epochs"],
)
def test_a_log_that_was_cut_off_is_a_loss(east: FakeKafka, tells: bool, said: str, fix_ends: bool) -> None:
    """Where leaders have epochs it is sure at once, also when the log has grown again; otherwise when it stays so."""
    east.tells_epochs = tells
    first = Source(east).plan(NONE)
    source = Source(east, clock=Passing())
    east.truncate("t", 1, 4)
    with pytest.raises(DataLossError, match=said):
        wait_for(lambda: source.plan(first, fix_ends=fix_ends) is None)


def test_one_stale_answer_is_no_loss(east: FakeKafka) -> None:
    east.tells_epochs = False
    source = Source(east)
    first = source.plan(NONE)
    east.truncate("t", 1, 4)
    assert source.plan(first) is first
    east.append("t", 1, 8)
    assert ranges(first, source.plan(first)) == {"east/t/1": (10, 12)}


def test_under_declare_a_start_that_does_not_exist_is_the_beginning(east: FakeKafka) -> None:
    source = Source(east, startingOffsets=json.dumps({"t": {"0": 11, "1": 4}}), failOnDataLoss="false")
    first = source.plan(NONE)
    assert ranges(NONE, first) == {"east/t/0": (0, 10), "east/t/1": (4, 10)}
    assert [(loss.cause, loss.position, loss.found) for loss in first.losses] == [("out-of-range", 11, 0)]
    assert source.plan(first) is first, "what was lost stays with the batch that it was lost in"
