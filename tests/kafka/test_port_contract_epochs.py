"""One contract, two clusters: what holds for the fake in memory holds for a real broker, and the reverse: epochs."""

from __future__ import annotations

import pytest

from evensplit.errors import BrokerError
from evensplit.kafka.admin import client
from evensplit.kafka.admin.protocol import EndsAndEpochs
from tests.support.contract import Cluster


def test_ends_tell_the_leaders_epochs(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 3)
    cluster.append(prefix, 2, 5)
    wanted = [(prefix, 2), (prefix, 0)]
    ends = cluster.port.list_ends(wanted)
    assert list(ends.offsets.items()) == [((prefix, 2), 5), ((prefix, 0), 0)]
    assert ends.epochs == dict.fromkeys(wanted, 0)
    assert cluster.port.list_ends([]) == ({}, {})
    some = [(f"{prefix}-nowhere", 0), (prefix, 1), (prefix, 3)]
    assert cluster.port.list_ends(some, complete=False) == EndsAndEpochs({(prefix, 1): 0}, {(prefix, 1): 0})


def test_ends_of_what_is_decided(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    cluster.append(prefix, 0, 3)
    key = prefix, 0
    with cluster.transaction(prefix, 0, 4, timestamp_ms=1):
        assert cluster.committed_port.list_ends([key]) == ({key: 3}, {key: 0})
        assert cluster.committed_port.list_ends([key], undecided=True) == ({key: 7}, {key: 0})
        assert cluster.port.list_ends([key]) == ({key: 7}, {key: 0})


def test_ends_of_what_does_not_exist(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    with pytest.raises(BrokerError, match=r"partition 0: its offset is not known: UNKNOWN_TOPIC_OR_PARTITION \(3\)"):
        cluster.port.list_ends([(prefix, 0)])


def test_logs_of_the_first_leader(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 2)
    cluster.append(prefix, 1, 5)
    every = {(prefix, 1): 0, (prefix, 0): 0}
    assert list(cluster.port.list_epochs(every, {}).items()) == [((prefix, 1), ((0, 0),)), ((prefix, 0), ((0, 0),))]
    cluster.delete_records(prefix, 1, 4)
    assert cluster.port.list_epochs(every, {(prefix, 1): 4}) == dict.fromkeys(every, ((0, 0),))
    assert cluster.port.list_epochs({}, {}) == {}


def test_a_leader_of_another_epoch_is_not_taken_at_its_word(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 2)
    wanted = {(prefix, 0): 1, (prefix, 1): 0, (f"{prefix}-nowhere", 0): 3}
    assert cluster.port.list_epochs(wanted, {}) == {(prefix, 1): ((0, 0),)}
