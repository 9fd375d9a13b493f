"""One contract, two clusters: what holds for the fake in memory holds for a real broker, and the reverse: listings."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from evensplit.core.model import Partitions, TopicPattern, Topics
from evensplit.core.state.offset_strategies import EARLIEST, LATEST, TopicPartition
from evensplit.errors import BrokerError
from evensplit.kafka.admin import client
from evensplit.kafka.admin.protocol import ClusterPort, Missing
from tests.support.contract import REQUEST_TIMEOUT_S, Cluster, keys
from tests.support.waiting import wait_for


def test_topics_by_name_are_listed_in_order_each_once(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(f"{prefix}-b", 2)
    cluster.create_topic(f"{prefix}-a", 11)
    listing = cluster.port.list_partitions(Topics((f"{prefix}-b", f"{prefix}-a", f"{prefix}-b")))
    assert keys(listing.partitions) == [(f"{prefix}-a", n) for n in range(11)] + [(f"{prefix}-b", n) for n in range(2)]
    assert listing.partitions == tuple(sorted(listing.partitions))
    assert (listing.missing, listing.incomplete) == ((), ())
    assert listing.cluster_id == cluster.cluster_id


def test_topic_ids_tell_a_recreated_topic(cluster: Cluster, prefix: str) -> None:
    def ids() -> set[str]:
        return {listed.topic_id for listed in cluster.port.list_partitions(Topics((prefix,))).partitions}

    cluster.create_topic(prefix, 2)
    first = ids()
    assert len(first) == 1
    assert len(min(first)) == 22
    assert ids() == first
    cluster.delete_topic(prefix)
    cluster.create_topic(prefix, 2)
    assert len(ids()) == 1
    assert ids() != first


def test_topics_that_do_not_exist(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    listing = cluster.port.list_partitions(Topics((f"{prefix}-z", prefix, f"{prefix}-a")))
    assert keys(listing.partitions) == [(prefix, 0)]
    wanted = [f"topic '{prefix}-a' does not exist", f"topic '{prefix}-z' does not exist"]
    assert [str(one) for one in listing.missing] == wanted
    assert listing.incomplete == ()
    # Looking for a topic must not create it.
    assert keys(cluster.port.list_partitions(TopicPattern(prefix)).partitions) == [(prefix, 0)]


def test_single_partitions(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(f"{prefix}-a", 3)
    cluster.create_topic(f"{prefix}-b", 1)
    wanted = Partitions({f"{prefix}-c": (0,), f"{prefix}-b": (0, 1), f"{prefix}-a": (0, 2, 3, 7)})
    listing = cluster.port.list_partitions(wanted)
    assert keys(listing.partitions) == [(f"{prefix}-a", 0), (f"{prefix}-a", 2), (f"{prefix}-b", 0)]
    assert [str(one) for one in listing.missing] == [
        f"topic '{prefix}-a' has no partition 3; it has 0 to 2",
        f"topic '{prefix}-a' has no partition 7; it has 0 to 2",
        f"topic '{prefix}-b' has no partition 1; it has partition 0 alone",
        f"topic '{prefix}-c' does not exist",
    ]
    assert listing.incomplete == ()


def test_pattern_is_found_anywhere_in_the_name(cluster: Cluster, prefix: str) -> None:
    for name in (f"eu-{prefix}-orders", f"{prefix}-orders-v2", f"{prefix}-returns"):
        cluster.create_topic(name, 1)
    listing = cluster.port.list_partitions(TopicPattern(f"{prefix}-order"))
    assert keys(listing.partitions) == [(f"{prefix}-orders-v2", 0), (f"eu-{prefix}-orders", 0)]
    listing = cluster.port.list_partitions(TopicPattern(f"^{prefix}-(orders|returns)"))
    assert keys(listing.partitions) == [(f"{prefix}-orders-v2", 0), (f"{prefix}-returns", 0)]
    assert (listing.missing, listing.incomplete) == ((), ())
    assert cluster.port.list_partitions(TopicPattern(f"{prefix}-nothing")).partitions == ()


def test_internal_topics_are_listed_only_by_name(cluster: Cluster) -> None:
    name = cluster.internal_topic()
    assert cluster.port.list_partitions(Topics((name,))).partitions
    listed = cluster.port.list_partitions(TopicPattern(".")).partitions
    assert name not in {listed_one.topic for listed_one in listed}


def test_partitions_come_and_topics_go(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    assert keys(cluster.port.list_partitions(TopicPattern(prefix)).partitions) == [(prefix, 0)]
    cluster.add_partitions(prefix, 3)
    assert keys(cluster.port.list_partitions(TopicPattern(prefix)).partitions) == [(prefix, n) for n in range(3)]
    cluster.delete_topic(prefix)
    assert cluster.port.list_partitions(TopicPattern(prefix)).partitions == ()
    assert cluster.port.list_partitions(Topics((prefix,))).missing == (Missing(prefix),)


def test_ends_of_logs(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 3)
    cluster.append(prefix, 0, 10)
    cluster.append(prefix, 2, 5)
    cluster.delete_records(prefix, 0, 4)
    cluster.delete_records(prefix, 2, 5)
    every = [(prefix, number) for number in range(3)]
    assert cluster.port.list_offsets(dict.fromkeys(every, LATEST)) == dict(zip(every, (10, 0, 5), strict=True))
    assert cluster.port.list_offsets(dict.fromkeys(every, EARLIEST)) == dict(zip(every, (4, 0, 5), strict=True))
    mixed = {every[2]: LATEST, every[0]: EARLIEST}
    assert list(cluster.port.list_offsets(mixed).items()) == [(every[2], 5), (every[0], 4)]
    assert cluster.port.list_offsets({}) == {}


def test_offsets_of_what_there_is(cluster: Cluster, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As long as the whole request may take: it must not be waited for.
    monkeypatch.setattr(client, "UNKNOWN_TOPIC_GRACE_S", REQUEST_TIMEOUT_S)
    cluster.create_topic(prefix, 2)
    cluster.append(prefix, 1, 3)
    wanted = dict.fromkeys([(prefix, 1), (f"{prefix}-nowhere", 0), (prefix, 0), (prefix, 2)], LATEST)
    begun = time.monotonic()
    assert list(cluster.port.list_offsets(wanted, complete=False).items()) == [((prefix, 1), 3), ((prefix, 0), 0)]
    assert cluster.port.list_offsets({(prefix, 2): LATEST}, complete=False) == {}
    assert time.monotonic() - begun < REQUEST_TIMEOUT_S


def test_offsets_by_time(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 1)
    times = (1_000, 3_000, 2_000, 5_000)
    for time_ms in times:
        cluster.append(prefix, 0, 2, timestamp_ms=time_ms)

    def at(time_ms: int) -> int:
        return cluster.port.list_offsets({(prefix, 0): time_ms})[prefix, 0]

    # The first record with the time or a later one, also where times go back.
    assert [at(time_ms) for time_ms in (0, 1_000, 1_001, 2_000, 3_000, 3_001, 5_000)] == [0, 0, 2, 2, 2, 6, 6]
    assert at(5_001) == -1
    cluster.delete_records(prefix, 0, 3)
    assert [at(time_ms) for time_ms in (0, 1_000, 3_000, 3_001)] == [3, 3, 3, 6]
    cluster.delete_records(prefix, 0, 8)
    assert at(0) == -1


def test_records_by_time(cluster: Cluster, prefix: str) -> None:
    """Each with its own timestamp, which is not the time that is asked for."""
    cluster.create_topic(prefix, 2)
    for time_ms in (1_000, 3_000, 2_000, 5_000):
        cluster.append(prefix, 0, 2, timestamp_ms=time_ms)
    first, empty = (prefix, 0), (prefix, 1)

    def at(time_ms: int, port: ClusterPort) -> Mapping[TopicPartition, tuple[int, int]]:
        return port.list_times({first: time_ms, empty: time_ms}, complete=False)

    for time_ms, found in ((0, (0, 1_000)), (1_001, (2, 3_000)), (3_001, (6, 5_000)), (5_001, (-1, -1))):
        assert at(time_ms, cluster.port) == {first: found, empty: (-1, -1)}
    with cluster.transaction(prefix, 0, 1, timestamp_ms=6_000):
        assert at(5_001, cluster.committed_port)[first] == (-1, -1), "what is open is not found"
        assert at(5_001, cluster.port)[first] == (8, 6_000)


def test_what_is_decided_ends_where_a_transaction_is_open(cluster: Cluster, prefix: str) -> None:
    cluster.create_topic(prefix, 2)
    cluster.append(prefix, 0, 3, timestamp_ms=1_000)

    def seen(port: ClusterPort, *, undecided: bool = False) -> list[int]:
        key = prefix, 0
        wanted = (EARLIEST, LATEST, 1_000, 2_000, 3_000, 4_000)
        return [port.list_offsets({key: one}, undecided=undecided)[key] for one in wanted]

    with cluster.transaction(prefix, 0, 4, timestamp_ms=2_000):
        cluster.append(prefix, 0, 2, timestamp_ms=3_000)
        # Nothing behind the first offset of what is open is an end or an answer to a time, whoever has written it.
        assert seen(cluster.committed_port) == [0, 3, 0, -1, -1, -1]
        assert seen(cluster.port) == seen(cluster.committed_port, undecided=True) == [0, 9, 0, 3, 7, -1]
    every = {(prefix, 0): LATEST, (prefix, 1): LATEST}
    # Aborted records count, and so does the marker.
    wait_for(lambda: cluster.committed_port.list_offsets(every)[prefix, 0] == 10, what="the end of the transaction")
    # A marker has a time of its own, so only up to those of the records is it known what is found.
    assert seen(cluster.committed_port)[:5] == seen(cluster.port)[:5] == [0, 10, 0, 3, 7]
    assert cluster.committed_port.list_offsets(every) == {(prefix, 0): 10, (prefix, 1): 0}


@pytest.mark.parametrize("key", [("nowhere", 0), ("here", 1)])
def test_offsets_of_what_does_not_exist(
    cluster: Cluster, prefix: str, key: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "UNKNOWN_TOPIC_GRACE_S", 0.2)
    cluster.create_topic(f"{prefix}-here", 1)
    topic, partition = f"{prefix}-{key[0]}", key[1]
    with pytest.raises(BrokerError) as caught:
        cluster.port.list_offsets({(f"{prefix}-here", 0): LATEST, (topic, partition): LATEST})
    assert caught.value.code == 3
    assert str(caught.value) == (
        f"cluster 'east': topic {topic!r}, partition {partition}: its offset is not known: "
        "UNKNOWN_TOPIC_OR_PARTITION (3): it was deleted, or this client may not see it"
    )
