"""Responses about brokers, topics and logins, read by bounded code (`primitives.Reader`).

A class has what is used here, under Kafka's names for it. Fields that a version does not have yet are what Kafka's
schemas give as defaults.

Sources: the message definitions of Kafka's protocol, in the versions that `api` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Generic, TypeVar

from evensplit.core.text import short
from evensplit.kafka.wire.error_codes import UNSUPPORTED_VERSION
from evensplit.kafka.wire.primitives import Reader, Undecodable

PORT_MAX = 65535
BROKERS_MAX = 10_000
"""No cluster has more."""

RIGHTS_UNKNOWN = -(1 << 31)
"""Instead of what a user may do: the broker was not asked, or does not say."""

_FINALIZED_FEATURES = 2
_FEATURE_BYTES_MIN = 6
_NAMED_BYTES_MIN = 3
_BROKER_BYTES_MIN = 11
_TOPIC_BYTES_MIN = 9
_PARTITION_BYTES_MIN = 18
_LOG_DIR_BYTES_MIN = 5
_VERSIONS = Struct(">hhh")
_PARTITION = Struct(">hii")
_PARTITION_WITH_EPOCH = Struct(">hiii")
_OFFSET = Struct(">ihqq")
_OFFSET_WITH_EPOCH = Struct(">ihqqi")
_LOG_ON_DISK = Struct(">iqqb")
_VOLUME = Struct(">qq")
_END_OF_EPOCH = Struct(">hiiq")

_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class ApiVersions:
    """The requests that a broker supports. `versions`: lowest and highest of each request, by Kafka's number for it.

    `features`: the level of each feature that the cluster has agreed on (KIP-584); empty where the broker does not say.
    """

    error_code: int
    versions: dict[int, tuple[int, int]]
    features: dict[str, int] = field(default_factory=dict)


def read_api_versions(reader: Reader, version: int) -> ApiVersions:
    """An answer with UNSUPPORTED_VERSION has the form of version 0, and is not read further (KIP-511)."""
    code = reader.int16()
    if code == UNSUPPORTED_VERSION:
        return ApiVersions(code, {})
    known = {key: (lowest, highest) for key, lowest, highest in reader.rows(_VERSIONS)}
    features: dict[str, int] = {}
    if version >= 3 and not code:
        reader.int32()  # for how long it is throttled
        finalized = reader.tagged(_FINALIZED_FEATURES)
        features = {} if finalized is None else dict(_read_features(finalized))
    return ApiVersions(code, known, features)


def _read_features(reader: Reader) -> Iterator[tuple[str, int]]:
    for _ in reader.entries(_FEATURE_BYTES_MIN):
        name, level = reader.text(), reader.int16()
        reader.int16()  # the lowest level
        reader.skip_tags()
        yield name, level


@dataclass(slots=True)
class SaslHandshake:
    """Whether a mechanism is enabled. `mechanisms`: those that are."""

    error_code: int
    mechanisms: list[str]


def read_sasl_handshake(reader: Reader, version: int) -> SaslHandshake:
    """Version 1."""
    return SaslHandshake(reader.int16(), [reader.text() for _ in reader.entries(2)])


@dataclass(slots=True)
class SaslAuthenticate:
    """A step of a login. `session_lifetime_ms`: for how long it holds; 0 for as long as the connection does."""

    error_code: int
    error_message: str
    auth_bytes: bytes
    session_lifetime_ms: int


def read_sasl_authenticate(reader: Reader, version: int) -> SaslAuthenticate:
    """Versions 0 to 2."""
    code, said, message = reader.int16(), reader.text_or_none(), reader.octets()
    return SaslAuthenticate(code, said or "", message, reader.int64() if version >= 1 else 0)


@dataclass(slots=True)
class MetadataBroker:
    """Where a broker is to be reached. `host`: fit to be shown, so it need not be one."""

    node_id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True)
class MetadataPartition:
    """A partition's leader, -1 if it has none, and its epoch, -1 if the broker does not tell it.

    `replicas`: how many it has.
    """

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replicas: int = 0


@dataclass(slots=True)
class MetadataTopic:
    """A topic. `topic_id`: its id as text, empty where the broker has none.

    `authorized_operations`: the bits of what the user may do with it, or RIGHTS_UNKNOWN.
    """

    error_code: int
    name: str
    topic_id: str
    is_internal: bool
    partitions: list[MetadataPartition]
    authorized_operations: int


@dataclass(slots=True)
class Metadata:
    """The brokers and topics of a cluster, as one broker knows them.

    `cluster_id`: fit to be shown; empty where there is none.
    """

    brokers: list[MetadataBroker]
    cluster_id: str
    topics: list[MetadataTopic]

    def only(self, topics: Collection[str] | None) -> Metadata:
        """The same with no topic but those with these names. `topics`: None for all."""
        if topics is None:
            return self
        names = frozenset(topics)
        return replace(self, topics=[one for one in self.topics if one.name in names])


def read_metadata(reader: Reader, version: int) -> Metadata:
    """Versions 4 to 12."""
    reader.int32()  # for how long it is throttled
    brokers = [_read_broker(reader) for _ in reader.entries(_BROKER_BYTES_MIN, BROKERS_MAX)]
    cluster_id = short(reader.text_or_none() or "")
    reader.int32()  # the controller
    return Metadata(brokers, cluster_id, [_read_topic(reader, version) for _ in reader.entries(_TOPIC_BYTES_MIN)])


def _read_broker(reader: Reader) -> MetadataBroker:
    broker = MetadataBroker(reader.int32(), short(reader.text()), checked_port(reader.int32()), reader.text_or_none())
    reader.skip_tags()
    return broker


def _read_topic(reader: Reader, version: int) -> MetadataTopic:
    code, name = reader.int16(), reader.text()
    topic_id = reader.uuid_text() if version >= 10 else ""
    internal = reader.boolean()
    partitions = [_read_partition(reader, version) for _ in reader.entries(_PARTITION_BYTES_MIN)]
    if len({one.partition_index for one in partitions}) < len(partitions):
        raise Undecodable(f"a partition of topic {short(name)!r} stands twice, expected each once")
    rights = reader.int32() if version >= 8 else RIGHTS_UNKNOWN
    reader.skip_tags()
    return MetadataTopic(code, name, topic_id, internal, partitions, rights)


def _read_partition(reader: Reader, version: int) -> MetadataPartition:
    if version >= 7:
        code, index, leader, epoch = reader.numbers(_PARTITION_WITH_EPOCH)
    else:
        (code, index, leader), epoch = reader.numbers(_PARTITION), -1
    if index < 0:
        raise Undecodable(f"partition {index}, expected 0 or more")
    replicas = reader.skip_int32s()
    reader.skip_int32s()  # those in sync
    if version >= 5:
        reader.skip_int32s()  # those that are offline
    reader.skip_tags()
    return MetadataPartition(code, index, leader, epoch, replicas)


@dataclass(slots=True)
class OfTopic(Generic[_Entry]):
    """One entry for each of several partitions of a topic."""

    name: str
    partitions: list[_Entry]


@dataclass(slots=True)
class ByTopic(Generic[_Entry]):
    """An answer about partitions."""

    topics: list[OfTopic[_Entry]]


def read_topics(reader: Reader, read_partitions: Callable[[], list[_Entry]]) -> list[OfTopic[_Entry]]:
    """Topics by their names, each with what `read_partitions` reads."""
    topics = []
    for _ in reader.entries(_NAMED_BYTES_MIN):
        topics.append(OfTopic(reader.text(), read_partitions()))
        reader.skip_tags()
    return topics


@dataclass(slots=True)
class ListedOffset:
    """An offset of a partition, -1 if there is none, its leader epoch, -1 if the broker does not tell it, and with an
    offset by time the timestamp of the record there in ms, else -1."""

    partition_index: int
    error_code: int
    offset: int
    leader_epoch: int
    timestamp: int = -1


def read_list_offsets(reader: Reader, version: int) -> ByTopic[ListedOffset]:
    """Versions 2 to 9."""

    def read_offsets() -> list[ListedOffset]:
        if version >= 4:
            rows = reader.rows(_OFFSET_WITH_EPOCH)
            return [ListedOffset(index, code, offset, epoch, at_ms) for index, code, at_ms, offset, epoch in rows]
        return [ListedOffset(index, code, offset, -1, at_ms) for index, code, at_ms, offset in reader.rows(_OFFSET)]

    reader.int32()  # for how long it is throttled
    return ByTopic(read_topics(reader, read_offsets))


@dataclass(slots=True)
class LogOnDisk:
    """What a broker has of a partition in one directory. `partition_size`: the bytes of all segments of its log.

    `is_future_key`: it is being copied from another directory of the broker, and does not have all yet.
    """

    partition_index: int
    partition_size: int
    is_future_key: bool


@dataclass(slots=True)
class LogDir:
    """One directory of a broker: the logs that are in it, none where there is an error."""

    error_code: int
    topics: list[OfTopic[LogOnDisk]]


@dataclass(slots=True)
class LogDirs:
    """The directories of a broker with what was asked for of them. `error_code`: 0 before version 3."""

    error_code: int
    results: list[LogDir]


def read_describe_log_dirs(reader: Reader, version: int) -> LogDirs:
    """Versions 0 to 4."""
    reader.int32()  # for how long it is throttled
    code = reader.int16() if version >= 3 else 0
    return LogDirs(code, [_read_log_dir(reader, version) for _ in reader.entries(_LOG_DIR_BYTES_MIN)])


def _read_log_dir(reader: Reader, version: int) -> LogDir:
    code = reader.int16()
    reader.text()  # its path
    topics = read_topics(
        reader, lambda: [LogOnDisk(index, size, bool(future)) for index, size, _, future in reader.rows(_LOG_ON_DISK)]
    )
    if version >= 4:
        reader.numbers(_VOLUME)
    reader.skip_tags()
    return LogDir(code, topics)


@dataclass(slots=True)
class EpochEnd:
    """Where a leader epoch of a partition ends, as far as is known."""

    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int


def read_offset_for_leader_epoch(reader: Reader, version: int) -> ByTopic[EpochEnd]:
    """Versions 3 and 4 (KIP-101)."""
    reader.int32()  # for how long it is throttled
    return ByTopic(read_topics(reader, lambda: [EpochEnd(*row) for row in reader.rows(_END_OF_EPOCH)]))


def checked_port(number: int) -> int:
    """The number of a port, if it is one."""
    if not 0 <= number <= PORT_MAX:
        raise Undecodable(f"port {number}, expected 0 to {PORT_MAX}")
    return number
