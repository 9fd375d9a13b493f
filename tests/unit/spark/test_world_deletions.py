"""Topics that are deleted in the middle of a look, between the listing and the look at their logs."""

from __future__ import annotations

import pytest

from evensplit.errors import BrokerError
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from evensplit.spark.poll.cluster_query import DELETIONS_MAX
from tests.support.watched import ChangingKafka, Watched, options, topics, with_two_partitions

pytestmark = pytest.mark.usefixtures("no_waiting")


@pytest.fixture
def east() -> ChangingKafka:
    return with_two_partitions()


def test_topics_that_are_deleted_in_the_middle_of_a_look_do_not_make_it_fail(east: ChangingKafka) -> None:
    """Otherwise a query with a pattern would not start while topics come and go."""
    for name in ("t2", "t3"):
        east.create_topic(name)
    east.deleted_after_listing = ["t3", "t2"]
    found = Watched({"e:9092": east}, options()).look()
    assert (topics(found), found.whole, found.fully) == (["t/0", "t/1"], True, True)


def test_a_later_look_in_which_that_happens_is_a_discovery_without_them(east: ChangingKafka) -> None:
    east.create_topic("t2")
    one = Watched({"e:9092": east}, options())
    assert topics(one.look()) == ["t/0", "t/1", "t2/0"]
    east.deleted_after_listing = ["t2"]
    found = one.look()
    assert (topics(found), found.whole, found.number, found.discovery) == (["t/0", "t/1"], True, 2, 2)


def test_a_topic_that_is_created_anew_with_fewer_partitions_is_looked_at_as_it_is_now(east: ChangingKafka) -> None:
    east.replaced_after_listing = ("t", 1, 0)
    found = Watched({"e:9092": east}, options()).look()
    assert (topics(found), dict(found.latest), found.whole) == (["t/0"], {("t", 0): 0}, True)


@pytest.mark.parametrize(
    "wanted, names",
    [("subscribe", "t,t2"), ("assign", '{"t": [0, 1], "t2": [0]}')],
)
def test_a_topic_that_was_asked_for_and_is_deleted_in_the_middle_of_a_look_is_missing(
    east: ChangingKafka, wanted: str, names: str
) -> None:
    east.create_topic("t2")
    east.deleted_after_listing = ["t2"]
    found = Watched({"e:9092": east}, options(wanted, names)).look()
    assert (topics(found), len(found.listing.missing)) == (["t/0", "t/1"], 1)
    assert "t2" in found.listing.missing[0]


def test_without_discovery_what_is_deleted_in_the_middle_of_a_look_is_not_said_to_be_gone(east: ChangingKafka) -> None:
    east.create_topic("t2")
    one = Watched({"e:9092": east}, options(discoveryInterval="0"))
    one.look()
    east.deleted_after_listing = ["t2"]
    found = one.look()
    assert (topics(found), found.whole, found.listing.missing) == (["t/0", "t/1"], False, ())


def test_where_all_is_still_listed_the_error_stands(east: ChangingKafka) -> None:
    east.without_offsets = True
    answer = Watched({"e:9092": east}, options()).world.refresh(patient=True)["east"]
    assert isinstance(answer, BrokerError)
    assert len(east.listed) == 2


def test_topics_that_are_deleted_without_end_end_a_look(east: ChangingKafka) -> None:
    names = [f"t{number}" for number in range(2, 9)]
    for name in names:
        east.create_topic(name)
    east.deleted_after_listing = list(names)
    answer = Watched({"e:9092": east}, options()).world.refresh(patient=True)["east"]
    assert isinstance(answer, BrokerError)
    assert answer.code == UNKNOWN_TOPIC_OR_PARTITION
    assert len(east.listed) == DELETIONS_MAX + 1
