"""The lane, and what it asks the client, where bootstrap servers lead to another cluster than the one meant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from evensplit.core.model import Topics
from evensplit.core.state.offset_strategies import LATEST
from evensplit.errors import ClusterError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.testing import LocalKafka
from tests.support.clients import NOWHERE, settings
from tests.support.lanes import SMALL, settings_of, spread, values, whole
from tests.support.records import numbers
from tests.support.relay import Relay
from tests.support.scripted import Scripted
from tests.support.waiting import SLACK_S

pytestmark = pytest.mark.kafka

KEY = ("t", 0)


class Named(Scripted):
    """A scripted broker whose cluster calls itself by the next of `names` in each answer, and by the last from then."""

    def __init__(self, *names: str | None) -> None:
        super().__init__()
        self._names = list(names)

    def _metadata(self, *arguments: Any) -> Any:
        response = super()._metadata(*arguments)
        response.cluster_id = self._names.pop(0) if len(self._names) > 1 else self._names[0]
        return response


@pytest.fixture
def relay(own_kafka: LocalKafka) -> Iterator[Relay]:
    """The way to the cluster that is meant, until it is led elsewhere."""
    with Relay(own_kafka.addresses()[0]) as between:
        yield between


def planned(kafka: LocalKafka, topic: str, pool: Pool) -> dict[str, Any]:
    """What a task knows of the cluster that its ranges were planned for."""
    listing = pool.client("east", settings_of(kafka)["east"]).list_partitions(Topics((topic,)))
    return {
        "cluster_ids": {"east": kafka.cluster_id},
        "topic_ids": {("east", topic): listing.partitions[0].topic_id},
    }


def lane(topic: str, end: int, pool: Pool, *servers: str, **known: Any) -> Iterator[pa.RecordBatch]:
    """Reads offsets up to `end`, by way of `servers`."""
    return read_ranges(
        whole(topic, end),
        {"east": settings(*servers)},
        columns=KAFKA_COLUMNS,
        limits=SMALL,
        pool=pool,
        **known,
    )


@pytest.mark.parametrize("skip_lost", [False, True])
def test_another_cluster_with_a_topic_of_that_name(
    kafka: LocalKafka,
    own_kafka: LocalKafka,
    relay: Relay,
    topic: str,
    pool: Pool,
    caplog: pytest.LogCaptureFixture,
    skip_lost: bool,
) -> None:
    """No record of it is read, and none is taken for lost; with topic ids, and without, as of old brokers."""
    for cluster, count in ((own_kafka, 10), (kafka, 50)):
        cluster.create_topic(topic)
        numbers(cluster.bootstrap_servers, topic, range(count))
    known = planned(own_kafka, topic, pool)
    for more in (known, {**known, "topic_ids": None}):
        cold = Pool()
        relay.target = own_kafka.addresses()[0]
        relay.cut()
        assert len(values(lane(topic, 10, cold, relay.servers, skip_lost=skip_lost, **more))) == 10
        cold.close()
        relay.target = kafka.addresses()[0]
        begun = time.monotonic()
        with pytest.raises(ClusterError) as caught:
            next(lane(topic, 10, cold, relay.servers, skip_lost=skip_lost, **more))
        assert time.monotonic() - begun < SLACK_S
        assert type(caught.value) is ClusterError
        assert str(caught.value) == (
            f"cluster 'east': {relay.servers}: it leads to another Kafka cluster: expected Kafka's cluster id "
            f"{own_kafka.cluster_id}, found {kafka.cluster_id}. Offsets mean nothing in another one: correct the "
            "bootstrap servers (kafka.bootstrap.servers), so that they lead to the cluster from before"
        )
        cold.close()
    assert caplog.records == []


def test_another_cluster_while_it_is_read(
    kafka: LocalKafka, own_kafka: LocalKafka, relay: Relay, topic: str, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """What is known of the right one, connections too, is no way around it; and is in no way once it is back."""
    own_kafka.create_topic(topic)
    kafka.create_topic(topic)
    expected = spread(own_kafka, topic)
    known = planned(own_kafka, topic, pool)
    batches = lane(topic, len(expected), pool, relay.servers, skip_lost=True, **known)
    first = len(next(batches))
    own_kafka.kill()
    relay.target = kafka.addresses()[0]
    relay.cut()
    for rest in (batches, lane(topic, len(expected), pool, relay.servers, skip_lost=True, **known)):
        found: list[bytes] = []
        with pytest.raises(ClusterError, match=f"expected Kafka's cluster id {own_kafka.cluster_id}, found "):
            found.extend(value for batch in rest for value in batch.column("value").to_pylist())
        assert found == (expected[first : first + len(found)] if rest is batches else [])
    assert caplog.records == []
    own_kafka.start()
    relay.target = own_kafka.addresses()[0]
    assert values(lane(topic, len(expected), pool, relay.servers, **known)) == expected


def test_servers_that_were_corrected_are_used_beside_those_from_before(
    kafka: LocalKafka, own_kafka: LocalKafka, relay: Relay, topic: str, pool: Pool
) -> None:
    """A logged batch has the servers that it was planned with, and today's behind them."""
    own_kafka.create_topic(topic)
    kafka.create_topic(topic)
    expected = spread(own_kafka, topic, 500)
    known = planned(own_kafka, topic, pool)
    relay.target = kafka.addresses()[0]
    servers = relay.servers, own_kafka.bootstrap_servers
    assert values(lane(topic, len(expected), pool, *servers, skip_lost=True, **known)) == expected


@pytest.mark.parametrize(
    "ask",
    [
        lambda port: port.leaders([KEY], cluster_id="right"),
        lambda port: port.list_offsets({KEY: LATEST}, cluster_id="right"),
        lambda port: port.list_offsets({KEY: LATEST}, complete=False, cluster_id="right"),
        lambda port: port.earliest_local(KEY, timeout_s=5, cluster_id="right"),
    ],
    ids=["leaders", "offsets", "some offsets", "local offsets"],
)
def test_nothing_is_asked_of_another_cluster(
    connect: Callable[..., ClusterClient], ask: Callable[[ClusterClient], object]
) -> None:
    """Also where what is known of leaders is from it, since nobody cared then. A new attempt is a new connection."""
    script = Named("wrong", "wrong", "right")
    with script as server:
        port = connect(server)
        port.list_partitions(Topics(("t",)))
        with pytest.raises(ClusterError, match="expected Kafka's cluster id right, found wrong"):
            ask(port)
        assert script.asked == ["ApiVersions", "Metadata", "Metadata"]
        ask(port)
        assert script.asked[3:5] == ["ApiVersions", "Metadata"]
        port.close()


@pytest.mark.parametrize("expected, found", [("", "any"), ("any", None), ("any", ""), ("any", "any")])
def test_ids_that_are_not_known_are_no_others(
    connect: Callable[..., ClusterClient], expected: str, found: str | None
) -> None:
    with Named(found) as server:
        port = connect(server)
        assert list(port.leaders([KEY], cluster_id=expected).known) == [KEY]
        assert port.list_offsets({KEY: LATEST}, cluster_id=expected) == {KEY: 42}
        port.close()


def test_the_right_server_is_waited_for_where_another_one_leads_elsewhere(
    connect: Callable[..., ClusterClient],
) -> None:
    with Named("wrong") as server:
        port = connect(server, NOWHERE, timeout_ms=1500)
        begun = time.monotonic()
        with pytest.raises(ClusterError) as caught:
            port.leaders([KEY], cluster_id="right")
        assert 1.5 <= time.monotonic() - begun < 1.5 + SLACK_S
        assert type(caught.value) is ClusterError
        for said in (
            f"{server}: it leads to another",
            "id right, found wrong",
            f"{NOWHERE}: ",
            "correct the bootstrap",
        ):
            assert said in caught.value.detail
        port.close()
