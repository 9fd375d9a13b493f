"""Leader epochs over real elections of real brokers; the cluster in memory lives through the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from evensplit.core.model import EpochTable
from evensplit.core.state.offset_strategies import EARLIEST
from evensplit.errors import ClusterError
from evensplit.kafka.admin import epoch_lookup
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.protocol import ClusterPort
from evensplit.kafka.wire.api import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from evensplit.testing import LocalKafka
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clients import settings
from tests.support.records import numbers
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC = "t"
KEY = (TOPIC, 0)
QUICK = {
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class Two:
    """A topic with a replica on each of two real brokers, and the same one in memory."""

    def __init__(self, kafka: LocalKafka) -> None:
        self.kafka = kafka
        self.fake = FakeKafka("east")
        self.port = ClusterClient("east", settings(*kafka.bootstrap_servers.split(","), timeout_ms=60_000))
        kafka.create_topic(TOPIC, 1, 2)
        self.fake.create_topic(TOPIC)

    def append(self, count: int) -> None:
        numbers(self.kafka.bootstrap_servers, TOPIC, range(count))
        self.fake.append(TOPIC, 0, count)

    def leader(self) -> int:
        return self.port.leaders([KEY], refresh=True).known[KEY].node_id

    def both_replicas(self) -> None:
        self.kafka.start()
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        wait_for(lambda: len(admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions[0].isrs) == 2)

    def elect(self) -> None:
        """Another leader, which has all that there is."""
        before = self.port.list_ends([KEY]).epochs[KEY]
        self.kafka.kill(self.leader())
        self.fake.elect(TOPIC, 0)
        self.wait_for_epoch(before + 1)
        self.both_replicas()

    def lose(self, count: int) -> None:
        """Another leader, which lacks the last `count` records."""
        leader, ends = self.leader(), self.port.list_ends([KEY])
        self.kafka.kill(1 - leader)
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        wait_for(lambda: admin.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions[0].isrs == [leader])
        self.append(count)
        self.kafka.kill(leader)
        self.fake.truncate(TOPIC, 0, ends.offsets[KEY])
        self.kafka.broker(1 - leader).start()
        self.wait_for_epoch(ends.epochs[KEY] + 1)

    def delete_before(self, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        for future in admin.delete_records([TopicPartition(*KEY, offset)]).values():
            future.result(60)
        self.fake.delete_records(TOPIC, 0, offset)

    def wait_for_epoch(self, epoch: int) -> None:
        """There may be several elections until a broker leads; those without a record leave no trace."""

        def has_come() -> bool:
            try:
                return self.port.list_ends([KEY]).epochs[KEY] >= epoch
            except ClusterError:
                return False

        wait_for(has_come, what="a new leader")
        while self.fake.list_ends([KEY]).epochs[KEY] < self.port.list_ends([KEY]).epochs[KEY]:
            self.fake.elect(*KEY)

    def table_of(self, port: ClusterPort, start: int | None = None) -> EpochTable:
        epoch = port.list_ends([KEY]).epochs[KEY]
        begins = port.list_offsets({KEY: EARLIEST}) if start is None else {KEY: start}
        return port.list_epochs({KEY: epoch}, begins)[KEY]

    def table(self, start: int | None = None) -> EpochTable:
        """What both say."""
        assert self.port.list_ends([KEY]) == self.fake.list_ends([KEY])
        found = self.table_of(self.port, start)
        assert found == self.table_of(self.fake, start)
        return found


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    with LocalKafka(brokers=2, properties=QUICK) as kafka:
        one = Two(kafka)
        yield one
        one.port.close()


def test_tables_over_elections(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    assert two.table() == ((0, 0),)
    two.append(10)
    two.elect()
    assert starts(two.table()) == [10, 0], "without a record of its own, a leader begins at the end"
    two.append(10)
    two.elect()
    two.elect()
    assert starts(two.table()) == [20, 10, 0], "an epoch without records leaves no trace"
    two.append(5)
    two.lose(7)
    two.append(9)
    whole = two.table()
    assert starts(whole) == [25, 20, 10, 0], "nine records have taken the place of seven"
    assert two.table(20) == whole[:2]
    monkeypatch.setattr(epoch_lookup, "EPOCH_ROUNDS_MAX", 2)
    assert two.table_of(two.port) == whole[:2]
    monkeypatch.undo()
    for version in range(OFFSET_FOR_LEADER_EPOCH.lowest, OFFSET_FOR_LEADER_EPOCH.highest + 1):
        monkeypatch.setattr(epoch_lookup, "OFFSET_FOR_LEADER_EPOCH", replace(OFFSET_FOR_LEADER_EPOCH, highest=version))
        assert two.table() == whole
    epoch = whole[0][0]
    monkeypatch.setattr(
        epoch_lookup, "OFFSET_FOR_LEADER_EPOCH", replace(OFFSET_FOR_LEADER_EPOCH, lowest=99, highest=99)
    )
    assert two.port.list_epochs({KEY: epoch}, {}) == {KEY: ()}, "who knows no such request has nothing to tell"
    monkeypatch.undo()
    monkeypatch.setattr("evensplit.kafka.admin.client.LIST_OFFSETS", replace(LIST_OFFSETS, highest=3))
    assert two.port.list_ends([KEY]) == ({KEY: 34}, {KEY: -1})
    monkeypatch.undo()
    two.delete_before(15)
    assert two.table() == two.table(0)
    assert starts(two.table()) == [25, 20, 15], "what is gone is of no epoch that is known"
    two.delete_before(34)
    assert two.table() == two.table(0) == ((epoch, 34),)
    assert two.port.list_epochs({KEY: epoch - 1}, {}) == two.port.list_epochs({KEY: epoch + 1}, {}) == {}


def starts(table: EpochTable) -> list[int]:
    return [one.start for one in table]
