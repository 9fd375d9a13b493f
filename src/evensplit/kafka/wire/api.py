"""The requests that this package sends, with the versions of them that it can write, and whose answers it can read.

The lowest version is the oldest whose meaning is what this package relies on, the highest the newest that is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Generic, NoReturn, TypeVar

from evensplit.kafka.deadline import Deadline
from evensplit.kafka.wire import group_responses, produce, responses, transaction_responses
from evensplit.kafka.wire.primitives import Reader

_NEVER = 1 << 15
_SHORT = 1 << 20
_LONG = 128 << 20

_Response = TypeVar("_Response")

Request = bytearray | list[memoryview]
"""A request without its header: whole, or in pieces, so that what is long need not be copied."""

Build = Callable[[int], Request]
"""Writes a request in a version."""


@dataclass(frozen=True, slots=True)
class Api(Generic[_Response]):
    """One kind of request, and how its response is read. `requests` and its neighbours write it."""

    key: int
    """Kafka's number for it."""

    name: str
    """Kafka's name for it."""

    read: Callable[[Reader, int], _Response]
    """Reads the response in a version, by bounded code."""

    lowest: int
    """The lowest usable version."""

    highest: int
    """The highest usable version."""

    flexible_from: int = _NEVER
    """The first version with tagged fields and lengths as varints (KIP-482)."""

    answer_bytes_max: int = _LONG
    """A longer response is refused: 1 MiB before a login, and room for a million partitions after it."""

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has tagged fields and lengths as varints."""
        return version >= self.flexible_from

    def decode(self, answer: memoryview, version: int, deadline: Deadline) -> _Response:
        """Read a response in `version`, given without its length and number.

        Raises:
            Undecodable: the bytes are not such a response.
            OutOfTime: the deadline passed while it was read.
        """
        reader = Reader(answer, 0, flexible=self.is_flexible(version), deadline=deadline)
        # The header of this one has never changed, so that every client can read it (KIP-511).
        if self.key != API_VERSIONS.key:
            reader.skip_tags()
        return self.read(reader, version)


def _read_fetch(reader: Reader, version: int) -> NoReturn:
    raise AssertionError("the kernel reads it")


API_VERSIONS = Api(18, "ApiVersions", responses.read_api_versions, 0, 3, 3, _SHORT)

SASL_HANDSHAKE = Api(17, "SaslHandshake", responses.read_sasl_handshake, 1, 1, answer_bytes_max=_SHORT)
"""With version 1, what follows are SaslAuthenticate requests, and not bytes without a frame (KIP-152)."""

SASL_AUTHENTICATE = Api(36, "SaslAuthenticate", responses.read_sasl_authenticate, 0, 2, 2, _SHORT)
"""From version 1 on the broker says for how long it holds (KIP-368)."""

METADATA = Api(3, "Metadata", responses.read_metadata, 4, 12, 9)
"""Version 4 (Kafka 0.11) is the first in which asking for a topic need not create it; version 10 brings topic ids."""

TOPIC_BYTES_MAX = 16 << 20
"""The most bytes about one topic in a response: room for 300,000 partitions."""


def metadata_bytes_max(topics: int) -> int:
    """The most bytes of a Metadata response about `topics` topics, with room for the brokers."""
    return min(_LONG, (topics + 1) * TOPIC_BYTES_MAX)


LIST_OFFSETS = Api(2, "ListOffsets", responses.read_list_offsets, 2, 9, 6)
"""From version 1 on there is one offset for a time; version 2 (Kafka 0.11) brings the isolation level (KIP-98)."""

EARLIEST_LOCAL = -4
"""Instead of a time in ListOffsets: the first offset that is not in remote storage alone (KIP-405)."""

EARLIEST_LOCAL_VERSION = 8

DESCRIBE_LOG_DIRS = Api(35, "DescribeLogDirs", responses.read_describe_log_dirs, 0, 4, 2)
"""Since Kafka 1.0 (KIP-113). A user who may not ask is told so from version 3 on, and gets an empty answer before."""

OFFSET_FOR_LEADER_EPOCH = Api(23, "OffsetForLeaderEpoch", responses.read_offset_for_leader_epoch, 3, 4, 4)
"""Version 3 (Kafka 2.3) is the first that consumers may ask who may describe the topic, and no more (KIP-320)."""

FETCH = Api(1, "Fetch", _read_fetch, 4, 13, 12)
"""Version 4 has the record format v2 (KIP-98); from 9 on brokers check leader epochs (KIP-320), from 12 on the last
fetched one too (KIP-595); from 13 on topics go by ids instead of names (KIP-516). How long its answer may be depends on
what was asked."""

FETCH_BY_NAME_VERSION = 12
"""The highest version of Fetch in which topics go by names."""

PRODUCE = Api(0, "Produce", produce.read_produce, 3, 13, produce.FLEXIBLE_VERSION)
"""Version 3 (Kafka 0.11) has the record format v2 and transactions (KIP-98); for later ones see `produce`."""

FIND_COORDINATOR = Api(10, "FindCoordinator", group_responses.read_find_coordinator, 0, 6, 3, _SHORT)
"""From version 1 on there are other coordinators than those of groups, from 4 on several in one request (KIP-699)."""

OFFSET_FETCH = Api(9, "OffsetFetch", group_responses.read_offset_fetch, 1, 9, 6)
"""Version 1 is the first without ZooKeeper; from 8 on for several groups; from 10 on topics go by ids (KIP-848)."""

OFFSET_COMMIT = Api(8, "OffsetCommit", group_responses.read_offset_commit, 2, 9, 8)
"""Version 2 is the first without a time; from 5 on the broker alone says how long commits are kept (KIP-211), as it
does with the default of the versions before; from 10 on topics go by ids (KIP-848)."""

DESCRIBE_GROUPS = Api(15, "DescribeGroups", group_responses.read_describe_groups, 3, 5, 5)
"""Version 3 is the first that says what the user may do with the group (KIP-430)."""

INIT_PRODUCER_ID = Api(22, "InitProducerId", transaction_responses.read_init_producer_id, 0, 5, 2, _SHORT)
"""From version 3 on a producer can ask for its next epoch (KIP-360), which is not done here; from 4 on fenced ones are
told so. In version 6 there are transactions of two phases (KIP-939)."""

ADD_PARTITIONS_TO_TXN = Api(24, "AddPartitionsToTxn", transaction_responses.read_add_partitions_to_txn, 0, 3, 3)
"""From version 2 on fenced producers are told so; from 4 on it is for brokers alone (KIP-890)."""

END_TXN = Api(26, "EndTxn", transaction_responses.read_end_txn, 0, 5, 3, _SHORT)
"""From version 2 on fenced producers are told so; with version 5 the producer's epoch rises (KIP-890), which takes
transaction version 2."""

END_TXN_VERSION_1 = 4
"""The highest version of EndTxn that does not raise the producer's epoch, as it is in transaction version 1."""

DESCRIBE_TRANSACTIONS = Api(65, "DescribeTransactions", transaction_responses.read_describe_transactions, 0, 0, 0)
"""Since Kafka 3.0 (KIP-664)."""

LIST_TRANSACTIONS = Api(66, "ListTransactions", transaction_responses.read_list_transactions, 0, 1, 0)
"""Since Kafka 3.0 (KIP-664); from version 1 on those that have been open for some time (KIP-994)."""

CREATE_TOPICS = Api(19, "CreateTopics", transaction_responses.read_create_topics, 2, 7, 5, _SHORT)
"""From version 4 on the brokers say how many replicas there are, if one likes (KIP-464)."""

DESCRIBE_CONFIGS = Api(32, "DescribeConfigs", transaction_responses.read_describe_configs, 1, 4, 4, _SHORT)
"""Version 1 is the first that tells secrets from values that are not set."""


@cache
def software_version() -> str:
    """The version of this package, which brokers are told (KIP-511); "0" where it is not installed."""
    # Late, since it takes 10 ms to load, and a process that connects to no broker need not know.
    from importlib import metadata

    try:
        return metadata.version("evensplit")
    except metadata.PackageNotFoundError:
        return "0"
