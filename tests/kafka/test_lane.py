"""What the lane delivers, field by field against an independent client, whatever the log looks like."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from evensplit.core.model import Range, SplitId
from evensplit.errors import DataLossError
from evensplit.kafka.columns import COLUMNS, KAFKA_COLUMNS
from evensplit.kafka.fetch import fetcher
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.fetch.request import fetch_request
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.api import FETCH
from evensplit.kafka.wire.frames import Frame
from evensplit.testing import LocalKafka
from evensplit.testing.messages import read_request
from tests.support.records import Draft, Record, consume, numbers, produce
from tests.support.waiting import SLACK_S, wait_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def compacting() -> Iterator[LocalKafka]:
    """A broker that compacts as soon as it may."""
    with LocalKafka(properties={"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "100"}) as running:
        yield running


def settings_of(kafka: LocalKafka, **changes: Any) -> ClientSettings:
    return replace(ClientSettings(tuple(kafka.bootstrap_servers.split(",")), request_timeout_ms=20_000), **changes)


def ranges_of(topic: str, ends: Mapping[int, int], cluster: str = "east") -> list[Range]:
    return [Range(SplitId(cluster, topic, partition), 0, end) for partition, end in ends.items()]


def read(
    kafka: LocalKafka,
    ranges: Sequence[Range],
    pool: Pool,
    *,
    limits: LaneLimits | None = None,
    **changes: Any,
) -> list[Record]:
    """All that the lane gives for `ranges`, in the order in which it comes."""
    settings = {one.split.cluster: settings_of(kafka, **changes) for one in ranges}
    found: list[Record] = []
    for batch in read_ranges(ranges, settings, columns=COLUMNS, limits=limits, pool=pool):
        batch.validate(full=True)
        assert batch.num_rows > 0
        found.extend(records_of(batch))
    return found


def records_of(batch: pa.RecordBatch) -> Iterator[Record]:
    assert batch.schema.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "cluster")
    ]
    micros = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for row, micro in zip(batch.drop_columns(["timestamp"]).to_pylist(), micros, strict=True):
        assert micro % 1000 == 0
        headers = row["headers"]
        yield Record(
            row["topic"],
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            micro // 1000,
            row["timestampType"],
            None if headers is None else tuple((one["key"], one["value"]) for one in headers),
        )


def in_order(records: Sequence[Record]) -> list[Record]:
    """By partition and offset, after a check that within each partition they were so already."""
    last: dict[tuple[str, int], int] = {}
    for record in records:
        key = record.topic, record.partition
        assert record.offset > last.get(key, -1)
        last[key] = record.offset
    return sorted(records, key=lambda record: (record.topic, record.partition, record.offset))


def drafts(count: int, partitions: int = 1) -> Iterator[Draft]:
    """Records of every shape: null and empty keys and values, headers, many sizes, times that go back."""
    dice = random.Random(7)
    for number in range(count):
        yield Draft(
            value=dice.choice([None, b"", b"short", dice.randbytes(50), b"x" * dice.randrange(3000)]),
            key=dice.choice([None, b"", b"%d" % number]),
            partition=number % partitions,
            headers=dice.choice([None, [], [("a", b"1")], [("a", b"1"), ("a", None), ("", b""), ("é", b"\0\xff")]]),
            timestamp_ms=dice.choice([1, 1_700_000_000_000, 1_600_000_000_123]),
        )


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_is_what_another_client_reads(kafka: LocalKafka, topic: str, pool: Pool, codec: str) -> None:
    kafka.create_topic(topic, 3)
    produce(kafka.bootstrap_servers, topic, drafts(1500, 3), codec=codec)
    expected = consume(kafka.bootstrap_servers, topic, range(3))
    found = read(kafka, ranges_of(topic, dict.fromkeys(range(3), 500)), pool)
    assert in_order(found) == expected


def test_log_append_time(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    produce(kafka.bootstrap_servers, topic, drafts(50), codec="lz4")
    found = read(kafka, ranges_of(topic, {0: 50}), pool)
    assert found == consume(kafka.bootstrap_servers, topic, [0])
    assert {record.timestamp_type for record in found} == {1}


def test_columns_that_were_not_asked_for(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(3))
    settings = {"east": settings_of(kafka)}
    (whole,) = read_ranges(ranges_of(topic, {0: 3}), settings, columns=COLUMNS, pool=pool)
    assert whole.column("value").to_pylist() == [b"0", b"1", b"2"]
    assert whole.column("cluster").to_pylist() == ["east"] * 3
    for chosen in (*((name,) for name in COLUMNS), KAFKA_COLUMNS, ("key", "offset", "headers")):
        (batch,) = read_ranges(ranges_of(topic, {0: 3}), settings, columns=chosen, pool=pool)
        assert batch == whole.select(list(chosen))


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_larger_than_every_limit(kafka: LocalKafka, topic: str, pool: Pool, codec: str) -> None:
    kafka.create_topic(topic, config={"max.message.bytes": "10000000"})
    dice = random.Random(3)
    values = [dice.randbytes(size) for size in (900_000, 10, 700_000, 900_000, 1)]
    produce(kafka.bootstrap_servers, topic, map(Draft, values), codec=codec)
    limits = LaneLimits(rows_max=1, bytes_max=1, response_bytes_max=1, buffer_bytes_max=1)
    found = read(kafka, ranges_of(topic, {0: 5}), pool, limits=limits, max_partition_fetch_bytes=1, fetch_max_bytes=1)
    assert [record.value for record in found] == values


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_ranges_begin_and_end_inside_record_batches(kafka: LocalKafka, topic: str, pool: Pool, codec: str) -> None:
    kafka.create_topic(topic)
    for first in range(0, 40, 10):
        numbers(kafka.bootstrap_servers, topic, range(first, first + 10), codec=codec)
    split = SplitId("east", topic, 0)
    for start, end in ((0, 40), (0, 1), (39, 40), (3, 7), (5, 15), (9, 11), (10, 20), (13, 37), (20, 20)):
        found = read(kafka, [Range(split, start, end)], pool)
        assert [record.value for record in found] == [b"%d" % n for n in range(start, end)]
    # Several ranges of one split come in ascending order, touching or not.
    ranges = [Range(split, 30, 33), Range(split, 5, 12), Range(split, 12, 14), Range(split, 8, 8)]
    found = read(kafka, ranges, pool)
    assert [record.offset for record in found] == [*range(5, 14), *range(30, 33)]


def test_ranges_that_make_no_sense(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    split = SplitId("east", topic, 0)
    for ranges in ([Range(split, 5, 4)], [Range(split, -1, 4)], [Range(split, 0, 5), Range(split, 4, 6)]):
        with pytest.raises(ValueError, match=str(split)):
            read(kafka, ranges, pool)
    with pytest.raises(ValueError, match="no settings for the clusters west"):
        next(read_ranges([Range(SplitId("west", topic, 0), 0, 1)], {}, columns=KAFKA_COLUMNS, pool=pool))
    assert read(kafka, [], pool) == []


@pytest.mark.parametrize(
    "limits",
    [
        LaneLimits(),
        LaneLimits(rows_max=7),
        LaneLimits(bytes_max=1000),
        LaneLimits(rows_max=1, bytes_max=1, response_bytes_max=1, buffer_bytes_max=1),
        LaneLimits(response_bytes_max=100_000),
    ],
)
def test_many_partitions_under_every_limit(kafka: LocalKafka, topic: str, pool: Pool, limits: LaneLimits) -> None:
    names = (f"{topic}-b", f"{topic}-a")
    for name in names:
        kafka.create_topic(name, 20)
        produce(kafka.bootstrap_servers, name, drafts(1000, 20), codec="lz4")
    ranges = [one for name in names for one in ranges_of(name, dict.fromkeys(range(20), 50))]
    found = in_order(read(kafka, ranges, pool, limits=limits))
    assert found == [record for name in sorted(names) for record in consume(kafka.bootstrap_servers, name, range(20))]


def test_batches_close_by_rows_and_bytes(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    # Four record batches at least, however long a busy producer makes them.
    for _ in range(4):
        produce(kafka.bootstrap_servers, topic, (Draft(b"x" * 1000) for _ in range(500)), linger_ms=50)

    def sizes(limits: LaneLimits) -> list[int]:
        settings = {"east": settings_of(kafka)}
        ranges = ranges_of(topic, {0: 2000})
        return [
            batch.num_rows for batch in read_ranges(ranges, settings, columns=KAFKA_COLUMNS, limits=limits, pool=pool)
        ]

    assert sizes(LaneLimits(bytes_max=16 << 20)) == [2000]
    assert all(len(sizes(limits)) >= 3 for limits in (LaneLimits(rows_max=500), LaneLimits(bytes_max=500_000)))


def test_receive_buffers_together_stay_within_their_bound(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic)
    for _ in range(20):
        produce(kafka.bootstrap_servers, topic, (Draft(b"x" * 1000) for _ in range(50)))
    made: list[Frame] = []
    asked: set[int] = set()

    def frame() -> Frame:
        made.append(Frame())
        return made[-1]

    def request(*arguments: Any) -> Any:
        built = fetch_request(*arguments)
        asked.add(read_request(FETCH, built, arguments[-1], header=False).max_bytes)
        return built

    monkeypatch.setattr(fetcher, "Frame", frame)
    monkeypatch.setattr(fetcher, "fetch_request", request)
    assert len(read(kafka, ranges_of(topic, {0: 1000}), pool, limits=LaneLimits(buffer_bytes_max=200_000))) == 1000
    # One leader, one buffer, which has the whole of it.
    assert asked == {200_000}
    assert len(made) == 1
    assert 100_000 < len(made[0].data) <= 300_000


def test_no_partition_keeps_the_others_waiting(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic, 4)
    dice = random.Random(1)
    produce(
        kafka.bootstrap_servers,
        topic,
        (Draft(dice.randbytes(10_000), partition=n % 2) for n in range(400)),
    )
    produce(kafka.bootstrap_servers, topic, (Draft(b"small", partition=2 + n % 2) for n in range(20)))
    ranges = ranges_of(topic, {0: 200, 1: 200, 2: 10, 3: 10})
    found = read(kafka, ranges, pool, limits=LaneLimits(rows_max=1, response_bytes_max=200_000))
    in_order(found)
    assert len(found) == 420
    # The small ones come long before the large ones are through.
    assert max(place for place, record in enumerate(found) if record.partition >= 2) < 300


def test_several_clusters_in_one_reader(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic, 2)
    numbers(kafka.bootstrap_servers, topic, range(10), partitions=2)
    ranges = [*ranges_of(topic, {0: 5}, "west"), *ranges_of(topic, {1: 5}, "east")]
    settings = {"east": settings_of(kafka), "west": settings_of(kafka, fetch_max_wait_ms=10)}
    batches = list(read_ranges(ranges, settings, columns=(*KAFKA_COLUMNS, "cluster"), pool=pool))
    rows = [row for batch in batches for row in batch.select(["cluster", "partition", "value"]).to_pylist()]
    assert sorted((row["cluster"], row["partition"], row["value"]) for row in rows) == [
        *(("east", 1, b"%d" % n) for n in range(1, 10, 2)),
        *(("west", 0, b"%d" % n) for n in range(0, 10, 2)),
    ]


@pytest.mark.parametrize("highest", range(FETCH.lowest, FETCH.highest + 1))
def test_every_version_of_fetch(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch, highest: int
) -> None:
    kafka.create_topic(topic, 2)
    produce(kafka.bootstrap_servers, topic, drafts(200, 2), codec="lz4")
    monkeypatch.setattr(fetcher, "FETCH", replace(FETCH, highest=highest))
    found = read(kafka, ranges_of(topic, {0: 100, 1: 100}), pool, limits=LaneLimits(response_bytes_max=10_000))
    assert in_order(found) == consume(kafka.bootstrap_servers, topic, [0, 1])


def test_compacted_topic(compacting: LocalKafka, topic: str, pool: Pool) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "50"}
    compacting.create_topic(topic, config=config)
    for first in range(0, 200, 20):
        produce(
            compacting.bootstrap_servers,
            topic,
            (Draft(b"%d" % n, key=b"%d" % (n % 7 if n % 20 else n)) for n in range(first, first + 20)),
            codec="lz4",
        )
    ends = {0: 200}
    keys = {b"%d" % (n % 7 if n % 20 else n) for n in range(200)}

    def compacted() -> list[Record]:
        # A new record rolls the segment, so that the one before can be compacted.
        produce(compacting.bootstrap_servers, topic, [Draft(b"roll", key=b"roll")])
        found = consume(compacting.bootstrap_servers, topic, [0])
        # One record of each key: compacting once more changes nothing.
        return found if len([record for record in found if record.offset < 200]) == len(keys) else []

    expected = [record for record in wait_for(compacted, what="compaction") if record.offset < 200]
    found = read(compacting, ranges_of(topic, ends), pool)
    assert found == expected
    kept = [record.offset for record in expected]
    assert kept != list(range(200))
    # Ranges that begin or end in a gap, or are nothing but one.
    split = SplitId("east", topic, 0)
    for start in range(0, 200, 3):
        for end in (start + 1, start + 10, 200):
            found = read(compacting, [Range(split, start, min(end, 200))], pool)
            assert [record.offset for record in found] == [offset for offset in kept if start <= offset < end]


def test_records_that_are_still_to_come(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic, 2)
    numbers(kafka.bootstrap_servers, topic, range(10))
    with ThreadPoolExecutor() as background:
        reading = background.submit(read, kafka, ranges_of(topic, {0: 20, 1: 0}), pool)
        numbers(kafka.bootstrap_servers, topic, range(10, 20))
        assert [record.value for record in reading.result(120)] == [b"%d" % n for n in range(20)]


def test_records_that_never_come(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic, 2)
    numbers(kafka.bootstrap_servers, topic, range(20), partitions=2)
    begun = time.monotonic()
    with pytest.raises(DataLossError) as caught:
        read(kafka, ranges_of(topic, {0: 10, 1: 15}), pool, request_timeout_ms=3000, fetch_max_wait_ms=0)
    assert 3 <= time.monotonic() - begun < 3 + SLACK_S
    assert (caught.value.cluster, caught.value.topic, caught.value.partition) == ("east", topic, 1)
    assert "offsets 10 to 14 were to be read, but its log ends at offset 10" in str(caught.value)
