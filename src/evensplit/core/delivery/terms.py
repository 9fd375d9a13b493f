"""What was written by whom, and what was decided about it: the nouns of delivery."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

LEFT_MIN_MS = 5_000
"""A transaction that expires sooner is not decided: it has to be committed before it does."""

LEFT_STEPS_MS = (30_000, 20_000, 15_000, 10_000, 8_000, 6_500)
"""Brokers do not say what a transaction has left, but whether it is more than something: they are asked for these."""

TIMEOUT_MIN_MS = 8_000
"""Transactions that may be open for less could hardly be decided: each answer has to come within a second."""

LIST_MS = 3_000
"""For so long it is tried to list what is open: transactions of the batch grow older meanwhile."""

ABORT_MS = 10_000
"""For so long it is tried to abort: what is not aborted expires."""

COMMIT_MIN_MS = 2_500
"""So much of that is left for the commit: the decision itself has to be there before."""

GIVEN_UP_MAX = 10_000
"""Of what was given up before, a decision repeats no more than that, so that it does not grow without end."""


class Written(NamedTuple):
    """The records that one transaction has written to one partition.

    Others may have written between `offset_first` and `offset_last`, so `records` can be fewer than there are offsets.
    """

    topic: str
    partition: int
    records: int
    offset_first: int
    offset_last: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """An open transaction of one task in one cluster, with all its records written and acknowledged."""

    cluster: str
    transactional_id: str
    """The id under which the task wrote; no other task has it while this transaction is open."""

    producer_id: int
    epoch: int
    """The producer's id and epoch, as Kafka gave them to the task: with both, anybody can end the transaction."""

    written: tuple[Written, ...]
    """By topic and partition, ascending. Empty where only the transaction is known, and not what is in it."""

    bytes: int = 0
    """The size of the record batches, as they were sent."""

    @property
    def records(self) -> int:
        """How many records it has."""
        return sum(one.records for one in self.written)


class State(StrEnum):
    """What a driver has decided about a batch."""

    DECIDED = "decided"
    """Its transactions are committed, now or by the next run."""
    ABORTED = "aborted"
    """It was given up, with the transactions that it had then; others for the same batch may be decided."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The last word about a query's batch in the ledger. Of a query's decisions, only the last one counts."""

    query: str
    """Spark's id of the query, which its checkpoint keeps."""

    batch: int
    """Spark's number of the batch; 0 or more."""

    state: State

    transactions: tuple[Transaction, ...] = ()
    """By cluster and transactional id, ascending: those of the batch. None if it has no rows or was given up."""

    decided_ms: int = 0
    """When, in milliseconds since 1970, by the driver's clock. For people: nothing depends on it."""

    given_up: tuple[Transaction, ...] = ()
    """Those that may not be decided any more, nor any earlier one of the same id and producer; without what they have
    written. First those that are aborted after this was appended, in the same order; then those that earlier decisions
    had given up. A task that still runs may go on after that, and look whole."""

    @property
    def records(self) -> int:
        """How many records its transactions have."""
        return sum(one.records for one in self.transactions)
