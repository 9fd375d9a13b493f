"""Applies a leader's response to the reads that it was requested for. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evensplit._kernel import FetchedPartition, FetchedResponse, next_leader_epoch
from evensplit.errors import BrokerError, ClusterUnreachable, CorruptRecordsError, DataLossError
from evensplit.kafka.fetch.problems import DAMAGED, does_not_grow, replaced, stands_still, too_long, undecided
from evensplit.kafka.fetch.request import BATCHES_WALKED_MAX, PartitionRead, batch_lengths, walk
from evensplit.kafka.wire.error_codes import (
    ADVICE,
    CORRUPT_MESSAGE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_SERVER_ERROR,
    describe_code,
    is_retriable,
)

EMPTY_RESPONSES_TO_SETTLE = 3
"""After so many empty responses in a row there is nothing; fewer may come from a broker that was slow."""


@dataclass(slots=True)
class Span:
    """Record batches of one partition, at `begin` to `end` of a frame, to be decoded from `start` up to `offset_end`.

    `position`: the offset to which the read has advanced already; None if only decoding shows it.
    `aborted`: the aborted transactions that the records can belong to, as (producer id, first offset).
    """

    read: PartitionRead
    begin: int
    end: int
    start: int
    offset_end: int
    position: int | None
    aborted: Sequence[tuple[int, int]]


@dataclass(slots=True)
class Answer:
    """The spans to decode, and the reads that were requested, each in one of the lists.

    - served: had their turn, and come last the next time. starved: had none, and come first.
    - moved: this broker does not give them any more. out_of_range: the log has no such offset.
    - redirected: another broker gives them, with its node id.
    - replaced: by the leader epochs, more than once, the log is not the one that was read so far.
    - gaps: nothing comes up to the end of their range, and it may be in remote storage.
    - progressed: whether any read made progress, or more is known about it.
    """

    spans: list[Span] = field(default_factory=list)
    served: list[PartitionRead] = field(default_factory=list)
    starved: list[PartitionRead] = field(default_factory=list)
    moved: list[PartitionRead] = field(default_factory=list)
    out_of_range: list[PartitionRead] = field(default_factory=list)
    redirected: list[tuple[PartitionRead, int]] = field(default_factory=list)
    replaced: list[PartitionRead] = field(default_factory=list)
    gaps: list[PartitionRead] = field(default_factory=list)
    progressed: bool = False


def apply_response(
    asked: Sequence[PartitionRead],
    response: FetchedResponse,
    data: bytearray,
    now_s: float,
    *,
    partition_bytes_max: int,
    response_bytes_max: int,
    batch_bytes_max: int,
    read_committed: bool = False,
    by_id: bool = False,
) -> Answer:
    """Advance each of `asked` by `response`, whose frame is `data`.

    `batch_bytes_max`: how long a record batch may be. `by_id`: topics were requested by their ids.

    Raises:
        BrokerError: the broker refused a partition for good.
        BatchTooLarge: a record batch is longer than `batch_bytes_max`.
        CorruptRecordsError: a record batch cannot be what it claims, or the broker itself found it damaged.
    """
    answer = Answer()
    missing = {(read.topic_id if by_id else read.split.topic, read.split.partition): read for read in asked}
    received = sum(one.records_end - one.records_begin for one in response.partitions)
    walks_left = BATCHES_WALKED_MAX
    for fetched in response.partitions:
        read = missing.pop((fetched.topic, fetched.partition), None)
        if read is None:
            continue
        # A broker sends at least one batch of the first partition that has records, whatever the limits (KIP-74).
        unlimited = read is asked[0] or not received
        if fetched.error_code or fetched.records_begin < fetched.records_end:
            read.empty_responses = 0
        if fetched.error_code:
            _refuse(answer, read, fetched.error_code)
        elif fetched.diverging is not None:
            _note_replaced(answer, read, min(read.position, max(fetched.diverging[1], 0)))
        elif fetched.records_begin < fetched.records_end:
            if fetched.records_end - fetched.records_begin > batch_bytes_max:
                _raise_if_too_long(read, data, fetched, batch_bytes_max)
            walks_left -= _take(
                answer, read, fetched, data, now_s, walks_left, unlimited, partition_bytes_max, batch_bytes_max
            )
        elif fetched.preferred_read_replica >= 0:
            _redirect(answer, read, fetched.preferred_read_replica)
        elif unlimited:
            _take_nothing(answer, read, fetched, alone=len(asked) == 1, read_committed=read_committed)
        else:
            # The others filled the response, or the next batch of this one is longer than the bytes requested for it.
            if read.trouble is None:
                read.stamp_s = now_s
            if received < response_bytes_max // 2:
                read.fetch_bytes_min = min(2 * read.fetch_bytes(partition_bytes_max), response_bytes_max)
            answer.starved.append(read)
    for read in missing.values():
        detail = f"{read}: the broker left it out of its answer"
        read.trouble, read.empty_responses = ClusterUnreachable(read.split.cluster, detail), 0
        answer.starved.append(read)
    return answer


def _take(
    answer: Answer,
    read: PartitionRead,
    fetched: FetchedPartition,
    data: bytearray,
    now_s: float,
    walks_left: int,
    unlimited: bool,
    partition_bytes_max: int,
    batch_bytes_max: int,
) -> int:
    """Take what came for `read`. Returns how many batches were walked."""
    begin, end = fetched.records_begin, fetched.records_end
    whole, epoch, replaced_from = _of_this_log(read, data, begin, end)
    if replaced_from is not None:
        end = whole
        if begin == end:
            _note_replaced(answer, read, replaced_from)
            return 0
    walked = walk(data, begin, end, read.position, read.end, walks_left)
    if 0 <= fetched.high_watermark <= walked.ended_by:
        # No checksum covers the first offset of a batch, so a damaged one would end the range without an error.
        raise CorruptRecordsError(
            *read.split,
            read.position,
            f"a record batch claims to begin at offset {walked.ended_by}, but the log ends at "
            f"{fetched.high_watermark}; {DAMAGED}",
        )
    if walked.position is not None and not walked.batches and walked.cut_bytes:
        asked_bytes = read.fetch_bytes(partition_bytes_max)
        if walked.cut_bytes > batch_bytes_max:
            raise too_long(read.split, read.position, walked.cut_bytes, batch_bytes_max)
        # The first time, more bytes are requested. If the broker sends too few again, the claimed length is wrong.
        if unlimited and read.fetch_bytes_min >= walked.cut_bytes:
            raise CorruptRecordsError(
                *read.split,
                read.position,
                f"a record batch claims a length of {walked.cut_bytes} bytes, but the broker, asked for {asked_bytes}, "
                f"sent {end - begin} of them; {DAMAGED}",
            )
        read.fetch_bytes_min = max(walked.cut_bytes, min(2 * asked_bytes, batch_bytes_max))
        answer.starved.append(read)
        answer.progressed = True
        return 0
    answer.spans.append(Span(read, begin, end, read.position, read.end, walked.position, fetched.aborted))
    read.epoch, read.epoch_behind = epoch, read.epoch_behind if epoch == read.epoch else -1
    if walked.position is not None and walked.position <= read.position:
        # If the batch is damaged, decoding it raises.
        read.trouble = stands_still(read)
        answer.moved.append(read)
        return walked.batches
    if walked.position is not None:
        read.bytes_per_offset = max(1.0, walked.used / (walked.position - read.position))
        if walked.ended_by < 0:
            read.epoch_behind = max(read.epoch_behind, walked.position)
        read.advance(walked.position, now_s)
        answer.progressed = True
    if replaced_from is None or read.finished:
        answer.served.append(read)
    else:
        _note_replaced(answer, read, replaced_from)
    return walked.batches


def _of_this_log(read: PartitionRead, data: bytearray, begin: int, end: int) -> tuple[int, int, int | None]:
    """How far the record batches in `data[begin:end]` are of the log that was read so far, by their leader epochs.

    Within a log epochs only rise, and before the end of the planned batch they rise to no later one than was known when
    it was planned. Returns where the first batch of another log begins (or `end`), the epoch of the last batch before
    it, and the first offset of that other batch (None if there is none).
    """
    at, epoch = begin, read.epoch
    while (change := next_leader_epoch(data, at, end, epoch)) is not None:
        place, at, base, behind, found = change
        if base >= read.end:
            break
        # Batches before the position were read already, or are not wanted.
        if behind > read.position:
            later = found > read.epoch_last >= 0 and base < read.epoch_last_end
            if later or 0 <= found < epoch:
                return place, epoch, base
            epoch = found
    return end, epoch, None


def _note_replaced(answer: Answer, read: PartitionRead, offset: int) -> None:
    """Note that this log is not the one that was read so far. It must show twice, since no checksum covers epochs."""
    if read.follows:
        # A follower may lag.
        read.leader_only = True
        answer.moved.append(read)
    elif read.replaced:
        answer.replaced.append(read)
    else:
        answer.moved.append(read)
    read.trouble = replaced(read, offset)
    read.replaced = read.replaced or not read.follows


def _raise_if_too_long(read: PartitionRead, data: bytearray, fetched: FetchedPartition, batch_bytes_max: int) -> None:
    """Raise if a record batch is too long, which it can be without being cut off: a broker sends one batch whole."""
    for base, length in batch_lengths(data, fetched.records_begin, fetched.records_end):
        if length > batch_bytes_max and base < read.end:
            raise too_long(read.split, max(base, read.position), length, batch_bytes_max)


def _redirect(answer: Answer, read: PartitionRead, node_id: int) -> None:
    """The leader redirects the reader to another replica (KIP-392)."""
    if not read.follows and not read.leader_only:
        answer.redirected.append((read, node_id))
        answer.progressed = True
    else:
        read.leader_only = True
        detail = f"{read}: the broker gave no records and named broker {node_id} instead, which was not asked for"
        read.trouble = ClusterUnreachable(read.split.cluster, detail)
        answer.moved.append(read)


def _take_nothing(
    answer: Answer, read: PartitionRead, fetched: FetchedPartition, *, alone: bool, read_committed: bool
) -> None:
    """Nothing came, although no limit prevented it.

    The records may have been compacted away. But a broker also answers like this if it did not get the records, of this
    partition or another one in the request, from remote storage in time (KIP-1018).
    """
    if read.follows:
        # A follower may lag, or not have the records either.
        read.leader_only = True
        answer.moved.append(read)
    elif fetched.high_watermark < read.end:
        read.reset_probe()
        # Another broker may be the leader by now, and its log may have grown.
        (answer.moved if isinstance(read.trouble, DataLossError) else answer.served).append(read)
        read.trouble = does_not_grow(read, fetched.high_watermark)
    elif read_committed and fetched.last_stable_offset < read.end:
        # The records exist and may be committed yet, so nothing may be passed over.
        read.reset_probe()
        answer.served.append(read)
        read.trouble = undecided(read, fetched.last_stable_offset)
    else:
        read.probing = True
        read.empty_responses += alone
        if read.empty_responses >= EMPTY_RESPONSES_TO_SETTLE:
            answer.gaps.append(read)
        else:
            answer.served.append(read)
            answer.progressed |= not read.remote


def _refuse(answer: Answer, read: PartitionRead, code: int) -> None:
    refused = f"{read}: the broker gave no records: {describe_code(code)}"
    if code == UNKNOWN_LEADER_EPOCH and not read.follows:
        read.epoch_refused_by = read.leader
    if read.follows:
        # The leader may have what a follower does not.
        read.leader_only = True
        read.trouble = BrokerError(read.split.cluster, refused, code)
        answer.moved.append(read)
    elif code == OFFSET_OUT_OF_RANGE:
        answer.out_of_range.append(read)
    elif code == CORRUPT_MESSAGE:
        detail = f"the broker itself found a record batch damaged: {describe_code(code)}; see the broker's log"
        raise CorruptRecordsError(*read.split, read.position, detail)
    elif code == UNKNOWN_SERVER_ERROR or is_retriable(code):
        read.trouble = BrokerError(read.split.cluster, refused, code)
        answer.moved.append(read)
    else:
        final = "" if code in ADVICE else "; this does not change by trying again"
        raise BrokerError(read.split.cluster, f"{refused}{final}", code)
