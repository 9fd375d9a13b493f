"""JSON documents decoded by the kernel, as the values of records."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

from evensplit._kernel import ColumnBuilder
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.typed.decoding import JSON_FORMAT, Decoding
from evensplit.typed.schema import parse_struct
from tests.support.from_json import Answer, cells

BYTES_MAX = 1 << 28
"""More than all documents of one schema have."""

COLUMNS = ("value", "value_error")


def kernel_answers(ddl: str, documents: Sequence[bytes]) -> list[Answer]:
    """The kernel's answer to each document. What it calls bad is null."""
    batch = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=BYTES_MAX,
    )
    for offset, document in enumerate(documents):
        assert batch.append(offset, timestamp=0, key=None, value=document, headers=[])
    frame = batch.build()
    value = Decoding(JSON_FORMAT, parse_struct(ddl))
    builder = ColumnBuilder(
        columns=COLUMNS,
        rows_max=len(documents) + 1,
        bytes_max=BYTES_MAX,
        uncompressed_bytes_max=BYTES_MAX,
        value=value.tree,
        null_faults=True,
    )
    builder.append(frame, 0, len(frame), cluster="c", topic="t", partition=0, offset_start=0, offset_end=len(documents))
    rows = to_record_batch(builder.finish(), row_schema(COLUMNS, value=value))
    bad = rows.column("value_error").is_valid().to_pylist()
    return [Answer(*answer) for answer in zip(bad, cells(rows.column("value")), strict=True)]
