"""A simulated broker: requests in, answers out, both in Kafka's protocol, as a real one gives them or as faults do."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from evensplit.core.state.offset_strategies import EARLIEST
from evensplit.kafka.options.client import Address
from evensplit.kafka.wire.api import API_VERSIONS, EARLIEST_LOCAL, FETCH, LIST_OFFSETS, METADATA, Api
from evensplit.kafka.wire.error_codes import is_retriable
from evensplit.testing.messages import read_request, response_class, write_response
from evensplit.testing.sim.failure import Broken
from evensplit.testing.sim.fetch.cluster import Cluster, Placed, Topic
from evensplit.testing.sim.fetch.network import SimulatedSocket

OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, UNKNOWN_TOPIC_ID = 1, 3, 6, 100
FENCED, UNKNOWN_EPOCH = 74, 75
PASSING = [-1, OUT_OF_RANGE, *(code for code in (3, 5, 6, 7, 9, 56, 74, 75, 78, 100, 103) if is_retriable(code))]
"""Errors after which another attempt may succeed."""

SESSION_ID_NOT_FOUND = 70

_APIS: tuple[Api[Any], ...] = (API_VERSIONS, FETCH, METADATA, LIST_OFFSETS)


class SimulatedBroker:
    """`fetch_highest`: the highest version of Fetch. `ids`: whether its metadata has the ids of topics."""

    def __init__(self, cluster: Cluster, number: int, fetch_highest: int, *, ids: bool, bytes_max: int) -> None:
        self.number = number
        self.address: Address = (f"b{number}", 9092)
        self._cluster = cluster
        self._random = cluster.random
        self._standing = cluster.nodes[number]
        self._highest: dict[Api[Any], int] = {FETCH: fetch_highest}
        self._highest |= {METADATA: 12, LIST_OFFSETS: 9} if ids else {METADATA: 9, LIST_OFFSETS: 5}
        self._bytes_max = bytes_max
        self._muted_until_us: dict[int, int] = {}
        self.asked_from: dict[tuple[str, int], int] = {}
        """The offset that each partition was last asked for."""
        self.progress: Callable[[], None] = lambda: None
        """Called when a reader has got on."""

    def refuses(self) -> str:
        now_us = self._cluster.clock.now_us
        if now_us < self._standing.down_until_us:
            return "connection refused, nothing listens there"
        return "no answer" if now_us < self._standing.hangs_until_us else ""

    def take(self, socket: SimulatedSocket, frame: bytes) -> None:
        """Answer a request, or do not."""
        self._cluster.messages += 1
        key, version, number = struct.unpack(">hhi", frame[:8])
        api = next(one for one in _APIS if one.key == key)
        if socket not in self._standing.sockets:
            self._standing.sockets.append(socket)
        if api is not API_VERSIONS:
            self._cluster.act(self.number)
        if self.refuses() or (api is not API_VERSIONS and self._cluster.strikes("silent", 0.05)):
            self._cluster.note(f"broker {self.number}: {api.name} is not answered")
            return
        wait_us = self._random.randint(200, 20_000)
        if api is API_VERSIONS:
            message = self._versions(version)
        else:
            request = read_request(api, frame, version)
            if api is FETCH:
                if self._cluster.clock.now_us < self._muted_until_us.get(socket.fileno(), 0):
                    raise Broken("F6", f"broker {self.number} throttles the reader, and is asked all the same")
                message, more_us = self._fetch(version, request, socket)
                wait_us += more_us
            else:
                message = (self._metadata if api is METADATA else self._offsets)(version, request)
        body = struct.pack(">i", number) + write_response(api, message, version)
        self._answer(socket, api, struct.pack(">i", len(body)) + body, wait_us)

    def _answer(self, socket: SimulatedSocket, api: Api[Any], data: bytes, wait_us: int) -> None:
        cluster, random = self._cluster, self._random
        cluster.messages += 1
        if cluster.strikes("cut", 0.06):
            at, how = random.randrange(len(data)), random.choice(("closed", "reset"))
            cluster.note(f"broker {self.number}: {api.name} is cut off after {at} of {len(data)} bytes ({how})")
            cluster.clock.after_us(wait_us, partial(socket.deliver, data[:at]))
            cluster.clock.after_us(wait_us, partial(socket.break_off, how))
            return
        pieces = [data]
        if cluster.strikes("slow", 0.05, lasts := cluster.lasting_us(1.0)):
            cuts = sorted(random.randrange(len(data)) for _ in range(random.choice((1, 4))))
            pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        for number, piece in enumerate(pieces):
            cluster.clock.after_us(wait_us + number * lasts // len(pieces), partial(socket.deliver, piece))

    def _versions(self, version: int) -> Any:
        response = response_class(API_VERSIONS)
        known = [
            response.ApiVersion(version=version, api_key=api.key, min_version=0, max_version=highest)
            for api, highest in self._highest.items()
        ]
        return response(version=version, error_code=0, api_keys=known)

    def _metadata(self, version: int, request: Any) -> Any:
        response, view = response_class(METADATA), self._cluster.heard(self.number)
        brokers = [
            response.MetadataResponseBroker(version=version, node_id=number, host=f"b{number}", port=9092, rack="r")
            for number in range(len(self._cluster.nodes))
        ]
        topic_class = response.MetadataResponseTopic
        topics = []
        for wanted in request.topics:
            topic = view.get(wanted.name)
            listed = [] if topic is None else [self._led(version, *one) for one in enumerate(topic.partitions)]
            named = {} if topic is None or version < 10 else {"topic_id": topic.id}
            code = UNKNOWN_TOPIC if topic is None else 0
            topics.append(topic_class(version=version, error_code=code, name=wanted.name, partitions=listed, **named))
        known = {name: [(one.leader, one.epoch) for one in topic.partitions] for name, topic in view.items()}
        self._cluster.note(f"broker {self.number}: Metadata {known}")
        return response(version=version, brokers=brokers, topics=topics, cluster_id="simulated")

    @staticmethod
    def _led(version: int, number: int, placed: Placed) -> Any:
        return response_class(METADATA).MetadataResponseTopic.MetadataResponsePartition(
            version=version,
            error_code=0 if placed.leader >= 0 else 5,
            partition_index=number,
            leader_id=placed.leader,
            leader_epoch=placed.epoch,
            replica_nodes=[],
            isr_nodes=[],
        )

    def _offsets(self, version: int, request: Any) -> Any:
        topic_class = response_class(LIST_OFFSETS).ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            listed = []
            for one in topic.partitions:
                placed = self._placed(self._cluster.heard(self.number).get(topic.name), one.partition_index)
                code, offset = UNKNOWN_TOPIC, -1
                if placed is not None:
                    code = NOT_LEADER if placed.leader != self.number else 0
                if not code and self._cluster.strikes("code", 0.1):
                    code = self._random.choice([found for found in PASSING if found > OUT_OF_RANGE])
                if not code and placed is not None:
                    log, end = placed.log, self._cluster.visible_end(placed.log)
                    committed = min(log.stable, end) if request.isolation_level else end
                    ends = {EARLIEST: log.start, EARLIEST_LOCAL: max(log.start, log.local)}
                    offset = ends.get(one.timestamp, committed)
                self._cluster.note(f"broker {self.number}: ListOffsets {one.timestamp}: {code}, {offset}")
                made = topic_class.ListOffsetsPartitionResponse(
                    version=version, partition_index=one.partition_index, error_code=code, timestamp=-1, offset=offset
                )
                listed.append(made)
            topics.append(topic_class(version=version, name=topic.name, partitions=listed))
        return response_class(LIST_OFFSETS)(version=version, throttle_time_ms=0, topics=topics)

    @staticmethod
    def _placed(topic: Topic | None, partition: int) -> Placed | None:
        return topic.partitions[partition] if topic is not None and partition < len(topic.partitions) else None

    def _fetch(self, version: int, request: Any, socket: SimulatedSocket) -> tuple[Any, int]:
        """The answer, and how long the broker waits with it."""
        if request.max_bytes > self._bytes_max:
            raise Broken("F6", f"{request.max_bytes} bytes are asked for, {self._bytes_max} at most were expected")
        cluster, throttle_ms = self._cluster, 0
        response, topic_class = response_class(FETCH), response_class(FETCH).FetchableTopicResponse
        partition_class = topic_class.PartitionData
        if version >= 7 and cluster.strikes("refused", 0.04):
            cluster.note(f"broker {self.number}: Fetch is refused")
            refused = response(version=version, error_code=SESSION_ID_NOT_FOUND, session_id=0, responses=[])
            return refused, 0
        if cluster.strikes("throttle", 0.06, 2_000_000):
            throttle_ms = self._random.choice((1, 100, 2000))
            cluster.note(f"broker {self.number}: Fetch is throttled for {throttle_ms} ms")
            if version >= 8:
                self._muted_until_us[socket.fileno()] = cluster.clock.now_us + 1000 * throttle_ms
                if self._random.random() < 0.7:
                    return response(version=version, throttle_time_ms=throttle_ms, responses=[]), 0
        left, topics, anything = request.max_bytes, [], False
        view = cluster.heard(self.number)
        for topic in request.topics:
            name = topic.topic
            if version > 12:
                name = next((known for known, one in view.items() if one.id == topic.topic_id), "")
            listed = []
            for one in topic.partitions:
                if cluster.strikes("left-out", 0.05):
                    cluster.note(f"broker {self.number}: Fetch leaves {name}-{one.partition} out")
                    continue
                placed = self._placed(view.get(name), one.partition)
                unknown = UNKNOWN_TOPIC if version <= 12 else UNKNOWN_TOPIC_ID
                made, told = self._fetched(version, request, one, placed, name, left, unknown)
                left -= len(made.records)
                anything |= told
                listed.append(made)
                if cluster.strikes("unasked", 0.1):
                    twin = partition_class(
                        version=version,
                        partition_index=one.partition + self._random.choice((0, 100)),
                        error_code=0,
                        high_watermark=made.high_watermark,
                        last_stable_offset=made.high_watermark,
                        records=made.records,
                    )
                    cluster.note(f"broker {self.number}: Fetch brings partition {twin.partition_index}, too")
                    listed.append(twin)
            named = {"topic": name} if version <= 12 else {"topic_id": topic.topic_id}
            topics.append(topic_class(version=version, partitions=listed, **named))
        message = response(version=version, throttle_time_ms=throttle_ms * (version >= 8), responses=topics)
        return message, (0 if anything else 1000 * request.max_wait_ms) + 1000 * throttle_ms * (version < 8)

    def _fetched(
        self, version: int, request: Any, one: Any, placed: Placed | None, name: str, left: int, unknown: int
    ) -> tuple[Any, bool]:
        """What is told of one partition, and whether that is anything."""
        offset = one.fetch_offset
        where = name, one.partition
        told = f"broker {self.number}: Fetch {version} {name}-{one.partition} from {offset}: "
        if offset > self.asked_from.get(where, -1):
            self.asked_from[where] = offset
            self.progress()
        code, diverging, replica, records, end = unknown, None, -1, b"", -1
        if placed is not None:
            code, diverging = self._refusal(version, one, placed)
        if placed is not None and not code and diverging is None:
            follower = self.number != placed.leader
            end = self._cluster.visible_end(placed.log)
            if follower and placed.log.batches and self._cluster.strikes("lagging", 0.5):
                end = min(end, self._random.choice(placed.log.batches).base)
            redirects = version >= 11 and request.rack_id and not follower
            if redirects and len(self._cluster.nodes) > 1 and self._cluster.strikes("follower", 0.3):
                replica = self._random.choice([n for n in range(len(self._cluster.nodes)) if n != self.number])
            else:
                records = self._records(request, one, placed, left, end)
        partition_class: Any = response_class(FETCH).FetchableTopicResponse.PartitionData
        aborted, stable, start = [], -1, -1
        if placed is not None and not code:
            stable, start = min(placed.log.stable, end), placed.log.start
            if request.isolation_level:
                aborted = [
                    partition_class.AbortedTransaction(version=version, producer_id=producer, first_offset=first)
                    for producer, first, marker in placed.log.aborted
                    if marker >= offset
                ]
        parts = (
            {}
            if diverging is None
            else {
                "diverging_epoch": partition_class.EpochEndOffset(
                    version=version, epoch=diverging[0], end_offset=diverging[1]
                )
            }
        )
        self._cluster.note(f"{told}{code}, {len(records)} bytes, end {end}, {diverging or ''} {replica}")
        made = partition_class(
            version=version,
            partition_index=one.partition,
            error_code=code,
            high_watermark=end,
            last_stable_offset=stable,
            log_start_offset=start,
            aborted_transactions=aborted,
            preferred_read_replica=replica,
            records=records,
            **parts,
        )
        return made, bool(records or code or diverging or replica >= 0)

    def _refusal(self, version: int, one: Any, placed: Placed) -> tuple[int, tuple[int, int] | None]:
        """The error of a partition, 0 for none, and where its log parts from the reader's."""
        log, offset = placed.log, one.fetch_offset
        if self._cluster.strikes("code", 0.06):
            return self._random.choice([found for found in PASSING if version > 12 or found < UNKNOWN_TOPIC_ID]), None
        if placed.leader != self.number and ("follower" not in self._cluster.faults or version < 11):
            return NOT_LEADER, None
        if version >= 9 and one.current_leader_epoch >= 0 and one.current_leader_epoch != placed.epoch:
            return FENCED if one.current_leader_epoch < placed.epoch else UNKNOWN_EPOCH, None
        if version >= 12 and 0 <= one.last_fetched_epoch != placed.epoch:
            if one.last_fetched_epoch > placed.epoch:
                return OUT_OF_RANGE, None
            epoch, end = log.epoch_end(one.last_fetched_epoch)
            if 0 <= end < offset or 0 <= epoch < one.last_fetched_epoch:
                return 0, (epoch, end)
        return 0 if log.start <= offset <= log.end else OUT_OF_RANGE, None

    def _records(self, request: Any, one: Any, placed: Placed, left: int, end: int) -> bytes:
        log, offset = placed.log, one.fetch_offset
        if offset < log.local and self._cluster.strikes("remote", 0.7):
            return b""
        limit = min(one.partition_max_bytes, max(left, 0))
        if "small" in self._cluster.faults:
            limit = min(limit, self._random.randint(1, 600))
            self._cluster.happened["small"] += 1
        first = left == request.max_bytes
        end = min(end, log.stable) if request.isolation_level else end
        found = bytearray()
        for batch in log.batches[log.from_offset(offset) :]:
            if batch.base >= end or (len(found) >= limit and not (first and not found)):
                break
            found += batch.raw
        whole = next((len(batch.raw) for batch in log.batches[log.from_offset(offset) :] if batch.raw), 0)
        return bytes(found[: max(limit, whole) if first else limit])
