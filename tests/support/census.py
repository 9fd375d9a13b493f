"""Headers of record batches as Python's own lists, and made by hand."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from evensplit._kernel import Census

_TYPES = {
    "base_offsets": np.int64,
    "last_offsets": np.int64,
    "producer_ids": np.int64,
    "producer_epochs": np.int16,
    "base_sequences": np.int32,
    "records": np.int32,
    "flags": np.uint8,
    "markers": np.int16,
}


def lists(census: Census) -> dict[str, list[int]]:
    """Column -> its numbers."""
    return {name: np.frombuffer(memoryview(getattr(census, name)), kind).tolist() for name, kind in _TYPES.items()}


class Header(NamedTuple):
    """One record batch."""

    base_offsets: int
    last_offsets: int
    producer_ids: int = -1
    producer_epochs: int = -1
    base_sequences: int = -1
    records: int = 1
    flags: int = 0
    markers: int = -1


def data(first: int, last: int, producer: int, epoch: int = 0, records: int | None = None) -> Header:
    """Records of a transaction."""
    return Header(first, last, producer, epoch, 0, last - first + 1 if records is None else records, 1)


def marker(offset: int, producer: int, epoch: int = 0, *, commit: bool = True) -> Header:
    """The end of a transaction."""
    return Header(offset, offset, producer, epoch, -1, 1, 3, int(commit))


def plain(first: int, last: int) -> Header:
    """Records outside of transactions."""
    return Header(first, last, records=last - first + 1)


def census(*headers: Header) -> Census:
    """What the kernel would give for these."""

    class Made:
        batches = len(headers)

    for name, kind in _TYPES.items():
        setattr(Made, name, np.array([getattr(one, name) for one in headers], kind).tobytes())
    return cast(Census, Made)
