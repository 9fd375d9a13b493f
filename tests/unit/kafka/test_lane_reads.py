"""Ranges that the lane reads, what it asks for first, and where the headers of batches lead it, without brokers."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import ColumnBuilder
from evensplit.core.model import Range, SplitId
from evensplit.errors import ClusterUnreachable
from evensplit.kafka.columns import COLUMNS
from evensplit.kafka.fetch.problems import EVERYTHING
from evensplit.kafka.fetch.request import FETCH_BYTES_MIN, READS_ASKED_MAX, choose, fetch_request, reads_of, walk
from evensplit.kafka.wire import api
from evensplit.testing.messages import read_request
from tests.support.fetches import RESPONSE_BYTES, SETTINGS, header, read_of


def test_ranges_become_reads() -> None:
    a, b = SplitId("east", "a", 0), SplitId("east", "b", 0)
    first, second = reads_of([Range(b, 7, 9), Range(a, 5, 5), Range(b, 0, 3), Range(a, 1, 2), Range(b, 3, 4)])
    assert (first.split, first.position, first.end) == (a, 1, 2)
    assert (second.split, second.position, second.end) == (b, 0, 3)
    for position, then in ((2, (2, 3)), (3, (3, 4)), (4, (7, 9)), (9, (9, 9))):
        second.advance(position, 1.0)
        assert (second.position, second.end) == then
    assert second.finished


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30), st.integers(0, 31))
def test_what_is_skipped_is_counted_once(offsets: set[int], start: int, behind: int) -> None:
    split = SplitId("east", "t", 0)
    (read,) = reads_of([Range(split, offset, offset + 1) for offset in offsets])
    read.skip(start, 1.0)
    left = sorted(offset for offset in offsets if offset >= start)
    assert read.skip(behind, 2.0) == len([offset for offset in left if offset < behind])
    ahead = [offset for offset in left if offset >= behind]
    assert read.finished == (not ahead)
    if ahead:
        assert read.position == ahead[0]
    assert read.skip(EVERYTHING, 3.0) == len(ahead)
    assert read.finished


def test_a_range_can_be_skipped_in_part() -> None:
    split = SplitId("east", "t", 0)
    (read,) = reads_of([Range(split, 0, 5), Range(split, 8, 15), Range(split, 16, 20)])
    read.trouble = ClusterUnreachable("east", "was")
    assert read.skip(0, 1.0) == 0
    assert (read.position, read.trouble is None, read.stamp_s) == (0, False, 0.0)
    assert read.skip(12, 1.0) == 9
    assert (read.position, read.end, read.trouble is None, read.stamp_s) == (12, 15, True, 1.0)
    assert read.skip(16, 1.0) == 3
    assert (read.position, read.end) == (16, 20)


def test_those_in_front_are_chosen_until_a_response_is_full_twice_over() -> None:
    queue = deque(read_of(partition, end=1000) for partition in range(10))
    # A kilobyte for each offset is what is expected at first.
    assert [read.split.partition for read in choose(queue, 2_000_000)] == [0, 1, 2, 3]
    assert [read.split.partition for read in queue] == [4, 5, 6, 7, 8, 9]
    assert [read.split.partition for read in choose(queue, 1)] == [4]
    queue[0].advance(1000, 0.0)
    assert [read.split.partition for read in choose(queue, 1)] == [6]
    crowd = deque(read_of(partition, end=1) for partition in range(READS_ASKED_MAX + 5))
    assert len(choose(crowd, 1 << 30)) == READS_ASKED_MAX


def test_a_request_keeps_the_first_one_first_and_topics_together() -> None:
    queue = deque([read_of(5, topic="b"), read_of(0, topic="a"), read_of(1, topic="b")])
    asked = choose(queue, 1 << 30)
    assert [read.key for read in asked] == [("b", 5), ("b", 1), ("a", 0)]
    asked[1].fetch_bytes_min = 3 << 20
    version = api.FETCH_BY_NAME_VERSION
    request = read_request(
        api.FETCH, fetch_request(asked, SETTINGS, RESPONSE_BYTES, 250, version), version, header=False
    )
    listed = [
        (topic.topic, one.partition, one.partition_max_bytes) for topic in request.topics for one in topic.partitions
    ]
    expected = max(FETCH_BYTES_MIN, int(1.25 * 100 * 1024))
    assert listed == [("b", 5, expected), ("b", 1, 3 << 20), ("a", 0, expected)]
    assert (request.max_bytes, request.max_wait_ms, request.isolation_level) == (3 << 20, 250, 0)
    assert request.rack_id == "a"
    asked[2].leader_only = True
    asked_anew = fetch_request(asked, SETTINGS, 1, 250, version)
    assert read_request(api.FETCH, asked_anew, version, header=False).rack_id == ""


def test_headers_lead_to_the_next_offset() -> None:
    data = bytearray(header(10, 4) + header(20, 9) + header(40, 0))
    size = len(data)

    def to(position: int, end: int, size: int = size, walks: int = 99) -> tuple[int | None, int, int]:
        found = walk(data, 0, size, position, end, walks)
        return found.position, found.batches, found.cut_bytes

    assert to(0, 100) == (41, 3, 0)
    assert to(12, 100) == (41, 3, 0)
    assert to(0, 25) == (25, 2, 0)
    assert to(0, 15) == (15, 1, 0)
    # A batch that begins behind the range ends it: the offsets before were compacted away.
    assert to(0, 18) == (18, 1, 0)
    assert to(12, 35, size - 1) == (35, 2, 0)
    assert to(0, 5) == (5, 0, 0)
    assert to(50, 100) == (50, 3, 0)
    assert to(0, 100, size - 1) == (30, 2, 61)
    assert to(0, 100, 10) == (0, 0, 61)
    assert to(0, 100, 0) == (0, 0, 0)
    assert to(0, 100, walks=2) == (None, 2, 0)
    # The kernel makes nothing of fewer bytes than tell a batch's format, so they say nothing here either.
    one = len(header(10, 4))
    assert [to(0, 18, one + tail) for tail in (1, 12, 16)] == [(15, 1, 61)] * 3
    assert to(0, 18, one + 17) == (18, 1, 0)
    data[8:12] = struct.pack(">i", -7)
    assert to(0, 100) == (0, 0, 0)


records = st.lists(st.integers(0, 3), min_size=1, max_size=8)


@given(st.lists(records, max_size=6), st.data())
def test_headers_lead_where_the_kernel_comes_to(log: list[list[int]], data: st.DataObject) -> None:
    frame, base = bytearray(), 0
    for gaps in log:
        batch, behind = encoded(gaps)
        frame += base.to_bytes(8, "big") + batch[8:]
        base += behind
    start = data.draw(st.integers(0, base + 2))
    end = data.draw(st.integers(start + 1, base + 4))
    size = data.draw(st.integers(0, len(frame)) | st.just(len(frame)))
    walked = walk(frame, 0, size, start, end, 1000)
    builder = ColumnBuilder(columns=COLUMNS, rows_max=1000, bytes_max=1 << 20, uncompressed_bytes_max=1 << 20)
    appended = builder.append(
        frame, 0, size, cluster="east", topic="t", partition=0, offset_start=start, offset_end=end
    )
    assert walked.position == appended.offset_next
    # What is behind the range is not walked any more, and everything else is.
    assert appended.complete_batches >= walked.batches
    if appended.offset_next < end:
        assert (walked.batches, walked.used) == (appended.complete_batches, appended.position)


def encoded(gaps: Sequence[int]) -> tuple[bytearray, int]:
    """A record batch with so many offsets left out behind each record, and the number of offsets that it covers."""
    builder: Any = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for gap in gaps:
        builder.append(timestamp=1, key=None, value=b"v")
        builder.skip(gap)
    builder.close()
    return builder.buffer(), builder.next_offset()
