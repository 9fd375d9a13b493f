"""How the lane takes answers, without brokers: sizes, gaps, refusals, and what is not decided yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from evensplit._kernel import FetchedResponse
from evensplit.errors import BatchTooLarge, BrokerError, ClusterUnreachable, CorruptRecordsError, DataLossError
from evensplit.kafka.fetch.request import FETCH_BYTES_MIN, PartitionRead, choose, fetch_request
from evensplit.kafka.fetch.response import EMPTY_RESPONSES_TO_SETTLE, Answer, apply_response
from evensplit.kafka.wire import api
from evensplit.testing.messages import read_request
from tests.support.fetches import RESPONSE_BYTES, SETTINGS, header, read_of

BATCH_BYTES = 8 << 20


@dataclass
class Came:
    """What came for one partition."""

    partition: int = 0
    records: bytes = b""
    error_code: int = 0
    high_watermark: int = 100
    last_stable_offset: int = 100
    aborted: tuple[tuple[int, int], ...] = ()
    preferred_read_replica: int = -1
    diverging: tuple[int, int] | None = None
    topic: str = "t"
    records_begin: int = 0
    records_end: int = 0


@dataclass
class Response:
    partitions: list[Came] = field(default_factory=list)


def take(asked: Sequence[PartitionRead], *came: Came, now_s: float = 5.0, **how: bool) -> Answer:
    data = bytearray(b"?" * 10)
    for one in came:
        one.records_begin = len(data)
        data += one.records
        one.records_end = len(data)
    return apply_response(
        asked,
        cast("FetchedResponse", Response(list(came))),
        data,
        now_s,
        partition_bytes_max=SETTINGS.max_partition_fetch_bytes,
        response_bytes_max=RESPONSE_BYTES,
        batch_bytes_max=BATCH_BYTES,
        **how,
    )


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


def test_records_before_the_position_are_none() -> None:
    """A broker that sends them always would be asked for ever."""
    read = read_of()
    read.advance(10, 1.0)
    answer = take([read], Came(records=header(0, 9)))
    assert (answer.served, answer.moved, answer.progressed, read.position) == ([], [read], False, 10)
    assert "sent only records before offset 10" in str(read.trouble)


@pytest.mark.parametrize("whole", [True, False])
def test_a_batch_can_be_too_long(whole: bool) -> None:
    size = BATCH_BYTES - 12
    at_most, longer = header(0, 0, size), header(0, 0, size + 1)
    assert take([read_of()], Came(records=at_most if whole else at_most[:500])).progressed
    with pytest.raises(BatchTooLarge, match=f"{BATCH_BYTES + 1} bytes, and maxBatchBytes is {BATCH_BYTES}") as caught:
        take([read_of(3)], Came(3, records=longer if whole else longer[:500]))
    assert (caught.value.partition, caught.value.offset) == (3, 0)
    # One behind the range is nobody's business.
    behind = header(0, 9) + header(100, 0, size + 1)
    assert take([read_of()], Came(records=behind, high_watermark=101)).spans


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
    assert [(read.position, read.probing, read.empty_responses) for read in reads] == [(0, True, 0)] * 2
    queue = deque([read_of(2), *reads, read_of(3)])
    assert [[read.split.partition for read in choose(queue, 1 << 30)] for _ in range(4)] == [[2], [0], [1], [3]]


def test_empty_for_the_first_one_is_doubtful() -> None:
    reads = [read_of(0), read_of(1)]
    take(reads, Came(1, records=header(0, 9)), Came(0))
    assert [(read.position, read.probing) for read in reads] == [(0, True), (10, False)]


def test_empty_alone_several_times_in_a_row_may_be_a_gap() -> None:
    read = read_of()
    for _ in range(EMPTY_RESPONSES_TO_SETTLE - 1):
        assert take([read], Came()).served == [read]
    # Whatever comes in between, it begins anew.
    for between in ([Came(error_code=6)], []):
        take([read], *between)
        for _ in range(EMPTY_RESPONSES_TO_SETTLE - 1):
            assert take([read], Came()).gaps == []
    take([read], Came(records=header(0, 9)))
    assert (read.position, read.probing, read.empty_responses) == (10, False, 0)
    for _ in range(EMPTY_RESPONSES_TO_SETTLE - 1):
        assert take([read], Came()).gaps == []
    take([read], Came(high_watermark=99))
    for _ in range(EMPTY_RESPONSES_TO_SETTLE - 1):
        assert take([read], Came()).gaps == []
    answer = take([read], Came())
    # Whether it is one is not for the answer alone to say.
    assert (answer.gaps, answer.served, read.position) == ([read], [], 10)


def test_empty_from_a_follower_says_nothing() -> None:
    read = read_of()
    read.follows = True
    answer = take([read], Came())
    assert (answer.moved, read.leader_only, read.probing) == ([read], True, False)


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
        assert (read.leader_only, read.probing, type(read.trouble)) == (True, False, ClusterUnreachable)


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


def test_what_is_not_decided_yet_is_waited_for_and_never_passed_over() -> None:
    read = read_of()
    for _ in range(2 * EMPTY_RESPONSES_TO_SETTLE):
        answer = take([read], Came(last_stable_offset=40), read_committed=True)
        assert (answer.served, answer.gaps, answer.progressed, read.probing) == ([read], [], False, False)
    assert isinstance(read.trouble, ClusterUnreachable)
    assert "offsets 0 to 99 were to be read, but from offset 40 on there is a transaction" in str(read.trouble)
    # What the log does not have at all is another matter, and so is a log that is decided to the end of the range.
    take([read], Came(high_watermark=40, last_stable_offset=40), read_committed=True)
    assert isinstance(read.trouble, DataLossError)
    for _ in range(EMPTY_RESPONSES_TO_SETTLE):
        answer = take([read], Came(), read_committed=True)
    assert answer.gaps == [read]
    # Under read_uncommitted the last stable offset means nothing.
    other = read_of()
    for _ in range(EMPTY_RESPONSES_TO_SETTLE):
        answer = take([other], Came(last_stable_offset=40))
    assert answer.gaps == [other]


def test_aborted_transactions_go_with_the_records_and_these_get_on_whatever_becomes_of_them() -> None:
    read = read_of()
    answer = take([read], Came(records=header(0, 9), aborted=((7, 0), (8, 3))), read_committed=True)
    assert [tuple(span.aborted) for span in answer.spans] == [((7, 0), (8, 3))]
    assert (read.position, answer.progressed, read.trouble) == (10, True, None)
    for settings, level in ((SETTINGS, 0), (replace(SETTINGS, read_committed=True), 1)):
        for version in (api.FETCH.lowest, api.FETCH_BY_NAME_VERSION):
            request = fetch_request([read], settings, RESPONSE_BYTES, 250, version)
            assert read_request(api.FETCH, request, version, header=False).isolation_level == level
