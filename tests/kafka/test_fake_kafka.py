"""What the cluster in memory does that no real one does when told to."""

from __future__ import annotations

import pytest

from evensplit.core.model import TopicPattern, Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST
from evensplit.errors import BrokerError, ClusterUnreachable
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.contract import keys


def test_fake_fails_when_told_to() -> None:
    fake = FakeKafka("east")
    fake.create_topic("t", 1)
    fake.fail_with(ClusterUnreachable("east", "told to"))
    with pytest.raises(ClusterUnreachable, match="told to"):
        fake.list_partitions(Topics(("t",)))
    with pytest.raises(ClusterUnreachable, match="told to"):
        fake.list_offsets({("t", 0): LATEST})
    with pytest.raises(ClusterUnreachable, match="told to"):
        fake.committed_offsets("g", [("t", 0)])
    with pytest.raises(ClusterUnreachable, match="told to"):
        fake.commit_offsets("g", {("t", 0): 0})
    fake.recover()
    assert fake.list_offsets({("t", 0): LATEST}) == {("t", 0): 0}
    assert fake.committed("g") == {}


def test_fake_partitions_lose_their_leaders_when_told_to() -> None:
    fake = FakeKafka("east")
    fake.create_topic("t", 2)
    fake.append("t", 1, 4)
    fake.hide_leader("t", 0)
    wanted = {("t", 0): LATEST, ("t", 1): LATEST}
    assert fake.list_offsets(wanted, complete=False) == {("t", 1): 4}
    with pytest.raises(BrokerError, match=r"topic 't', partition 0: .* LEADER_NOT_AVAILABLE \(5\)"):
        fake.list_offsets(wanted)
    assert keys(fake.list_partitions(Topics(("t",))).partitions) == [("t", 0), ("t", 1)]
    with pytest.raises(IndexError):
        fake.hide_leader("t", 2)
    fake.fail_with(ClusterUnreachable("east", "told to"))
    with pytest.raises(ClusterUnreachable):
        fake.list_offsets(wanted, complete=False)
    fake.recover()
    assert fake.list_offsets(wanted, complete=False) == {("t", 0): 0, ("t", 1): 4}


def test_fake_gives_partial_listings_when_told_to() -> None:
    fake = FakeKafka()
    fake.create_topic("a", 1)
    fake.create_topic("b", 1)
    fake.hide_topic("b", 29)
    for subscription in (Topics(("a", "b")), TopicPattern(".")):
        listing = fake.list_partitions(subscription)
        assert keys(listing.partitions) == [("a", 0)]
        assert listing.missing == ()
        (sentence,) = listing.incomplete
        assert sentence.startswith("topic 'b' cannot be listed: TOPIC_AUTHORIZATION_FAILED (29)")
    assert fake.list_partitions(Topics(("a",))).incomplete == ()
    fake.recover()
    assert keys(fake.list_partitions(TopicPattern(".")).partitions) == [("a", 0), ("b", 0)]


def test_fake_logs_can_be_cut_off() -> None:
    fake = FakeKafka()
    fake.create_topic("t", 1)
    for time_ms in (10, 20, 30):
        fake.append("t", 0, 3, timestamp_ms=time_ms)
    fake.truncate("t", 0, 6)
    assert fake.list_offsets({("t", 0): LATEST}) == {("t", 0): 6}
    assert fake.list_offsets({("t", 0): 21}) == {("t", 0): -1}
    assert fake.append("t", 0, 1, timestamp_ms=40) == 7
    assert fake.list_offsets({("t", 0): 21}) == {("t", 0): 6}
    fake.delete_records("t", 0, 5)
    fake.truncate("t", 0, 2)
    assert fake.list_offsets({("t", 0): EARLIEST}) == fake.list_offsets({("t", 0): LATEST}) == {("t", 0): 2}


def test_fake_recreates_topics() -> None:
    fake = FakeKafka()
    first = fake.create_topic("t", 2)
    fake.append("t", 1, 5)
    second = fake.recreate_topic("t")
    assert first != second
    assert {listed.topic_id for listed in fake.list_partitions(Topics(("t",))).partitions} == {second}
    assert fake.list_offsets({("t", 1): LATEST}) == {("t", 1): 0}
    # Two fakes that live through the same are alike.
    other = FakeKafka()
    assert (other.create_topic("t", 2), other.recreate_topic("t")) == (first, second)


def test_fake_refuses_what_no_cluster_does() -> None:
    fake = FakeKafka()
    fake.create_topic("t", 2)
    with pytest.raises(ValueError, match="exists already"):
        fake.create_topic("t")
    with pytest.raises(ValueError, match="has 2 partitions already"):
        fake.add_partitions("t", 2)
    with pytest.raises(KeyError):
        fake.append("u", 0, 1)
    with pytest.raises(IndexError):
        fake.append("t", 2, 1)


def test_fake_tells_sizes_unless_told_not_to() -> None:
    fake = FakeKafka("east")
    fake.create_topic("t", 2)
    fake.append("t", 0, 3)
    fake.append("t", 0, 2, record_bytes=1_000)
    assert fake.log_sizes([("t", 0), ("t", 1)]) == {("t", 0): (2_300, 5), ("t", 1): (0, 0)}
    fake.hide_leader("t", 0)
    assert fake.log_sizes([("t", 0), ("t", 1)]) == {("t", 1): (0, 0)}
    fake.refuse_sizes(31)
    with pytest.raises(BrokerError, match=r"are not told: CLUSTER_AUTHORIZATION_FAILED \(31\)"):
        fake.log_sizes([("t", 1)])
    fake.recover()
    assert fake.log_sizes([("t", 0)]) == {("t", 0): (2_300, 5)}
    with pytest.raises(ValueError, match="no error"):
        fake.refuse_sizes(0)


def test_fake_refuses_commits_when_told_to() -> None:
    fake = FakeKafka("east")
    fake.create_topic("t", 2)
    fake.commit("g", "t", 1, 8)
    fake.refuse_commits(30)
    with pytest.raises(BrokerError, match=r"group 'g': 1 of 1 .*: GROUP_AUTHORIZATION_FAILED \(30\) for topic 't', "):
        fake.commit_offsets("g", {("t", 0): 1})
    assert fake.committed_offsets("g", [("t", 0), ("t", 1)]) == {("t", 1): 8}
    fake.recover()
    fake.commit_offsets("g", {("t", 0): 1})
    assert fake.committed("g") == {("t", 0): 1, ("t", 1): 8}
    with pytest.raises(IndexError):
        fake.commit("g", "t", 2, 1)
    with pytest.raises(ValueError, match="no error"):
        fake.refuse_commits(0)
