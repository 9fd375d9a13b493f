"""What a producer is given: who it is, and rows; and what it may not know of who it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from evensplit.errors import ClusterUnreachable


@dataclass(frozen=True, slots=True)
class Identity:
    """An idempotent producer, as Kafka gave it its id and epoch. With a `transactional_id`, it writes in a transaction.

    `implicit`: partitions join the transaction by being written to (KIP-890, transaction version 2).
    """

    producer_id: int
    epoch: int
    transactional_id: str | None = None
    implicit: bool = False


class Unanswered(ClusterUnreachable):
    """A request that is sent once only was not answered: it may reach its broker much later."""


class Rows(NamedTuple):
    """Columns of equal lengths, one row a record. None: all null.

    - key, value: binary or string, also the large ones.
    - headers: list of structs of key (string) and value (binary).
    - partition: int32; null: chosen by the key, as Java's producer does, or by none in turns.
    - timestamp: int64, milliseconds since 1970; null: now.
    - topics: int32, numbers from `Producer.topic`; -1 for a row that is not this producer's.
    """

    key: pa.Array | None
    value: pa.Array | None
    headers: pa.Array | None
    partition: pa.Array | None
    timestamp: pa.Array | None
    topics: pa.Array | None

    @property
    def length(self) -> int:
        """How many rows there are; 0 if no column is given."""
        return next((len(column) for column in self if column is not None), 0)
