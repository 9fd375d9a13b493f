"""The compiled kernel: raw Kafka bytes in, the buffers of Arrow columns out; and with `RecordEncoder` back again.

It has no policy and does no I/O. Every byte may be hostile: input that does not fit the format raises `KernelError`,
and never gives a wrong row. Decoding runs without Python's lock, so a thread may receive the next frame meanwhile, into
another buffer: **`frame` must not be written to during a call**.

Sources: KIP-98 (message format v2), KIP-482 (flexible versions), KIP-227 (fetch sessions), KIP-392 (followers), KIP-516
(topic ids), KIP-101, KIP-320 and KIP-595 (leader epochs), Apache Kafka's `FetchResponse.json`, and Arrow's columnar
format.
"""

from collections.abc import Sequence
from typing import Any, Final, final

from typing_extensions import Buffer as Readable

class KernelError(ValueError):
    """Bytes that cannot be decoded. `args` is `(kind, offset, detail)`.

    - kind, a `str`: "crc" (a record batch does not have the checksum it carries), "truncated" (something ends before
      its own lengths say so), "malformed" (it breaks the format in another way), "codec" (it cannot be decompressed, or
      the codec is unknown), "too_large" (a batch decompresses to more than `uncompressed_bytes_max`, or a column would
      need more than 2 GiB), "unsupported_magic" (another message format than v2), "timestamp" (microseconds in 64
      bits cannot hold it), "undecodable" (a key or value does not fit its format or type), "condition" (the condition
      cannot be evaluated on a record, as by a division by zero). The same bytes fail again, whatever the kind.
    - offset, an `int`: the base offset of the record batch in question, -1 if not known; with "timestamp",
      "undecodable" and "condition" the offset of the record.
    - detail, a `str`: a clause that says what was expected and what was found, without a full stop.
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
    """One partition in a Fetch response.

    - topic: its name; from version 13 on its id, as base64 with the alphabet for URLs and without padding.
    - error_code: Kafka's, 0 for none.
    - high_watermark, last_stable_offset, log_start_offset: -1 if the broker does not say; the last one also below
      version 5.
    - aborted: the aborted transactions that the records can belong to, as (producer id, first offset); none unless the
      request had read_committed.
    - preferred_read_replica: the broker to fetch from instead; -1 for none, and below version 11.
    - diverging: where the leader's log differs from the one that was read, by the request's last fetched epoch, as (the
      latest epoch that both can have, the offset after its last record); None if it does not, and below version 12.
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

    - throttle_ms: for how long the broker throttles the client because of a quota.
    - error_code, session_id: those of the whole response; 0 below version 7.
    - partitions: of all topics, in the response's order. A partition may be missing, or be there twice.
    """

    throttle_ms: Final[int]
    error_code: Final[int]
    session_id: Final[int]
    partitions: Final[list[FetchedPartition]]

def parse_fetch_response(frame: Readable, begin: int, end: int, version: int) -> FetchedResponse:
    """Reads the envelope of a Fetch response; the records stay where they are.

    `begin` is the position after the 4-byte correlation id, for every version: from version 12 on the tagged fields of
    the response header, which follow there, are skipped here. `end` is where the response ends. Versions 4 to 13.

    Raises `KernelError`, with offset -1, for a response that is cut off, has lengths that do not fit, or bytes left
    over; `ValueError` if `frame[begin:end]` is not a part of the frame; `BufferError` or `TypeError` for a frame that
    is not contiguous bytes.
    """

def next_leader_epoch(frame: Readable, begin: int, end: int, epoch: int) -> tuple[int, int, int, int, int] | None:
    """The first record batch in `frame[begin:end]` that was written under another leader epoch than `epoch`.

    As (where it begins in the frame, where it ends, its base offset, the offset after the last one that it covers, its
    leader epoch or -1); None if there is none. Only headers are read, without their checksums, and only as far as there
    are whole record batches in message format v2; `append` reports what is wrong after them.

    Raises `ValueError` if `frame[begin:end]` is not a part of the frame; `BufferError` or `TypeError` for a frame that
    is not contiguous bytes.
    """

@final
class Census:
    """The headers of record batches, a column each, in the order of the log; integers in the machine's byte order.

    - batches: how many there are.
    - base_offsets, last_offsets (int64): the offsets that each covers, whether or not those records are still there.
    - producer_ids (int64), producer_epochs (int16), base_sequences (int32): negative where there is none.
    - records (int32): how many records it has.
    - flags (uint8): 1 for a batch of a transaction, 2 for a control batch, 3 for both.
    - markers (int16): of a control batch the type of its first control record, 0 for an abort, 1 for a commit; -1 if it
      is none, or was emptied by compaction.
    - offset_next: the offset to continue from; the end of the range if a batch reaches it or begins after it.
    """

    batches: Final[int]
    base_offsets: Final[Buffer]
    last_offsets: Final[Buffer]
    producer_ids: Final[Buffer]
    producer_epochs: Final[Buffer]
    base_sequences: Final[Buffer]
    records: Final[Buffer]
    flags: Final[Buffer]
    markers: Final[Buffer]
    offset_next: Final[int]

def take_census(frame: Readable, begin: int, end: int, *, offset_start: int, offset_end: int) -> Census:
    """The headers of all record batches in `frame[begin:end]` that cover an offset in `offset_start` to `offset_end`.

    Each batch's CRC-32C is checked, and offsets must rise. No record is decompressed. The last batch may be cut off,
    and is then ignored.

    Raises `KernelError`; `ValueError` if `frame[begin:end]` is not a part of the frame or not
    `0 <= offset_start <= offset_end`; `BufferError` or `TypeError` for a frame that is not contiguous bytes.
    """

@final
class Appended:
    """The result of one call of `ColumnBuilder.append`.

    - offset_next: the offset to continue from, `offset_start <= offset_next <= offset_end`. It is `offset_end` when the
      range is finished, also by a record batch that begins at or after `offset_end`; otherwise the offset after the
      last one that the last finished batch covers (batches cover offsets that compaction has removed); `offset_start`
      if no batch was finished.
    - position: where in the frame to continue: at the first batch that is not finished, or where the whole batches end.
    - rows: how many rows were added.
    - stopped: True if there is more to take from this frame, and the builder is full. `finish` it, and call again with
      `begin=position` and `offset_start=offset_next`.
    - complete_batches: how many whole batches there were, including skipped ones and one that was stopped at. 0 with
      `offset_next` still at `offset_start` means that only a cut-off batch came: fetch with more bytes.
    - aborted: the aborted transactions that have not ended before `position`, for the next call.
    - missing: the schema that the next record was written by, if nothing is known of it: "key" or "value", its id, and
      where in its file the message is. It has stopped then, and goes on after `add_writer`; the builder need not be
      finished.
    """

    offset_next: Final[int]
    position: Final[int]
    rows: Final[int]
    stopped: Final[bool]
    complete_batches: Final[int]
    aborted: Final[list[tuple[int, int]]]
    missing: Final[tuple[str, int, list[int]] | None]

# Rows, nulls, the buffers of the type in Arrow's order (a validity bitmap, None without nulls, first), columns inside.
_Array = tuple[int, int, list[Buffer | None], list[_Array]]

# Their first part says which they are; see `evensplit.typed.types` and `evensplit.typed.decoding`.
_DataType = tuple[Any, ...]
_Format = tuple[Any, ...]
_Decoding = tuple[_Format | None, _DataType, str]

# Its first part says which it is; `native/binding/src/expression.rs` has all.
_Expression = tuple[Any, ...]

@final
class Columns:
    """Finished rows as Arrow's buffers: little-endian, validity by bits from the least significant on.

    - rows: how many.
    - arrays: column -> its rows, as in `Array.from_buffers(type, rows, buffers, nulls, children)`. There are at least
      those that were requested. Offsets have 32 bits.

    The types are: `binary` for key and value (null where the record's is), unless they are decoded, key_raw and
    value_raw (null unless it could not be decoded); `string` for topic, cluster, key_error and value_error; int32 for
    partition and timestampType (0 CreateTime, 1 LogAppendTime); int64 for offset; microseconds since 1970 in UTC for
    timestamp, so a record without one has -1000, as in Spark, and null only with `null_timestamps`. headers are
    `list<struct<key: string, value: binary>>`: null, not an empty list, if a record has none. Their order and
    duplicates are kept, null values too; keys are decoded as in Java, with U+FFFD for bytes that are not UTF-8.
    """

    rows: Final[int]
    arrays: Final[dict[str, _Array]]

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
        key: _Decoding | None = None,
        value: _Decoding | None = None,
        null_faults: bool = False,
        condition: tuple[_Expression, _Decoding | None, _Decoding | None, bool] | None = None,
    ) -> None:
        """
        `columns`: at least one of key, value, topic, partition, offset, timestamp, timestampType, headers, cluster,
        key_error, key_raw, value_error and value_raw, each once; others are neither copied nor kept. `rows_max`,
        `bytes_max` (both at least 1): with so many rows or bytes of columns, the builder is full and begins no further
        record batch. The batch that fills it is finished, but not beyond `4 * bytes_max` or 2 GiB (a single record
        always fits), so memory is bounded and 32-bit offsets suffice. `uncompressed_bytes_max` (at least 1): a record
        batch that decompresses to more is an error; memory grows with the data that is really there. `null_timestamps`:
        a timestamp that microseconds in 64 bits cannot hold is null, rather than an error.

        `key`, `value`: the format that they are decoded from, `("json",)`, `("protobuf", program)` or
        `("avro", program)`, the type of their column, and what is before each of them: "none", "id" (a zero byte, and
        the id of the writer's schema in a registry) or "id and indexes" (after that, the place of the message in its
        file). The format is None where it depends on the writer's schema. A program is one of
        `evensplit.typed.protobuf.programs` or `evensplit.typed.avro.programs`. A value is decoded as by Spark's
        `from_json`, `from_protobuf` or `from_avro`. `null_faults`: one that cannot be decoded is null, key_error or
        value_error says why, and key_raw or value_raw has its bytes; otherwise it is an error.

        `condition`: only records of which it is true become rows, as (expression, how the key is decoded for it, how
        the value is, whether it needs headers). What it needs is decoded first. A key or value that cannot be decoded
        is null in it, too, with `null_faults`, and so is then the row's.

        Raises `ValueError` for other columns, formats, types, programs and expressions, and for a limit of 0,
        `OverflowError` for a negative one.
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

        One that is handed out in several parts counts once, if its parts are requested one after the other. Its records
        are read once, too: one that cannot be decoded is an error of the part that it would be in.
        """

    @property
    def faults(self) -> int:
        """How many keys and values could not be decoded so far, and became null; also of records that `condition` left
        out, as far as it needed them."""

    @property
    def filtered(self) -> int:
        """How many records `condition` left out so far."""

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

        `frame[begin:end]` is record batches (message format v2) one after the other; the last may be cut off, as Kafka
        does, and is then ignored. Each batch's CRC-32C is checked before anything that it covers is used, and offsets
        must rise. Control batches give no rows. Batches wholly before or after the range are not decompressed. With
        LogAppendTime all records of a batch have the broker's time. Headers and times that were not requested are not
        read.

        When a call stops within a record batch, that batch remains open. The next call continues it without checking or
        decompressing it again, if it begins with the same batch header, has the same names and partition, and starts at
        that `offset_next`. The bytes after that header must then be the same, in any frame.

        `aborted`: the aborted transactions that the response lists, in any order. From the first offset of one on, the
        transactional records of its producer give no rows, up to the marker that aborts it. The list must have all
        transactions that the records can belong to, also those that began before them, and none that ended before them,
        for which a producer's next transaction would be taken. If this call has stopped, pass `Appended.aborted` to the
        next one.

        Raises `KernelError`; the builder then holds what it held before the call. Raises `ValueError` if
        `frame[begin:end]` is not a part of the frame or not `0 <= offset_start <= offset_end`; `BufferError` or
        `TypeError` for a frame that is not contiguous bytes.
        """

    def add_writer(
        self,
        cluster: str,
        missing: tuple[str, int, Sequence[int]],
        in_rows: _Format | tuple[str, str],
        in_condition: _Format | tuple[str, str],
    ) -> None:
        """Says what becomes of all that `Appended.missing` has written in a cluster, in rows and for the condition: it
        is decoded from a format; or `("refused", why)`, a clause, if it cannot be decoded.

        Raises `ValueError` for another format.
        """

    def finish(self) -> Columns:
        """Returns the rows, if any, and empties the builder for re-use."""

# Rows, how many rows of the buffers are before them, whether offsets have 64 bits, the buffers of the type in Arrow's
# order (the validity bitmap first), columns inside. `kafka.produce.columns` makes it of an array.
_Column = tuple[int, int, bool, Sequence[Readable | None], Sequence[_Column]]

@final
class Encoded:
    """The result of one call of `RecordEncoder.append`.

    - row_next: every row before it was encoded or left out. `end` unless there was a problem, or the buffer is full.
    - problem: why row `row_next` cannot become a record, as (what, row, number); the caller may go on after that row.
      "too-large": by Java's estimate it has so many bytes, more than `record_bytes_max`; "partition": its topic does
      not have this partition; "topic": no topic has this number, or it is null (-1); "timestamp": a negative one other
      than -1 (none); "header": its header at this place, from 0, has no key.
    """

    row_next: Final[int]
    problem: Final[tuple[str, int, int] | None]

@final
class EncodedBatch:
    """A record batch v2 with CRC-32C, as a Produce request takes it. Its base offset is 0.

    - topic: the number that `add_topic` gave.
    - base_sequence: -1 without a producer's id.
    - records: how many, 1 or more.
    - data: all its bytes.
    """

    topic: Final[int]
    partition: Final[int]
    base_sequence: Final[int]
    records: Final[int]
    data: Final[Buffer]

@final
class RecordEncoder:
    """Encodes rows as record batches; every partition has at most one open batch. For one thread at a time.

    Rows of a partition keep their order. A row without a partition goes to that of its key, as Kafka's producer hashes
    it; without a key, or with `ignore_keys`, to one partition until its batch is closed, and then to the next one. A
    batch is closed as Kafka's producer does it: when the next record would make it longer than `batch_bytes_max`, by an
    estimate of how well the topic is compressed. A record that is longer has a batch of its own. No batch has more than
    `record_bytes_max` bytes before it is compressed.

    Sources: Apache Kafka's `DefaultRecordBatch`, `MemoryRecordsBuilder`, `CompressionRatioEstimator`, `ProducerBatch`.
    """

    def __init__(
        self,
        *,
        codec: str,
        level: int | None,
        batch_bytes_max: int,
        record_bytes_max: int,
        buffer_bytes_max: int,
        ignore_keys: bool,
        transactional: bool,
        producer_id: int,
        producer_epoch: int,
    ) -> None:
        """An encoder without topics.

        - codec, level: "none", "gzip" (1 to 9), "snappy", "lz4" (9) or "zstd" (-131072 to 22); None: Kafka's default.
        - producer_id, producer_epoch: -1 and -1 for a producer that is not idempotent, whose sequences are -1.

        Raises `ValueError` for what does not fit, such as a level of lz4 other than Kafka's default.
        """

    @property
    def buffered_bytes(self) -> int:
        """The bytes of open batches, uncompressed, and of closed ones that were not taken."""

    def add_topic(self, partitions: int, *, start: int = 0, batch_bytes_max: int | None = None) -> int:
        """Another topic; its number, from 0 on. Rows without a key begin at partition `start`, modulo `partitions`.

        `batch_bytes_max`: how long its batches of several records may become, before and after they are compressed,
        where that is less than by the settings.
        """

    def set_sequence(self, topic: int, partition: int, sequence: int) -> None:
        """Sets the base sequence of the next batch to be closed for the partition; 0 at first."""

    def next_sequences(self) -> list[tuple[int, int, int]]:
        """(topic, partition, base sequence of the next batch), of the partitions where it is not 0."""

    def append(
        self,
        begin: int,
        end: int,
        *,
        key: _Column | None,
        value: _Column | None,
        headers: _Column | None,
        timestamps: _Column | None,
        partitions: _Column | None,
        topics: _Column | None,
        topic: int,
        now_ms: int,
    ) -> Encoded:
        """Encodes rows `begin` to `end` of the columns, without Python's lock.

        - key, value: binary or string. headers: a list of structs of key (string) and value (binary).
        - timestamps: milliseconds, int64; null or None: `now_ms`. partitions: int32; null: chosen here.
        - topics: the number of each row's topic, int32; -1: the row is left out. None: all rows go to `topic`.

        Stops early when `buffered_bytes` reaches `buffer_bytes_max`. The largest open batches are closed then, so that
        `ready` has some; take them, and come back with `begin=row_next`.

        Raises `ValueError` for columns whose buffers are too short, or whose offsets point outside of them; the
        encoder is of no use afterwards. `BufferError` or `TypeError` for what are no columns of contiguous bytes.
        """

    def close_batches(self) -> None:
        """Closes all open batches."""

    def ready(self) -> list[EncodedBatch]:
        """The closed batches in the order in which they were closed, each once."""
