"""One contract, two clusters: what holds for the fake in memory holds for a real broker, and the reverse: groups."""

from __future__ import annotations

import pickle

import pytest

from evensplit.core.model import Topics
from evensplit.errors import BrokerError, CommitRefused
from evensplit.kafka.admin import groups
from tests.support.contract import Cluster, keys
from tests.support.waiting import wait_for


def test_nothing_committed(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 2)
    wanted = [(prefix, 0), (prefix, 1), (f"{prefix}-nowhere", 0)]
    assert cluster.port.committed_offsets(prefix, wanted) == {}
    assert cluster.port.committed_offsets(prefix, []) == {}
    cluster.port.commit_offsets(prefix, {})
    assert cluster.port.committed_offsets(prefix, wanted) == {}


def test_what_another_client_has_committed(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 4)
    cluster.create_topic(f"{prefix}-b", 1)
    cluster.commit(prefix, prefix, 2, 7)
    cluster.commit(prefix, prefix, 0, 0)
    cluster.commit(prefix, f"{prefix}-b", 0, 3)
    cluster.commit(f"{prefix}-another", prefix, 1, 5)
    # In the order that was asked for, whether or not there are so many records.
    wanted = [(f"{prefix}-b", 0), (prefix, 3), (prefix, 2), (prefix, 1), (prefix, 0), (prefix, 9)]
    found = cluster.port.committed_offsets(prefix, wanted)
    assert list(found.items()) == [((f"{prefix}-b", 0), 3), ((prefix, 2), 7), ((prefix, 0), 0)]
    assert cluster.port.committed_offsets(f"{prefix}-another", wanted) == {(prefix, 1): 5}


def test_what_is_committed_is_what_another_client_finds(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 3)
    cluster.port.commit_offsets(prefix, {(prefix, 2): 2**40, (prefix, 0): 10})
    assert cluster.committed(prefix, prefix, 3) == {(prefix, 0): 10, (prefix, 2): 2**40}
    # Forth, back, and others stay.
    for offset in (20, 5, 0):
        cluster.port.commit_offsets(prefix, {(prefix, 0): offset})
        assert cluster.committed(prefix, prefix, 3) == {(prefix, 0): offset, (prefix, 2): 2**40}
    every = [(prefix, number) for number in range(3)]
    assert cluster.port.committed_offsets(prefix, every) == {(prefix, 0): 0, (prefix, 2): 2**40}
    with pytest.raises(ValueError, match=r"negative offsets cannot be committed: \('.*', 1\): -1"):
        cluster.port.commit_offsets(prefix, {(prefix, 0): 1, (prefix, 1): -1})
    assert cluster.committed(prefix, prefix, 3) == {(prefix, 0): 0, (prefix, 2): 2**40}


def test_more_partitions_than_one_request_has(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "PARTITIONS_ASKED_MAX", 3)
    cluster.create_topic(prefix, 10)
    offsets = {(prefix, number): 100 + number for number in range(10)}
    cluster.port.commit_offsets(prefix, offsets)
    assert cluster.committed(prefix, prefix, 10) == offsets
    backwards = sorted(offsets, reverse=True)
    assert list(cluster.port.committed_offsets(prefix, backwards)) == backwards


def test_what_cannot_be_committed_does_not_keep_the_rest(
    cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    monkeypatch.setattr(groups, "PARTITIONS_ASKED_MAX", 2)
    cluster.create_topic(prefix, 2)
    wanted = [(f"{prefix}-a-gone", 0), (prefix, 0), (prefix, 2), (prefix, 1)]
    with pytest.raises(CommitRefused) as caught:
        cluster.port.commit_offsets("g", dict.fromkeys(wanted, 4))
    assert cluster.committed("g", prefix, 2) == {(prefix, 0): 4, (prefix, 1): 4}
    assert caught.value.code == 3
    assert caught.value.refused == ((prefix, 2), (f"{prefix}-a-gone", 0))
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    assert str(caught.value) == (
        "cluster 'east': group 'g': 2 of 4 offsets could not be committed: UNKNOWN_TOPIC_OR_PARTITION (3) for topic "
        f"'{prefix}', partition 2; topic '{prefix}-a-gone', partition 0: it was deleted, or this client may not see it"
    )


def test_a_group_with_live_consumers_is_left_alone(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 7)
    cluster.commit(prefix, prefix, 0, 1)
    with cluster.live_consumer(prefix, prefix):
        with pytest.raises(BrokerError) as caught:
            cluster.port.commit_offsets(prefix, {(prefix, number): 4 for number in range(7)})
        assert cluster.port.committed_offsets(prefix, [(prefix, 0)]) == {(prefix, 0): 1}
    where = "; ".join(f"topic {prefix!r}, partition {number}" for number in range(5))
    assert str(caught.value) == (
        f"cluster 'east': group {prefix!r}: 7 of 7 offsets could not be committed: UNKNOWN_MEMBER_ID (25) for {where}; "
        "and 2 more: the group has live consumers, and only they can commit its offsets; use a group of its own"
    )
    cluster.port.commit_offsets(prefix, {(prefix, 0): 4})
    assert cluster.committed(prefix, prefix, 1) == {(prefix, 0): 4}


def test_commits_of_a_deleted_topic_are_gone(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    cluster.create_topic(f"{prefix}-b", 1)
    every = [(prefix, 0), (f"{prefix}-b", 0)]
    cluster.port.commit_offsets(prefix, dict.fromkeys(every, 3))
    cluster.delete_topic(prefix)
    wait_for(lambda: (prefix, 0) not in cluster.port.committed_offsets(prefix, every), what="the commit's end")
    cluster.create_topic(prefix, 1)
    assert cluster.port.committed_offsets(prefix, every) == {(f"{prefix}-b", 0): 3}


def test_closed_ports_open_again(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    for _ in range(2):
        assert keys(cluster.port.list_partitions(Topics((prefix,))).partitions) == [(prefix, 0)]
        cluster.port.commit_offsets(prefix, {(prefix, 0): 1})
        cluster.port.close()
        cluster.port.close()
