"""What is said of record batches that the kernel refuses."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import ColumnBuilder, KernelError
from evensplit.core.model import SplitId
from evensplit.errors import BatchTooLarge, CorruptRecordsError, OldMessageFormat, TimestampOutOfRange
from evensplit.kafka.columns import KAFKA_COLUMNS
from evensplit.kafka.fetch.problems import refused_by_kernel
from evensplit.kafka.fetch.request import walk

SPLIT = SplitId("east", "t", 3)
BOUND = 10_000
GZIP = 1


def batch(magic: int, value: bytes, codec: int = 0, timestamp: int = 1) -> bytearray:
    """Two records, in one of the message formats that there have been."""
    builder: Any = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for _ in range(2):
        builder.append(timestamp=timestamp, key=None, value=value)
    builder.close()
    return bytearray(builder.buffer())


def refused(data: bytearray, begin: int = 0) -> CorruptRecordsError:
    builder = ColumnBuilder(columns=KAFKA_COLUMNS, rows_max=100, bytes_max=1 << 20, uncompressed_bytes_max=BOUND)
    with pytest.raises(KernelError) as caught:
        builder.append(data, begin, len(data), cluster="east", topic="t", partition=3, offset_start=0, offset_end=100)
    error = refused_by_kernel(SPLIT, 0, data, begin, caught.value, BOUND)
    assert (error.cluster, error.topic, error.partition, error.offset) == ("east", "t", 3, 0)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    return error


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("value", [b"", b"x" * 200], ids=["short", "long"])
def test_old_formats(magic: int, codec: int, value: bytes) -> None:
    data = bytearray(b"?" * 5) + batch(magic, value, codec)
    # What the lane looks at before it decodes means something else there, and must not lead astray.
    walked = walk(data, 5, len(data), 0, 100, 1000)
    assert walked.position is not None
    assert 0 <= walked.position <= 100
    assert not walked.cut_bytes
    error = refused(data, 5)
    assert type(error) is OldMessageFormat
    assert f"records in message format v{magic}, expected v2; rewrite the topic with a producer of today" in str(error)
    assert "damaged" not in str(error)


def test_formats_that_there_never_were() -> None:
    data = batch(2, b"x")
    data[16] = 9
    error = refused(data)
    assert type(error) is CorruptRecordsError
    assert "message format v9, expected v2 (unsupported_magic). The records are damaged" in str(error)


def test_damage() -> None:
    data = batch(2, b"x" * 100)
    data[80] ^= 1
    error = refused(data)
    assert type(error) is CorruptRecordsError
    assert "(crc). The records are damaged in the broker's log or on the way from it; see what another" in str(error)


def test_batches_that_decompress_to_more_than_is_allowed() -> None:
    error = refused(batch(2, bytes(BOUND), GZIP))
    assert type(error) is BatchTooLarge
    assert f"decompresses to more than the {BOUND} bytes that are allowed" in str(error)
    assert f"maxBatchBytes is {BOUND}. Raise maxBatchBytes to read it" in str(error)
    assert "damaged" not in str(error)


def test_a_timestamp_in_nanoseconds() -> None:
    error = refused(batch(2, b"x", timestamp=1_700_000_000_000_000_000))
    assert type(error) is TimestampOutOfRange
    assert str(error) == (
        "cluster 'east', topic 't', partition 3, offset 0: a record's timestamp is 1700000000000000000 ms since 1970, "
        "and 64 bits of microseconds hold -9223372036854775 to 9223372036854775 ms. Its producer seems to write "
        "another unit than milliseconds. With onTimestampOverflow=null such a timestamp is null, and with columns that "
        "leave timestamp out it is not looked at"
    )
