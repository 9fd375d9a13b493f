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


class Appended(StrEnum):
    """What became of a decision that was to be appended."""

    THERE = "there"
    NOT_THERE = "not there"
    """The ledger has refused it before its end: another process has acquired since, or it took too long."""
    UNCERTAIN = "uncertain"
    """The ledger has refused its end, which may be the second answer to it: the first one may have been lost."""


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

    Where the process holds the query already, nothing has to be sent: if another one has acquired it meanwhile, the
    next append fails. It does not hold it for longer than an hour, since brokers forget ids that nobody uses.
    """

    query: str
    anew: bool = False
    """Also if the process holds the query already: there is a decision that it does not know."""


@dataclass(frozen=True, slots=True)
class ReadLast:
    """Read the last decision of a query, up to the ledger's end as it was at the order or later. `Decision | None`.

    That is its end, not its last stable offset: a decision may be there whose commit is not in the log yet, so what is
    open before the end has to be waited for. A process that holds the query knows the answer already: what it has read
    when it acquired it, or appended since.
    """

    query: str
    stable: bool = False
    """Up to the last stable offset, which waits for nobody. It may not be the last one."""


@dataclass(frozen=True, slots=True)
class Append:
    """Append a decision, in a transaction. Answer: `Appended`.

    It has `within_ms` milliseconds, from the order on: after that nothing more of it is sent, and the shell raises.
    None: as long as the shell waits for anything. A commit that was sent in time may still be carried out later, but
    not after the ledger's own transaction has expired.

    Unless it is there, another process may have acquired since, so that nothing may be aborted. Where nobody answers in
    time, the shell raises; in all these cases, the process has to acquire again before anything else.
    """

    decision: Decision
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CheckOpen:
    """How many milliseconds each transaction has left before it expires; None: it is not open any more.

    Answer: `Mapping[Transaction, int | None]`, with each of them, as it is when all of them are known.
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

    `written` is empty in each. Those that cannot be listed within a few seconds are left out: the batch's own ones must
    not expire over it. So are those in clusters with transaction version 1: their tasks may still run, and would not be
    stopped by `End`. They are aborted when a later batch takes their ids, or expire.
    """

    query: str


Order = Acquire | ReadLast | Append | CheckOpen | End | LookUp | ListOpen

Answer = (
    None
    | Appended
    | Decision
    | Mapping[Transaction, int | None]
    | Mapping[Transaction, Ended]
    | Mapping[Transaction, Fate]
    | tuple[Transaction, ...]
)
