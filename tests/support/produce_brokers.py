"""Simulated brokers that are written to: they keep to the rules for idempotent producers, and have faults.

The logs are the cluster's. What was answered as written is in them for good; what was appended, and not answered so,
may be cut off when another broker takes over. A request is carried out once it has arrived, even if its connection is
no more by then.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from evensplit._kernel import ColumnBuilder
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.kafka.fetch.connection_pool import Pool
from evensplit.kafka.options.client import Address, ClientSettings
from evensplit.kafka.options.producer import ProducerSettings
from evensplit.kafka.produce.producer import Producer
from evensplit.kafka.produce.terms import Identity
from evensplit.kafka.wire.api import API_VERSIONS, DESCRIBE_CONFIGS, METADATA, PRODUCE, Api
from evensplit.testing.messages import read_request, response_class, write_response
from evensplit.testing.sim.fetch.network import SimulatedClock, SimulatedNetwork, SimulatedSocket

UNKNOWN_TOPIC, NOT_LEADER, TOO_LARGE, OUT_OF_ORDER, FENCED = 3, 6, 10, 45, 47
TOPIC_ID = uuid.UUID(int=77)
REMEMBERED = 5
"""So many batches of a producer a broker knows again."""

_APIS: tuple[Api[Any], ...] = (API_VERSIONS, METADATA, PRODUCE, DESCRIBE_CONFIGS)
_BY_KEY: dict[int, Api[Any]] = {one.key: one for one in _APIS}
_SEQUENCE_AT = 43
_HEADER = struct.Struct(">qhii")


@dataclass
class Entry:
    """A record batch in a log."""

    producer_id: int
    first: int
    records: int
    offset: int
    data: bytes
    final: bool = False


@dataclass
class Log:
    """A partition: who leads it, and its batches."""

    leader: int
    epoch: int = 1
    entries: list[Entry] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.entries[-1].offset + self.entries[-1].records if self.entries else 0

    def append(self, data: bytes) -> tuple[int, Entry | None]:
        """The code of the answer, and the batch, appended now or before."""
        producer_id, _, first, records = _HEADER.unpack_from(data, _SEQUENCE_AT)
        known = [one for one in self.entries if one.producer_id == producer_id]
        for one in known[-REMEMBERED:]:
            if (one.first, one.records) == (first, records):
                assert one.data == data, "the same sequence number has other bytes"
                return 0, one
        # Of a producer that it does not know, a broker takes any sequence number.
        if known and first != (known[-1].first + known[-1].records) % (1 << 31):
            return OUT_OF_ORDER, None
        self.entries.append(Entry(producer_id, first, records, self.end, data))
        return 0, self.entries[-1]

    def move(self, to: int, *, cut: bool) -> None:
        """Another broker leads. `cut`: it does not have what was not acknowledged."""
        self.leader, self.epoch = to, self.epoch + 1
        while cut and self.entries and not self.entries[-1].final:
            self.entries.pop()

    def values(self) -> list[bytes]:
        """Those of the records, in order."""
        found: list[bytes] = []
        for one in self.entries:
            builder = ColumnBuilder(
                columns=["value"], rows_max=1 << 30, bytes_max=1 << 30, uncompressed_bytes_max=1 << 30
            )
            builder.append(
                one.data, 0, len(one.data), cluster="", topic="", partition=0, offset_start=0, offset_end=1 << 40
            )
            columns = builder.finish()
            found += to_record_batch(columns, row_schema(("value",))).column("value").to_pylist()
        return found


class ProduceCluster:
    """Brokers and the partitions of one topic, `orders`. `versions`: the highest of Produce, by broker."""

    def __init__(self, versions: list[int], partitions: int, random: Random | None = None) -> None:
        self.random = random or Random(0)
        self.clock = SimulatedClock()
        self.network = SimulatedNetwork(self.clock)
        self.brokers = [ProduceBroker(self, number, highest) for number, highest in enumerate(versions)]
        self.network.peers.update({broker.address: broker for broker in self.brokers})
        self.logs = [Log(number % len(versions)) for number in range(partitions)]
        self.topics = {"orders": self.logs}
        self.pool = Pool(network=self.network)
        self.requests: list[tuple[int, int, list[int]]] = []
        """Broker, version and partitions of each."""
        self.metadata_asked = 0
        self.limit = 1 << 20
        """The topic's max.message.bytes. `limit_asked`: how often users wanted to know it."""
        self.limit_code: int | None = 0
        """Kafka's answer to that; None: it is not answered."""
        self.limit_asked = 0
        self.joined: list[list[tuple[str, int]]] = []

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings(("b0:9092",), request_timeout_ms=3000, retry_backoff_ms=10, retry_backoff_max_ms=200)

    @staticmethod
    def producing(**given: Any) -> ProducerSettings:
        """Small batches, and much time."""
        values = {"delivery_timeout_ms": 600_000, "batch_bytes_max": 300, "request_bytes_max": 1500, **given}
        return ProducerSettings(**values)

    def producer(self, identity: Identity | None = None, **given: Any) -> Producer:
        """`given`: its settings."""
        return Producer(
            "east",
            self.settings,
            self.producing(**given),
            identity or Identity(7, 0),
            self.pool,
            add_partitions=lambda found: self.joined.append(list(found)),
        )


@dataclass
class Fate:
    """What becomes of a request. `code`: of its partitions; `after`: they are appended all the same."""

    code: int = 0
    after: bool = False
    silent: bool = False
    cut: bool = False
    throttle_ms: int = 0
    delay_us: int = 1000
    said: str = ""


class ProduceBroker:
    """One broker. `fate`: says what becomes of each request to write."""

    def __init__(self, cluster: ProduceCluster, number: int, highest: int) -> None:
        self.number = number
        self.address: Address = (f"b{number}", 9092)
        self._cluster = cluster
        self._highest: dict[Api[Any], int] = {PRODUCE: highest, METADATA: 12, DESCRIBE_CONFIGS: 4}
        self._busy_us: dict[int, int] = {}
        self.fate: Callable[[], Fate] = Fate
        self.down_until_us = 0
        self.sockets: list[SimulatedSocket] = []
        self.muted_until_us: dict[int, int] = {}

    def refuses(self) -> str:
        return "connection refused" if self._cluster.clock.now_us < self.down_until_us else ""

    def go_down(self, lasting_us: int) -> None:
        self.down_until_us = self._cluster.clock.now_us + lasting_us
        for socket in self.sockets:
            socket.break_off("reset")
        self.sockets.clear()

    def take(self, socket: SimulatedSocket, frame: bytes) -> None:
        key, version, number = struct.unpack(">hhi", frame[:8])
        api = _BY_KEY[key]
        if socket not in self.sockets:
            self.sockets.append(socket)
        clock, at = self._cluster.clock, socket.fileno()
        fate = self.fate() if api is PRODUCE else Fate()
        # As long as the answer is unread, the client does not know.
        knows = api is PRODUCE and clock.now_us < self.muted_until_us.get(at, 0) and not socket.readable
        assert not knows, "it throttles, and is written to"
        due_us = max(self._busy_us.get(at, 0), clock.now_us) + fate.delay_us
        self._busy_us[at] = due_us
        clock.after_us(due_us - clock.now_us, partial(self._carry_out, socket, api, version, number, frame, fate))

    def _carry_out(
        self, socket: SimulatedSocket, api: Api[Any], version: int, number: int, frame: bytes, fate: Fate
    ) -> None:
        if self.refuses():
            return
        if api is API_VERSIONS:
            message = self._versions(version)
        else:
            request = read_request(api, frame, version)
            if api is PRODUCE:
                message = self._produce(version, request, fate)
            else:
                message = (self._metadata if api is METADATA else self._configs)(version, request)
        if fate.silent or message is None:
            return
        if fate.cut:
            socket.break_off("reset")
            return
        # Before that version, it waits itself.
        if fate.throttle_ms and version >= 6:
            self.muted_until_us[socket.fileno()] = self._cluster.clock.now_us + 1000 * fate.throttle_ms
        body = struct.pack(">i", number) + write_response(api, message, version)
        socket.deliver(struct.pack(">i", len(body)) + body)

    def _versions(self, version: int) -> Any:
        response = response_class(API_VERSIONS)
        known = [
            response.ApiVersion(version=version, api_key=api.key, min_version=0, max_version=highest)
            for api, highest in self._highest.items()
        ]
        return response(version=version, error_code=0, api_keys=known)

    def _metadata(self, version: int, request: Any) -> Any:
        self._cluster.metadata_asked += 1
        response, topic_class = response_class(METADATA), response_class(METADATA).MetadataResponseTopic
        brokers = [
            response.MetadataResponseBroker(
                version=version, node_id=one.number, host=one.address[0], port=9092, rack=""
            )
            for one in self._cluster.brokers
        ]
        topics = []
        for wanted in request.topics:
            logs = self._cluster.topics.get(wanted.name)
            listed = [
                topic_class.MetadataResponsePartition(
                    version=version,
                    error_code=0,
                    partition_index=number,
                    leader_id=log.leader,
                    leader_epoch=log.epoch,
                    replica_nodes=[],
                    isr_nodes=[],
                )
                for number, log in enumerate(logs or [])
            ]
            code = UNKNOWN_TOPIC if logs is None else 0
            topics.append(
                topic_class(version=version, error_code=code, name=wanted.name, partitions=listed, topic_id=TOPIC_ID)
            )
        return response(version=version, brokers=brokers, topics=topics, cluster_id="simulated")

    def _configs(self, version: int, request: Any) -> Any:
        self._cluster.limit_asked += 1
        code = self._cluster.limit_code
        if code is None:
            return None
        response = response_class(DESCRIBE_CONFIGS)
        result = response.DescribeConfigsResult
        (asked,) = request.resources
        setting = result.DescribeConfigsResourceResult(
            version=version, name=asked.configuration_keys[0], value=str(self._cluster.limit), config_source=1
        )
        found = result(
            version=version,
            error_code=code,
            resource_type=2,
            resource_name=asked.resource_name,
            configs=[] if code else [setting],
        )
        return response(version=version, results=[found])

    def _produce(self, version: int, request: Any, fate: Fate) -> Any:
        assert request.acks == -1
        response, topic_class = response_class(PRODUCE), response_class(PRODUCE).TopicProduceResponse
        topics, told = [], []
        for topic in request.topic_data:
            assert topic.name == "orders" if version <= 12 else topic.topic_id == TOPIC_ID
            listed = []
            for one in topic.partition_data:
                told.append(one.index)
                listed.append(self._written(version, topic_class.PartitionProduceResponse, one, fate))
            named = {"name": topic.name} if version <= 12 else {"topic_id": topic.topic_id}
            topics.append(topic_class(version=version, partition_responses=listed, **named))
        assert len(set(told)) == len(told), "two batches of one partition in a request"
        self._cluster.requests.append((self.number, version, told))
        return response(version=version, responses=topics, throttle_time_ms=fate.throttle_ms)

    def _written(self, version: int, kind: Any, one: Any, fate: Fate) -> Any:
        log, code, offset, extra = self._cluster.logs[one.index], fate.code, -1, {}
        entry = None
        if log.leader != self.number:
            code = NOT_LEADER
            if version >= 10:
                hint = kind.LeaderIdAndEpoch(version=version, leader_id=log.leader, leader_epoch=log.epoch)
                extra = {"current_leader": hint}
        elif len(one.records) > self._cluster.limit:
            code = TOO_LARGE
        elif not code or fate.after:
            refused, entry = log.append(bytes(one.records))
            code = refused or code
        if not code and entry is not None:
            offset = entry.offset
            # Answered as written, and so is all before it.
            for earlier in log.entries[: log.entries.index(entry) + 1]:
                earlier.final = True
        said = {"error_message": fate.said or None} if version >= 8 else {}
        return kind(version=version, index=one.index, error_code=code, base_offset=offset, **said, **extra)
