"""One reading gives records of one incarnation of a topic only, and takes nothing for gone that a broker still has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from evensplit.core.model import RangeEpochs, SplitId
from evensplit.errors import BrokerError, ClusterUnreachable, DataLossError
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.admin.cluster_session import Leaders
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch import fetcher
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.api import FETCH, FETCH_BY_NAME_VERSION, METADATA
from evensplit.testing import LocalKafka
from evensplit.testing.admin import requests
from tests.support.lanes import lane, spread, topic_id, values, whole
from tests.support.proxies import Proxy, rewritten
from tests.support.records import Draft, numbers, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.kafka

OLD, NEW = b"old", b"new"


def fill(kafka: LocalKafka, topic: str, tag: bytes, count: int) -> None:
    for first in range(0, count, 500):
        drafts = (Draft(b"%s-%06d" % (tag, n) + b"." * 100) for n in range(first, min(first + 500, count)))
        produce(kafka.bootstrap_servers, topic, drafts)


def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with brokers that have topic ids in their metadata, and do not give records by them: Kafka 2.8 to 3.0."""
    monkeypatch.setattr(fetcher, "FETCH", replace(FETCH, highest=FETCH_BY_NAME_VERSION))


def read_and_create_anew(
    kafka: LocalKafka, topic: str, pool: Pool, *, skip_lost: bool, given: bool = True
) -> tuple[list[bytes], DataLossError | None, tuple[str, str]]:
    """Read 4,000 records of a topic that has others from the first batch on. What came, how it ended, ids."""
    kafka.create_topic(topic)
    fill(kafka, topic, OLD, 4000)
    planned = topic_id(kafka, topic, pool)
    ids: Mapping[tuple[str, str], str] = {("east", topic): planned} if given else {}
    batches = lane(kafka, whole(topic, 4000), pool, timeout_ms=2000, topic_ids=ids, skip_lost=skip_lost)
    found = values(iter([next(batches)]))
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    fill(kafka, topic, NEW, 4000)
    try:
        for batch in batches:
            found += batch.column("value").to_pylist()
    except DataLossError as error:
        return found, error, (planned, topic_id(kafka, topic, pool))
    return found, None, (planned, topic_id(kafka, topic, pool))


@pytest.mark.parametrize("skip_lost", [False, True])
@pytest.mark.parametrize("given", [True, False], ids=["id known", "id not known"])
def test_topic_that_is_created_anew_between_two_fetches(
    kafka: LocalKafka,
    topic: str,
    pool: Pool,
    caplog: pytest.LogCaptureFixture,
    skip_lost: bool,
    given: bool,
) -> None:
    found, error, ids = read_and_create_anew(kafka, topic, pool, skip_lost=skip_lost, given=given)
    assert 0 < len(found) < 4000
    assert {value[:3] for value in found} == {OLD}
    said = str(error) if error is not None else caplog.messages[-1]
    assert "to 3999 were to be read, but the topic was deleted and created anew" in said
    assert "expected the topic id {}, found {}".format(*ids) in said
    assert (error is None) == skip_lost
    if skip_lost:
        assert said.endswith(f"At most {4000 - len(found)} offsets were skipped")


@pytest.mark.parametrize("skip_lost", [False, True])
def test_topic_that_is_created_anew_between_two_fetches_by_its_name(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch, skip_lost: bool
) -> None:
    """Which rows are whose is not known, so the task fails before it has handed out all of them."""
    by_name(monkeypatch)
    found, error, (planned, now) = read_and_create_anew(kafka, topic, pool, skip_lost=skip_lost)
    assert error is not None
    assert 0 < len(found) < 4000
    for said in (
        "the topic was deleted and created anew while it was read",
        f"expected the topic id {planned}, found {now}",
        "rows that were handed out may be of the new topic",
        "with failOnDataLoss=false too, and has to be run again",
    ):
        assert said in str(error)


def test_names_are_compared_before_the_last_batch_is_handed_out(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where that one is full, so that nothing comes behind it."""
    by_name(monkeypatch)
    kafka.create_topic(topic)
    for first in range(0, 300, 100):
        numbers(kafka.bootstrap_servers, topic, range(first, first + 100))
    ids = {("east", topic): topic_id(kafka, topic, pool)}
    assert len(values(lane(kafka, whole(topic, 300), pool, topic_ids=ids))) == 300
    ask, late = ClusterClient.leaders, []

    def leaders(*arguments: Any, **named: Any) -> Leaders:
        found = ask(*arguments, **named)
        late.append(found)
        return found if len(late) == 1 else replace(found, topic_ids={topic: "another"})

    monkeypatch.setattr(ClusterClient, "leaders", leaders)
    found: list[bytes] = []
    batches = lane(kafka, whole(topic, 300), pool, timeout_ms=500, topic_ids=ids, skip_lost=True)
    with pytest.raises(DataLossError, match="while it was read"):
        found.extend(value for batch in batches for value in batch.column("value").to_pylist())
    assert len(found) < 300


Lie = Callable[[Any], None]


@pytest.fixture
def liar(kafka: LocalKafka) -> Iterator[Callable[[Lie], str]]:
    """A way to the broker on which every Metadata answer is changed; its `host:port`."""
    proxies: list[Proxy] = []

    def make(lie: Lie) -> str:
        proxies.append(Proxy(kafka.addresses()[0], rewritten(lie, METADATA), METADATA))
        return "{}:{}".format(*proxies[-1].address)

    yield make
    for proxy in proxies:
        proxy.close()


def hide(response: Any) -> None:
    for topic in response.topics:
        topic.error_code, topic.partitions = 3, []


def hide_partitions(response: Any) -> None:
    for topic in response.topics:
        topic.partitions = []


@pytest.mark.parametrize("lie", ["no topic", "no partition", "former id"])
@pytest.mark.parametrize("alone", [True, False])
def test_broker_whose_metadata_is_behind(
    kafka: LocalKafka,
    topic: str,
    pool: Pool,
    liar: Callable[[Lie], str],
    caplog: pytest.LogCaptureFixture,
    lie: str,
    alone: bool,
) -> None:
    kafka.create_topic(topic)
    former = id_in_metadata(kafka, topic)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    assert id_in_metadata(kafka, topic) != former
    expected = spread(kafka, topic, 1000)
    now = topic_id(kafka, topic, pool)

    def age(response: Any) -> None:
        for one in response.topics:
            one.topic_id = former

    server = liar({"no topic": hide, "no partition": hide_partitions, "former id": age}[lie])
    servers = (server,) if alone else (server, kafka.bootstrap_servers)
    settings = {"east": ClientSettings(servers, request_timeout_ms=20_000, retry_backoff_ms=20)}
    own = Pool()
    batches = read_ranges(
        whole(topic, 1000),
        settings,
        columns=KAFKA_COLUMNS,
        topic_ids={("east", topic): now},
        skip_lost=True,
        pool=own,
    )
    assert values(batches) == expected
    own.close()
    assert caplog.records == []


def id_in_metadata(kafka: LocalKafka, topic: str) -> Any:
    return requests.metadata(kafka.addresses()[0], [topic], timeout_s=60).topics[0].topic_id


@pytest.mark.slow
def test_what_a_broker_may_know_that_cannot_be_asked_is_not_lost(
    topic: str, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the cluster has given it up, the others are enough."""
    with LocalKafka(brokers=2) as kafka:
        host, port = kafka.addresses()[1]
        kafka.pause(1)
        try:
            with pytest.raises(ClusterUnreachable) as caught:
                values(lane(kafka, whole(topic, 3), pool, timeout_ms=3000, skip_lost=True))
            assert f"did not confirm it: {host}:{port}. See whether they run" in str(caught.value)
            assert "the topic or the partition does not exist" in str(caught.value)
            assert caplog.records == []

            def given_up() -> bool:
                return len(requests.metadata(kafka.addresses()[0], [], timeout_s=60).brokers) == 1

            wait_for(given_up, what="the cluster gives the broker up")
            assert values(lane(kafka, whole(topic, 3), pool, timeout_ms=3000, skip_lost=True)) == []
            assert "does not exist (any more). At most 3 offsets were skipped" in caplog.messages[-1]
        finally:
            kafka.resume(1)


def test_broker_with_an_earlier_leader_epoch_refuses(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    """A record of a later epoch was seen, so who leads under an earlier one was cut off: it is not believed."""
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    split = SplitId("east", topic, 0)
    known = {split: RangeEpochs(0, -1, 10, 7)}
    with pytest.raises(BrokerError, match="UNKNOWN_LEADER_EPOCH"):
        values(lane(kafka, whole(topic, 10), pool, timeout_ms=1000, epochs=known, skip_lost=True))
