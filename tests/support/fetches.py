"""Reads of the lane and headers of record batches, made without brokers."""

from __future__ import annotations

import struct

from evensplit.core.model import Range, RangeEpochs, SplitId
from evensplit.kafka.fetch.request import PartitionRead, reads_of
from evensplit.kafka.options.client import ClientSettings

SETTINGS = ClientSettings(("b:1",), client_rack="a")
RESPONSE_BYTES = 1 << 20


def read_of(
    partition: int = 0, start: int = 0, end: int = 100, topic: str = "t", epochs: RangeEpochs | None = None
) -> PartitionRead:
    split = SplitId("east", topic, partition)
    (read,) = reads_of([Range(split, start, end)], {} if epochs is None else {split: epochs})
    return read


def header(base: int, last_delta: int, length: int = 49, epoch: int = 0) -> bytes:
    """The header of a record batch without records, as far as the lane looks at it."""
    return struct.pack(">qiibIhi", base, length, epoch, 2, 0, 0, last_delta).ljust(12 + length, b"\0")
