"""Scripted brokers of one cluster, with one topic `t` of one partition. Each has metadata and a log of its own."""

from __future__ import annotations

import base64
import struct
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka.record import MemoryRecordsBuilder

from evensplit.core.model import Range, SplitId
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.fetch.reader import LaneLimits, read_ranges
from evensplit.kafka.options.client import ClientSettings
from evensplit.kafka.wire.api import FETCH, OFFSET_FOR_LEADER_EPOCH, Api
from evensplit.testing.messages import read_request, response_class, write_response
from tests.support.scripted import Scripted

KEY = ("t", 0)
OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)
"""The topic's id when reads were planned, and that of another topic of its name."""


class Told(NamedTuple):
    """The topic in a broker's metadata."""

    topic_id: uuid.UUID
    leader: int = 0
    epoch: int = 0


def record_batch(values: Sequence[bytes], first: int = 0) -> bytes:
    """A record batch of leader epoch 0, from the offset `first` on."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=sum(map(len, values)) + (1 << 20), offset=0)
    for value in values:
        builder.append(timestamp=1, key=None, value=value)
    builder.close()
    raw = bytearray(builder.buffer())
    raw[0:8], raw[12:16] = struct.pack(">q", first), struct.pack(">i", 0)
    return bytes(raw)


class Log(NamedTuple):
    """The log of a broker: batches of ten records each, from offset 0 on, with values that begin with `tag`."""

    topic_id: uuid.UUID
    tag: str
    batches: int = 4

    def batch_at(self, offset: int) -> bytes:
        """The record batch with the record at `offset`; empty after the end."""
        first = offset // 10 * 10
        if first >= 10 * self.batches:
            return b""
        values = [b"%s%03d" % (self.tag.encode(), number) for number in range(first, first + 10)]
        return record_batch(values, first)


class Node(Scripted):
    """A broker. What it knows and has can be changed at any time, `on_metadata` and `on_fetch` may do it.

    `told`: None if it does not know the topic. `silent`: the API that it does not answer. `mute`: it hangs up when
    it is asked for metadata. `metadata_at`: when it was asked for that.

    The topic has had leader epochs up to that of its metadata, each with ten records. `on_epochs` is given the one that
    it is asked for, and says whether there is an answer.
    """

    def __init__(self, cluster: ScriptedCluster, fetch_highest: int) -> None:
        super().__init__([], highest={FETCH: fetch_highest, OFFSET_FOR_LEADER_EPOCH: OFFSET_FOR_LEADER_EPOCH.highest})
        self.told: Told | None = None
        self.log: Log | None = None
        self.fetch_code = 0
        self.silent = ""
        self.mute = False
        self.on_metadata: Callable[[], None] = lambda: None
        self.on_fetch: Callable[[int], None] = lambda offset: None
        self.on_epochs: Callable[[int], bool] = lambda epoch: True
        self.metadata_at: list[float] = []
        self.cluster = cluster

    def answer(self, key: int, version: int, request: bytes) -> bytes | None:
        api = next((one for one in (FETCH, OFFSET_FOR_LEADER_EPOCH) if one.key == key), None)
        if api is None:
            return super().answer(key, version, request)
        self.asked.append(api.name)
        told = self._fetch if api is FETCH else self._epochs
        message = told(version, read_request(api, request, version))
        return None if message is None else write_response(api, message, version)

    def _metadata(self, api: Api[Any], version: int) -> Any:
        self.metadata_at.append(time.monotonic())
        self.on_metadata()
        if self.mute:
            raise ConnectionError("the broker hangs up")
        self._wait("Metadata")
        topic = response_class(api).MetadataResponseTopic
        brokers = []
        for number in self.cluster.listed:
            host, _, port = self.cluster.servers[number].partition(":")
            one = response_class(api).MetadataResponseBroker(version=version, node_id=number, host=host, port=int(port))
            brokers.append(one)
        if self.told is None:
            known = topic(version=version, error_code=3, name="t", topic_id=uuid.UUID(int=0), partitions=[])
        else:
            partition = topic.MetadataResponsePartition(
                version=version,
                partition_index=0,
                leader_id=self.told.leader,
                leader_epoch=self.told.epoch,
                replica_nodes=[],
                isr_nodes=[],
            )
            known = topic(version=version, error_code=0, name="t", topic_id=self.told.topic_id, partitions=[partition])
        return response_class(api)(version=version, brokers=brokers, topics=[known], cluster_id="scripted")

    def _offsets(self, api: Api[Any], version: int) -> Any:
        self._wait("ListOffsets")
        return super()._offsets(api, version)

    def _wait(self, name: str) -> None:
        if self.silent == name:
            self.cluster.wait()

    def _fetch(self, version: int, request: Any) -> Any:
        topic_class = response_class(FETCH).FetchableTopicResponse
        topics = []
        for topic in request.topics:
            named = {"topic_id": topic.topic_id} if version >= 13 else {"topic": topic.topic}
            listed = [self._fetched(topic_class, version, topic, one) for one in topic.partitions]
            topics.append(topic_class(version=version, partitions=listed, **named))
        return response_class(FETCH)(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    def _epochs(self, version: int, request: Any) -> Any:
        wanted = request.topics[0].partitions[0].leader_epoch
        if not self.on_epochs(wanted):
            return None
        topic_class = response_class(OFFSET_FOR_LEADER_EPOCH).OffsetForLeaderTopicResult
        one = topic_class.EpochEndOffset(
            version=version, error_code=0, partition=0, leader_epoch=wanted, end_offset=10 * (wanted + 1)
        )
        topic = topic_class(version=version, topic="t", partitions=[one])
        return response_class(OFFSET_FOR_LEADER_EPOCH)(version=version, throttle_time_ms=0, topics=[topic])

    def _fetched(self, topic_class: Any, version: int, topic: Any, one: Any) -> Any:
        self.on_fetch(one.fetch_offset)
        self._wait("Fetch")
        code, records, end = self.fetch_code, b"", -1
        if not code and self.log is None:
            code = 3
        elif not code and self.log is not None:
            end = 10 * self.log.batches
            records = self.log.batch_at(one.fetch_offset)
            if version >= 13 and topic.topic_id != self.log.topic_id:
                code, records = 100, b""
        return topic_class.PartitionData(
            version=version,
            partition_index=one.partition,
            error_code=code,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=0,
            aborted_transactions=[],
            preferred_read_replica=-1,
            records=records,
        )


class ScriptedCluster:
    """`count` brokers, whose Fetch goes up to version `fetch_highest`. `listed`: which of them the metadata has."""

    def __init__(self, count: int, *, fetch_highest: int = 13) -> None:
        self.brokers = [Node(self, fetch_highest) for _ in range(count)]
        self.listed = list(range(count))
        self.servers: list[str] = []
        self._left = False

    def __enter__(self) -> Self:
        self.servers = [broker.__enter__() for broker in self.brokers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        for broker in self.brokers:
            broker.__exit__()

    def tell(self, told: Told | None) -> None:
        """Set the metadata of all brokers."""
        for broker in self.brokers:
            broker.told = told

    def wait(self) -> None:
        """Hang, as a broker may, until the test ends."""
        while not self._left:
            time.sleep(0.01)


def topic_id(given: uuid.UUID) -> str:
    """The topic id as listings write it."""
    return base64.urlsafe_b64encode(given.bytes).rstrip(b"=").decode()


def settings(cluster: ScriptedCluster, timeout_ms: int = 4000, **more: Any) -> ClientSettings:
    """How `cluster` is asked, by its first broker."""
    made = ClientSettings((cluster.servers[0],), request_timeout_ms=timeout_ms, retry_backoff_ms=20)
    return replace(made, **more)


def read(cluster: ScriptedCluster, pool: Pool, *, end: int = 40, skip_lost: bool = False, **more: Any) -> list[bytes]:
    """The values of offsets 0 to `end` (exclusive), of the topic with the id `OLD`."""
    batches = read_ranges(
        [Range(SplitId("east", "t", 0), 0, end)],
        {"east": settings(cluster, **more)},
        columns=("value",),
        topic_ids={("east", "t"): topic_id(OLD)},
        skip_lost=skip_lost,
        limits=LaneLimits(rows_max=10),
        pool=pool,
    )
    return [value for batch in batches for value in batch.column("value").to_pylist()]
