"""The rows that one query delivered, as arrays, and the names that clusters had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evensplit.testing.chaos.checker.ledger import Ledger
from evensplit.testing.chaos.checker.sinks import Attempt

Ints = NDArray[np.int64]

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
    key: Ints
    attempt: Ints
    """Index into the attempts."""

    def where(self, chosen: NDArray[Any]) -> Delivery:
        return Delivery(*(getattr(self, name)[chosen] for name in self.__slots__))


def delivery_of(attempts: Sequence[Attempt], ledger: Ledger, names: dict[str, str]) -> Delivery:
    """The rows of attempts. `names`: what the metadata called a cluster -> the cluster."""
    parts = [_rows(attempt.rows, number, ledger, names) for number, attempt in enumerate(attempts) if len(attempt.rows)]
    if not parts:
        return Delivery(*(np.zeros(0, np.int64) for _ in Delivery.__slots__))
    return Delivery(*(np.concatenate([getattr(one, name) for one in parts]) for name in Delivery.__slots__))


def _rows(table: pa.Table, attempt: int, ledger: Ledger, names: dict[str, str]) -> Delivery:
    places = {place: number for number, place in enumerate(ledger.places)}
    keys = {key: number for number, key in enumerate(ledger.keys)}
    value = table["value"].cast(pa.binary()).cast(pa.string(), safe=False).combine_chunks()
    parts = pc.extract_regex(value, _VALUE)
    number = _ints(pc.cast(pc.struct_field(parts, "number"), pa.int64()))

    def place_of(text: str) -> int:
        cluster, topic, incarnation, partition = text.split("|")
        return places.get((cluster, topic, int(incarnation), int(partition)), -1)

    told = pc.struct_field(parts, "place")
    place = _mapped(told, place_of)
    incarnation = _mapped(told, lambda text: int(text.split("|")[2]))
    cluster, cluster_names = _codes(table["cluster"])
    topic, topic_names = _codes(table["topic"])
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
    return Delivery(
        number,
        place,
        by_columns[inverse.reshape(-1)],
        _ints(table["offset"]),
        _ints(timestamp),
        _mapped(table["key"].cast(pa.binary()).cast(pa.string(), safe=False), lambda key: keys.get(key, -2)),
        np.full(len(table), attempt, np.int64),
    )


def _ints(column: Any) -> Ints:
    filled = pc.fill_null(pc.cast(column, pa.int64()), -1)
    return np.asarray(filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy())


def _codes(column: Any) -> tuple[Ints, list[str]]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(pc.cast(column, pa.string()))
    return _ints(encoded.indices), encoded.dictionary.to_pylist()


def _mapped(column: Any, meaning: Any) -> Ints:
    codes, texts = _codes(column)
    return np.array([*(meaning(text) for text in texts), -1], np.int64)[codes]
