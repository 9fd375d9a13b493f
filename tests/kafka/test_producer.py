"""The producer and a real broker: what it wrote is read by our lane, by confluent-kafka and by kafka-python."""

from __future__ import annotations

import random
import time
from functools import partial

import pyarrow as pa
import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as TheirPartition
from kafka import codec as codecs

from evensplit.core.model import Range, SplitId
from evensplit.errors import RecordTooLarge, RowRefused, WriteError
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.kafka.options.producer import ProducerSettings
from evensplit.kafka.produce.producer import Producer
from evensplit.kafka.produce.terms import Identity, Rows
from evensplit.kafka.produce.transactions import TransactionClient
from evensplit.testing import LocalKafka
from tests.support.lanes import settings_of
from tests.support.producing import (
    client_settings,
    identity_of,
    java_produces,
    log_bytes,
    producing,
    rows_of,
    values_of,
)
from tests.support.records import Draft, consume
from tests.support.transactions import COMMITTED, witness

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3


def drafts_of(count: int, seed: int = 1) -> list[Draft]:
    """Records of all kinds: keys, values, headers and timestamps that are null, empty, and not."""
    dice = random.Random(seed)
    return [
        Draft(
            dice.choice((None, b"", b"%d " % at * dice.choice((1, 5, 200)))),
            key=dice.choice((None, b"", b"key-%d" % at)),
            partition=dice.randrange(PARTITIONS),
            headers=dice.choice((None, None, (("a", b"1"), ("ä", None), ("a", b"")))),
            timestamp_ms=dice.choice((0, 1, 1_700_000_000_000 + at)),
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_all_kinds_are_what_three_clients_read(
    kafka: LocalKafka, topic: str, pool: Pool, codec: str
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    drafts = drafts_of(1500)
    with producing(kafka, pool, compression=codec, batch_bytes_max=16_384) as made:
        number = made.topic(topic)
        for begin in range(0, len(drafts), 400):
            made.write(rows_of(drafts[begin : begin + 400]), number)
        made.flush()
        written = made.written
    by_partition = [[one for one in drafts if one.partition == number] for number in range(PARTITIONS)]
    expected = [
        (one.partition, offset, one.timestamp_ms, one.key, one.value, one.headers)
        for of_one in by_partition
        for offset, one in enumerate(of_one)
    ]
    ends = [len(of_one) for of_one in by_partition]
    assert [one[1:] for one in written] == [(number, end, 0, end - 1) for number, end in enumerate(ends)]
    theirs = consume(kafka.bootstrap_servers, topic, range(PARTITIONS))
    assert [
        (one.partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in theirs
    ] == expected
    ranges = [Range(SplitId("east", topic, number), 0, end) for number, end in enumerate(ends)]
    ours = [
        row
        for batch in read_ranges(ranges, settings_of(kafka), columns=(*KAFKA_COLUMNS, "headers"), pool=pool)
        for row in batch.to_pylist()
    ]
    assert sorted(
        (
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            None if row["headers"] is None else tuple((one["key"], one["value"]) for one in row["headers"]),
        )
        for row in ours
    ) == sorted(expected)
    if getattr(codecs, f"has_{codec}", lambda: True)():
        assert read_by_kafka_python(kafka, topic, ends) == [(*one[:5], list(one[5] or ())) for one in expected]


def read_by_kafka_python(kafka: LocalKafka, topic: str, ends: list[int]) -> list[tuple[object, ...]]:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
    try:
        consumer.assign([TheirPartition(topic, number) for number in range(len(ends))])
        found: list[tuple[object, ...]] = []
        deadline = time.monotonic() + 60
        while len(found) < sum(ends):
            assert time.monotonic() < deadline
            for records in consumer.poll(timeout_ms=500).values():
                found += [(r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
        return sorted(found, key=lambda one: one[:2])
    finally:
        consumer.close()


def test_several_topics_and_rows_of_another_cluster(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    other = f"{topic}-b"
    kafka.create_topic(topic)
    kafka.create_topic(other, partitions=2)
    with producing(kafka, pool) as made:
        first, second = made.topic(topic), made.topic(other)
        numbers = pa.array([second, first, -1, second], pa.int32())
        made.write(Rows(pa.array(["k", "l", "m", "k"]), pa.array(["1", "2", "3", "4"]), None, None, None, numbers))
        made.flush()
        assert made.records == 3
    assert [one.value for one in consume(kafka.bootstrap_servers, topic, [0])] == [b"2"]
    assert [one.value for one in consume(kafka.bootstrap_servers, other, [0, 1])] == [b"1", b"4"]


def test_rows_without_a_time_have_that_of_the_write(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    before_ms = time.time_ns() // 1_000_000
    with producing(kafka, pool) as made:
        made.write(values_of([b"a"]), made.topic(topic))
        made.flush()
    (one,) = consume(kafka.bootstrap_servers, topic, [0])
    assert before_ms <= one.timestamp_ms <= time.time_ns() // 1_000_000


def test_tasks_begin_with_other_partitions(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    for task in range(4):
        settings = client_settings(kafka), ProducerSettings(), identity_of(kafka), pool
        made = Producer("east", *settings, spread=task)
        made.write(values_of([b"a"]), made.topic(topic))
        made.flush()
        assert [one.partition for one in made.written] == [task % PARTITIONS]
        made.close()


@pytest.mark.parametrize("implicit", [True, False])
def test_transaction_is_read_once_it_is_committed(kafka: LocalKafka, topic: str, pool: Pool, implicit: bool) -> None:
    kafka.create_topic(topic, partitions=2)
    client = TransactionClient("east", client_settings(kafka))
    who = client.init(topic, 60_000)
    for commit in (False, True):
        made = Producer(
            "east",
            client_settings(kafka),
            ProducerSettings(compression="lz4"),
            Identity(who.producer_id, who.epoch, topic, implicit),
            pool,
            add_partitions=partial(client.add_partitions, who, topic),
        )
        made.write(rows_of([Draft(b"%d-%d" % (commit, at), partition=at % 2) for at in range(5)]), made.topic(topic))
        made.flush()
        assert [one.records for one in made.written] == [3, 2]
        made.close()
        who = client.end_one(who, topic, commit=commit)
    client.close()
    found = [value for number in range(2) for _, value in witness(kafka, topic, COMMITTED, number)]
    assert found == [b"1-0", b"1-2", b"1-4", b"1-1", b"1-3"]


def test_record_that_the_topic_finds_too_long(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    kafka.set_topic_config(topic, {"max.message.bytes": "2000"})
    long = Rows(pa.array([b"order 17"]), pa.array([b"." * 3000]), None, None, None, None)
    with producing(kafka, pool) as made:
        made.write(long, made.topic(topic))
        with pytest.raises(
            RecordTooLarge,
            match=rf"'east', topic '{topic}', partition 0: a record with the key 'order 17' makes 3,\d\d\d bytes, "
            r"which is more than the topic's max.message.bytes: MESSAGE_SIZE_TOO_LARGE \(10\)",
        ):
            made.flush()


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_no_longer_than_the_topic_allows(kafka: LocalKafka, topic: str, pool: Pool, codec: str) -> None:
    """Also if what came before was compressed well, and what comes cannot be."""
    kafka.create_topic(topic, config={"max.message.bytes": "10000"})
    dice = random.Random(5)
    values = [b"." * 500] * 400 + [dice.randbytes(500) for _ in range(400)]
    with producing(kafka, pool, compression=codec) as made:
        made.write(values_of(values), made.topic(topic))
        made.flush()
        assert made.records == 800


def test_batches_are_too_long_where_the_limit_is_lowered_meanwhile(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    """The next attempt knows it."""
    kafka.create_topic(topic)
    with producing(kafka, pool) as made:
        made.topic(topic)
        kafka.set_topic_config(topic, {"max.message.bytes": "2000"})
        made.write(values_of([b"." * 100] * 30), made.topic(topic))
        with pytest.raises(WriteError, match=r"30 records .* Set kafka.batch.size to less"):
            made.flush()
    with producing(kafka, pool) as made:
        made.write(values_of([b"." * 100] * 30), made.topic(topic))
        made.flush()


def test_rows_that_cannot_be_records(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    with (
        producing(kafka, pool, request_bytes_max=1000) as made,
        pytest.raises(RecordTooLarge, match=r"the key 0xff00 makes a record of 2,\d\d\d bytes, expected at most 1,000"),
    ):
        made.write(Rows(pa.array([b"\xff\0"]), pa.array([b"." * 2000]), None, None, None, None), made.topic(topic))
    with producing(kafka, pool) as made, pytest.raises(RowRefused, match=rf"topic '{topic}': .*no key has partition 9"):
        made.write(values_of([b"a"], 9), made.topic(topic))
    with (
        producing(kafka, pool) as made,
        pytest.raises(WriteError, match=r"topic 'nowhere': UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        made.topic("nowhere")


def test_topic_that_refuses_records_says_why(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    kafka.set_topic_config(topic, {"cleanup.policy": "compact"})
    with producing(kafka, pool) as made:
        made.write(values_of([b"a"]), made.topic(topic))
        with pytest.raises(
            WriteError, match=r"INVALID_RECORD \(87\): .*without a key. It says: .*; record 0 of them: .*without key"
        ):
            made.flush()


@pytest.mark.slow
def test_quota_is_kept(topic: str, pool: Pool) -> None:
    """As long as the broker says, nothing is sent to it; and no time of a batch is lost by that."""
    quick = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
    with LocalKafka(properties=quick) as limiting:
        limiting.create_topic(topic)
        limiting.limit_client(topic, producer_byte_rate=100_000)
        begun_s = time.monotonic()
        given = {"client_id": topic, "batch_bytes_max": 20_000, "delivery_timeout_ms": 5000}
        with producing(limiting, pool, **given) as made:
            made.write(values_of([b"." * 1000] * 500), made.topic(topic))
            made.flush()
            assert made.records == 500
        # What a second brings is taken before it is measured.
        assert time.monotonic() - begun_s > 2.0
        assert limiting.end_offsets(topic) == {0: 500}


@pytest.mark.slow
def test_batches_are_as_long_as_those_of_kafkas_producer(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    """The codecs are other programs, and some pack a little better than Java's, and some a little worse."""
    dice = random.Random(3)
    words = [b"%x" % dice.getrandbits(40) for _ in range(300)]
    values = [b" ".join(dice.choice(words) for _ in range(dice.randrange(2, 25))) for _ in range(20_000)]
    times = pa.array([0] * len(values), pa.int64())
    for codec in CODECS:
        for one in (f"{topic}-{codec}", f"{topic}-ours-{codec}"):
            kafka.create_topic(one)
    java_produces(kafka, topic, CODECS, values, 16_384)
    for codec in CODECS:
        with producing(kafka, pool, compression=codec, batch_bytes_max=16_384) as made:
            made.write(values_of(values)._replace(timestamp=times), made.topic(f"{topic}-ours-{codec}"))
            made.flush()
            assert made.bytes == log_bytes(kafka, f"{topic}-ours-{codec}")
            assert made.bytes == pytest.approx(log_bytes(kafka, f"{topic}-{codec}"), rel=0.02), codec
