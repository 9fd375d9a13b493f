"""The requests that this package sends, with the versions of them that it can read and write.

The lowest version is the oldest whose meaning is what this package relies on, the highest the newest that is tested.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

# kafka-python reads its schemas in a way that Python 3.11 warns of, and where warnings are errors it could not be used.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import for_code
    from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse
    from kafka.protocol.consumer import (
        FetchRequest,
        FetchResponse,
        ListOffsetsRequest,
        ListOffsetsResponse,
        OffsetCommitRequest,
        OffsetCommitResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
    )
    from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
    from kafka.protocol.metadata import (
        ApiVersionsRequest,
        ApiVersionsResponse,
        FindCoordinatorRequest,
        FindCoordinatorResponse,
        MetadataRequest,
        MetadataResponse,
    )
    from kafka.protocol.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )

UNSUPPORTED_VERSION = 35


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request: kafka-python's classes for it and its response, and the usable versions, both included."""

    request: Any
    response: Any
    lowest: int
    highest: int

    @property
    def key(self) -> int:
        """Kafka's number for it."""
        return int(self.request.API_KEY)

    @property
    def name(self) -> str:
        """Kafka's name for it."""
        return str(self.request.name).removesuffix("Request")


API_VERSIONS = Api(ApiVersionsRequest, ApiVersionsResponse, 0, 3)

SASL_HANDSHAKE = Api(SaslHandshakeRequest, SaslHandshakeResponse, 1, 1)
"""With version 1, what follows are SaslAuthenticate requests, and not bytes without a frame (KIP-152)."""

SASL_AUTHENTICATE = Api(SaslAuthenticateRequest, SaslAuthenticateResponse, 0, 2)
"""From version 1 on the broker says for how long it holds (KIP-368)."""

METADATA = Api(MetadataRequest, MetadataResponse, 4, 12)
"""Version 4 (Kafka 0.11) is the first in which asking for a topic need not create it; version 10 brings topic ids."""

LIST_OFFSETS = Api(ListOffsetsRequest, ListOffsetsResponse, 2, 9)
"""From version 1 on there is one offset for a time; version 2 (Kafka 0.11) brings the isolation level (KIP-98)."""

EARLIEST_LOCAL = -4
"""Instead of a time in ListOffsets: the first offset that is not in remote storage alone (KIP-405)."""

EARLIEST_LOCAL_VERSION = 8

OFFSET_FOR_LEADER_EPOCH = Api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, 3, 4)
"""Version 3 (Kafka 2.3) is the first that consumers may ask who may describe the topic, and no more (KIP-320)."""

FETCH = Api(FetchRequest, FetchResponse, 4, 13)
"""Version 4 has the record format v2 (KIP-98); from 9 on brokers check leader epochs (KIP-320), from 12 on the last
fetched one too (KIP-595); from 13 on topics go by ids instead of names (KIP-516)."""

FETCH_BY_NAME_VERSION = 12
"""The highest version of Fetch in which topics go by names."""

FIND_COORDINATOR = Api(FindCoordinatorRequest, FindCoordinatorResponse, 0, 6)
"""From version 1 on there are other coordinators than those of groups, from 4 on several in one request (KIP-699)."""

OFFSET_FETCH = Api(OffsetFetchRequest, OffsetFetchResponse, 1, 9)
"""Version 1 is the first without ZooKeeper; from 8 on for several groups; from 10 on topics go by ids (KIP-848)."""

OFFSET_COMMIT = Api(OffsetCommitRequest, OffsetCommitResponse, 2, 9)
"""Version 2 is the first without a time; from 5 on the broker alone says how long commits are kept (KIP-211), as it
does with the default of the versions before; from 10 on topics go by ids (KIP-848)."""

DESCRIBE_GROUPS = Api(DescribeGroupsRequest, DescribeGroupsResponse, 3, 5)
"""Version 3 is the first that says what the user may do with the group (KIP-430)."""


def error_name(code: int) -> str:
    """Kafka's name for an error code, such as `NOT_LEADER_FOR_PARTITION`; `UNKNOWN` if the code is not known."""
    return str(for_code(code).message)


def is_retriable(code: int) -> bool:
    """Whether the same request may succeed later, perhaps at another broker."""
    return bool(for_code(code).retriable)
