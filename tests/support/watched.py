"""A cluster monitor over fake clusters that change while they are polled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evensplit.core.state.offset_strategies import TopicPartition
from evensplit.errors import BrokerError
from evensplit.kafka.admin.protocol import ClusterPort, Listing
from evensplit.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from evensplit.spark.options.parse import ClusterOptions, SourceOptions, parse_options
from evensplit.spark.poll.cluster_monitor import ClusterMonitor
from evensplit.spark.poll.snapshot import ClusterSnapshot
from evensplit.testing.fake_kafka import FakeKafka
from tests.support.clocks import Clock, Ticking
from tests.support.waiting import wait_for


class ChangingKafka(FakeKafka):
    """Counts requests, and changes between two of them if the test says so.

    `replaced_after_listing`: a topic that is created anew after the next listing, with so many partitions, and so many
    records in the first one.
    `deleted_after_listing`: topics, one of which is deleted after each listing. `without_offsets`: none are given.
    """

    def __init__(self, cluster: str, cluster_id: str | None = None) -> None:
        super().__init__(cluster, cluster_id=cluster_id)
        self.listed: list[object] = []
        self.replaced_after_listing: tuple[str, int, int] | None = None
        self.deleted_after_listing: list[str] = []
        self.without_offsets = False

    def list_partitions(self, subscription: object) -> Listing:
        self.listed.append(subscription)
        found = super().list_partitions(subscription)  # type: ignore[arg-type]
        if self.replaced_after_listing is not None:
            topic, partitions, records = self.replaced_after_listing
            self.replaced_after_listing = None
            self.recreate_topic(topic, partitions)
            self.append(topic, 0, records)
        if self.deleted_after_listing:
            self.delete_topic(self.deleted_after_listing.pop(0))
        return found

    def _offset(self, key: TopicPartition, wanted: int, *, undecided: bool) -> int:
        if self.without_offsets:
            raise BrokerError(self.cluster, "its leader does not know it", UNKNOWN_TOPIC_OR_PARTITION)
        return super()._offset(key, wanted, undecided=undecided)


def with_two_partitions() -> ChangingKafka:
    """The cluster `east` with the topic `t`: ten records in its first partition, none in its second one."""
    cluster = ChangingKafka("east")
    cluster.create_topic("t", 2)
    cluster.append("t", 0, 10)
    return cluster


def options(wanted: str = "subscribePattern", names: str = "^t", **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "e:9092", wanted: names, **more}
    parsed = parse_options(given)
    return replace(parsed, clusters=(replace(parsed.clusters[0], id="east"),))


class Watched:
    """A cluster monitor over fakes, by bootstrap servers. `worked`: the processor time of the polls."""

    def __init__(self, ports: Mapping[str, FakeKafka], wanted: SourceOptions) -> None:
        self.clock = Clock(0.0)
        self.worked = Clock(0.0)
        self.ports = ports
        self.connected: list[str] = []
        self.world = ClusterMonitor(wanted, self._connect, Ticking(self.clock, self.worked))
        self.world.want(wanted.clusters)

    def _connect(self, cluster: ClusterOptions) -> ClusterPort:
        self.connected.append(cluster.settings.bootstrap_servers[0])
        return self.ports[cluster.settings.bootstrap_servers[0]]

    def look(self, *, discover: bool = False) -> ClusterSnapshot:
        answer = self.world.refresh(patient=True, discover=discover)["east"]
        assert isinstance(answer, ClusterSnapshot)
        return answer


def in_passing(one: Watched, *, discover: bool = False) -> ClusterSnapshot:
    """The next snapshot of a poll in the background, which need not be complete."""
    number = one.world.polls
    answer = wait_for(
        lambda: next(
            (
                view
                for view in one.world.refresh(patient=False, discover=discover).values()
                if isinstance(view, ClusterSnapshot) and view.number > number
            ),
            None,
        )
    )
    assert answer is not None
    return answer


def topics(view: ClusterSnapshot) -> list[str]:
    return [f"{one.topic}/{one.partition}" for one in view.listing.partitions]
