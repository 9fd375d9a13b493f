"""Real brokers that hang, fall silent or withdraw access, and a query that reads them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from evensplit.core.state.codec import decode
from evensplit.errors import ClusterError
from evensplit.spark.options.parse import parse_options
from evensplit.spark.stream_reader import EvenSplitStreamReader
from evensplit.testing import LocalKafka, Secured
from tests.support.records import numbers
from tests.support.waiting import SLACK_S, wait_for

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(bool(os.environ.get("EVENSPLIT_TEST_BOOTSTRAP")), reason="kills and pauses its own brokers"),
]

HANGS_S = 4.0
BACK_WITHIN_S = 5.0
ALLOWED_S = 3.0


class Query:
    """What Spark asks on the driver, again and again, every 10 ms."""

    def __init__(self, brokers: dict[str, LocalKafka], **options: str) -> None:
        clusters = {name: {"kafka.bootstrap.servers": one.bootstrap_servers} for name, one in brokers.items()}
        given = {"clusters": json.dumps(clusters), "startingOffsets": "earliest", "clusterWait": "300ms", **options}
        self.reader = EvenSplitStreamReader(parse_options(given), 2)
        self.offset: dict[str, Any] = {}

    def read(self, cluster: str) -> int:
        """How many records of a cluster are in the batches so far."""
        self.offset = self.reader.latestOffset(self.offset, ReadAllAvailable())
        splits = decode(self.offset).splits.items()
        return sum(split.position or 0 for key, split in splits if key.cluster == cluster)


@pytest.fixture
def start() -> Iterator[Callable[..., Query]]:
    made: list[Query] = []

    def begin(brokers: dict[str, LocalKafka], **options: str) -> Query:
        made.append(Query(brokers, **options))
        return made[-1]

    yield begin
    for one in made:
        one.reader.stop()


@pytest.mark.parametrize("timeout_ms", [30_000, 1_000], ids=["within-the-request-deadline", "for-longer-than-that"])
def test_a_cluster_that_hung_is_read_at_once_when_it_is_back(
    kafka: LocalKafka, own_kafka: LocalKafka, topic: str, start: Callable[..., Query], timeout_ms: int
) -> None:
    brokers = {"east": kafka, "west": own_kafka}
    for one in brokers.values():
        one.create_topic(topic)
        numbers(one.bootstrap_servers, topic, range(10))
    query = start(brokers, subscribe=topic, **{"kafka.request.timeout.ms": str(timeout_ms)})
    wait_for(lambda: query.read("east") == query.read("west") == 10)
    own_kafka.pause()
    begun = time.monotonic()
    read, slowest_s = 10, 0.0
    while time.monotonic() - begun < HANGS_S:
        written = time.monotonic()
        read += 1
        numbers(kafka.bootstrap_servers, topic, [read])
        wait_for(lambda: query.read("east") == read)  # noqa: B023
        slowest_s = max(slowest_s, time.monotonic() - written)
    own_kafka.resume()
    back = time.monotonic()
    numbers(own_kafka.bootstrap_servers, topic, range(300))
    # A writer that gets no answer in time writes again, so there can be more.
    wait_for(lambda: query.read("west") >= 310)
    assert time.monotonic() - back < BACK_WITHIN_S
    assert slowest_s < BACK_WITHIN_S


@pytest.mark.slow
def test_a_partition_whose_broker_is_gone_is_an_error_that_names_it(topic: str, start: Callable[..., Query]) -> None:
    with LocalKafka(brokers=2) as two:
        two.create_topic(topic, 2)
        query = start({"east": two}, subscribe=topic, unreachableTimeout=f"{ALLOWED_S:g}s")
        wait_for(lambda: query.offset or query.read("east") == 0)
        two.broker(1).kill()
        begun = time.monotonic()
        with pytest.raises(ClusterError, match=rf"of topic '{topic}', partition \d for .* no leader, or one that"):
            wait_for(lambda: query.read("east") < 0)
        assert ALLOWED_S <= time.monotonic() - begun < ALLOWED_S + SLACK_S


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalKafka]:
    with LocalKafka(security=Secured("SASL_PLAINTEXT", users={"alice": "x"}, mechanisms=("PLAIN",), acls=True)) as one:
        yield one


@pytest.mark.parametrize("wanted", ["subscribe", "subscribePattern"])
def test_access_that_is_withdrawn_is_an_error_that_names_the_topic(
    guarded: LocalKafka, topic: str, start: Callable[..., Query], wanted: str
) -> None:
    guarded.create_topic(topic, 2)
    numbers(guarded.internal_servers, topic, range(10), partitions=2)
    guarded.allow("alice", topic=topic)
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="x";'
    kafka = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    options = {"unreachableTimeout": f"{ALLOWED_S:g}s", "discoveryInterval": "300ms", wanted: topic}
    query = start({"east": guarded}, **options, **{f"kafka.{name}": value for name, value in kafka.items()})
    wait_for(lambda: query.read("east") == 10)
    guarded.deny("alice", topic=topic)
    with pytest.raises(ClusterError, match=f"topic '{topic}', partition 0; .* TOPIC_AUTHORIZATION_FAILED"):
        wait_for(lambda: query.read("east") < 0, within_s=ALLOWED_S + SLACK_S)
