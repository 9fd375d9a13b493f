"""What one batch of a query has written, and what was decided about it: numbers, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from evensplit.core.text import counted

SHOWN_MAX = 3
"""How many clusters a sentence names."""


class WriteOutcome(StrEnum):
    """How the writing of a batch ended."""

    WRITTEN = "written"
    """At least once: all records are acknowledged."""
    DECIDED = "decided"
    """Decided now, and all its transactions are committed."""
    FINISHED = "finished"
    """It had been decided before, and all its transactions are committed now."""
    EMPTY = "empty"
    """It had no rows."""
    GIVEN_UP = "given up"
    """Not decided: none of its records is visible."""
    SUPERSEDED = "superseded"
    """Not decided: another run has taken over, or the checkpoint is older than the ledger."""
    TOO_OLD = "too old"
    """Not decided: a transaction had expired, or was about to."""
    NOT_ENDED = "not ended"
    """Decided, and it is not known of some transactions whether they are committed."""
    INCOMPLETE = "incomplete"
    """Decided, and some transactions were aborted before they could be committed: their records are lost."""
    FAILED = "failed"
    """A cluster, or the ledger, could not be asked, or did not say for certain. The next run sees what was decided."""


VISIBLE = frozenset({WriteOutcome.WRITTEN, WriteOutcome.DECIDED, WriteOutcome.FINISHED})
"""The outcomes with which a batch is done, and all its records are there."""

TROUBLE = frozenset({WriteOutcome.TOO_OLD, WriteOutcome.NOT_ENDED, WriteOutcome.INCOMPLETE, WriteOutcome.FAILED})
"""The outcomes of a batch that could not be ended."""


class ClusterWritten(NamedTuple):
    """What was written to one cluster. Records and bytes are those that are visible."""

    records: int = 0
    bytes: int = 0
    """The size of the record batches, compressed as they were sent."""
    committed: int = 0
    """Transactions that were decided and committed now."""
    finished: int = 0
    """Transactions that had been decided before, and are committed now."""
    aborted: int = 0
    """Transactions of this batch that were aborted."""
    strays: int = 0
    """Transactions that attempts of tasks had left open, and that were aborted."""
    lost: int = 0
    """Transactions that were decided, and aborted before they could be committed."""

    def plus(self, other: ClusterWritten) -> ClusterWritten:
        """Both together."""
        return ClusterWritten(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What the driver's side of one batch tells. None stands for a value that is not known."""

    query: str
    """Spark's id of the query."""
    batch: int
    outcome: WriteOutcome
    clusters: Mapping[str, ClusterWritten] = field(default_factory=dict)
    """Cluster -> what was written there; without those to which nothing was."""
    at_ms: int = 0
    """When it ended, in milliseconds since 1970, by the driver's clock."""
    took_ms: int | None = None
    """How long the decision took, from acquiring the ledger until the last transaction was ended."""
    age_ms: int | None = None
    """How old the oldest transaction was then, by the clocks of its task's host and of the driver."""
    timeout_ms: int | None = None
    """How old a transaction may become at most; the least of all clusters."""
    skipped: int = 0
    """Tasks that wrote nothing, since the batch was decided."""

    @property
    def all(self) -> ClusterWritten:
        """What was written to all clusters together."""
        found = ClusterWritten()
        for one in self.clusters.values():
            found = found.plus(one)
        return found

    def sentence(self) -> str:
        """What was written and decided, in words."""
        found = self.all
        more = [
            f"{counted(found.strays, 'stray transaction')} aborted" if found.strays else "",
            f"{counted(self.skipped, 'task')} wrote nothing, since it was decided" if self.skipped else "",
        ]
        return "; ".join((self._said(found), *filter(None, more)))

    def _said(self, found: ClusterWritten) -> str:
        where = self._where()
        took = "" if self.took_ms is None else f" in {self.took_ms:,} ms"
        match self.outcome:
            case WriteOutcome.WRITTEN:
                return f"wrote {where}, at least once"
            case WriteOutcome.DECIDED:
                return f"wrote {where}; decided{took}"
            case WriteOutcome.FINISHED:
                return f"finished what was decided before: {where}{took}"
            case WriteOutcome.NOT_ENDED:
                return f"decided, and not known to be committed everywhere: so far {where}"
            case WriteOutcome.INCOMPLETE:
                return f"decided, and {counted(found.lost, 'transaction')} lost: {where} are left"
            case WriteOutcome.EMPTY:
                return "wrote nothing"
            case WriteOutcome.FAILED:
                return "not known to be decided: the ledger or a cluster could not be asked"
        why = {
            WriteOutcome.GIVEN_UP: "given up",
            WriteOutcome.SUPERSEDED: "superseded by another run",
            WriteOutcome.TOO_OLD: "a transaction was too old",
        }[self.outcome]
        return f"wrote nothing that is visible, {why}: {counted(found.aborted, 'transaction')} aborted"

    def _where(self) -> str:
        """`1,204 records in 2 transactions to eu and 3 records in 1 transaction to us`."""
        parts: list[str] = []
        for name in sorted(self.clusters):
            one = self.clusters[name]
            ended = one.committed + one.finished
            if one.records or ended:
                transactions = f" in {counted(ended, 'transaction')}" if ended else ""
                parts.append(f"{counted(one.records, 'record')}{transactions} to {name}")
        left = len(parts) - SHOWN_MAX
        parts = [*parts[:SHOWN_MAX], f"to {counted(left, 'more cluster')}"] if left > 0 else parts
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts) or "0 records"

    def to_json(self) -> dict[str, Any]:
        """All of it, in JSON's own types, with the clusters in the order of their names."""
        return {
            "queryId": self.query,
            "batchId": self.batch,
            "outcome": str(self.outcome),
            "atMs": self.at_ms,
            "tookMs": self.took_ms,
            "ageMs": self.age_ms,
            "timeoutMs": self.timeout_ms,
            "skippedTasks": self.skipped,
            "clusters": [{"id": name, **self.clusters[name]._asdict()} for name in sorted(self.clusters)],
            "sentence": self.sentence(),
        }


def written_of(said: Mapping[str, Any]) -> WriteReport:
    """The report that `to_json` has given. Raises ValueError, TypeError or KeyError for what is none."""
    clusters = {
        str(one["id"]): ClusterWritten(*(_count(one[name]) for name in ClusterWritten._fields))
        for one in said["clusters"]
    }
    took_ms, age_ms, timeout_ms = (
        None if said[name] is None else _count(said[name]) for name in ("tookMs", "ageMs", "timeoutMs")
    )
    return WriteReport(
        str(said["queryId"]),
        _count(said["batchId"]),
        WriteOutcome(said["outcome"]),
        clusters,
        _count(said["atMs"]),
        took_ms,
        age_ms,
        timeout_ms,
        _count(said["skippedTasks"]),
    )


def _count(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError(f"{found!r}; expected a whole number, 0 or more")
    return found
