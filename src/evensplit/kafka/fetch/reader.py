"""The bulk reader: ranges of offsets in, Arrow record batches out.

For every leader there is one connection and one request under way, for all the partitions that it leads. When its
response has arrived, only the headers in it are looked at; that is enough to know where to go on, so the next request
is on its way before the first record is decoded. What answers it waits in the socket meanwhile: one receive buffer for
each leader is enough.

Records are asked for by topic id where brokers can do that (from Kafka 3.1 on, KIP-516), and with leader epochs:
neither records of another topic nor those of a leader that was cut off can come. What one broker does not know, be it
a topic, a partition, an id, or an offset behind the end of a log, the others are asked for in turn: it is lost
only when the time is over in which a partition has to get on, and not without the word of every broker of the cluster.

Time counts only while the lane waits for brokers, not while somebody else works on the rows. A partition that does not
get on for `request_timeout_ms` of such time is an error, which says what it was waiting for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from evensplit._kernel import ColumnBuilder, KernelError
from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.errors import CorruptRecordsError
from evensplit.kafka.fetch.columns import to_record_batch
from evensplit.kafka.fetch.connection_pool import POOL, Pool
from evensplit.kafka.fetch.fetcher import Fetcher
from evensplit.kafka.fetch.problems import DAMAGED, refused_by_kernel
from evensplit.kafka.fetch.request import PartitionRead, reads_of
from evensplit.kafka.fetch.response import Span
from evensplit.kafka.options.client import BATCH_BYTES_MAX, ClientSettings


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """How much the lane holds at a time.

    - rows_max, bytes_max: a batch is handed out from so many rows, or bytes of columns, on. It can be longer by what
      one record batch decodes to, up to four times `bytes_max`. Spark takes batches of one or two megabytes fastest.
    - response_bytes_max: how much one response may bring; less where the settings say so. Small enough to stay in a
      CPU's cache until it is decoded.
    - buffer_bytes_max: of all receive buffers together; with many leaders, responses become smaller. A single record
      batch that is longer still is received.
    - batch_bytes_max: a record batch that is longer, as the broker keeps it or once it is decompressed, is an error.
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
    topic_ids: Mapping[tuple[str, str], str] | None = None,
    cluster_ids: Mapping[str, str] | None = None,
    epochs: Mapping[SplitId, RangeEpochs] | None = None,
    skip_lost: bool = False,
    null_timestamps: bool = False,
    limits: LaneLimits | None = None,
    pool: Pool = POOL,
) -> Iterator[pa.RecordBatch]:
    """The records of `ranges`, each exactly once, in batches of `row_schema(columns)` with at least one row each.

    `columns`: some of `columns.COLUMNS`, at least one, in that order; the others cost next to nothing. With
    `null_timestamps`, a timestamp that 64 bits of microseconds cannot hold is null; without it, an error.

    `ranges` may be of any number of splits and clusters, and several of one split if they do not overlap; each of
    their clusters has its settings in `clusters`. Within a split offsets ascend, from batch to batch too; how splits
    alternate is not defined. Offsets that hold no record (compacted, or a transaction's markers) are left out. Records
    of open and aborted transactions are not, unless a cluster's settings say `read_committed`: then the latter are left
    out, and what is not decided yet is waited for, as long as for a leader.

    `topic_ids` has, by cluster and topic, the id (`ListedPartition.topic_id`) of the topic that the ranges are meant
    for; where it is empty or missing, whatever has that name is read, but of one partition records of one topic only.
    Brokers before Kafka 3.1 go by that name: each that gave records is asked for the id before the last batch is handed
    out, and another one is a `DataLossError` with `skip_lost` too, since rows before may be of the new topic.

    `cluster_ids` has, by cluster, what the cluster that is meant calls itself; where it is empty or missing, whatever
    the bootstrap servers lead to is read. It is compared whenever topics' ids are, and before them: in another cluster
    no record is read, and none is taken for lost. Where some servers lead elsewhere, the others are used.

    `epochs`: what is known of the leader epochs of the offsets around the ranges, by split (KIP-320). What an unclean
    leader election put in the place of the records that are meant is then not read, also if the log has grown to the
    ranges' ends again. What comes is compared with what was read before it in any case.

    With `skip_lost`, records that are not there any more are no error. Where a log begins later than it did, reading
    goes on at its beginning; where it ends before the range or within it, where its records were replaced, or its topic
    or partition does not exist or has another id, the rest of the split's ranges is passed over. Each such loss is
    logged once, as a warning of the logger `evensplit`, with the number of offsets that it can be at most.

    Closing the iterator early closes what is under way. Connections that owe nothing go back to `pool`.

    Raises:
        ValueError: ranges that overlap or are upside down, or a cluster without settings.
        ClusterUnreachable, UnsupportedBroker: no broker, or not the leader of a partition, answered in time; or records
            seem to be lost, or were read by name, and not every broker that has to could be asked about them.
        ClusterError: the bootstrap servers lead to another cluster than `cluster_ids` has.
        BrokerError: a leader refused a partition, for good or until the deadline.
        DataLossError: records that were to be read are not there any more, were replaced, or their topic was created
            anew, without `skip_lost`; or the latter while it was read by its name.
        CorruptRecordsError: records that cannot be decoded, among them `BatchTooLarge` (`limits.batch_bytes_max`),
            `OldMessageFormat` (from before Kafka 0.11) and `TimestampOutOfRange`.
    """
    limits = limits or LaneLimits()
    fetcher = Fetcher(
        _reads(ranges, clusters, epochs),
        clusters,
        pool,
        topic_ids=topic_ids or {},
        cluster_ids=cluster_ids or {},
        skip_lost=skip_lost,
        response_bytes_max=limits.response_bytes_max,
        buffer_bytes_max=limits.buffer_bytes_max,
        batch_bytes_max=limits.batch_bytes_max,
    )
    return _read(fetcher, _builder(columns, limits, null_timestamps), limits.batch_bytes_max)


def _reads(
    ranges: Sequence[Range], clusters: Mapping[str, ClientSettings], epochs: Mapping[SplitId, RangeEpochs] | None
) -> list[PartitionRead]:
    reads = reads_of(ranges, epochs)
    unknown = sorted({read.split.cluster for read in reads} - clusters.keys())
    if unknown:
        raise ValueError(f"there are no settings for the clusters {', '.join(unknown)}")
    return reads


def _builder(columns: tuple[str, ...], limits: LaneLimits, null_timestamps: bool) -> ColumnBuilder:
    return ColumnBuilder(
        columns=columns,
        rows_max=limits.rows_max,
        bytes_max=limits.bytes_max,
        uncompressed_bytes_max=limits.batch_bytes_max,
        null_timestamps=null_timestamps,
    )


def _read(fetcher: Fetcher, builder: ColumnBuilder, batch_bytes_max: int) -> Iterator[pa.RecordBatch]:
    try:
        for data, spans in fetcher.responses():
            for span in spans:
                yield from _decode(data, span, builder, fetcher, batch_bytes_max)
            if builder.full:
                fetcher.compare_names(if_done=True)
                yield to_record_batch(builder.finish())
        fetcher.compare_names()
        if builder.rows:
            yield to_record_batch(builder.finish())
    finally:
        fetcher.close()


def _decode(
    data: bytearray, span: Span, builder: ColumnBuilder, fetcher: Fetcher, batch_bytes_max: int
) -> Iterator[pa.RecordBatch]:
    """Append the records of one span; a batch is handed out whenever the builder is full before they all are in it."""
    cluster, topic, partition = span.read.split
    begin, offset, aborted = span.begin, span.start, span.aborted
    while True:
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
            raise refused_by_kernel(span.read.split, offset, data, begin, error, batch_bytes_max) from error
        begin, offset = appended.position, appended.offset_next
        if not appended.stopped:
            break
        aborted = appended.aborted
        yield to_record_batch(builder.finish())
    if span.position is None:
        fetcher.advance(span.read, offset)
    elif offset != span.position:
        raise CorruptRecordsError(
            cluster,
            topic,
            partition,
            span.start,
            f"the headers of its record batches lead to offset {span.position}, what is in them to {offset}; {DAMAGED}",
        )
