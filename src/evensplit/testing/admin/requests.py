"""The few requests that `LocalKafka` makes of its brokers, each to one broker and with a deadline.

They go over a socket of their own with kafka-python's message classes. An admin client would do, but it asks
whichever broker it likes, and here the point is often what *this* broker knows; and one connection takes a
millisecond where a client takes a tenth of a second.
"""

from __future__ import annotations

import socket
import struct
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from evensplit.errors import BrokerError, LocalKafkaError
from evensplit.kafka.wire.error_codes import describe_code

# kafka-python reads its schemas in a way that Python 3.11 warns of, and where warnings are errors it could not be used.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.admin import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

Address = tuple[str, int]

CLIENT_ID = "evensplit-testing"
POLL_INTERVAL_S = 0.02
# How long one of several attempts may take.
ATTEMPT_TIMEOUT_S = 3.0
# The newest versions that need no more than what is asked here; Kafka 4.0 and later have them all.
METADATA_VERSION = 12
CREATE_TOPICS_VERSION = 7
CREATE_PARTITIONS_VERSION = 3
DELETE_TOPICS_VERSION = 6
LIST_OFFSETS_VERSION = 7
DESCRIBE_QUORUM_VERSION = 0
LATEST = -1
A_CONSUMER = -1


def ask(address: Address, request: Any, response: Any, version: int, *, timeout_s: float) -> Any:
    """One request to the broker at `address`, and its decoded response. `OSError` if it does not come in time."""
    deadline = time.monotonic() + timeout_s
    request.API_VERSION = version
    request.with_header(correlation_id=1, client_id=CLIENT_ID)
    with socket.create_connection(address, timeout_s) as connection:
        connection.sendall(request.encode(header=True, framed=True))
        (size,) = struct.unpack(">i", _receive(connection, 4, deadline))
        return response.decode(_receive(connection, size, deadline), version=version, header=True)


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        received += part
    return bytes(received)


def metadata(address: Address, topics: list[str] | None = None, *, timeout_s: float) -> Any:
    """The metadata of the broker at `address`: the cluster id, live brokers, and `topics` (None: all of them)."""
    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
    return ask(address, request, MetadataResponse, METADATA_VERSION, timeout_s=timeout_s)


def create_topic(
    address: Address,
    topic: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    *,
    timeout_s: float,
) -> Any:
    """The broker's answer, one entry in `topics`, with `error_code` and `error_message`."""
    new = CreateTopicsRequest.CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[
            CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name=name, value=value)
            for name, value in config.items()
        ],
    )
    request = CreateTopicsRequest(topics=[new], timeout_ms=int(timeout_s * 1000), validate_only=False)
    return ask(address, request, CreateTopicsResponse, CREATE_TOPICS_VERSION, timeout_s=timeout_s).topics[0]


def add_partitions(address: Address, topic: str, total: int, *, timeout_s: float) -> Any:
    """The broker's answer, one entry in `results`, with `error_code` and `error_message`."""
    grown = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=total, assignments=None)
    request = CreatePartitionsRequest(topics=[grown], timeout_ms=int(timeout_s * 1000), validate_only=False)
    return ask(address, request, CreatePartitionsResponse, CREATE_PARTITIONS_VERSION, timeout_s=timeout_s).results[0]


def delete_topic(address: Address, topic: str, *, timeout_s: float) -> Any:
    """The broker's answer, one entry in `responses`, with `error_code` and `error_message`."""
    gone = DeleteTopicsRequest.DeleteTopicState(name=topic)
    request = DeleteTopicsRequest(topics=[gone], timeout_ms=int(timeout_s * 1000))
    return ask(address, request, DeleteTopicsResponse, DELETE_TOPICS_VERSION, timeout_s=timeout_s).responses[0]


def end_offset(address: Address, topic: str, partition: int, *, timeout_s: float) -> int:
    """The offset after the last committed record; `address` is of the leader. -1 if another broker is asked."""
    wanted = ListOffsetsRequest.ListOffsetsTopic
    one = wanted.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=A_CONSUMER, isolation_level=0, topics=[wanted(name=topic, partitions=[one])]
    )
    answer = ask(address, request, ListOffsetsResponse, LIST_OFFSETS_VERSION, timeout_s=timeout_s)
    return int(answer.topics[0].partitions[0].offset)


def controller_answers(address: Address, *, timeout_s: float) -> bool:
    """Whether the cluster's controller answers the broker at `address`, which passes this request on."""
    wanted = DescribeQuorumRequest.TopicData
    log = wanted(topic_name="__cluster_metadata", partitions=[wanted.PartitionData(partition_index=0)])
    request = DescribeQuorumRequest(topics=[log])
    answer = ask(address, request, DescribeQuorumResponse, DESCRIBE_QUORUM_VERSION, timeout_s=timeout_s)
    return not answer.error_code and not answer.topics[0].partitions[0].error_code


def check(answer: Any, cluster: str, what: str) -> None:
    """Raise `BrokerError` when a broker's answer carries an error code."""
    check_code(answer.error_code, cluster, what, answer.error_message)


def check_code(code: int, cluster: str, what: str, message: str | None = None) -> None:
    """Raise `BrokerError` for an error code."""
    if code:
        said = f": {message}" if message else ""
        raise BrokerError(cluster, f"{what}: {describe_code(code)}{said}", code)


def wait_until(condition: Callable[[float], bool], what: str, timeout_s: float) -> None:
    """Wait for `condition(seconds left)`. An `OSError` in it counts as not yet; `LocalKafkaError` at the deadline."""
    deadline = time.monotonic() + timeout_s
    last: OSError | None = None
    while (left := deadline - time.monotonic()) > 0:
        try:
            if condition(left):
                return
        except OSError as error:
            last = error
        time.sleep(POLL_INTERVAL_S)
    reason = f"; the last attempt failed: {last}" if last else ""
    raise LocalKafkaError(f"{what}: not so after {timeout_s:g} s{reason}")
