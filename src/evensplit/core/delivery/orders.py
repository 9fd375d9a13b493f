"""What the shell is ordered to do while a batch is decided, and what it answers.

Each order names the type of its answer. A cluster that cannot be asked is an error that the shell raises instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from evensplit.core.delivery.terms import Decision, Transaction


class Ended(StrEnum):
    """How a broker answered that a transaction is to end."""

    ENDED = "ended"
    """It has ended as ordered, now or before."""
    UNCERTAIN = "uncertain"
    """The broker knows of no such open transaction: it was ended before, or expired, or someone aborted it."""
    UNANSWERED = "unanswered"
    """Nobody answered in time."""


class Fate(StrEnum):
    """What the logs say of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """No log has its end yet."""
    UNKNOWN = "unknown"
    """The logs could not be read, or no longer have its records."""


@dataclass(frozen=True, slots=True)
class Acquire:
    """Let no other process append decisions of this query any more. Answer: None.

    A process that has done so, and was not fenced since, need not do it again; but what it knows is too old after an
    hour, since brokers forget ids that nobody uses.
    """

    query: str


@dataclass(frozen=True, slots=True)
class ReadLast:
    """Read the last decision of a query, up to the ledger's end as it was at the order or later. `Decision | None`.

    That is its end, not its last stable offset: open transactions of other queries have to be waited for. A process
    that holds what it has acquired knows the answer already: what it has read then, or appended since.
    """

    query: str


@dataclass(frozen=True, slots=True)
class Append:
    """Append a decision, in a transaction. Answer: whether it is there for certain.

    False: another process has acquired since, or the broker no longer knows this one. It may be there all the same (the
    answer to its commit was lost, and then it was fenced), so that nothing of it may be aborted. Where nobody answers
    in time, the shell raises; in both cases, the process has to acquire again before anything else.
    """

    decision: Decision


@dataclass(frozen=True, slots=True)
class CheckOpen:
    """How many milliseconds each transaction has left before it expires; None: it is not open any more.

    Answer: `Mapping[Transaction, int | None]`, with each of them.
    """

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort transactions, by producer id and epoch. Answer: `Mapping[Transaction, Ended]`, with each of them.

    An abort is not waited for as long as a commit, and it never fails. In transaction version 1 it leaves the epoch as
    it is: a task that still runs can go on, and what it has written since looks like its whole transaction.
    """

    transactions: tuple[Transaction, ...]
    commit: bool


@dataclass(frozen=True, slots=True)
class LookUp:
    """See in the logs what became of transactions. Answer: `Mapping[Transaction, Fate]`, with each of them."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class ListOpen:
    """List the open transactions of the query's tasks, in all clusters. Answer: `tuple[Transaction, ...]`.

    `written` is empty in each. Those that cannot be listed are left out, and so are those in clusters with transaction
    version 1: their tasks may still run, and would not be stopped by `End`. They are aborted when a later batch takes
    their ids, or expire.
    """

    query: str


Order = Acquire | ReadLast | Append | CheckOpen | End | LookUp | ListOpen

Answer = (
    None
    | bool
    | Decision
    | Mapping[Transaction, int | None]
    | Mapping[Transaction, Ended]
    | Mapping[Transaction, Fate]
    | tuple[Transaction, ...]
)
