"""Sizes of logs of several brokers, of those that refuse to tell them, and of those that say something odd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from evensplit.errors import BrokerError, ClusterUnreachable, UnsupportedBroker
from evensplit.kafka.admin import log_sizes
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.protocol import LogSize
from evensplit.kafka.wire.api import DESCRIBE_LOG_DIRS, LIST_OFFSETS
from evensplit.testing import LocalKafka
from evensplit.testing.messages import read_request, response_class, write_response
from tests.support.records import Draft, produce
from tests.support.scripted import HANG_UP, Scripted

T = ("t", 0)
EARLIEST_LOCAL, EARLIEST = -4, -2
START, START_LOCAL, END = 10, 30, 50


Directory = tuple[int, dict[str, list[tuple[int, int, bool]]]]
"""Its code, and by topic the partitions in it, each with its size and whether it is being moved there."""


class Disk(Scripted):
    """A broker whose directories say what `dirs` has, and which gives offsets of its own to ListOffsets."""

    def __init__(
        self,
        *dirs: Directory,
        code: int = 0,
        highest: int = 4,
        offsets: int = 9,
    ) -> None:
        super().__init__(highest={LIST_OFFSETS: offsets} | ({DESCRIBE_LOG_DIRS: highest} if highest >= 0 else {}))
        self.dirs, self.code = dirs, code

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        for api, told in ((DESCRIBE_LOG_DIRS, self._sizes), (LIST_OFFSETS, self._bounds)):
            if api.key == key:
                if self.code == HANG_UP and api is DESCRIBE_LOG_DIRS:
                    return None
                self.asked.append(api.name)
                return write_response(api, told(version, read_request(api, request, version)), version)
        return super().answer(key, version, request)

    def _sizes(self, version: int, request: Any) -> Any:
        assert [(one.topic, one.partitions) for one in request.topics] == [("t", [0])]
        kind = response_class(DESCRIBE_LOG_DIRS)
        topic = kind.DescribeLogDirsResult.DescribeLogDirsTopic
        results = [
            kind.DescribeLogDirsResult(
                version=version,
                error_code=code,
                log_dir=f"/data/{number}",
                topics=[
                    topic(
                        version=version,
                        name=name,
                        partitions=[
                            topic.DescribeLogDirsPartition(
                                version=version,
                                partition_index=index,
                                partition_size=size,
                                offset_lag=0,
                                is_future_key=future,
                            )
                            for index, size, future in listed
                        ],
                    )
                    for name, listed in topics.items()
                ],
            )
            for number, (code, topics) in enumerate(self.dirs)
        ]
        return kind(version=version, error_code=self.code if version >= 3 else 0, results=results)

    def _bounds(self, version: int, request: Any) -> Any:
        (topic,) = request.topics
        (one,) = topic.partitions
        kind = response_class(LIST_OFFSETS).ListOffsetsTopicResponse
        at = {EARLIEST_LOCAL: START_LOCAL, EARLIEST: START}.get(one.timestamp, END)
        told = kind.ListOffsetsPartitionResponse(version=version, partition_index=0, error_code=0, offset=at)
        return response_class(LIST_OFFSETS)(
            version=version, topics=[kind(version=version, name="t", partitions=[told])]
        )


Ask = Callable[[Scripted], Any]


@pytest.fixture
def ask(connect: Callable[..., ClusterClient]) -> Ask:
    def asked(broker: Scripted) -> Any:
        with broker as servers:
            port = connect(servers, timeout_ms=3000)
            try:
                return port.log_sizes([T])
            finally:
                port.close()

    return asked


def test_the_directory_that_has_the_log_counts(ask: Ask) -> None:
    """Not one that it is being moved to, and none that is broken."""
    dirs: tuple[Directory, ...] = (
        (0, {}),
        (0, {"t": [(0, 7_000, True)]}),
        (56, {}),
        (0, {"t": [(0, 5_000, False), (1, 9, False)]}),
    )
    assert ask(Disk(*dirs)) == {T: LogSize(5_000, END - START_LOCAL)}


def test_what_is_in_remote_storage_alone_counts_only_where_brokers_know_of_none(ask: Ask) -> None:
    dirs: Directory = (0, {"t": [(0, 5_000, False)]})
    assert ask(Disk(dirs, offsets=8)) == {T: LogSize(5_000, END - START_LOCAL)}
    assert ask(Disk(dirs, offsets=7)) == {T: LogSize(5_000, END - START)}


def test_what_makes_no_sense_is_not_told(ask: Ask) -> None:
    assert ask(Disk((0, {"t": [(0, -1, False)], "u": [(0, 5, False)]}))) == {}


@pytest.mark.parametrize("version", range(5))
def test_a_user_who_may_not_ask(ask: Ask, version: int) -> None:
    with pytest.raises(BrokerError) as caught:
        ask(Disk(code=31, highest=version))
    assert caught.value.code == 31
    assert caught.value.detail == (
        "the sizes of its logs are not told: CLUSTER_AUTHORIZATION_FAILED (31): this user may not do that; allow it "
        "the operation Describe on the cluster (an ACL)"
    )


def test_a_disk_that_is_broken(ask: Ask) -> None:
    with pytest.raises(BrokerError, match=r"the sizes of its logs are not told: KAFKA_STORAGE_ERROR \(56\)"):
        ask(Disk((56, {})))


def test_a_broker_that_cannot_tell(ask: Ask) -> None:
    with pytest.raises(UnsupportedBroker, match="the broker knows versions of DescribeLogDirs: none"):
        ask(Disk(highest=-1))


def test_a_broker_that_hangs_up(ask: Ask) -> None:
    with pytest.raises(ClusterUnreachable):
        ask(Disk(code=HANG_UP))


@pytest.mark.kafka
@pytest.mark.parametrize("version", range(1, 5))
def test_each_version(
    kafka: LocalKafka,
    topic: str,
    connect: Callable[..., ClusterClient],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    """Brokers of today have no version 0."""
    monkeypatch.setattr(log_sizes, "DESCRIBE_LOG_DIRS", replace(DESCRIBE_LOG_DIRS, highest=version))
    kafka.create_topic(topic)
    produce(kafka.bootstrap_servers, topic, [Draft(b"x" * 1_000)] * 100)
    (found,) = connect(kafka.bootstrap_servers).log_sizes([(topic, 0)]).values()
    assert found.offsets == 100
    assert 100_000 < found.bytes < 110_000


@pytest.mark.kafka
def test_each_leader_is_asked_for_its_own(topic: str, connect: Callable[..., ClusterClient]) -> None:
    keys = [(topic, number) for number in range(4)]
    with LocalKafka(brokers=2) as kafka:
        kafka.create_topic(topic, partitions=4)
        produce(kafka.bootstrap_servers, topic, [Draft(b"x" * 1_000, partition=n % 4) for n in range(40)])
        port = connect(*kafka.bootstrap_servers.split(","))
        assert {broker.node_id for broker in port.leaders(keys).known.values()} == {0, 1}
        found = port.log_sizes(keys)
        assert {key: size.offsets for key, size in found.items()} == dict.fromkeys(keys, 10)
        assert all(10_000 < size.bytes < 12_000 for size in found.values())
        kafka.kill(1)
        left = [key for key, broker in port.leaders(keys).known.items() if broker.node_id == 0]
        assert sorted(port.log_sizes(keys)) == left
