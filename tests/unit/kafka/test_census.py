"""The kernel's headers of record batches, for Python."""

from __future__ import annotations

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import KernelError, take_census
from tests.support.census import lists


def batch(base: int, records: int, producer: int = -1) -> bytes:
    """A record batch by another implementation, moved to an offset."""
    own = {"producer_id": producer, "producer_epoch": 3, "base_sequence": 40} if producer >= 0 else {}
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20, **own)
    for number in range(records):
        assert builder.append(timestamp=1_700_000_000_000, key=None, value=b"%d" % number) is not None
    builder.close()
    return base.to_bytes(8, "big") + bytes(builder.buffer())[8:]


def test_headers_of_a_frame() -> None:
    frame = b"before" + batch(5, 3) + batch(8, 2, producer=77) + b"after"
    census = take_census(frame, 6, len(frame), offset_start=0, offset_end=100)
    assert (census.batches, census.offset_next) == (2, 10)
    found = lists(census)
    assert found["base_offsets"] == [5, 8]
    assert found["last_offsets"] == [7, 9]
    assert found["records"] == [3, 2]
    assert found["producer_ids"] == [-1, 77]
    assert (found["producer_epochs"][1], found["base_sequences"][1]) == (3, 40)
    assert found["flags"] == [0, 0]
    assert found["markers"] == [-1, -1]
    assert repr(census) == "Census(batches=2, offset_next=10)"


def test_a_range_that_the_batches_reach_beyond() -> None:
    frame = batch(5, 3) + batch(8, 2)
    census = take_census(frame, 0, len(frame), offset_start=6, offset_end=8)
    assert (lists(census)["base_offsets"], census.offset_next) == ([5], 8)


def test_damage_is_an_error() -> None:
    frame = bytearray(batch(5, 3))
    frame[-1] ^= 1
    with pytest.raises(KernelError) as raised:
        take_census(frame, 0, len(frame), offset_start=0, offset_end=100)
    assert raised.value.args[:2] == ("crc", 5)


@pytest.mark.parametrize("begin, end, start, stop", [(0, 999, 0, 1), (5, 4, 0, 1), (0, 0, 2, 1), (0, 0, -1, 1)])
def test_what_is_no_range(begin: int, end: int, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <="):
        take_census(b"x" * 61, begin, end, offset_start=start, offset_end=stop)
