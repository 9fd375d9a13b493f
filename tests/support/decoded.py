"""Keys and values that the kernel decodes, as the lane hands them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from kafka.record.memory_records import MemoryRecordsBuilder

from evensplit._kernel import ColumnBuilder
from evensplit.kafka.fetch.columns import row_schema, to_record_batch
from evensplit.typed.decoding import AS_THEY_ARE, Decodings

BYTES_MAX = 1 << 28
"""More than all records of a test have."""


def frame_of(values: Sequence[bytes | None]) -> bytearray:
    """One record batch; the keys are the values, too."""
    builder: Any = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=BYTES_MAX)
    for value in values:
        assert builder.append(timestamp=0, key=value, value=value) is not None
    builder.close()
    return bytearray(builder.buffer())


def decoded(
    frame: bytearray, columns: tuple[str, ...], decodings: Decodings = AS_THEY_ARE
) -> tuple[pa.RecordBatch, int]:
    """The rows of the record batch in `frame`, and how many keys and values could not be decoded."""
    builder = ColumnBuilder(
        columns=columns,
        rows_max=1 << 30,
        bytes_max=BYTES_MAX,
        uncompressed_bytes_max=BYTES_MAX,
        key=None if decodings.key is None else decodings.key.tree,
        value=None if decodings.value is None else decodings.value.tree,
        null_faults=decodings.null_faults,
        condition=decodings.condition,
    )
    end = 1 << 62
    done = builder.append(frame, 0, len(frame), cluster="c", topic="t", partition=0, offset_start=0, offset_end=end)
    assert not done.stopped
    rows = to_record_batch(builder.finish(), row_schema(columns, decodings.key, decodings.value))
    rows.validate(full=True)
    return rows, builder.faults
