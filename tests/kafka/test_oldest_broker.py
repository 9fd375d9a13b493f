"""Kafka 2.1: the oldest broker that is supported. For real (slow), and by what it once answered (quick)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evensplit.core.model import Range, SplitId, Topics
from evensplit.errors import OldMessageFormat
from evensplit.kafka.admin.client import ClusterClient
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import read_ranges
from evensplit.kafka.net.connection import Connection
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.api import (
    DESCRIBE_LOG_DIRS,
    FETCH,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    Api,
)
from tests.support.lanes import SMALL
from tests.support.old_kafka import VERSION, OldKafka
from tests.support.recorded import Recorder, Replay
from tests.support.records import Draft, Record, consume, produce

# The first one may have to wait for jars.
pytestmark = pytest.mark.timeout(900)

RECORDED = Path(__file__).parents[1] / "data" / f"kafka-{VERSION}"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "orders"
TIME_MS = 1_600_000_000_000

# What Kafka 2.1 knows, by its own account (`ApiVersions-v0.bin`): the lowest and the highest version of each.
KNOWN: dict[Api[Any], tuple[int, int]] = {
    FETCH: (0, 10),
    LIST_OFFSETS: (0, 4),
    METADATA: (0, 7),
    OFFSET_COMMIT: (0, 6),
    OFFSET_FETCH: (0, 5),
    FIND_COORDINATOR: (0, 2),
    DESCRIBE_LOG_DIRS: (0, 1),
}


@pytest.fixture(scope="module")
def oldest() -> Iterator[OldKafka]:
    with OldKafka() as running:
        yield running


def settings_of(server: str) -> ClientSettings:
    return ClientSettings((server,), request_timeout_ms=20_000)


def work(server: str, pool: Pool) -> dict[str, object]:
    """One of each request that this package sends, and what came of it."""
    settings = settings_of(server)
    client = ClusterClient("east", settings)
    keys = [(TOPIC, 0), (TOPIC, 1)]
    try:
        listing = client.list_partitions(Topics((TOPIC,)))
        client.commit_offsets("group", {keys[0]: 3})
        return {
            "listed": [(one.topic, one.partition, one.topic_id) for one in listing.partitions],
            "beginnings": dict(client.list_offsets(dict.fromkeys(keys, -2))),
            "ends": dict(client.list_offsets(dict.fromkeys(keys, -1))),
            "times": dict(client.list_offsets({keys[0]: TIME_MS + 2, keys[1]: TIME_MS + 2})),
            "committed": dict(client.committed_offsets("group", keys)),
            "values": sorted(read(server, [(TOPIC, 0, 4), (TOPIC, 1, 4)], pool)),
            "sizes": [(key, 0 < size.bytes < 1000, size.offsets) for key, size in client.log_sizes(keys).items()],
        }
    finally:
        client.close()
        pool.close()


def read(server: str, ranges: list[tuple[str, int, int]], pool: Pool) -> Iterator[bytes]:
    batches = read_ranges(
        [Range(SplitId("east", topic, partition), 0, end) for topic, partition, end in ranges],
        {"east": settings_of(server)},
        columns=KAFKA_COLUMNS,
        pool=pool,
    )
    return (value for batch in batches for value in batch.column("value").to_pylist())


EXPECTED = {
    # Topics have had ids since 2.8.
    "listed": [(TOPIC, 0, ""), (TOPIC, 1, "")],
    "beginnings": {(TOPIC, 0): 0, (TOPIC, 1): 0},
    "ends": {(TOPIC, 0): 4, (TOPIC, 1): 4},
    "times": {(TOPIC, 0): 1, (TOPIC, 1): 1},
    "committed": {(TOPIC, 0): 3},
    "values": [b"%d" % n for n in range(8)],
    "sizes": [((TOPIC, 0), True, 4), ((TOPIC, 1), True, 4)],
}


def test_answers_of_long_ago(pool: Pool) -> None:
    replay = Replay(RECORDED)
    with replay as server:
        assert work(server, pool) == EXPECTED
    assert set(replay.asked) == {
        *((api.name, highest) for api, (_, highest) in KNOWN.items()),
        # Ours first, which is refused, and then what every broker knows.
        ("ApiVersions", 3),
        ("ApiVersions", 0),
    }


def test_versions_of_long_ago_are_among_ours() -> None:
    """What the broker says it knows is what the documentation says, and there is one of ours in each."""
    with Replay(RECORDED) as server:
        host, _, port = server.partition(":")
        connection = Connection("east", (host, int(port)), settings_of(server), Deadline.after(10))
        connection.close()
    for api, (lowest, highest) in KNOWN.items():
        assert connection._versions[api.key] == (lowest, highest)
        assert lowest <= api.lowest <= highest
        assert connection.version(api) == highest


@pytest.mark.slow
@pytest.mark.kafka
def test_every_request(oldest: OldKafka, pool: Pool, tmp_path: Path) -> None:
    """What a real one answers today is what was recorded, in kind. Copy the files from `tmp_path` to record anew."""
    oldest.create_topic(TOPIC, 2)
    drafts = [Draft(b"%d" % n, partition=n % 2, timestamp_ms=TIME_MS + n) for n in range(8)]
    produce(oldest.bootstrap_servers, TOPIC, drafts, codec="lz4")
    recorder = Recorder(("127.0.0.1", int(oldest.bootstrap_servers.rpartition(":")[2])))
    with recorder as server:
        assert work(server, pool) == EXPECTED
    recorder.save(tmp_path)
    assert recorder.names == sorted(file.stem for file in RECORDED.glob("*.bin"))
    assert (tmp_path / "ApiVersions-v0.bin").read_bytes() == (RECORDED / "ApiVersions-v0.bin").read_bytes()


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(oldest: OldKafka, topic: str, pool: Pool, codec: str) -> None:
    oldest.create_topic(topic, 3)
    drafts = (Draft(b"%d" % n * 50, key=b"%d" % n, partition=n % 3, headers=[("a", b"1")]) for n in range(3000))
    produce(oldest.bootstrap_servers, topic, drafts, codec=codec)
    expected = consume(oldest.bootstrap_servers, topic, range(3))
    batches = read_ranges(
        [Range(SplitId("east", topic, partition), 0, 1000) for partition in range(3)],
        {"east": settings_of(oldest.bootstrap_servers)},
        columns=(*KAFKA_COLUMNS, "headers"),
        limits=SMALL,
        pool=pool,
    )
    found: list[Record] = []
    for batch in batches:
        for row in batch.to_pylist():
            headers = tuple((one["key"], one["value"]) for one in row["headers"])
            time_ms = round(row["timestamp"].timestamp() * 1000)
            place = (row["topic"], row["partition"], row["offset"])
            found.append(Record(*place, row["key"], row["value"], time_ms, row["timestampType"], headers))
    assert sorted(found, key=lambda record: (record.partition, record.offset)) == expected


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("kept", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("value", [b"", b"x" * 500], ids=["short", "long"])
def test_old_message_formats(oldest: OldKafka, topic: str, pool: Pool, kept: str, codec: str, value: bytes) -> None:
    oldest.create_topic(topic, config={"message.format.version": kept})
    produce(oldest.bootstrap_servers, topic, (Draft(value) for _ in range(20)), codec=codec, idempotent=False)
    with pytest.raises(OldMessageFormat) as caught:
        list(read(oldest.bootstrap_servers, [(topic, 0, 20)], pool))
    error = caught.value
    assert (error.cluster, error.topic, error.partition) == ("east", topic, 0)
    magic = 0 if kept == "0.9.0" else 1
    assert f"records in message format v{magic}, expected v2; rewrite the topic" in str(error)
    assert "damaged" not in str(error)
