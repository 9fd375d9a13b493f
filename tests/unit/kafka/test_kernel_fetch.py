"""Fetch responses that another implementation encoded, found in place by the kernel."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest
from kafka.protocol.consumer.fetch import FetchResponse

from evensplit._kernel import KernelError, parse_fetch_response

VERSIONS = range(4, 14)
CORRELATION_BYTES = 4
IDS = {name: uuid.uuid5(uuid.NAMESPACE_URL, name) for name in ("t", "orders", "größen")}


def encoded(version: int, topics: dict[str, list[dict[str, Any]]]) -> bytes:
    """A whole response frame without its length: header and body, as kafka-python writes them."""
    topic_class = FetchResponse.FetchableTopicResponse
    responses = [
        topic_class(topic=name, topic_id=IDS[name], partitions=[topic_class.PartitionData(**one) for one in partitions])
        for name, partitions in topics.items()
    ]
    made = FetchResponse(version=version, throttle_time_ms=5, error_code=71, session_id=9, responses=responses)
    made.with_header(42)
    return bytes(made.encode(header=True))


def partition(number: int, records: bytes | None, aborted: list[tuple[int, int]] | None = None) -> dict[str, Any]:
    """What the broker says about a partition."""
    transaction = FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction
    return {
        "partition_index": number,
        "error_code": 3 if records is None else 0,
        "high_watermark": 100 + number,
        "last_stable_offset": 90 + number,
        "log_start_offset": 10 + number,
        "aborted_transactions": aborted
        and [transaction(producer_id=producer, first_offset=first) for producer, first in aborted],
        "preferred_read_replica": 2,
        "records": records,
    }


def example(version: int) -> bytes:
    """Two topics: with records, with aborted transactions, with an error and nothing else."""
    orders = [partition(0, b"first"), partition(7, b"second" * 50, [(1, 20), (2, 30)])]
    return encoded(version, {"orders": orders, "größen": [partition(1, None), partition(2, b"")]})


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_in_every_version(version: int) -> None:
    before = b"what was in the buffer before"
    frame = before + example(version) + b"and behind"
    begin, end = len(before) + CORRELATION_BYTES, len(before) + len(example(version))
    found = parse_fetch_response(frame, begin, end, version)
    assert found.throttle_ms == 5
    assert (found.error_code, found.session_id) == ((71, 9) if version >= 7 else (0, 0))
    assert [(one.topic, one.partition) for one in found.partitions] == [
        (named("orders", version), 0),
        (named("orders", version), 7),
        (named("größen", version), 1),
        (named("größen", version), 2),
    ]
    assert [frame[one.records_begin : one.records_end] for one in found.partitions] == [
        b"first",
        b"second" * 50,
        b"",
        b"",
    ]
    assert [one.aborted for one in found.partitions] == [[], [(1, 20), (2, 30)], [], []]
    assert [one.error_code for one in found.partitions] == [0, 0, 3, 0]
    for one in found.partitions:
        assert (one.high_watermark, one.last_stable_offset) == (100 + one.partition, 90 + one.partition)
        assert one.log_start_offset == (10 + one.partition if version >= 5 else -1)
        assert one.preferred_read_replica == (2 if version >= 11 else -1)
        assert one.diverging is None


@pytest.mark.parametrize("version", VERSIONS)
def test_diverging_epochs(version: int) -> None:
    parted = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset(epoch=3, end_offset=40)
    frame = encoded(version, {"t": [partition(0, None) | {"diverging_epoch": parted}, partition(1, b"abc")]})
    first, second = parse_fetch_response(frame, CORRELATION_BYTES, len(frame), version).partitions
    assert (first.diverging, second.diverging) == ((3, 40) if version >= 12 else None, None)


def named(topic: str, version: int) -> str:
    """What a topic goes by."""
    return topic if version < 13 else base64.urlsafe_b64encode(IDS[topic].bytes).decode().rstrip("=")


@pytest.mark.parametrize("version", VERSIONS)
def test_no_cut_goes_unnoticed(version: int) -> None:
    frame = example(version)
    for end in range(CORRELATION_BYTES, len(frame)):
        with pytest.raises(KernelError) as raised:
            parse_fetch_response(frame, CORRELATION_BYTES, end, version)
        assert raised.value.args[0] in {"truncated", "malformed"}
        assert raised.value.args[1] == -1


def test_the_error_names_topic_and_partition() -> None:
    frame = encoded(11, {"orders": [partition(7, b"records")]})
    with pytest.raises(KernelError) as raised:
        parse_fetch_response(frame, CORRELATION_BYTES, len(frame) - 1, 11)
    detail = 'topic "orders": partition 7: the length of the records is 7, and 6 bytes are left'
    assert raised.value.args == ("truncated", -1, detail)


def test_bytes_behind_the_response() -> None:
    frame = example(12) + b"\0"
    with pytest.raises(KernelError, match="1 bytes are left of it"):
        parse_fetch_response(frame, CORRELATION_BYTES, len(frame), 12)


@pytest.mark.parametrize("version", [-1, 3, 14])
def test_versions_that_are_not_understood(version: int) -> None:
    with pytest.raises(KernelError, match=f"Fetch version {version} is not understood, expected 4 to 13"):
        parse_fetch_response(example(12), CORRELATION_BYTES, len(example(12)), version)


def test_a_partition_can_be_read_in_a_log() -> None:
    frame = encoded(12, {"t": [partition(0, b"abc")]})
    (one,) = parse_fetch_response(frame, CORRELATION_BYTES, len(frame), 12).partitions
    assert repr(one).startswith('FetchedPartition(topic="t", partition=0, error_code=0, high_watermark=100,')
