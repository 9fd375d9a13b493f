"""The compiled kernel: raw Kafka bytes in, the buffers of Arrow columns out.

It has no policy and does no I/O. Every byte it is given is taken to be hostile: whatever does not fit the format raises
`KernelError`, and never gives a wrong row. Decoding runs without Python's lock, so a thread may receive the next
frame meanwhile, into another buffer: **nobody may write to `frame` during a call**.

Sources: KIP-98 (message format v2), KIP-482 (flexible versions), KIP-227 (fetch sessions), KIP-392 (followers), KIP-516
(topic ids), KIP-101, KIP-320 and KIP-595 (leader epochs), Apache Kafka's `FetchResponse.json`, and Arrow's columnar
format.
"""

from collections.abc import Sequence
from typing import Final, final

from typing_extensions import Buffer as Readable

class KernelError(ValueError):
    """Bytes that cannot be decoded. `args` is `(kind, offset, detail)`.

    - kind, a `str`: "crc" (a record batch does not have the checksum it carries), "truncated" (something ends before
      its own lengths say so), "malformed" (it breaks the format in another way), "codec" (it cannot be decompressed, or
      the codec is unknown), "too_large" (a batch decompresses to more than `uncompressed_bytes_max`, or a column would
      need more than 2 GiB), "unsupported_magic" (another message format than v2), "timestamp" (microseconds in 64
      bits cannot hold it). The same bytes fail again, whatever the kind.
    - offset, an `int`: the base offset of the record batch in question, -1 where none is known; with "timestamp" the
      offset of the record.
    - detail, a `str`: what was expected and what was found, as a clause without a full stop.
    """

    args: tuple[str, int, str]

@final
class Buffer:
    """Read-only memory that owns itself: `memoryview(b)` and `pyarrow.py_buffer(b)` copy nothing and keep it alive."""

    def __len__(self) -> int:
        """Its length in bytes."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class FetchedPartition:
    """What a Fetch response says about one partition.

    - topic: its name; from version 13 on its id, as base64 with the alphabet for URLs and without padding.
    - error_code: Kafka's, 0 for none.
    - high_watermark, last_stable_offset, log_start_offset: -1 where the broker does not say; the last one also below
      version 5.
    - aborted: the aborted transactions that the records can be of, as (producer id, first offset); none unless
      read_committed was asked for.
    - preferred_read_replica: the broker to fetch from instead; -1 for none, and below version 11.
    - diverging: where the leader's log parts from the one that the request's last fetched epoch is of, as (the latest
      epoch that both can have, the offset behind its last record); None if it does not part, and below version 12.
    - records_begin, records_end: where in the frame the records are; equal if there are none.
    """

    topic: Final[str]
    partition: Final[int]
    error_code: Final[int]
    high_watermark: Final[int]
    last_stable_offset: Final[int]
    log_start_offset: Final[int]
    aborted: Final[list[tuple[int, int]]]
    preferred_read_replica: Final[int]
    diverging: Final[tuple[int, int] | None]
    records_begin: Final[int]
    records_end: Final[int]

@final
class FetchedResponse:
    """A Fetch response without its records.

    - throttle_ms: how long the broker held the answer back because of a quota.
    - error_code, session_id: those of the whole response; 0 below version 7.
    - partitions: of all topics, in the response's order. A partition may be missing, or be there twice.
    """

    throttle_ms: Final[int]
    error_code: Final[int]
    session_id: Final[int]
    partitions: Final[list[FetchedPartition]]

def parse_fetch_response(frame: Readable, begin: int, end: int, version: int) -> FetchedResponse:
    """Reads the envelope of a Fetch response; the records stay where they are.

    `begin` is the position behind the 4-byte correlation id, for every version: from version 12 on the tagged fields of
    the response header, which follow there, are skipped here. `end` is where the response ends. Versions 4 to 13.

    Raises `KernelError`, with offset -1, for a response that is cut off, has lengths that do not fit, or bytes left
    over; `ValueError` if `frame[begin:end]` is not a part of the frame; `BufferError` or `TypeError` for a frame that
    is not contiguous bytes.
    """

def next_leader_epoch(frame: Readable, begin: int, end: int, epoch: int) -> tuple[int, int, int, int, int] | None:
    """The first record batch in `frame[begin:end]` that was written under another leader epoch than `epoch`.

    As (where it begins in the frame, where it ends, its base offset, one behind the last offset that it covers, its
    leader epoch or -1 for none); None if there is none. Only headers are looked at, without their checksums, and only
    as far as there are whole record batches in message format v2; what is wrong behind them is for `append` to say.

    Raises `ValueError` if `frame[begin:end]` is not a part of the frame; `BufferError` or `TypeError` for a frame that
    is not contiguous bytes.
    """

@final
class Appended:
    """What one call of `ColumnBuilder.append` did.

    - offset_next: the offset to go on from, `offset_start <= offset_next <= offset_end`. It is `offset_end` when the
      range is done with, which includes a record batch that begins at or behind `offset_end`; otherwise one behind the
      last offset that the last batch done with covers (batches cover what compaction took out of them); `offset_start`
      if no batch was done with.
    - position: where in the frame to go on: at the first batch that is not done with, or where the whole batches end.
    - rows: how many rows were added.
    - stopped: True if there is more to take from this frame, and the builder is full. `finish` it, and call again with
      `begin=position` and `offset_start=offset_next`.
    - complete_batches: how many whole batches were met, those skipped or stopped at included. 0 with `offset_next`
      still at `offset_start` means that only a cut-off batch came: fetch with more bytes.
    - aborted: those of the aborted transactions that have not ended before `position`, to go on with.
    """

    offset_next: Final[int]
    position: Final[int]
    rows: Final[int]
    stopped: Final[bool]
    complete_batches: Final[int]
    aborted: Final[list[tuple[int, int]]]

# Validity (None without nulls), offsets, data, number of nulls.
_Binary = tuple[Buffer | None, Buffer, Buffer, int]
# Validity (None without nulls), microseconds, number of nulls.
_Times = tuple[Buffer | None, Buffer, int]
# Validity of the lists, their offsets; offsets and data of the keys; validity, offsets and data of the values; number
# of null lists, number of items.
_Headers = tuple[Buffer | None, Buffer, Buffer, Buffer, Buffer | None, Buffer, Buffer, int, int]

@final
class Columns:
    """Finished rows as Arrow's buffers: little-endian, validity by bits from the least significant on.

    Columns that were not asked for are None.

    - rows: how many.
    - key, value, topic, cluster: `(validity, offsets, data, null_count)` for Arrow's `binary` (key, value; null where
      the record's is) or `string` (topic, cluster; never null), as in `Array.from_buffers(type, rows, [validity,
      offsets, data], null_count)`. `offsets` has `rows + 1` 32-bit numbers.
    - partition, timestamp_type (int32; 0 CreateTime, 1 LogAppendTime), offset (int64): one buffer each, never null.
    - timestamp: `(validity, values, null_count)`; the values are int64, microseconds since 1970 in UTC, so a record
      without a timestamp has -1000, as in Spark. Null only with `null_timestamps`.
    - headers: for `list<struct<key: string, value: binary>>`, `(validity, list offsets, key offsets, key data, value
      validity, value offsets, value data, null_count, items)`; null, not an empty list, where a record has none. Order
      and duplicates are kept, null values too; keys are decoded as Java does, with U+FFFD for what is not UTF-8.
    """

    rows: Final[int]
    key: Final[_Binary | None]
    value: Final[_Binary | None]
    topic: Final[_Binary | None]
    partition: Final[Buffer | None]
    offset: Final[Buffer | None]
    timestamp: Final[_Times | None]
    timestamp_type: Final[Buffer | None]
    headers: Final[_Headers | None]
    cluster: Final[_Binary | None]

@final
class ColumnBuilder:
    """Decodes record batches into the columns of one Arrow batch after the other.

    For one thread at a time: a second one gets a `RuntimeError` while the first is in a call.
    """

    def __init__(
        self,
        *,
        columns: Sequence[str],
        rows_max: int,
        bytes_max: int,
        uncompressed_bytes_max: int,
        null_timestamps: bool = False,
    ) -> None:
        """
        `columns`: at least one of key, value, topic, partition, offset, timestamp, timestampType, headers and cluster,
        each once; what is not named is neither copied nor kept. `rows_max`, `bytes_max` (both at least 1): from so many
        rows or bytes of columns on, the builder is full and begins no further record batch. The batch in which that
        happens is finished, but not beyond `4 * bytes_max` or 2 GiB (a single record always fits), so memory is bounded
        and 32-bit offsets suffice. `uncompressed_bytes_max` (at least 1): a record batch that decompresses to more is
        an error; memory grows with what is really there. `null_timestamps`: a timestamp that microseconds in 64 bits
        cannot hold is null, rather than an error.

        Raises `ValueError` for other columns and for a limit of 0, `OverflowError` for a negative one.
        """

    @property
    def rows(self) -> int:
        """The rows so far."""

    @property
    def nbytes(self) -> int:
        """The bytes of all columns so far, validity bitmaps left out."""

    @property
    def batches_opened(self) -> int:
        """How many record batches had their checksums checked, and were decompressed if they had to be, so far.

        One that is handed out in several parts counts once, if its parts are asked for one behind the other. Its
        records are gone through once, too: one that cannot be decoded is an error of the part that it would be in.
        """

    @property
    def full(self) -> bool:
        """Whether no further record batch will be begun before `finish`."""

    def append(
        self,
        frame: Readable,
        begin: int,
        end: int,
        *,
        cluster: str,
        topic: str,
        partition: int,
        offset_start: int,
        offset_end: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> Appended:
        """Adds the records of one partition with `offset_start <= offset < offset_end`.

        `frame[begin:end]` is record batches (message format v2) one behind the other; the last may be cut off, as Kafka
        does, and is then left alone. Each batch's CRC-32C is checked before anything that it covers is believed, and
        offsets have to rise. Control batches give no rows. Batches wholly below the range are not decompressed, nor is
        anything behind it. With LogAppendTime all records of a batch have the broker's time. Headers that are not
        asked for are not looked at, and neither are times.

        When a call stops within a record batch, that batch stays open. The next call goes on in it without checking or
        decompressing it again if it begins with the same batch header, has the same names and partition, and starts
        at that `offset_next`. The same bytes have to be behind that header then, in whichever frame.

        `aborted`: the aborted transactions that the response lists, in any order. From its first offset on, what the
        producer wrote in transactions gives no rows, until the marker that aborts it. All that the records can be of
        have to be there, those that began before them too, and none that ended before them: a producer's next
        transaction would be taken for it. When this call has stopped, the next one gets `Appended.aborted`.

        Raises `KernelError`; the builder then holds what it held before the call. Raises `ValueError` if
        `frame[begin:end]` is not a part of the frame or not `0 <= offset_start <= offset_end`; `BufferError` or
        `TypeError` for a frame that is not contiguous bytes.
        """

    def finish(self) -> Columns:
        """Hands the rows out, perhaps none, and empties the builder for re-use."""
