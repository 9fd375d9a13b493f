"""The bulk reader: ranges of offsets in, Arrow record batches out.

Each leader has one connection with one request under way, for all the partitions that it leads. When a response has
arrived, only its headers are looked at: they tell where to continue, so the next request is sent before the first
record is decoded. Its response waits in the socket meanwhile, so one receive buffer per leader is enough.

Records are requested by topic id if the broker can (Kafka 3.1 and later, KIP-516), and with leader epochs, so that no
records of another topic or of a leader that was cut off can come. If a broker does not know a topic, a partition, an id
or an offset after the end of its log, the other brokers are asked in turn. It counts as lost only when the time without
progress is over, and only if every broker of the cluster has confirmed it.

Time counts only while the reader waits for brokers, not while its caller works on rows. A partition without progress
for `progress_timeout_ms` of such time is an error, which says what the reader was waiting for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from evensplit._kernel import Census, ColumnBuilder, KernelError, take_census
from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.errors import CorruptRecordsError
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.kafka.fetch.connection_pool import POOL, Pool
from evensplit.kafka.fetch.fetcher import Fetcher
from evensplit.kafka.fetch.problems import DAMAGED, refused_by_kernel
from evensplit.kafka.fetch.request import PartitionRead, reads_of
from evensplit.kafka.fetch.response import Span
from evensplit.kafka.options.client import BATCH_BYTES_MAX, ClientSettings
from evensplit.typed.decoding import AS_THEY_ARE, Decodings

Counts = Mapping[str, tuple[int, int]]
"""Cluster -> records that the condition left out, keys and values that could not be decoded and became null."""

Sizes = Mapping[SplitId, tuple[int, int]]
"""Split -> offsets that were read, also those without a record, and the bytes of keys, values and headers in rows."""

_FIXED_BYTES = {"key": 4, "value": 4, "topic": 4, "cluster": 4, "partition": 4, "timestampType": 4}
_FIXED_BYTES |= {"offset": 8, "timestamp": 8}
"""What each row takes in these columns, beside the text or the bytes in it."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """How much the reader holds at a time.

    - rows_max, bytes_max: a batch is handed out once it has so many rows, or bytes of columns. It can be longer by what
      one record batch decodes to, up to four times `bytes_max`. Spark takes batches of one or two megabytes fastest.
    - response_bytes_max: the most bytes of a response, unless the settings say less. Small enough to stay in a CPU's
      cache until it is decoded.
    - buffer_bytes_max: the most bytes of all receive buffers together; with many leaders, responses are smaller. A
      single record batch that is longer is received all the same.
    - batch_bytes_max: a longer record batch, as the broker keeps it or decompressed, is an error.
    """

    rows_max: int = 20_000
    bytes_max: int = 2 << 20
    response_bytes_max: int = 4 << 20
    buffer_bytes_max: int = 32 << 20
    batch_bytes_max: int = BATCH_BYTES_MAX


def read_ranges(
    ranges: Sequence[Range],
    clusters: Mapping[str, ClientSettings],
    *,
    columns: tuple[str, ...],
    decodings: Decodings = AS_THEY_ARE,
    topic_ids: Mapping[tuple[str, str], str] | None = None,
    cluster_ids: Mapping[str, str] | None = None,
    epochs: Mapping[SplitId, RangeEpochs] | None = None,
    skip_lost: bool = False,
    null_timestamps: bool = False,
    limits: LaneLimits | None = None,
    pool: Pool = POOL,
    count: Callable[[Counts], object] | None = None,
    measure: Callable[[Sizes], object] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of `ranges`, each exactly once, in batches of `row_schema` of these columns, none empty.

    `columns`: some of `columns.TABLE`, at least one, in that order; the others cost next to nothing. With
    `null_timestamps`, a timestamp that 64 bits of microseconds cannot hold is null; without it, it is an error.

    `ranges` may be of any number of splits and clusters, and several of one split if they do not overlap. Within a
    split offsets ascend, from batch to batch too; how splits alternate is not defined. Offsets without a record
    (compacted, or markers of transactions) are left out. Records of open and aborted transactions are included, unless
    a cluster's settings say `read_committed`: then aborted ones are left out, and open ones waited for as for a leader.

    `topic_ids` has, by cluster and topic, the id (`ListedPartition.topic_id`) of the ranges' topic. If it is empty or
    missing, any topic of that name is read, but only one for each partition. Brokers before Kafka 3.1 give records by
    the name: each that gave some is asked for the id before the last batch is handed out. Another id is a
    `DataLossError`, also with `skip_lost`, since earlier rows may be of the new topic.

    `cluster_ids` has, by cluster, Kafka's cluster id; if it is empty or missing, any cluster that the bootstrap servers
    lead to is read. It is compared before topic ids are: from another cluster no record is read, and none counts as
    lost. If only some servers lead to another cluster, the others are used.

    `epochs`: the known leader epochs of the offsets around the ranges, by split (KIP-320). Records that replaced the
    planned ones after an unclean leader election are then not read, even if the log has grown to the ends of the ranges
    again. Epochs of records are compared with those of earlier ones in any case.

    With `skip_lost`, records that are gone are no error. If a log now begins later, reading continues at its beginning.
    If it ends before the end of the range, its records were replaced, or its topic or partition does not exist or has
    another id, the rest of the split's ranges is passed over. Each such loss is logged once, as a warning of the logger
    `evensplit`, with the largest number of offsets that it can be.

    `count` and `measure` are told at the end; closing this early ends the read without it. Idle connections go back to
    `pool`.

    Raises:
        ValueError: ranges that overlap or are upside down, or a cluster without settings.
        ClusterUnreachable, UnsupportedBroker: no broker, or not the leader of a partition, answered in time; or records
            seem to be lost, or were read by name, and not every broker that has to could be asked about them.
        ClusterError: the bootstrap servers lead to another cluster than `cluster_ids` has.
        BrokerError: a leader refused a partition, for good or until the deadline.
        DataLossError: records that were to be read are not there any more, were replaced, or their topic was created
            anew, without `skip_lost`; or the latter while it was read by its name.
        CorruptRecordsError: records that cannot be decoded, among them `BatchTooLarge` (`limits.batch_bytes_max`),
            `OldMessageFormat` (before Kafka 0.11), `TimestampOutOfRange`, `UndecodableRecord` and `ConditionFailed`.
    """
    limits = limits or LaneLimits()
    reads = _reads(ranges, clusters, epochs)
    fetcher = _fetcher(reads, clusters, pool, topic_ids or {}, cluster_ids or {}, skip_lost, limits)
    rows = _rows(columns, limits, null_timestamps, decodings, measured=measure is not None)
    return _read(fetcher, rows, count, measure)


def read_headers(
    ranges: Sequence[Range],
    clusters: Mapping[str, ClientSettings],
    *,
    topic_ids: Mapping[tuple[str, str], str] | None = None,
    skip_lost: bool = False,
    limits: LaneLimits | None = None,
    pool: Pool = POOL,
) -> Iterator[tuple[SplitId, Census]]:
    """The headers of all record batches that cover an offset of `ranges`, each once and checked against its CRC-32C.

    Within a split they ascend; how splits alternate is not defined. Records are fetched, and not decoded. Which are
    committed, headers do not say: the markers between them do. Everything else is as for `read_ranges`, and so are the
    errors.
    """
    limits = limits or LaneLimits()
    reads = _reads(ranges, clusters, None)
    fetcher = _fetcher(reads, clusters, pool, topic_ids or {}, {}, skip_lost, limits)
    return _headers(fetcher, limits.batch_bytes_max)


def _fetcher(
    reads: Sequence[PartitionRead],
    clusters: Mapping[str, ClientSettings],
    pool: Pool,
    topic_ids: Mapping[tuple[str, str], str],
    cluster_ids: Mapping[str, str],
    skip_lost: bool,
    limits: LaneLimits,
) -> Fetcher:
    return Fetcher(
        reads,
        clusters,
        pool,
        topic_ids=topic_ids,
        cluster_ids=cluster_ids,
        skip_lost=skip_lost,
        response_bytes_max=limits.response_bytes_max,
        buffer_bytes_max=limits.buffer_bytes_max,
        batch_bytes_max=limits.batch_bytes_max,
    )


def _headers(fetcher: Fetcher, batch_bytes_max: int) -> Iterator[tuple[SplitId, Census]]:
    try:
        for data, spans in fetcher.responses():
            for span in spans:
                split, begin = span.read.split, span.begin
                bounds = {"offset_start": span.start, "offset_end": span.offset_end}
                try:
                    census = take_census(data, begin, span.end, **bounds)
                except KernelError as error:
                    raise refused_by_kernel(split, span.start, data, begin, error, batch_bytes_max) from error
                _settle(fetcher, span, census.offset_next)
                if census.batches:
                    yield split, census
        fetcher.compare_names()
    finally:
        fetcher.close()


def _settle(fetcher: Fetcher, span: Span, offset: int) -> None:
    """Note that what is in a span leads to `offset`."""
    if span.position is None:
        fetcher.advance(span.read, offset)
    elif offset != span.position:
        raise CorruptRecordsError(
            *span.read.split,
            span.start,
            f"the headers of its record batches lead to offset {span.position}, what is in them to {offset}; {DAMAGED}",
        )


class _Rows(NamedTuple):
    """What the records become."""

    builder: ColumnBuilder
    schema: pa.Schema
    decodings: Decodings
    batch_bytes_max: int
    counts: dict[str, tuple[int, int]]
    """As `Counts`, so far."""
    fixed_bytes: int
    """What each row takes, beside texts, keys, values and headers."""
    names: frozenset[str]
    """Columns with the name of a topic or a cluster."""
    sizes: dict[SplitId, tuple[int, int]] | None
    """As `Sizes`, so far; None: they are not wanted."""

    def handed_out(self) -> pa.RecordBatch:
        """The rows so far; begins anew."""
        return to_record_batch(self.builder.finish(), self.schema)

    def add(self, cluster: str, filtered: int, faults: int) -> None:
        """Add to the counts of a cluster."""
        if filtered or faults:
            before = self.counts.get(cluster, (0, 0))
            self.counts[cluster] = before[0] + filtered, before[1] + faults

    def measure(self, split: SplitId, offsets: int, rows: int, taken: int) -> None:
        """Add to the sizes of a split `offsets` that became so many rows, in columns of `taken` bytes."""
        if self.sizes is None:
            return
        for name, text in (("cluster", split.cluster), ("topic", split.topic)):
            taken -= rows * len(text.encode()) if name in self.names else 0
        before = self.sizes.get(split, (0, 0))
        self.sizes[split] = before[0] + offsets, before[1] + max(0, taken - rows * self.fixed_bytes)


def _rows(
    columns: tuple[str, ...], limits: LaneLimits, null_timestamps: bool, decodings: Decodings, *, measured: bool
) -> _Rows:
    builder = ColumnBuilder(
        columns=columns,
        rows_max=limits.rows_max,
        bytes_max=limits.bytes_max,
        uncompressed_bytes_max=limits.batch_bytes_max,
        null_timestamps=null_timestamps,
        key=None if decodings.key is None else decodings.key.tree,
        value=None if decodings.value is None else decodings.value.tree,
        null_faults=decodings.null_faults,
        condition=decodings.condition,
    )
    schema = row_schema(columns, decodings.key, decodings.value)
    fixed_bytes = sum(_FIXED_BYTES.get(name, 0) for name in columns)
    names = frozenset(columns) & {"topic", "cluster"}
    sizes: dict[SplitId, tuple[int, int]] | None = {} if measured else None
    return _Rows(builder, schema, decodings, limits.batch_bytes_max, {}, fixed_bytes, names, sizes)


def _reads(
    ranges: Sequence[Range], clusters: Mapping[str, ClientSettings], epochs: Mapping[SplitId, RangeEpochs] | None
) -> list[PartitionRead]:
    reads = reads_of(ranges, epochs)
    unknown = sorted({read.split.cluster for read in reads} - clusters.keys())
    if unknown:
        raise ValueError(f"there are no settings for the clusters {', '.join(unknown)}")
    return reads


def _read(
    fetcher: Fetcher,
    rows: _Rows,
    count: Callable[[Counts], object] | None,
    measure: Callable[[Sizes], object] | None,
) -> Iterator[pa.RecordBatch]:
    builder = rows.builder
    try:
        for data, spans in fetcher.responses():
            for span in spans:
                if count is None:
                    yield from _decode(data, span, rows, fetcher)
                else:
                    filtered, faults = builder.filtered, builder.faults
                    yield from _decode(data, span, rows, fetcher)
                    rows.add(span.read.split.cluster, builder.filtered - filtered, builder.faults - faults)
            if builder.full:
                fetcher.compare_names(if_done=True)
                yield rows.handed_out()
        fetcher.compare_names()
        if builder.rows:
            yield rows.handed_out()
    finally:
        fetcher.close()
    if count is not None:
        count(rows.counts)
    if measure is not None:
        measure(rows.sizes or {})


def _decode(data: bytearray, span: Span, rows: _Rows, fetcher: Fetcher) -> Iterator[pa.RecordBatch]:
    """Append the records of one span; yields a batch whenever the builder is full before all of them are in it."""
    builder = rows.builder
    cluster, topic, partition = span.read.split
    begin, offset, aborted = span.begin, span.start, span.aborted
    while True:
        taken = builder.nbytes
        try:
            appended = builder.append(
                data,
                begin,
                span.end,
                cluster=cluster,
                topic=topic,
                partition=partition,
                offset_start=offset,
                offset_end=span.offset_end,
                aborted=aborted,
            )
        except KernelError as error:
            raise refused_by_kernel(span.read.split, offset, data, begin, error, rows.batch_bytes_max) from error
        rows.measure(span.read.split, appended.offset_next - offset, appended.rows, builder.nbytes - taken)
        begin, offset = appended.position, appended.offset_next
        if not appended.stopped:
            break
        aborted = appended.aborted
        if appended.missing is None:
            yield rows.handed_out()
        else:
            builder.add_writer(cluster, appended.missing, *rows.decodings.writers(cluster, appended.missing))
    _settle(fetcher, span, offset)
