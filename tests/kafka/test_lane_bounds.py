"""What is long: record batches beyond a bound, and large records that share a request with small ones."""

from __future__ import annotations

import random
from typing import Any

import pytest

from evensplit.core.model import Range, SplitId
from evensplit.errors import BatchTooLarge
from evensplit.kafka.fetch import fetcher
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits
from evensplit.kafka.fetch.request import PartitionRead, fetch_request
from evensplit.spark.batch_reader import EvenSplitReader
from evensplit.spark.options.parse import parse_options
from evensplit.testing import LocalKafka
from tests.support.lanes import lane, topic_id, values, whole
from tests.support.records import Draft, produce

pytestmark = pytest.mark.kafka

BOUND = 300_000


def of_sizes(kafka: LocalKafka, topic: str, *sizes: int, codec: str = "none", zeros: bool = False) -> list[bytes]:
    """Fill partition 0 with a record batch for each record."""
    dice = random.Random(5)
    made = [bytes(size) if zeros else dice.randbytes(size) for size in sizes]
    for value in made:
        produce(kafka.bootstrap_servers, topic, [Draft(value)], codec=codec)
    return made


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("response_bytes_max", [50_000, 4 << 20])
def test_record_batch_beyond_the_bound(
    kafka: LocalKafka, topic: str, pool: Pool, place: int, response_bytes_max: int
) -> None:
    kafka.create_topic(topic)
    sizes = [200_000, 1_000]
    sizes.insert(place, BOUND)
    made = of_sizes(kafka, topic, *sizes)
    limits = LaneLimits(rows_max=1, response_bytes_max=response_bytes_max, batch_bytes_max=BOUND)
    found: list[bytes] = []
    batches = lane(kafka, whole(topic, 3), pool, limits=limits)
    with pytest.raises(BatchTooLarge) as caught:
        found.extend(value for batch in batches for value in batch.column("value").to_pylist())
    error = caught.value
    assert (error.cluster, error.topic, error.partition, error.offset) == ("east", topic, 0, place)
    assert f"and maxBatchBytes is {BOUND}. Raise maxBatchBytes to read it" in str(error)
    assert found == made[: len(found)]
    # What comes before it can be read, and so can what comes behind it.
    assert values(lane(kafka, whole(topic, place), pool, limits=limits)) == made[:place]
    rest = [Range(SplitId("east", topic, 0), place + 1, 3)]
    assert values(lane(kafka, rest, pool, limits=limits)) == made[place + 1 :]
    # It is read where the bound is higher, although it is longer than all else that is asked for.
    higher = LaneLimits(response_bytes_max=response_bytes_max, batch_bytes_max=BOUND + 200)
    assert values(lane(kafka, whole(topic, 3), pool, limits=higher)) == made


@pytest.mark.parametrize("by_id", [True, False])
def test_answer_that_is_too_long_to_be_taken(kafka: LocalKafka, topic: str, pool: Pool, by_id: bool) -> None:
    """A broker sends one record batch whole. Where even that is more than is taken, its beginning says which it is."""
    kafka.create_topic(topic, config={"max.message.bytes": "8000000"})
    made = of_sizes(kafka, topic, 1_000, 2_000_000)
    limits = LaneLimits(response_bytes_max=50_000, batch_bytes_max=2_000)
    ids = {("east", topic): topic_id(kafka, topic, pool)} if by_id else None
    with pytest.raises(BatchTooLarge, match=r"claims a length of 20000\d\d bytes, and maxBatchBytes is 2000") as caught:
        values(lane(kafka, whole(topic, 2), pool, limits=limits, topic_ids=ids))
    error = caught.value
    assert (error.cluster, error.topic, error.partition, error.offset) == ("east", topic, 0, 1)
    assert values(lane(kafka, whole(topic, 1), pool, limits=limits, topic_ids=ids)) == made[:1]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_record_batch_that_decompresses_to_more_than_the_bound(
    kafka: LocalKafka, topic: str, pool: Pool, codec: str
) -> None:
    kafka.create_topic(topic)
    made = of_sizes(kafka, topic, 100, 800_000, codec=codec, zeros=True)
    with pytest.raises(BatchTooLarge) as caught:
        values(lane(kafka, whole(topic, 2), pool, limits=LaneLimits(batch_bytes_max=BOUND)))
    error = caught.value
    assert (error.cluster, error.topic, error.partition, error.offset) == ("east", topic, 0, 1)
    assert f"decompresses to more than the {BOUND} bytes that are allowed" in str(error)
    assert "damaged" not in str(error)
    assert values(lane(kafka, whole(topic, 2), pool, limits=LaneLimits(batch_bytes_max=810_000))) == made


def test_bound_of_the_source(kafka: LocalKafka, topic: str) -> None:
    """The option comes to the task, and the error to whoever asks for rows."""
    kafka.create_topic(topic)
    made = of_sizes(kafka, topic, 1_000, BOUND)

    def rows(**options: str) -> list[bytes]:
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "readers": "1"}
        reader = EvenSplitReader(parse_options({**given, **options}), 1)
        return [value for part in reader.partitions() for value in values(iter(reader.read(part)))]

    assert rows() == made
    with pytest.raises(
        BatchTooLarge, match=f"topic '{topic}', partition 0, at or after offset 1.*maxBatchBytes is 2000"
    ):
        rows(maxBatchBytes="2000")


def test_large_records_keep_no_small_ones_waiting(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every partition has got something after a few requests, however many large ones stand before it."""
    large, small = 4, 60
    kafka.create_topic(topic, large + small, config={"max.message.bytes": "2000000"})
    dice = random.Random(1)
    for _ in range(6):
        made = dice.randbytes(900_000)
        produce(kafka.bootstrap_servers, topic, (Draft(made, partition=n) for n in range(large)))
    for _ in range(3):
        produce(kafka.bootstrap_servers, topic, (Draft(b"small", partition=large + n) for n in range(small)))
    asked: list[int] = []
    reads: dict[int, PartitionRead] = {}
    got: dict[int, int] = {}

    def request(chosen: list[PartitionRead], *rest: Any) -> Any:
        reads.update({read.split.partition: read for read in chosen})
        for partition, read in reads.items():
            if read.position:
                got.setdefault(partition, len(asked))
        asked.append(len(chosen))
        return fetch_request(chosen, *rest)

    monkeypatch.setattr(fetcher, "fetch_request", request)
    ranges = [one for n in range(large) for one in whole(topic, 6, n)]
    ranges += [one for n in range(large, large + small) for one in whole(topic, 3, n)]
    found = values(lane(kafka, ranges, pool, limits=LaneLimits(response_bytes_max=1 << 20)))
    assert len(found) == 6 * large + 3 * small
    # Each of the large ones can fill a response once, and then it is the others' turn.
    assert set(got) == set(range(large + small))
    assert max(got.values()) <= large + 1
    assert len(asked) <= 6 * large + 6
