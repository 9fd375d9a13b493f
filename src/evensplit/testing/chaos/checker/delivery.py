"""The rows that one query delivered, as arrays, and the names that clusters had."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evensplit.testing.chaos.checker.ledger import Ints, Ledger, Place
from evensplit.testing.chaos.checker.sinks import Attempt

_TOGETHER = 500
"""So many attempts are looked at together."""

_VALUE = r"^(?P<number>[0-9]{1,15})\|(?P<place>[^|]+\|[^|]+\|[0-9]+\|[0-9]+)\|"


@dataclass(slots=True)
class Delivery:
    """One entry for each row of the complete attempts; -1 stands for what the run does not know."""

    number: Ints
    place: Ints
    """Where its value says that it is from: an index into the ledger's places."""
    column_place: Ints
    """The same by its columns and the incarnation of its value."""
    offset: Ints
    timestamp_ms: Ints
    checksum: Ints
    """The CRC-32 of its value."""
    key: Ints
    attempt: Ints
    """Index into the attempts."""

    def where(self, chosen: Any) -> Delivery:
        return Delivery(*(getattr(self, name)[chosen] for name in self.__slots__))

    def of_attempt(self, attempt: int) -> Delivery:
        """The rows of one attempt; those of all have to be in the order of their attempts."""
        begin, end = np.searchsorted(self.attempt, [attempt, attempt + 1])
        return self.where(slice(begin, end))


def delivery_of(attempts: Sequence[Attempt], ledger: Ledger, names: dict[str, str]) -> Delivery:
    """The rows of attempts, in their order. `names`: what the metadata called a cluster -> the cluster."""
    places = {place: number for number, place in enumerate(ledger.places)}
    keys = {key: number for number, key in enumerate(ledger.keys)}
    parts = []
    for first in range(0, len(attempts), _TOGETHER):
        some = attempts[first : first + _TOGETHER]
        tables = [one.rows for one in some if len(one.rows)]
        if tables:
            attempt = np.repeat(np.arange(first, first + len(some)), [len(one.rows) for one in some])
            parts.append(_rows(pa.concat_tables(tables), attempt, places, keys, names))
    if not parts:
        return Delivery(*(np.zeros(0, np.int64) for _ in Delivery.__slots__))
    return Delivery(*(np.concatenate([getattr(one, name) for one in parts]) for name in Delivery.__slots__))


def _rows(
    table: pa.Table, attempt: Ints, places: dict[Place, int], keys: dict[str, int], names: dict[str, str]
) -> Delivery:
    value = table["value"].cast(pa.binary()).combine_chunks()
    parts = pc.extract_regex(value, _VALUE)
    number = _ints(pc.cast(pc.struct_field(parts, "number").cast(pa.string()), pa.int64()))

    def place_of(text: bytes) -> int:
        cluster, topic, incarnation, partition = text.decode(errors="replace").split("|")
        return places.get((cluster, topic, int(incarnation), int(partition)), -1)

    told = pc.struct_field(parts, "place")
    place = _mapped(told, place_of)
    incarnation = _mapped(told, lambda text: int(text.split(b"|")[2]))
    cluster, cluster_names = _codes(table["cluster"].cast(pa.string()))
    topic, topic_names = _codes(table["topic"].cast(pa.string()))
    columns = np.stack([cluster, topic, incarnation, _ints(table["partition"])])
    kinds, inverse = np.unique(columns, axis=1, return_inverse=True)
    by_columns = np.array(
        [
            places.get((names.get(cluster_names[c], ""), topic_names[t], int(i), int(p)), -1) if c >= 0 <= t else -1
            for c, t, i, p in kinds.T
        ],
        np.int64,
    )
    timestamp = table["timestamp"]
    if pa.types.is_timestamp(timestamp.type):
        timestamp = pc.cast(pc.cast(timestamp, pa.timestamp("ms", timestamp.type.tz), safe=False), pa.int64())
    known = {key.encode(): number for key, number in keys.items()}
    return Delivery(
        number,
        place,
        by_columns[inverse.reshape(-1)],
        _ints(table["offset"]),
        _ints(timestamp),
        np.array([zlib.crc32(one or b"") for one in value.to_pylist()], np.int64),
        _mapped(table["key"].cast(pa.binary()), lambda key: known.get(key, -2)),
        attempt,
    )


def _ints(column: Any) -> Ints:
    filled = pc.fill_null(pc.cast(column, pa.int64()), -1)
    return np.asarray(filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy())


def _codes(column: Any) -> tuple[Ints, list[Any]]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(column)
    return _ints(encoded.indices), encoded.dictionary.to_pylist()


def _mapped(column: Any, meaning: Any) -> Ints:
    codes, texts = _codes(column)
    return np.array([*(meaning(text) for text in texts), -1], np.int64)[codes]
