"""The lane when brokers die, stop, move or lie, when records are gone, and when its reader stops early."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from evensplit._kernel import FetchedPartition, parse_fetch_response
from evensplit.core.model import Range, SplitId
from evensplit.errors import (
    BrokerError,
    ClusterUnreachable,
    CorruptRecordsError,
    DataLossError,
    EvenSplitError,
    UnsupportedBroker,
)
from evensplit.kafka import fetcher
from evensplit.kafka.api import API_VERSIONS, FETCH
from evensplit.kafka.client import UNKNOWN_TOPIC_GRACE_S
from evensplit.kafka.connection import Connection
from evensplit.kafka.deadline import Deadline
from evensplit.kafka.lane import LaneLimits, read_ranges
from evensplit.kafka.pool import Pool
from evensplit.kafka.settings import Address, ClientSettings
from evensplit.testing import LocalKafka
from tests.support.records import Draft, numbers, produce

SLACK_S = 0.7
SMALL = LaneLimits(rows_max=100, response_bytes_max=10_000)
"""Many requests, many batches."""

pytestmark = pytest.mark.kafka


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


@pytest.fixture(scope="module")
def own() -> Iterator[LocalKafka]:
    """A broker that the tests of this module may stop."""
    with LocalKafka() as running:
        yield running


def settings_of(kafka: LocalKafka, timeout_ms: int = 20_000) -> dict[str, ClientSettings]:
    servers = tuple(kafka.bootstrap_servers.split(","))
    return {"east": ClientSettings(servers, request_timeout_ms=timeout_ms, retry_backoff_ms=20)}


def lane(
    kafka: LocalKafka, ranges: list[Range], pool: Pool, *, timeout_ms: int = 20_000, limits: LaneLimits = SMALL
) -> Iterator[pa.RecordBatch]:
    settings = settings_of(kafka, timeout_ms)
    return read_ranges(ranges, settings, headers=False, with_cluster=False, limits=limits, pool=pool)


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def spread(kafka: LocalKafka, topic: str, count: int = 4000, *, partitions: int = 1) -> list[bytes]:
    """Fill a topic with `count` records in batches of a few kB. Returns their values in order."""
    for first in range(0, count, 500):
        padded = (b"%08d" % n + b"." * 100 for n in range(first, min(first + 500, count)))
        drafts = (Draft(value, partition=n % partitions) for n, value in enumerate(padded, start=first))
        produce(kafka.bootstrap_servers, topic, drafts, linger_ms=0)
    return [b"%08d" % n + b"." * 100 for n in range(count)]


def whole(topic: str, end: int, partition: int = 0) -> list[Range]:
    return [Range(SplitId("east", topic, partition), 0, end)]


def delete_records(kafka: LocalKafka, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(10)


def test_records_that_were_deleted(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(20))
    delete_records(kafka, topic, 12)
    with pytest.raises(DataLossError) as caught:
        values(lane(kafka, whole(topic, 20), pool))
    assert (caught.value.cluster, caught.value.topic, caught.value.partition) == ("east", topic, 0)
    assert "offsets 0 to 19 were to be read, but its log now has 12 to 19: what comes before was deleted" in str(
        caught.value
    )
    assert values(lane(kafka, [Range(SplitId("east", topic, 0), 12, 20)], pool)) == [b"%d" % n for n in range(12, 20)]


def test_topic_that_was_created_anew(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(3))
    with pytest.raises(DataLossError, match="offsets 7 to 9 were to be read, but its log now has 0 to 2: it was cut"):
        values(lane(kafka, [Range(SplitId("east", topic, 0), 7, 10)], pool))


@pytest.mark.parametrize("partition", [0, 5])
def test_topic_or_partition_that_is_gone(kafka: LocalKafka, topic: str, pool: Pool, partition: int) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(3))
    assert len(values(lane(kafka, whole(topic, 3), pool))) == 3
    if not partition:
        kafka.delete_topic(topic)
    begun = time.monotonic()
    with pytest.raises(DataLossError, match="does not exist"):
        values(lane(kafka, whole(topic, 3, partition), pool))
    assert time.monotonic() - begun < UNKNOWN_TOPIC_GRACE_S + SLACK_S


def test_broker_that_dies_and_comes_back_while_it_is_read(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    expected = spread(own, topic)
    batches = lane(own, whole(topic, len(expected)), pool)
    found = values(iter([next(batches), next(batches)]))
    assert len(found) < len(expected)
    own.kill()
    with ThreadPoolExecutor() as background:
        reading = background.submit(values, batches)
        own.start()
        found += reading.result(60)
    assert found == expected


def test_broker_that_dies_for_good(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    expected = spread(own, topic)
    batches = lane(own, whole(topic, len(expected)), pool, timeout_ms=800)
    next(batches)
    own.kill()
    try:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers) as caught:
            values(batches)
        assert time.monotonic() - begun < 0.8 + SLACK_S
        assert "connection refused" in str(caught.value)
        # A cold start against it ends in time too.
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers):
            values(lane(own, whole(topic, 1), Pool(), timeout_ms=800))
        assert time.monotonic() - begun < 0.8 + SLACK_S
    finally:
        own.start()
    assert values(lane(own, whole(topic, len(expected)), pool)) == expected


def test_broker_that_stops_answering(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    expected = spread(own, topic)
    batches = lane(own, whole(topic, len(expected)), pool, timeout_ms=1000)
    next(batches)
    own.pause()
    try:
        begun = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=own.bootstrap_servers):
            values(batches)
        assert time.monotonic() - begun < 1.0 + SLACK_S
    finally:
        own.resume()
    assert values(lane(own, whole(topic, len(expected)), pool)) == expected


def test_time_counts_only_while_waiting_for_brokers(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    batches = lane(kafka, whole(topic, len(expected)), pool, timeout_ms=400)
    found = values(iter([next(batches)]))
    # Whoever works on the rows may take longer than the deadline for brokers.
    threading.Event().wait(0.6)
    assert found + values(batches) == expected


def test_leaders_that_move_while_they_are_read(topic: str, pool: Pool) -> None:
    with LocalKafka(brokers=3) as three:
        three.create_topic(topic, 6, 3, config={"min.insync.replicas": "1"})
        expected = spread(three, topic, 6000, partitions=6)
        ranges = [one for partition in range(6) for one in whole(topic, 1000, partition)]
        batches = lane(three, ranges, pool, timeout_ms=60_000)
        found = values(iter([next(batches)]))
        three.kill(
            pool.client("east", settings_of(three, 60_000)["east"]).leaders([(topic, 3)]).known[topic, 3].node_id
        )
        found += values(batches)
        assert sorted(found) == expected
        for partition in range(6):
            assert [value for value in found if int(value[:8]) % 6 == partition] == expected[partition::6]


def test_warm_readers_open_nothing(kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create_topic(topic, 3)
    numbers(kafka.bootstrap_servers, topic, range(30), partitions=3)
    ranges = [one for partition in range(3) for one in whole(topic, 10, partition)]
    assert len(values(lane(kafka, ranges, pool))) == 30

    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(Connection, "__init__", refuse)
    for _ in range(3):
        assert len(values(lane(kafka, ranges, pool))) == 30


def idle(pool: Pool) -> list[Connection]:
    return [connection for stack in pool._idle.values() for connection in stack]


def test_reader_that_stops_early_leaves_nothing_dirty(kafka: LocalKafka, topic: str, pool: Pool) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    batches = lane(kafka, whole(topic, len(expected)), pool)
    found = values(iter([next(batches)]))
    assert found == expected[: len(found)]
    assert len(found) < len(expected)
    batches.close()  # type: ignore[attr-defined]
    assert idle(pool) == []
    assert values(lane(kafka, whole(topic, len(expected)), pool)) == expected
    (kept,) = idle(pool)
    assert kept.usable
    # Not even begun: nothing was taken.
    lane(kafka, whole(topic, 5), pool).close()  # type: ignore[attr-defined]
    assert idle(pool) == [kept]


def test_idle_connections_that_the_broker_closed_are_not_used(own: LocalKafka, topic: str, pool: Pool) -> None:
    own.create_topic(topic)
    numbers(own.bootstrap_servers, topic, range(3))
    assert len(values(lane(own, whole(topic, 3), pool))) == 3
    (stale,) = idle(pool)
    own.kill()
    own.start()
    assert len(values(lane(own, whole(topic, 3), pool))) == 3
    (fresh,) = idle(pool)
    assert fresh is not stale
    assert stale.fileno() == -1


def test_pool_is_bounded(kafka: LocalKafka) -> None:
    pool = Pool(clients_max=2, idle_max=3)
    settings = settings_of(kafka)["east"]
    address = settings.addresses[0]
    taken = [pool.take(name, settings, address, Deadline.after(5)) for name in ("a", "a", "a", "b", "b")]
    for connection in taken:
        pool.give_back(connection, settings)
    assert idle(pool) == taken[2:]
    assert [connection.fileno() == -1 for connection in taken] == [True, True, False, False, False]
    assert pool.take("b", settings, address, Deadline.after(5)) is taken[4]
    pool.give_back(taken[4], settings)
    clients = [pool.client(name, settings) for name in ("a", "b", "a", "c")]
    assert pool.client("a", settings) is clients[0]
    assert pool.client("b", settings) is not clients[1]
    pool.close()
    assert idle(pool) == []
    assert all(connection.fileno() == -1 for connection in taken)


def test_pool_of_another_process_is_dropped(kafka: LocalKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, settings = Pool(), settings_of(kafka)["east"]
    client = pool.client("east", settings)
    mine = pool.take("east", settings, settings.addresses[0], Deadline.after(5))
    pool.give_back(mine, settings)
    real = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real + 1)
        assert pool.client("east", settings) is not client
        other = pool.take("east", settings, settings.addresses[0], Deadline.after(5))
        assert other is not mine
        other.close()
        pool.close()
    assert mine.fileno() == -1


Tamper = Callable[[bytearray], bytearray | None]


class Proxy:
    """Between the lane and a broker; every Fetch response goes through `tamper`, which may change it or give None.

    None cuts the connection in the middle of the response.
    """

    def __init__(self, target: Address, tamper: Tamper) -> None:
        self._target, self._tamper = target, tamper
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self.responses = 0
        self._ended = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._ended = True
        socket.create_connection(self.address, timeout=5).close()
        for thread in self._threads:
            thread.join(timeout=10)
            assert not thread.is_alive()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended:
            connection, _ = self._listener.accept()
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        """One request, one response: the lane has one under way on a connection."""
        with client, socket.create_connection(self._target, timeout=10) as broker, suppress(OSError):
            client.settimeout(10)
            while True:
                request = self._frame(client)
                broker.sendall(struct.pack(">i", len(request)) + request)
                response: bytearray | None = bytearray(self._frame(broker))
                assert response is not None
                if request[:2] != struct.pack(">h", API_VERSIONS.key):
                    self.responses += 1
                    length = len(response)
                    response = self._tamper(response)
                    if response is None:
                        client.sendall(struct.pack(">i", length) + b"\0" * (length // 2))
                        return
                client.sendall(struct.pack(">i", len(response)) + response)

    def _frame(self, source: socket.socket) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(source, 4))
        return self._exactly(source, length)

    def _exactly(self, source: socket.socket, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = source.recv(size - len(received))
            if not piece:
                raise ConnectionResetError
            received += piece
        return bytes(received)


class Detour(Pool):
    """A pool whose connections all go to one address, whatever the metadata says."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address

    def take(self, cluster: str, settings: ClientSettings, address: Address, deadline: Deadline) -> Connection:
        return super().take(cluster, settings, self._address, deadline)


@pytest.fixture
def detour(kafka: LocalKafka) -> Iterator[Callable[[Tamper], Detour]]:
    made: list[tuple[Proxy, Detour]] = []

    def make(tamper: Tamper) -> Detour:
        proxy = Proxy(("127.0.0.1", kafka.broker(0).port), tamper)
        made.append((proxy, Detour(proxy.address)))
        return made[-1][1]

    yield make
    for proxy, pool in made:
        pool.close()
        proxy.close()


def first_with_records(frame: bytearray) -> FetchedPartition:
    return next(
        one
        for one in parse_fetch_response(frame, 4, len(frame), FETCH.highest).partitions
        if one.records_end > one.records_begin
    )


def at(place: int, change: Callable[[bytearray, int], object]) -> Tamper:
    """Changes the first record batch of every response, `place` bytes behind its beginning."""

    def tamper(frame: bytearray) -> bytearray:
        change(frame, first_with_records(frame).records_begin + place)
        return frame

    return tamper


def flip(frame: bytearray, place: int) -> None:
    frame[place] ^= 0x10


def put(layout: str, number: int) -> Callable[[bytearray, int], object]:
    return lambda frame, place: struct.pack_into(layout, frame, place, number)


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(at(200, flip), id="a record"),
        pytest.param(at(17, flip), id="the checksum"),
        pytest.param(at(16, put(">b", 9)), id="magic"),
        pytest.param(at(23, put(">i", 1_000_000)), id="last offset"),
        pytest.param(at(23, put(">i", -5)), id="negative last offset"),
        pytest.param(at(57, put(">i", 2**31 - 1)), id="number of records"),
        pytest.param(at(8, put(">i", 2**31 - 1)), id="length far too long"),
        pytest.param(at(8, put(">i", 2**24)), id="length too long"),
        pytest.param(at(8, put(">i", 100)), id="length too short"),
        pytest.param(at(8, put(">i", 0)), id="no length"),
        pytest.param(at(8, put(">i", -1)), id="negative length"),
        pytest.param(at(0, put(">q", -1)), id="negative offset"),
    ],
)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_damaged_records(
    kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour], tamper: Tamper, codec: str
) -> None:
    kafka.create_topic(topic)
    text = b"".join(b"%08d" % n for n in range(1000))
    produce(kafka.bootstrap_servers, topic, (Draft(text[n : n + 300]) for n in range(100)), codec=codec)
    begun = time.monotonic()
    with pytest.raises(CorruptRecordsError) as caught:
        values(lane(kafka, whole(topic, 100), detour(tamper)))
    assert time.monotonic() - begun < 3
    error = caught.value
    assert (error.cluster, error.topic, error.partition) == ("east", topic, 0)
    assert -1 <= error.offset <= 100
    assert "damaged in the broker's log or on the way from it" in str(error)


def test_rows_before_the_damage_are_right(kafka: LocalKafka, topic: str, detour: Callable[[Tamper], Detour]) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    seen = 0

    def later(frame: bytearray) -> bytearray | None:
        nonlocal seen
        seen += 1
        return at(100, flip)(frame) if seen == 3 else frame

    found: list[bytes] = []
    batches = lane(kafka, whole(topic, len(expected)), detour(later))
    with pytest.raises(CorruptRecordsError) as caught:
        found.extend(value for batch in batches for value in batch.column("value").to_pylist())
    assert found == expected[: len(found)]
    assert 0 < len(found) <= caught.value.offset < len(expected)


def once(change: Callable[[bytearray], bytearray | None]) -> Tamper:
    """Changes the third response only."""
    seen = 0

    def tamper(frame: bytearray) -> bytearray | None:
        nonlocal seen
        seen += 1
        return change(frame) if seen == 3 else frame

    return tamper


def rewritten(change: Callable[[Any], None]) -> Callable[[bytearray], bytearray]:
    """Changes a response as kafka-python's classes have it."""

    def rewrite(frame: bytearray) -> bytearray:
        # Four bytes for the number of the request, and one for the header's tagged fields: none.
        response = FETCH.response.decode(bytes(frame[5:]), version=FETCH.highest)
        change(response)
        return frame[:5] + bytearray(response.encode())

    return rewrite


def refuse(code: int) -> Callable[[bytearray], bytearray]:
    def change(response: Any) -> None:
        partition = response.responses[0].partitions[0]
        partition.error_code, partition.records, partition.high_watermark = code, None, -1

    return rewritten(change)


def leave_out(response: Any) -> None:
    response.responses = []


def cut_records(response: Any) -> None:
    partition = response.responses[0].partitions[0]
    partition.records = bytes(partition.records)[:70]


def empty_records(response: Any) -> None:
    response.responses[0].partitions[0].high_watermark = 0
    response.responses[0].partitions[0].records = b""


def refuse_all(response: Any) -> None:
    response.error_code = 70


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frame: None, id="cut off in the middle"),
        pytest.param(lambda frame: frame[:-3], id="shorter than it says"),
        pytest.param(lambda frame: frame[:4] + b"\xff" * 30 + frame[34:], id="an envelope of nonsense"),
        pytest.param(lambda frame: b"\0\0\0\x63" + frame[4:], id="another number"),
        pytest.param(refuse(6), id="not leader"),
        pytest.param(refuse(3), id="unknown partition"),
        pytest.param(refuse(78), id="offset not available"),
        pytest.param(refuse(-1), id="unknown error"),
        pytest.param(refuse(1), id="out of range, although it is not"),
        pytest.param(rewritten(leave_out), id="left out"),
        pytest.param(rewritten(cut_records), id="less than one batch"),
        pytest.param(rewritten(empty_records), id="a high watermark that went back"),
        pytest.param(rewritten(refuse_all), id="refused as a whole"),
    ],
)
def test_what_passes_is_overcome(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    change: Callable[[bytearray], bytearray | None],
) -> None:
    kafka.create_topic(topic)
    expected = spread(kafka, topic)
    assert values(lane(kafka, whole(topic, len(expected)), detour(once(change)))) == expected


@pytest.mark.parametrize(
    "change, kind, said",
    [
        pytest.param(refuse(6), BrokerError, "NOT_LEADER_FOR_PARTITION (6)", id="not leader"),
        pytest.param(refuse(1), BrokerError, "the broker does not find the offset, although", id="out of range"),
        pytest.param(rewritten(leave_out), ClusterUnreachable, "the broker left it out of its answer", id="left out"),
        pytest.param(lambda frame: None, ClusterUnreachable, "closed the connection", id="cut off"),
        pytest.param(lambda frame: frame[:-3], ClusterUnreachable, "cannot be decoded", id="shorter"),
        pytest.param(rewritten(refuse_all), BrokerError, "FETCH_SESSION_ID_NOT_FOUND (70)", id="refused as a whole"),
        pytest.param(rewritten(empty_records), DataLossError, "its log ends at offset 0", id="empty log"),
    ],
)
def test_what_does_not_pass_ends_at_the_deadline(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    change: Tamper,
    kind: type[EvenSplitError],
    said: str,
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        values(lane(kafka, whole(topic, 10), detour(change), timeout_ms=700))
    assert 0.5 < time.monotonic() - begun < 0.7 + SLACK_S
    assert said in str(caught.value)
    assert topic in str(caught.value)
    assert "east" in str(caught.value)


@pytest.mark.parametrize(
    "code, kind, said",
    [
        (29, BrokerError, "TOPIC_AUTHORIZATION_FAILED (29)"),
        (76, BrokerError, "UNSUPPORTED_COMPRESSION_TYPE (76)"),
        (2, CorruptRecordsError, "CORRUPT_MESSAGE (2)"),
    ],
)
def test_what_is_final_ends_at_once(
    kafka: LocalKafka,
    topic: str,
    detour: Callable[[Tamper], Detour],
    code: int,
    kind: type[EvenSplitError],
    said: str,
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    begun = time.monotonic()
    with pytest.raises(kind) as caught:
        values(lane(kafka, whole(topic, 10), detour(refuse(code))))
    assert time.monotonic() - begun < 2
    assert said in str(caught.value)
    assert topic in str(caught.value)


def test_broker_without_a_usable_version(
    kafka: LocalKafka, topic: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic)
    numbers(kafka.bootstrap_servers, topic, range(10))
    monkeypatch.setattr(fetcher, "FETCH", replace(FETCH, lowest=0, highest=3))
    with pytest.raises(UnsupportedBroker, match="the broker knows versions of Fetch: 4 to"):
        values(lane(kafka, whole(topic, 10), pool))
