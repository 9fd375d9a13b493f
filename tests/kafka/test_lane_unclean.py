"""An unclean leader election between planning and reading: real brokers, and a log that has grown to its end again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.errors import DataLossError
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.testing import LocalKafka
from evensplit.testing.admin import requests
from tests.support.lanes import lane, topic_id, values
from tests.support.records import Draft, produce
from tests.support.replicas import UNCLEAN, all_in_sync
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def two() -> Iterator[LocalKafka]:
    """Two brokers that prefer to lose records to having no leader."""
    with LocalKafka(brokers=2, properties=UNCLEAN) as running:
        yield running


def put(kafka: LocalKafka, topic: str, tag: bytes, count: int) -> None:
    produce(kafka.bootstrap_servers, topic, [Draft(b"%s-%d" % (tag, n)) for n in range(count)], linger_ms=0)


def leader_of(kafka: LocalKafka, topic: str) -> tuple[int, int]:
    """Node id and leader epoch, as a broker that runs says."""
    found = requests.metadata(kafka.addresses()[0], [topic], timeout_s=60).topics[0].partitions[0]
    return int(found.leader_id), int(found.leader_epoch)


@pytest.fixture
def replaced(two: LocalKafka, topic: str, pool: Pool) -> Iterator[tuple[Range, RangeEpochs, str]]:
    """Offsets 50 to 99, which only the leader had, are now 80 records of the other broker: a batch was to read them."""
    two.create_topic(topic, 1, 2)
    wait_for(lambda: all_in_sync(two, topic), what="both are in sync")
    put(two, topic, b"both", 50)
    wait_for(lambda: all_in_sync(two, topic), what="both are in sync")
    first, before = leader_of(two, topic)
    planned = topic_id(two, topic, pool)
    two.kill(1 - first)
    put(two, topic, b"only", 50)
    _, last = leader_of(two, topic)
    two.kill(first)
    two.broker(1 - first).start()

    def written() -> bool:
        try:
            put(two, topic, b"new", 80)
        except (KafkaException, AssertionError):
            return False
        return True

    wait_for(written, what="the other broker leads")
    split = SplitId("east", topic, 0)
    yield Range(split, 20, 100), RangeEpochs(20, before, 100, last), planned
    two.start()


def test_records_that_were_replaced_by_others(
    two: LocalKafka, pool: Pool, replaced: tuple[Range, RangeEpochs, str], caplog: pytest.LogCaptureFixture
) -> None:
    part, known, planned = replaced
    ids = {("east", part.split.topic): planned}
    kept = [b"both-%d" % n for n in range(20, 50)]
    said = "an unclean leader election replaced the records from offset 50 on after the batch was planned"
    found: list[bytes] = []
    batches = lane(two, [part], pool, topic_ids=ids, epochs={part.split: known})
    with pytest.raises(DataLossError, match=said):
        found.extend(value for batch in batches for value in batch.column("value").to_pylist())
    assert found == kept[: len(found)]
    assert values(lane(two, [part], pool, topic_ids=ids, epochs={part.split: known}, skip_lost=True)) == kept
    (message,) = caplog.messages
    assert f"offsets 50 to 99 were to be read, but {said}. At most 50 offsets were skipped" in message
    # From within what was replaced: the leader itself says that the epoch before ends earlier.
    part = Range(part.split, 70, 100)
    known = known._replace(start=70, before=known.last)
    assert values(lane(two, [part], pool, topic_ids=ids, epochs={part.split: known}, skip_lost=True)) == []
    assert "offsets 70 to 99 were to be read, but an unclean leader election replaced" in caplog.messages[-1]
    known = known._replace(last=-1)
    assert values(lane(two, [part], pool, topic_ids=ids, epochs={part.split: known}, skip_lost=True)) == []
    # Without a word on epochs, offsets are all there is.
    assert values(lane(two, [part], pool, topic_ids=ids)) == [b"new-%d" % n for n in range(20, 50)]
