"""What came of `commit` and `abort`: facts, of which the shell makes log lines and errors."""

from __future__ import annotations

from dataclasses import dataclass

from evensplit.core.delivery.terms import Decision, Transaction


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The batch has no rows, and the ledger says so now."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch was decided now, and all its transactions are committed."""

    decision: Decision
    lost: tuple[Transaction, ...] = ()
    """Those that were aborted before they could be committed, if it is accepted that the batch is not complete."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The batch had been decided before, and all its transactions are committed."""

    decision: Decision
    lost: tuple[Transaction, ...] = ()
    """As in `Committed`."""
    rows: int | None = None
    """How many rows the batch has now, if that is fewer than were decided: records are gone from its source since."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What was offered is not decided, and cannot be any more. What is written anew for the batch can."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """Another driver has taken over, or the checkpoint is older than the ledger. Nothing was decided."""

    last: Decision
    """What the ledger has."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another process has acquired the query, or the ledger was away for too long. Nothing was decided, or ended."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The same at the end of the decision: the ledger may have it, and the next run looks. Nothing was ended."""


@dataclass(frozen=True, slots=True)
class TooOld:
    """Transactions that had expired, or were about to. Nothing was decided."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The batch is decided, and some of its transactions were aborted before they could be committed."""

    decision: Decision
    lost: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class NotEnded:
    """The batch is decided, and it is not known of some of its transactions whether they are committed."""

    decision: Decision
    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class DecisionMissing:
    """Tasks found the batch decided and wrote nothing, and now the ledger does not have it. Nothing was decided."""

    last: Decision | None


@dataclass(frozen=True, slots=True)
class MoreRows:
    """The batch had been decided with fewer rows than it has now. These are committed, and the others are not there.

    The checkpoint was replaced by an older copy, from which the batch was planned anew; or the query was changed, or
    gives other rows each time.
    """

    decision: Decision
    rows: int
    """How many rows the batch has now."""


Outcome = (
    NothingToDo
    | Committed
    | Finished
    | GivenUp
    | Superseded
    | Fenced
    | Uncertain
    | TooOld
    | Incomplete
    | NotEnded
    | DecisionMissing
    | MoreRows
)
