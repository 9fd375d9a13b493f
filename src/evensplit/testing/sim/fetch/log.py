"""The model's logs: record batches as brokers keep them, and which records a reader has to get of them.

The bytes are made here and read by the kernel: no code is shared.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pyarrow as pa
from kafka.record.util import calc_crc32c, encode_varint

CODECS = ("", "gzip", "snappy", "lz4", "zstd")
"""By Kafka's numbers for them."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED_FROM = 21

UNCHECKED_BYTES = 1 << 20
"""A batch of so many bytes is too long to be decoded, and its checksum would take a second."""

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as it has to come out. `headers`: None where it has none."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class Batch(NamedTuple):
    """A record batch: it covers the offsets `base` to `last`. `ends`: what a transaction's marker says."""

    base: int
    last: int
    epoch: int
    records: tuple[Record, ...]
    raw: bytes
    producer: int = -1
    ends: str = ""


@dataclass
class Log:
    """The log of one partition. `start`: where it begins. `aborted`: producer, first offset, offset of the marker."""

    name: str
    start: int = 0
    batches: list[Batch] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    """Producers with a transaction that is not decided yet, and its first offset."""
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    records: dict[int, tuple[Record, Batch]] = field(default_factory=dict)
    local: int = 0
    """What is before it is in remote storage."""
    parts_at: int = -1
    """Where it parts from the log that this partition had before it under the same topic id; -1 for none."""
    hidden: tuple[int, int] = (0, 0)
    """Until when, in microseconds, its leader does not know of what comes after an offset."""

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    @property
    def stable(self) -> int:
        """Where the first open transaction begins, or the end."""
        return min(self.open.values(), default=self.end)

    @property
    def newest(self) -> int:
        """Where the last batch that was not compacted away begins. Its segment is never in remote storage alone."""
        return next((batch.base for batch in reversed(self.batches) if batch.raw), 0)

    def has(self, record: Record) -> bool:
        """Whether it is (still) there."""
        found = self.records.get(record.offset)
        return record.offset >= self.start and found is not None and found[0] is record

    def from_offset(self, offset: int) -> int:
        """The place of the first batch that does not end before `offset`."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.last)

    def is_aborted(self, offset: int) -> bool:
        """Whether the record at `offset` is one of an aborted transaction."""
        batch = self.records[offset][1]
        return any(batch.producer == who and first <= offset < marker for who, first, marker in self.aborted)

    def is_open(self, offset: int) -> bool:
        """Whether it is one of a transaction that is not decided."""
        producer = self.records[offset][1].producer
        return producer in self.open and offset >= self.open[producer]

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the last batch that begins before `offset`; -1 if there is none."""
        return max((batch.epoch for batch in self.batches if batch.base < offset), default=-1)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The latest epoch up to `epoch`, and where it ends (KIP-320)."""
        upto = [batch for batch in self.batches if batch.epoch <= epoch]
        return (upto[-1].epoch, upto[-1].last + 1) if upto else (-1, -1)

    def cut(self, offset: int) -> Log:
        """Another replica's copy that ends at the batch with `offset`. For logs without transactions."""
        kept = self.batches[: self.from_offset(offset)]
        end = kept[-1].last + 1 if kept else 0
        records = {at: found for at, found in self.records.items() if at < end}
        made = Log(self.name, min(self.start, end), kept, {}, [], records, parts_at=end)
        made.local = min(self.local, made.newest)
        return made

    def append(self, batch: Batch) -> None:
        """Write a batch at the end."""
        self.batches.append(batch)
        self.records.update((record.offset, (record, batch)) for record in batch.records)
        if batch.ends:
            first = self.open.pop(batch.producer)
            if batch.ends == "abort":
                self.aborted.append((batch.producer, first, batch.base))
        elif batch.producer >= 0:
            self.open.setdefault(batch.producer, batch.base)

    def grow(self, random: Random, epoch: int, style: str, bytes_min: int = 0) -> None:
        """Append one batch: `plain`, `compacted` or `transactional`; with `bytes_min`, one record of that length."""
        base = self.end
        if style == "transactional" and self.open and random.random() < 0.4:
            producer = random.choice(sorted(self.open))
            self.end_transaction(producer, random.choice(("commit", "abort")), epoch)
            return
        producer = random.choice((-1, 1, 2)) if style == "transactional" else -1
        last = base + random.choice((0, 1, 4, 9)) + (random.choice((0, 0, 30)) if style == "compacted" else 0)
        kind = int(random.random() < 0.1)
        appended_ms = random.randint(0, 2**41)
        kept = [at for at in range(base, last + 1) if style != "compacted" or random.random() < 0.4]
        records = tuple(self._record(random, at, epoch, kind, appended_ms, bytes_min) for at in kept)
        codec = 0 if bytes_min else random.choice((0, 0, 1, 2, 3, 4))
        raw = encode(records, base, last, epoch, codec=codec, producer=producer, kind=kind, appended_ms=appended_ms)
        if style == "compacted" and not records and random.random() < 0.5:
            # Not even its header is left.
            raw = b""
        self.append(Batch(base, last, epoch, records, raw, producer))

    def end_transaction(self, producer: int, how: str, epoch: int) -> None:
        """Write the marker."""
        marker = struct.pack(">hh", 0, int(how == "commit")), struct.pack(">hi", 0, 0)
        record = Record(self.end, 7, 0, *marker, None)
        raw = encode((record,), self.end, self.end, epoch, producer=producer, control=True)
        self.append(Batch(self.end, self.end, epoch, (), raw, producer, how))

    def _record(self, random: Random, offset: int, epoch: int, kind: int, appended_ms: int, size: int) -> Record:
        told = f"{self.name}@{offset}/{epoch}".encode()
        key = random.choice((None, b"", told[:9]))
        value = told + b"." * size if size else random.choice((None, told, told, told * 9))
        headers: Headers | None = random.choice(((("h", told), ("h", None)), None, None))
        return Record(offset, appended_ms if kind else random.randint(0, 2**41), kind, key, value, headers)


def encode(
    records: tuple[Record, ...],
    base: int,
    last: int,
    epoch: int,
    *,
    codec: int = 0,
    producer: int = -1,
    control: bool = False,
    kind: int = 0,
    appended_ms: int = 0,
) -> bytes:
    """A record batch in Kafka's message format v2 (KIP-98)."""
    first_ms = records[0].timestamp_ms if records else 0
    body = b"".join(_encode_record(one, base, first_ms) for one in records)
    if codec:
        body = pa.Codec(CODECS[codec]).compress(body, asbytes=True)
    attributes = codec | kind << 3 | (producer >= 0) << 4 | control << 5
    times = first_ms, appended_ms if kind else max((one.timestamp_ms for one in records), default=0)
    producing = (producer, 0, 0) if producer >= 0 else (-1, -1, -1)
    length = _HEADER.size + len(body) - 12
    head = base, length, epoch, 2, 0, attributes, last - base, *times, *producing, len(records)
    raw = bytearray(_HEADER.pack(*head) + body)
    if len(raw) < UNCHECKED_BYTES:
        raw[17:21] = struct.pack(">I", calc_crc32c(memoryview(raw)[_CHECKED_FROM:]))
    return bytes(raw)


def _encode_record(record: Record, base: int, first_ms: int) -> bytes:
    out = bytearray(1)
    encode_varint(record.timestamp_ms - first_ms, out.append)
    encode_varint(record.offset - base, out.append)
    _encode_bytes(record.key, out)
    _encode_bytes(record.value, out)
    encode_varint(len(record.headers or ()), out.append)
    for name, value in record.headers or ():
        _encode_bytes(name.encode(), out)
        _encode_bytes(value, out)
    length = bytearray()
    encode_varint(len(out), length.append)
    return bytes(length + out)


def _encode_bytes(value: bytes | None, out: bytearray) -> None:
    encode_varint(-1 if value is None else len(value), out.append)
    out += value or b""
