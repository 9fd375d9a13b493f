"""What the lane asks for and how it takes answers, without brokers: turns, sizes, gaps, refusals."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evensplit._kernel import ColumnBuilder, FetchedResponse
from evensplit.core.model import Range, SplitId
from evensplit.errors import BrokerError, ClusterUnreachable, CorruptRecordsError, DataLossError
from evensplit.kafka import api
from evensplit.kafka.answer import EMPTIES_TO_SETTLE, Answer, sort_out
from evensplit.kafka.fetch import (
    FETCH_BYTES_MIN,
    READS_ASKED_MAX,
    PartitionRead,
    choose,
    fetch_request,
    reads_of,
    walk,
)
from evensplit.kafka.settings import ClientSettings

SETTINGS = ClientSettings(("b:1",), client_rack="a")
RESPONSE_BYTES = 1 << 20


def read_of(partition: int = 0, start: int = 0, end: int = 100, topic: str = "t") -> PartitionRead:
    (read,) = reads_of([Range(SplitId("east", topic, partition), start, end)])
    return read


def header(base: int, last_delta: int, length: int = 49) -> bytes:
    """The header of a record batch without records, as far as the lane looks at it."""
    return struct.pack(">qiibIhi", base, length, 0, 2, 0, 0, last_delta).ljust(12 + length, b"\0")


@dataclass
class Came:
    """What came for one partition."""

    partition: int = 0
    records: bytes = b""
    error_code: int = 0
    high_watermark: int = 100
    preferred_read_replica: int = -1
    topic: str = "t"
    records_begin: int = 0
    records_end: int = 0


@dataclass
class Response:
    partitions: list[Came] = field(default_factory=list)


def take(asked: Sequence[PartitionRead], *came: Came, now_s: float = 5.0) -> Answer:
    data = bytearray(b"?" * 10)
    for one in came:
        one.records_begin = len(data)
        data += one.records
        one.records_end = len(data)
    return sort_out(
        asked,
        cast("FetchedResponse", Response(list(came))),
        data,
        now_s,
        partition_bytes_max=SETTINGS.max_partition_fetch_bytes,
        response_bytes_max=RESPONSE_BYTES,
    )


def test_ranges_become_reads() -> None:
    a, b = SplitId("east", "a", 0), SplitId("east", "b", 0)
    first, second = reads_of([Range(b, 7, 9), Range(a, 5, 5), Range(b, 0, 3), Range(a, 1, 2), Range(b, 3, 4)])
    assert (first.split, first.position, first.end) == (a, 1, 2)
    assert (second.split, second.position, second.end) == (b, 0, 3)
    for position, then in ((2, (2, 3)), (3, (3, 4)), (4, (7, 9)), (9, (9, 9))):
        second.advance(position, 1.0)
        assert (second.position, second.end) == then
    assert second.finished


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
    request = fetch_request(asked, SETTINGS, RESPONSE_BYTES, 250, api.FETCH.highest)
    listed = [
        (topic.topic, one.partition, one.partition_max_bytes) for topic in request.topics for one in topic.partitions
    ]
    expected = max(FETCH_BYTES_MIN, int(1.25 * 100 * 1024))
    assert listed == [("b", 5, expected), ("b", 1, 3 << 20), ("a", 0, expected)]
    assert (request.max_bytes, request.max_wait_ms, request.isolation_level) == (3 << 20, 250, 0)
    assert request.rack_id == "a"
    asked[2].leader_only = True
    assert fetch_request(asked, SETTINGS, 1, 250, api.FETCH.highest).rack_id == ""


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
    builder = ColumnBuilder(
        headers=False, cluster=False, rows_max=1000, bytes_max=1 << 20, uncompressed_bytes_max=1 << 20
    )
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
    # Not before `evensplit.kafka.api` has imported the package without its warnings.
    from kafka.record.memory_records import MemoryRecordsBuilder

    builder: Any = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    for gap in gaps:
        builder.append(timestamp=1, key=None, value=b"v")
        builder.skip(gap)
    builder.close()
    return builder.buffer(), builder.next_offset()


def test_records_are_gone_on_from_at_once() -> None:
    read = read_of()
    assert take([read], Came(high_watermark=5)).progressed is False
    troubles = [read.trouble]
    answer = take([read], Came(records=header(0, 9)))
    troubles.append(read.trouble)
    assert [type(trouble) for trouble in troubles] == [DataLossError, type(None)]
    (span,) = answer.spans
    assert (span.start, span.offset_end, span.position, span.end - span.begin) == (0, 100, 10, 61)
    assert (read.position, read.stamp_s) == (10, 5.0)
    assert (answer.served, answer.progressed) == ([read], True)


def test_a_batch_cannot_end_a_range_from_behind_the_end_of_the_log() -> None:
    """No checksum covers the first offset of a batch: a flipped bit there must not pass for a compacted gap."""
    assert take([read_of()], Came(records=header(100, 0), high_watermark=101)).spans
    with pytest.raises(CorruptRecordsError, match="claims to begin at offset 100, but the log ends at 100"):
        take([read_of()], Came(records=header(100, 0), high_watermark=100))


def test_sizes_follow_what_came() -> None:
    read = read_of(end=10_000_000)
    assert read.fetch_bytes(4 << 20) == 4 << 20
    take([read], Came(records=header(0, 9, length=2000 - 12)))
    assert read.bytes_per_offset == 200
    assert read.expected_bytes() == 200 * (10_000_000 - 10)
    read.advance(9_999_000, 0.0)
    assert read.fetch_bytes(4 << 20) == 250_000
    assert read.fetch_bytes(100_000) == 100_000
    read.advance(9_999_999, 0.0)
    assert read.fetch_bytes(4 << 20) == FETCH_BYTES_MIN


def test_empty_for_the_others_is_asked_for_first_the_next_time() -> None:
    first, second, third = reads = [read_of(partition) for partition in range(3)]
    answer = take(reads, Came(0, records=header(0, 99, length=RESPONSE_BYTES)), Came(1), Came(2))
    assert first.finished
    assert answer.starved == [second, third]
    assert [second.position, second.stamp_s, second.fetch_bytes_min] == [0, 5.0, 0]
    # If the response had room, the next batch is longer than what was asked for.
    answer = take(reads[1:], Came(1, records=header(0, 9)), Came(2))
    assert answer.starved == [third]
    assert third.fetch_bytes_min == 2 * int(1.25 * 100 * 1024)


def test_empty_for_all_is_doubtful_and_asked_for_alone() -> None:
    """A broker that is not done with remote storage in time says so of every partition in the request (KIP-1018)."""
    reads = [read_of(0), read_of(1, end=90)]
    for _ in range(5):
        answer = take(reads, Came(0), Came(1))
        assert (answer.served, answer.gaps, answer.spans, answer.progressed) == (reads, [], [], True)
    assert [(read.position, read.doubtful, read.empties) for read in reads] == [(0, True, 0)] * 2
    queue = deque([read_of(2), *reads, read_of(3)])
    assert [[read.split.partition for read in choose(queue, 1 << 30)] for _ in range(4)] == [[2], [0], [1], [3]]


def test_empty_for_the_first_one_is_doubtful() -> None:
    reads = [read_of(0), read_of(1)]
    take(reads, Came(1, records=header(0, 9)), Came(0))
    assert [(read.position, read.doubtful) for read in reads] == [(0, True), (10, False)]


def test_empty_alone_several_times_in_a_row_may_be_a_gap() -> None:
    read = read_of()
    for _ in range(EMPTIES_TO_SETTLE - 1):
        assert take([read], Came()).served == [read]
    # Whatever comes in between, it begins anew.
    for between in ([Came(error_code=6)], []):
        take([read], *between)
        for _ in range(EMPTIES_TO_SETTLE - 1):
            assert take([read], Came()).gaps == []
    take([read], Came(records=header(0, 9)))
    assert (read.position, read.doubtful, read.empties) == (10, False, 0)
    for _ in range(EMPTIES_TO_SETTLE - 1):
        assert take([read], Came()).gaps == []
    take([read], Came(high_watermark=99))
    for _ in range(EMPTIES_TO_SETTLE - 1):
        assert take([read], Came()).gaps == []
    answer = take([read], Came())
    # Whether it is one is not for the answer alone to say.
    assert (answer.gaps, answer.served, read.position) == ([read], [], 10)


def test_empty_from_a_follower_says_nothing() -> None:
    read = read_of()
    read.follows = True
    answer = take([read], Came())
    assert (answer.moved, read.leader_only, read.doubtful) == ([read], True, False)


def test_starving_does_not_put_off_the_deadline_of_one_in_trouble() -> None:
    reads = [read_of(0), read_of(1)]
    take(reads[1:], Came(1, high_watermark=99))
    answer = take(reads, Came(0, records=header(0, 9, length=RESPONSE_BYTES)), Came(1))
    assert (answer.starved, reads[1].stamp_s) == ([reads[1]], 0.0)


def test_empty_below_the_high_watermark_waits() -> None:
    read = read_of()
    answer = take([read], Came(high_watermark=99))
    assert (read.position, read.stamp_s, answer.progressed) == (0, 0.0, False)
    assert answer.served == [read]
    assert isinstance(read.trouble, DataLossError)
    read.follows = True
    answer = take([read], Came(high_watermark=99))
    assert (answer.moved, read.leader_only) == ([read], True)


def test_less_than_one_batch_is_asked_for_with_more_and_only_once() -> None:
    read = read_of()
    cut = header(0, 9, length=300_000)[:500]
    asked_bytes = read.fetch_bytes(SETTINGS.max_partition_fetch_bytes)
    answer = take([read], Came(records=cut))
    assert (answer.starved, answer.spans, answer.progressed) == ([read], [], True)
    assert read.fetch_bytes_min == 300_012 > asked_bytes
    with pytest.raises(
        CorruptRecordsError, match="claims a length of 300012 bytes, but the broker, asked for 300012, sent"
    ):
        take([read], Came(records=cut))


def test_replica_that_is_closer() -> None:
    read = read_of()
    answer = take([read], Came(preferred_read_replica=2))
    assert (answer.redirected, answer.progressed, read.finished) == ([(read, 2)], True, False)
    # One that sends the reader on, although it was sent here, has said nothing about the records.
    for follows, leader_only in ((True, False), (False, True)):
        read = read_of()
        read.follows, read.leader_only = follows, leader_only
        answer = take([read], Came(preferred_read_replica=2))
        assert (answer.redirected, answer.moved, answer.gaps) == ([], [read], [])
        assert (read.leader_only, read.doubtful, type(read.trouble)) == (True, False, ClusterUnreachable)


@pytest.mark.parametrize("code", [1, 6, 9, 29])
def test_what_a_follower_refuses_the_leader_is_asked_for(code: int) -> None:
    read = read_of()
    read.follows = True
    answer = take([read], Came(error_code=code))
    assert (answer.moved, answer.out_of_range, read.leader_only) == ([read], [], True)
    assert isinstance(read.trouble, BrokerError)


def test_refusals() -> None:
    reads = [read_of(partition) for partition in range(4)]
    answer = take(reads, Came(0, error_code=6), Came(1, error_code=-1), Came(2, error_code=1))
    assert (answer.moved, answer.out_of_range, answer.starved) == (reads[:2], [reads[2]], [reads[3]])
    assert [type(read.trouble) for read in reads] == [BrokerError, BrokerError, type(None), ClusterUnreachable]
    with pytest.raises(BrokerError, match=r"topic 't', partition 0, offset 0: .* TOPIC_AUTHORIZATION_FAILED \(29\)"):
        take([read_of()], Came(error_code=29))
    with pytest.raises(CorruptRecordsError, match=r"CORRUPT_MESSAGE \(2\)"):
        take([read_of()], Came(error_code=2))


def test_what_was_not_asked_for_or_comes_twice_is_passed_over() -> None:
    read = read_of()
    answer = take([read], Came(7, records=header(0, 9)), Came(0, records=header(0, 9)), Came(0, records=header(10, 9)))
    assert len(answer.spans) == 1
    assert read.position == 10
