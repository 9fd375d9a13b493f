"""The beginning of an answer to Fetch that is too long: the record batch that makes it so."""

from __future__ import annotations

import struct
import uuid

import pytest

from evensplit.errors import BatchTooLarge
from evensplit.kafka.fetch.oversized import raise_if_batch_too_long
from evensplit.kafka.wire.api import FETCH
from evensplit.testing.messages import response_class, write_response
from tests.support.fetches import read_of
from tests.support.scripted_cluster import topic_id

BOUND = 1_000
ID = uuid.uuid5(uuid.NAMESPACE_DNS, "t")
VERSIONS = range(FETCH.lowest, FETCH.highest + 1)


def head(version: int, *, records: int = 100_000, batch: int = 50_000, cut_to: int = 400) -> bytes:
    """The first bytes of an answer with two partitions: one with few records, and one with a batch from offset 7 on."""
    partition_class = response_class(FETCH).FetchableTopicResponse.PartitionData
    listed = [
        partition_class(
            version=version,
            partition_index=number,
            aborted_transactions=[partition_class.AbortedTransaction(version=version, producer_id=1, first_offset=2)],
            records=data,
        )
        for number, data in enumerate((b"few", struct.pack(">qi", 7, batch - 12) + bytes(records)))
    ]
    topic = response_class(FETCH).FetchableTopicResponse(version=version, topic="t", topic_id=ID, partitions=listed)
    return write_response(FETCH, response_class(FETCH)(version=version, responses=[topic]), version)[:cut_to]


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_is_named(version: int) -> None:
    reads = [read_of(number) for number in range(3)]
    for read in reads:
        read.topic_id = topic_id(ID)
    with pytest.raises(BatchTooLarge) as caught:
        raise_if_batch_too_long(reads, memoryview(head(version)), version, BOUND)
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("t", 1, 7)
    assert "claims a length of 50000 bytes, and maxBatchBytes is 1000" in str(error)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_said_of_what_was_not_asked_for_or_is_not_too_long(version: int) -> None:
    raise_if_batch_too_long([read_of(0)], memoryview(head(version)), version, BOUND)
    read = read_of(1)
    read.topic_id = topic_id(ID)
    raise_if_batch_too_long([read], memoryview(head(version, batch=BOUND)), version, BOUND)
    raise_if_batch_too_long([read], memoryview(head(version, records=5, cut_to=4_000)), version, BOUND)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_said_of_noise(version: int) -> None:
    whole = head(version)
    for noise in (b"", b"\xff" * 100_000, bytes(100_000), whole[:40], whole[:20] + b"\xff" * 1_000):
        raise_if_batch_too_long([read_of(1)], memoryview(noise), version, BOUND)
