"""The other side of the protocol: requests as a broker reads them, and responses as it writes them.

They are kafka-python's classes, which are generated from Kafka's own message definitions. The package itself writes
requests and reads responses by code of its own (`evensplit.kafka.wire`), so these are a second opinion.
"""

from __future__ import annotations

import warnings
from typing import Any

from evensplit.kafka.wire.api import API_VERSIONS, Api

# kafka-python reads its schemas in a way that Python 3.11 warns of, and where warnings are errors it could not be used.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer, sasl
    from kafka.protocol.consumer import offsets

_CLASSES: dict[int, tuple[Any, Any]] = {
    request.API_KEY: (request, response)
    for request, response in (
        (admin.CreateTopicsRequest, admin.CreateTopicsResponse),
        (admin.DescribeConfigsRequest, admin.DescribeConfigsResponse),
        (admin.DescribeGroupsRequest, admin.DescribeGroupsResponse),
        (admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse),
        (admin.DescribeTransactionsRequest, admin.DescribeTransactionsResponse),
        (admin.ListTransactionsRequest, admin.ListTransactionsResponse),
        (consumer.FetchRequest, consumer.FetchResponse),
        (consumer.ListOffsetsRequest, consumer.ListOffsetsResponse),
        (consumer.OffsetCommitRequest, consumer.OffsetCommitResponse),
        (consumer.OffsetFetchRequest, consumer.OffsetFetchResponse),
        (offsets.OffsetForLeaderEpochRequest, offsets.OffsetForLeaderEpochResponse),
        (metadata.ApiVersionsRequest, metadata.ApiVersionsResponse),
        (metadata.FindCoordinatorRequest, metadata.FindCoordinatorResponse),
        (metadata.MetadataRequest, metadata.MetadataResponse),
        (producer.AddPartitionsToTxnRequest, producer.AddPartitionsToTxnResponse),
        (producer.EndTxnRequest, producer.EndTxnResponse),
        (producer.InitProducerIdRequest, producer.InitProducerIdResponse),
        (producer.ProduceRequest, producer.ProduceResponse),
        (sasl.SaslAuthenticateRequest, sasl.SaslAuthenticateResponse),
        (sasl.SaslHandshakeRequest, sasl.SaslHandshakeResponse),
    )
}


def request_class(api: Api[Any]) -> Any:
    """kafka-python's class for a request to `api`."""
    return _CLASSES[api.key][0]


def response_class(api: Api[Any]) -> Any:
    """kafka-python's class for its response."""
    return _CLASSES[api.key][1]


def read_request(api: Api[Any], data: bytes | bytearray, version: int, *, header: bool = True) -> Any:
    """A request, with its header or, as `evensplit.kafka.wire.requests` writes it, without."""
    return request_class(api).decode(bytes(data), version=version, header=header)


def write_response(api: Api[Any], message: Any, version: int) -> bytes:
    """What follows the number of the request in a response: the header's tagged fields, where it has them, and it."""
    # The header of this one has never changed, so that every client can read it (KIP-511).
    flexible = response_class(api).flexible_version_q(version) and api.key != API_VERSIONS.key
    return b"\0" * flexible + bytes(message.encode(version=version))
